//! Groups the writes of this process: what waits while a commit is under way becomes the next commit, together.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use toller_core::RequestContext;
use toller_core::error::{Error, Result};

use super::commit::{Queued, commit};
use super::draft::Change;
use super::entries::EntryKey;
use super::shared::Shared;

/// Changes that may wait; more wait with their callers.
const QUEUE: usize = 64;

/// Most changes and rows of one commit; one change is never divided.
const GROUP: usize = 64;
const GROUP_ROWS: usize = 4096;

/// How long a writer without work is kept.
const IDLE: Duration = Duration::from_secs(10);

/// The writers of collections that are written to.
#[derive(Debug, Default)]
pub(super) struct Writers(Mutex<HashMap<EntryKey, mpsc::Sender<Queued>>>);

impl Writers {
    /// Has a change committed, and returns how many rows it was about.
    ///
    /// A caller whose time is over is told so; whether its change becomes visible, as a whole, is open then.
    pub(super) async fn change(
        &self,
        shared: &Shared,
        context: &RequestContext,
        key: &EntryKey,
        instance: String,
        change: Change,
    ) -> Result<u64> {
        context.check("before the write")?;
        let (reply, answer) = oneshot::channel();
        let mut queued = Queued { instance, change, reply };
        let work = async {
            loop {
                let sender = self.sender(shared, key);
                match sender.send(queued).await {
                    Ok(()) => break,
                    // That writer just went home.
                    Err(mpsc::error::SendError(back)) => queued = back,
                }
            }
            answer.await.map_err(|_| Error::Internal("a writer ended early".to_owned()))?
        };
        match context.remaining() {
            None => work.await,
            Some(remaining) => {
                let late = |_| Error::DeadlineExceeded("while the write was under way");
                tokio::time::timeout(remaining, work).await.map_err(late)?
            }
        }
    }

    fn sender(&self, shared: &Shared, key: &EntryKey) -> mpsc::Sender<Queued> {
        let mut writers = self.0.lock();
        match writers.get(key) {
            Some(sender) if !sender.is_closed() => sender.clone(),
            _ => {
                let (sender, queue) = mpsc::channel(QUEUE);
                writers.insert(key.clone(), sender.clone());
                tokio::spawn(run(shared.clone(), key.clone(), queue));
                sender
            }
        }
    }
}

/// Commits what comes, until nothing has come for a while.
async fn run(shared: Shared, key: EntryKey, mut queue: mpsc::Receiver<Queued>) {
    loop {
        match tokio::time::timeout(IDLE, queue.recv()).await {
            Ok(None) => return,
            Ok(Some(first)) => commit(&shared, &key, group(first, &mut queue)).await,
            Err(_) => {
                // Nobody gets into a closed queue, and what got in before is still done.
                queue.close();
                while let Some(first) = queue.recv().await {
                    commit(&shared, &key, group(first, &mut queue)).await;
                }
                shared.writers.0.lock().retain(|_, sender| !sender.is_closed());
                return;
            }
        }
    }
}

fn group(first: Queued, queue: &mut mpsc::Receiver<Queued>) -> Vec<Queued> {
    let mut rows = first.change.size();
    let mut group = vec![first];
    while group.len() < GROUP && rows < GROUP_ROWS {
        let Ok(next) = queue.try_recv() else { break };
        rows += next.change.size();
        group.push(next);
    }
    group
}
