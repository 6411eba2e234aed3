//! What an operation that runs tells the catalogue and those who wait, and what it is told.

use std::sync::Arc;

use tokio::sync::watch;
use toller_core::catalog::{Expected, RecordKind};
use toller_core::error::{Error, Result};
use toller_core::operation::OperationFault;
use toller_core::{Catalog, Operation, OperationState, RequestContext};

use super::record::{OperationRecord, ReembedProgress};
use super::{Signal, decode, now_ms, swap};

/// How often the record is written again when somebody asked to cancel meanwhile.
const SAVE_ATTEMPTS: usize = 4;

/// Why an operation does not go on.
#[derive(Debug, PartialEq)]
pub(crate) enum Halt {
    /// Somebody asked for it, or what it works on is gone.
    Cancelled,
    /// The process stops; the next one goes on.
    Suspended,
    /// Another process runs it now.
    TakenOver,
    /// It cannot succeed.
    Failed(Error),
}

impl From<Error> for Halt {
    fn from(fault: Error) -> Self {
        Self::Failed(fault)
    }
}

/// The record of an operation that runs, in the hand of its task.
pub(crate) struct OperationLog {
    catalog: Arc<dyn Catalog>,
    context: RequestContext,
    version: u64,
    record: OperationRecord,
    told: watch::Receiver<Signal>,
    news: watch::Sender<Operation>,
}

impl OperationLog {
    pub(super) fn new(
        catalog: Arc<dyn Catalog>,
        context: RequestContext,
        version: u64,
        record: OperationRecord,
        told: watch::Receiver<Signal>,
        news: watch::Sender<Operation>,
    ) -> Self {
        Self { catalog, context, version, record, told, news }
    }

    pub(crate) fn id(&self) -> &str {
        &self.record.operation.id
    }

    /// The operation as it will be recorded next.
    pub(crate) fn operation(&mut self) -> &mut Operation {
        &mut self.record.operation
    }

    /// Notes that `documents` more are done, of `total` at this moment, and where to go on.
    pub(crate) fn advance(&mut self, documents: u64, total: u64, progress: ReembedProgress) {
        let operation = &mut self.record.operation;
        operation.done += documents;
        // Documents come and go meanwhile.
        operation.total = Some(total.max(operation.done));
        self.record.progress = Some(progress);
    }

    /// Writes the record, and finds out whether to go on.
    pub(crate) async fn save(&mut self) -> Result<(), Halt> {
        self.write().await?;
        self.check()
    }

    /// Records the end. Its fault is one of the catalogue, or another process runs the operation.
    pub(crate) async fn end(&mut self, state: OperationState, fault: Option<&Error>) -> Result<(), Halt> {
        let operation = &mut self.record.operation;
        operation.state = state;
        operation.ended_at_ms = Some(now_ms());
        operation.fault = fault.map(OperationFault::from);
        self.write().await
    }

    /// Was it told to stop?
    pub(crate) fn check(&self) -> Result<(), Halt> {
        match *self.told.borrow() {
            _ if self.record.cancel_requested => Err(Halt::Cancelled),
            Signal::GoOn => Ok(()),
            Signal::Cancel => Err(Halt::Cancelled),
            Signal::Suspend => Err(Halt::Suspended),
        }
    }

    /// Does `work`, and drops it when the operation is told to stop.
    pub(crate) async fn unless_told<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T, Halt> {
        self.check()?;
        let mut told = self.told.clone();
        tokio::select! {
            outcome = work => Ok(outcome?),
            signal = told.wait_for(|signal| *signal != Signal::GoOn) => match signal.map(|signal| *signal) {
                Ok(Signal::Cancel) => Err(Halt::Cancelled),
                // Nobody is left who could tell anything.
                _ => Err(Halt::Suspended),
            },
        }
    }

    /// Writes the record; those who wait hear of it once it is written.
    async fn write(&mut self) -> Result<(), Halt> {
        for _ in 0..SAVE_ATTEMPTS {
            let expected = Expected::Version(self.version);
            match swap(self.catalog.as_ref(), &self.context, expected, &self.record).await {
                Ok(version) => {
                    self.version = version;
                    self.news.send_replace(self.record.operation.clone());
                    return Ok(());
                }
                Err(Error::Aborted(_)) => self.read_again().await?,
                Err(fault) => return Err(fault.into()),
            }
        }
        Err(Error::Aborted(format!("the record of operation \"{}\" changes all the time", self.id())).into())
    }

    /// Somebody else wrote the record: who asks to cancel may, and who took the operation over has it.
    async fn read_again(&mut self) -> Result<(), Halt> {
        let found = self.catalog.get(&self.context, RecordKind::Operation, self.id()).await?;
        let Some(found) = found else { return Err(Halt::TakenOver) };
        let record = decode(&found)?;
        if record.owner != self.record.owner || record.operation.has_ended() {
            return Err(Halt::TakenOver);
        }
        self.version = found.version;
        self.record.cancel_requested |= record.cancel_requested;
        Ok(())
    }
}
