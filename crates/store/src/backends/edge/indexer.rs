//! The thread that builds indexes, one at a time for the whole store.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use toller_core::error::Error;

use super::open_collection::OpenCollection;

/// Collections that may wait; others are offered again by their next write.
const QUEUE: usize = 256;

/// Hands collections to the thread. When this is dropped the thread finishes what it builds and ends; nobody waits for it.
#[derive(Debug)]
pub(super) struct Indexer {
    queue: SyncSender<Arc<OpenCollection>>,
    is_stopping: Arc<AtomicBool>,
}

impl Indexer {
    /// Starts the thread.
    pub(super) fn start() -> io::Result<Self> {
        let (queue, waiting) = sync_channel(QUEUE);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_stopping);
        thread::Builder::new().name("toller-indexer".to_owned()).spawn(move || run(&waiting, &stop))?;
        Ok(Self { queue, is_stopping })
    }

    /// Has an index built if so much changed that it is worth a look.
    pub(super) fn offer(&self, collection: &Arc<OpenCollection>) {
        if !collection.shard().wants_index() || collection.waits_for_index.swap(true, Ordering::AcqRel) {
            return;
        }
        if self.queue.try_send(Arc::clone(collection)).is_err() {
            collection.waits_for_index.store(false, Ordering::Release);
        }
    }
}

impl Drop for Indexer {
    fn drop(&mut self) {
        self.is_stopping.store(true, Ordering::Release);
    }
}

fn run(waiting: &Receiver<Arc<OpenCollection>>, is_stopping: &AtomicBool) {
    let mut is_short = false;
    while let Ok(collection) = waiting.recv() {
        if is_stopping.load(Ordering::Acquire) {
            continue;
        }
        match collection.build_index() {
            Ok(()) => is_short = false,
            // Every write asks again, and says itself that the disk is full.
            Err(Error::ResourceExhausted { what, .. }) => {
                if !std::mem::replace(&mut is_short, true) {
                    tracing::warn!(
                        fault = what,
                        "an index could not be built; searches go on without it, and later writes ask for it again"
                    );
                }
            }
            Err(fault) => tracing::warn!(%fault, "an index could not be built; searches go on without it"),
        }
    }
}
