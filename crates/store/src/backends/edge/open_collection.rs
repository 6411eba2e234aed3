//! An open collection: what its requests hold while they run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tokio::sync::{mpsc, oneshot};
use toller_core::error::{Error, Result};

use super::disk_room::Promise;
use super::pushdown::Fields;
use super::shard::Shard;
use super::writer::{self, Change, Write};

/// A collection with its writer. Closing it, by dropping it, waits for the writer and makes everything durable: that blocks.
#[derive(Debug)]
pub(super) struct OpenCollection {
    shard: Arc<Shard>,
    /// None only while it is dropped.
    queue: Option<mpsc::Sender<Write>>,
    writer: Option<JoinHandle<()>>,
    /// Does it wait for the index builder already?
    pub(super) waits_for_index: AtomicBool,
}

impl OpenCollection {
    /// Starts the writer.
    pub(super) fn new(shard: Shard) -> Result<Self> {
        let shard = Arc::new(shard);
        let (queue, waiting) = mpsc::channel(writer::QUEUE);
        let writer = writer::spawn(Arc::clone(&shard), waiting)
            .map_err(|fault| Error::Unavailable(format!("no thread for a writer: {fault}")))?;
        Ok(Self { shard, queue: Some(queue), writer: Some(writer), waits_for_index: AtomicBool::new(false) })
    }

    /// What reads work on.
    pub(super) fn shard(&self) -> &Shard {
        &self.shard
    }

    /// Does it have to be opened again?
    pub(super) fn is_broken(&self) -> bool {
        self.shard.is_broken() || self.queue.as_ref().is_none_or(mpsc::Sender::is_closed)
    }

    /// Hands a change to the writer, with the room it was promised, and waits until it is durable. Once it is in the queue it
    /// happens, whether or not anybody still waits.
    pub(super) async fn change(&self, change: Change, promise: Option<Promise>) -> Result<u64> {
        let died = || Error::Internal("the writer of the collection died; the log has the place".to_owned());
        let (reply, answer) = oneshot::channel();
        let queue = self.queue.as_ref().ok_or_else(died)?;
        queue.send(Write::Change(change, promise, reply)).await.map_err(|_| died())?;
        answer.await.map_err(|_| died())?
    }

    /// Has indexes built on those of the fields that have none. When the writer is busy, a later request asks again.
    pub(super) fn index_fields(&self, fields: Fields) {
        let missing = self.shard.fields_to_index(fields);
        if missing.is_empty() {
            return;
        }
        let queue = self.queue.as_ref();
        if queue.is_none_or(|queue| queue.try_send(Write::IndexFields(missing.clone())).is_err()) {
            self.shard.forget_fields(&missing);
        }
    }

    /// Builds the index of what was written so far. Blocks, for seconds to minutes.
    pub(super) fn build_index(&self) -> Result<()> {
        self.waits_for_index.store(false, Ordering::Release);
        if self.shard.build_index()?
            && let Some(queue) = &self.queue
        {
            // Only the writer may do this. When its queue is full it does so soon, unasked.
            let _ = queue.try_send(Write::Flush);
        }
        Ok(())
    }
}

impl Drop for OpenCollection {
    fn drop(&mut self) {
        self.queue = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("the writer of a collection panicked");
        }
    }
}
