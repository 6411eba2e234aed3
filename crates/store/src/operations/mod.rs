//! Operations: their records in the catalogue, and those that run in this process.
//!
//! A record is written when an operation starts, after every step, and when it ends, so that another process can go on with
//! it. Whoever runs it puts its mark on the record; a process that finds another mark there leaves the operation to the other.
//! While it runs it gives signs of life, so that others can tell an operation that runs elsewhere from one that was left.
//! A request to cancel is part of the record too: it reaches the process that runs the operation, whichever that is, and is not
//! forgotten when that process is killed.

mod log;
mod record;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::error::{Error, ResourceKind, Result};
use toller_core::{Catalog, Operation, OperationKind, OperationState, RequestContext, Tenant};
use tracing::warn;
use uuid::Uuid;

use crate::pulse::{self, Pulse};

pub(crate) use log::{Halt, OperationLog};
pub(crate) use record::{OperationRecord, ReembedProgress};

/// Ended operations of a tenant that are kept; the oldest are forgotten when a new one starts.
pub const MAX_ENDED_OPERATIONS: usize = 100;

/// How often somebody who waits for an operation of another process looks at its record.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often a request to cancel is tried again while the operation records its progress.
const CANCEL_ATTEMPTS: usize = 16;

/// The operations of all tenants; the context says whose are meant. Clones are one.
#[derive(Clone)]
pub struct Operations {
    catalog: Arc<dyn Catalog>,
    /// The mark of this process.
    owner: String,
    live: Arc<Mutex<Live>>,
}

/// What runs in this process.
#[derive(Default)]
struct Live {
    running: HashMap<Key, Running>,
    /// Those who watch operations of other processes, to go on with them once they are left.
    watchers: Vec<JoinHandle<()>>,
    /// Nothing more is started.
    stopping: bool,
}

type Key = (Tenant, String);

/// An operation that is recorded as this process's, and gives signs of life.
pub(crate) struct Begun {
    pub(crate) version: u64,
    pub(crate) record: OperationRecord,
    pulse: Pulse,
}

struct Running {
    signal: watch::Sender<Signal>,
    news: watch::Receiver<Operation>,
    task: JoinHandle<()>,
}

/// What an operation is told from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    GoOn,
    /// End as cancelled.
    Cancel,
    /// Leave the rest to the next process.
    Suspend,
}

impl Operations {
    pub(crate) fn new(catalog: Arc<dyn Catalog>) -> Self {
        Self { catalog, owner: Uuid::now_v7().to_string(), live: Arc::default() }
    }

    /// One operation.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn get(&self, context: &RequestContext, id: &str) -> Result<Operation> {
        Ok(self.find(context, id).await?.1.operation)
    }

    /// The tenant's operations, newest first.
    ///
    /// # Errors
    /// As the catalogue.
    pub async fn list(&self, context: &RequestContext) -> Result<Vec<Operation>> {
        let mut operations: Vec<Operation> =
            self.records(context).await?.into_iter().map(|(_, record)| record.operation).collect();
        operations.reverse();
        Ok(operations)
    }

    /// Asks an operation to stop, and returns how far it is at this moment. One that has ended stays as it is.
    ///
    /// # Errors
    /// `NotFound`; `Aborted` when its progress came in between too often.
    pub async fn cancel(&self, context: &RequestContext, id: &str) -> Result<Operation> {
        for _ in 0..CANCEL_ATTEMPTS {
            let (version, mut record) = self.find(context, id).await?;
            if record.operation.has_ended() {
                return Ok(record.operation);
            }
            record.cancel_requested = true;
            match self.swap(context, Expected::Version(version), &record).await {
                Ok(_) => {
                    self.tell(&key(context, id), Signal::Cancel);
                    return Ok(record.operation);
                }
                Err(Error::Aborted(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        Err(Error::Aborted(format!("operation \"{id}\" recorded its progress all the time; retry")))
    }

    /// Waits until an operation has ended, or until `until`, or until the operations of this process are suspended, and returns
    /// how far it is then.
    ///
    /// Of an operation of this process the end is told at once; the record of another process's is looked at every second.
    ///
    /// # Errors
    /// `NotFound`, also when it is forgotten meanwhile.
    pub async fn wait(&self, context: &RequestContext, id: &str, until: Option<Instant>) -> Result<Operation> {
        loop {
            let operation = self.get(context, id).await?;
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if operation.has_ended() || left == Some(Duration::ZERO) {
                return Ok(operation);
            }
            let news = {
                let live = self.live.lock();
                if live.stopping {
                    return Ok(operation);
                }
                live.running.get(&key(context, id)).map(|running| running.news.clone())
            };
            let change = async {
                match news {
                    // When the task is gone its record says why.
                    Some(mut news) => drop(news.wait_for(Operation::has_ended).await),
                    None => tokio::time::sleep(LOOK_EVERY).await,
                }
            };
            match left {
                // Too late is answered by the look above.
                Some(left) => drop(tokio::time::timeout(left, change).await),
                None => change.await,
            }
        }
    }

    /// Tells all operations of this process to leave the rest to the next one, and waits until they do. Nothing is started
    /// afterwards.
    pub(crate) async fn suspend(&self) {
        let tasks: Vec<JoinHandle<()>> = {
            let mut live = self.live.lock();
            live.stopping = true;
            let watchers = std::mem::take(&mut live.watchers);
            watchers.iter().for_each(JoinHandle::abort);
            let running = live.running.drain().map(|(_, running)| {
                running.signal.send_replace(Signal::Suspend);
                running.task
            });
            running.chain(watchers).collect()
        };
        for task in tasks {
            if let Err(fault) = task.await
                && !fault.is_cancelled()
            {
                warn!(%fault, "an operation did not end in order");
            }
        }
    }

    /// Records an operation that has nothing to do and has succeeded, and forgets the oldest ended ones where there are too many.
    pub(crate) async fn record_done(
        &self,
        context: &RequestContext,
        kind: OperationKind,
        subject: &str,
    ) -> Result<Operation> {
        self.forget_oldest(context).await?;
        let record = self.new_record(kind, subject, None);
        self.swap(context, Expected::Absent, &record).await?;
        Ok(record.operation)
    }

    /// Records a new operation, and forgets the oldest ended ones where there are too many. It gives signs of life every so often.
    pub(crate) async fn record_new(
        &self,
        context: &RequestContext,
        kind: OperationKind,
        subject: &str,
        progress: ReembedProgress,
        beat: Duration,
    ) -> Result<Begun> {
        self.forget_oldest(context).await?;
        let record = self.new_record(kind, subject, Some(progress));
        // First, so that nobody takes it for left.
        let pulse = Pulse::begin(&self.catalog, context, &record.operation.id, beat).await?;
        let version = self.swap(context, Expected::Absent, &record).await?;
        Ok(Begun { version, record, pulse })
    }

    fn new_record(&self, kind: OperationKind, subject: &str, progress: Option<ReembedProgress>) -> OperationRecord {
        let now = now_ms();
        // Without anything to be done it has ended before it began.
        let is_done = progress.is_none();
        let operation = Operation {
            id: Uuid::now_v7().to_string(),
            kind,
            subject: subject.to_owned(),
            state: if is_done { OperationState::Succeeded } else { OperationState::Running },
            done: 0,
            total: is_done.then_some(0),
            started_at_ms: now,
            ended_at_ms: is_done.then_some(now),
            fault: None,
        };
        OperationRecord { operation, owner: self.owner.clone(), cancel_requested: false, progress }
    }

    /// Removes the record of an operation that could not begin.
    pub(crate) async fn forget(&self, context: &RequestContext, begun: Begun) {
        let Begun { version, record, pulse } = begun;
        let id = &record.operation.id;
        if let Err(fault) = self.catalog.remove(context, RecordKind::Operation, id, version).await {
            warn!(operation = id, %fault, "an operation that could not begin left a record behind");
        }
        pulse.end().await;
    }

    /// Puts the mark of this process on an operation that another one left.
    ///
    /// # Errors
    /// `Aborted` when the record is not in that version any more: somebody works on it.
    pub(crate) async fn take_over(
        &self,
        context: &RequestContext,
        version: u64,
        mut record: OperationRecord,
        beat: Duration,
    ) -> Result<Begun> {
        record.owner.clone_from(&self.owner);
        let pulse = Pulse::begin(&self.catalog, context, &record.operation.id, beat).await?;
        let version = self.swap(context, Expected::Version(version), &record).await?;
        Ok(Begun { version, record, pulse })
    }

    /// Does a process give signs of life for an operation? Takes `silence` to say that none does.
    pub(crate) async fn is_alive(&self, context: &RequestContext, id: &str, silence: Duration) -> Result<bool> {
        pulse::is_alive(self.catalog.as_ref(), context, id, silence).await
    }

    /// Has `work` done beside the operations, until this process stops.
    pub(crate) fn watch(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut live = self.live.lock();
        if !live.stopping {
            live.watchers.retain(|watcher| !watcher.is_finished());
            live.watchers.push(tokio::spawn(work));
        }
    }

    /// An operation that has not ended, with its version.
    pub(crate) async fn find_unfinished(
        &self,
        context: &RequestContext,
        id: &str,
    ) -> Result<Option<(u64, OperationRecord)>> {
        match self.find(context, id).await {
            Ok((_, record)) if record.operation.has_ended() => Ok(None),
            Ok(found) => Ok(Some(found)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    /// The operations of the tenant that have not ended, oldest first.
    pub(crate) async fn unfinished(&self, context: &RequestContext) -> Result<Vec<(u64, OperationRecord)>> {
        let mut records = self.records(context).await?;
        records.retain(|(_, record)| !record.operation.has_ended());
        Ok(records)
    }

    /// Runs `work` as the operation of that record until it ends, is cancelled, or this process stops.
    pub(crate) fn run<W: Future<Output = ()> + Send + 'static>(
        &self,
        context: &RequestContext,
        begun: Begun,
        work: impl FnOnce(OperationLog) -> W,
    ) -> Result<()> {
        let Begun { version, record, pulse } = begun;
        let (signal, told) = watch::channel(Signal::GoOn);
        let (sender, news) = watch::channel(record.operation.clone());
        let key = key(context, &record.operation.id);
        let log = OperationLog::new(Arc::clone(&self.catalog), context.clone(), version, record, told, sender);
        let leave = Leave { live: Arc::clone(&self.live), key: key.clone() };
        // A task that ends at once waits for this lock before it leaves.
        let mut live = self.live.lock();
        if live.stopping {
            return Err(Error::Unavailable("the service is shutting down".to_owned()));
        }
        let work = work(log);
        let task = tokio::spawn(async move {
            let _leave = leave;
            work.await;
            pulse.end().await;
        });
        live.running.insert(key, Running { signal, news, task });
        Ok(())
    }

    fn tell(&self, key: &Key, signal: Signal) {
        if let Some(running) = self.live.lock().running.get(key) {
            running.signal.send_replace(signal);
        }
    }

    async fn find(&self, context: &RequestContext, id: &str) -> Result<(u64, OperationRecord)> {
        match self.catalog.get(context, RecordKind::Operation, id).await? {
            Some(versioned) => Ok((versioned.version, decode(&versioned)?)),
            None => Err(Error::NotFound { kind: ResourceKind::Operation, name: id.to_owned() }),
        }
    }

    /// All records of the tenant, oldest first: ids sort by age.
    async fn records(&self, context: &RequestContext) -> Result<Vec<(u64, OperationRecord)>> {
        let listed = self.catalog.list(context, RecordKind::Operation).await?;
        listed.iter().map(|versioned| Ok((versioned.version, decode(versioned)?))).collect()
    }

    async fn forget_oldest(&self, context: &RequestContext) -> Result<()> {
        let mut ended = self.records(context).await?;
        ended.retain(|(_, record)| record.operation.has_ended());
        let surplus = (ended.len() + 1).saturating_sub(MAX_ENDED_OPERATIONS);
        for (version, record) in ended.into_iter().take(surplus) {
            match self.catalog.remove(context, RecordKind::Operation, &record.operation.id, version).await {
                // Another call forgot it.
                Ok(()) | Err(Error::Aborted(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    async fn swap(&self, context: &RequestContext, expected: Expected, record: &OperationRecord) -> Result<u64> {
        swap(self.catalog.as_ref(), context, expected, record).await
    }
}

/// Takes a task out of what runs, also when it panicked.
struct Leave {
    live: Arc<Mutex<Live>>,
    key: Key,
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.live.lock().running.remove(&self.key);
    }
}

fn key(context: &RequestContext, id: &str) -> Key {
    (context.tenant().clone(), id.to_owned())
}

async fn swap(
    catalog: &dyn Catalog,
    context: &RequestContext,
    expected: Expected,
    record: &OperationRecord,
) -> Result<u64> {
    let id = &record.operation.id;
    let value = serde_json::to_vec(record)
        .map_err(|fault| Error::Internal(format!("the record of operation \"{id}\" cannot be written: {fault}")))?;
    catalog.swap(context, RecordKind::Operation, id, expected, value).await
}

fn decode(versioned: &Versioned) -> Result<OperationRecord> {
    serde_json::from_slice(&versioned.value).map_err(|fault| {
        Error::Internal(format!("the catalogue's record of operation \"{}\" cannot be read: {fault}", versioned.name))
    })
}

fn now_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}
