//! Takes away rows that were replaced, in the background, once no search can need them any more.
//!
//! The record says first up to which commit rows may be gone, and only then are they deleted. So a search that took very long
//! finds out whether it may have missed some.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use qdrant_client::qdrant::DeletePoints;
use toller_core::error::Result;

use super::conditions::all_that_pass;
use super::entries::EntryKey;
use super::patience::Patience;
use super::shared::Shared;
use super::turn::read;

/// Collections with something to take away, each with the last commit that left it.
#[derive(Debug, Default)]
pub(super) struct Collector(Mutex<HashMap<EntryKey, u64>>);

impl Collector {
    /// A commit left rows that it replaced. One task at a time takes care of a collection.
    pub(super) fn offer(&self, shared: &Shared, key: &EntryKey, commit: u64) {
        if self.0.lock().insert(key.clone(), commit).is_none() {
            let (shared, key) = (shared.clone(), key.clone());
            tokio::spawn(async move {
                let mut commit = commit;
                loop {
                    tokio::time::sleep(shared.config.keep_replaced).await;
                    if let Err(fault) = collect(&shared, &key, commit).await {
                        tracing::debug!(collection = key.name, %fault, "replaced rows stay until the next commit");
                    }
                    let mut waiting = shared.collector.0.lock();
                    match waiting.get(&key) {
                        Some(later) if *later > commit => commit = *later,
                        _ => {
                            waiting.remove(&key);
                            return;
                        }
                    }
                }
            });
        }
    }
}

/// How long a search may take before it has to find out whether it missed something.
pub(super) fn surely_kept(keep_replaced: Duration) -> Duration {
    keep_replaced / 2
}

async fn collect(shared: &Shared, key: &EntryKey, commit: u64) -> Result<()> {
    let snapshot = loop {
        let (entry, mut record) = read(&shared.entries, Patience::Background, key).await?;
        record.collected = record.collected.max(commit);
        if shared.entries.swap(Patience::Background, key, Some(&entry), record.encode()?).await?.is_some() {
            record.committed = commit;
            break record.snapshot(&key.tenant);
        }
    };
    let request = DeletePoints {
        collection_name: snapshot.physical.clone(),
        wait: Some(false),
        points: all_that_pass(snapshot.filter_of_dead()),
        ..DeletePoints::default()
    };
    shared.client.for_long_calls().delete(Patience::Background, request).await
}
