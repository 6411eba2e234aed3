//! Takes turns at making and deleting a collection.

use std::hash::{DefaultHasher, Hash, Hasher};

use tokio::sync::{Mutex, MutexGuard};
use toller_core::{CollectionName, Tenant};

/// Collections whose names fall on the same lock wait for each other; with this many that is rare.
const LOCKS: usize = 64;

/// One turn at a time per collection, within this process. The locks are of the asynchronous kind: a turn lasts over calls to
/// the store, and those who wait hold no thread.
#[derive(Debug)]
pub(crate) struct Turns([Mutex<()>; LOCKS]);

impl Default for Turns {
    fn default() -> Self {
        Self(std::array::from_fn(|_| Mutex::new(())))
    }
}

impl Turns {
    /// Waits for a turn, which ends when the guard is dropped.
    pub(crate) async fn take(&self, tenant: &Tenant, collection: &CollectionName) -> Option<MutexGuard<'_, ()>> {
        let mut hasher = DefaultHasher::new();
        (tenant, collection).hash(&mut hasher);
        let index = hasher.finish() as usize % LOCKS;
        match self.0.get(index) {
            Some(lock) => Some(lock.lock().await),
            None => None,
        }
    }
}
