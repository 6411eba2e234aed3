//! The fence of a collection: writers share it, and who has to see the collection stand still has it alone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use toller_core::{CollectionName, Tenant};

/// From this many entries on, those that nobody holds are looked for.
const TIDY_FROM: usize = 1024;

/// One fence for each collection that is open in this process.
#[derive(Debug, Default)]
pub(crate) struct Fences(Mutex<HashMap<(Tenant, CollectionName), Weak<Fence>>>);

impl Fences {
    /// The fence of a collection, the same one for as long as anybody holds it.
    pub(crate) fn of(&self, tenant: &Tenant, collection: &CollectionName) -> Arc<Fence> {
        let mut fences = self.0.lock();
        let key = (tenant.clone(), collection.generation(1));
        if let Some(fence) = fences.get(&key).and_then(Weak::upgrade) {
            return fence;
        }
        if fences.len() >= TIDY_FROM {
            fences.retain(|_, fence| fence.strong_count() > 0);
        }
        let fence = Arc::new(Fence::default());
        fences.insert(key, Arc::downgrade(&fence));
        fence
    }
}

/// Who waits goes before those who come later, so that a stream of writers keeps nobody out.
#[derive(Debug, Default)]
pub(crate) struct Fence {
    lock: RwLock<()>,
    tears: AtomicU64,
}

impl Fence {
    /// For a write.
    pub(crate) async fn shared(&self) -> RwLockReadGuard<'_, ()> {
        self.lock.read().await
    }

    /// No write runs while the guard is held.
    pub(crate) async fn exclusive(&self) -> RwLockWriteGuard<'_, ()> {
        self.lock.write().await
    }

    /// How many writes to two generations may have reached only one of them.
    pub(crate) fn tears(&self) -> u64 {
        self.tears.load(Ordering::Acquire)
    }

    /// Counts a tear unless the write tells that both have it.
    pub(crate) fn tearing(&self) -> Tearing<'_> {
        Tearing { fence: self, whole: false }
    }
}

/// A write to two generations that is under way.
#[derive(Debug)]
pub(crate) struct Tearing<'a> {
    fence: &'a Fence,
    whole: bool,
}

impl Tearing<'_> {
    /// Both generations have it.
    pub(crate) fn mend(mut self) {
        self.whole = true;
    }
}

impl Drop for Tearing<'_> {
    fn drop(&mut self) {
        if !self.whole {
            self.fence.tears.fetch_add(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_collection_has_one_fence_in_all_its_generations() {
        let fences = Fences::default();
        let (tenant, docs) = (Tenant::default(), CollectionName::new("docs").unwrap());
        let fence = fences.of(&tenant, &docs);
        assert!(Arc::ptr_eq(&fence, &fences.of(&tenant, &docs.generation(2))));
        assert!(!Arc::ptr_eq(&fence, &fences.of(&Tenant::new("other").unwrap(), &docs)));
        let writers = (fence.shared().await, fence.shared().await);
        assert!(fence.lock.try_write().is_err());
        drop(writers);
        let _alone = fence.exclusive().await;
        assert!(fence.lock.try_read().is_err());
    }

    #[test]
    fn a_write_that_does_not_say_that_it_is_whole_is_torn() {
        let fence = Fence::default();
        fence.tearing().mend();
        assert_eq!(fence.tears(), 0);
        drop(fence.tearing());
        assert_eq!(fence.tears(), 1);
    }
}
