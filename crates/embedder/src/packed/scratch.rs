//! Memory that passes use again.

use std::mem;

use parking_lot::Mutex;

/// Things that are taken, used and given back; as many are kept as were needed at the same time, up to a limit.
#[derive(Debug)]
pub(super) struct Pool<T> {
    idle: Mutex<Vec<T>>,
    limit: usize,
}

impl<T: Default> Pool<T> {
    /// An empty pool that keeps at most `limit` things.
    pub(super) fn new(limit: usize) -> Self {
        Self { idle: Mutex::new(Vec::new()), limit }
    }

    /// Runs `work` with a thing of its own, which `work` must take as it finds it. After a panic the thing is dropped.
    pub(super) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        let mut taken = self.idle.lock().pop().unwrap_or_default();
        let result = work(&mut taken);
        let mut idle = self.idle.lock();
        if idle.len() < self.limit {
            idle.push(mem::take(&mut taken));
        }
        drop(idle);
        result
    }
}

#[cfg(test)]
impl<T> Pool<T> {
    /// Things that wait to be used again.
    pub(super) fn idle(&self) -> usize {
        self.idle.lock().len()
    }
}
