//! Finds out at the start whether the server keeps to the conditions of conditional writes.
//!
//! An older server would not see the conditions in a request and write always, and two gateways would then overwrite each
//! other's work without a word.

use toller_core::Tenant;
use toller_core::error::Result;
use uuid::Uuid;

use super::entries::{Entries, EntryKey};
use super::patience::Patience;

/// The kind of the entries that are made for it.
const KIND: &str = "probe";

/// Does the server write on a condition, and only then? Leaves nothing behind.
pub(super) async fn knows_conditions(entries: &Entries, patience: Patience<'_>) -> Result<bool> {
    let key = EntryKey { kind: KIND, tenant: Tenant::default(), name: Uuid::now_v7().to_string() };
    let Some(first) = entries.swap(patience, &key, None, "first".to_owned()).await? else { return Ok(false) };
    // Neither may write: there is an entry, and then it is another one.
    let made_twice = entries.swap(patience, &key, None, "twice".to_owned()).await?;
    let Some(second) = entries.swap(patience, &key, Some(&first), "second".to_owned()).await? else {
        return Ok(false);
    };
    let from_first = entries.swap(patience, &key, Some(&first), "stale".to_owned()).await?;
    let is_removed = entries.remove(patience, &key, &second).await?;
    // Nor this: there is none.
    let from_gone = entries.swap(patience, &key, Some(&second), "gone".to_owned()).await?;
    Ok(made_twice.is_none() && from_first.is_none() && is_removed && from_gone.is_none())
}
