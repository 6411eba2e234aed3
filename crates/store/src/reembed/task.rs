//! The task that embeds one collection anew, from its first document to its end.

use std::sync::Arc;

use toller_core::error::{Error, Result};
use toller_core::{CollectionName, CollectionSpec, Embeddings, OperationState, RequestContext};
use toller_telemetry::spans;
use tracing::{Instrument, Span, info, warn};

use super::begin::model_is_gone;
use crate::fence::Fence;
use crate::foundation::Foundation;
use crate::operations::{Halt, OperationLog, ReembedProgress};
use crate::record::{CollectionRecord, Generation, State};

/// How often both generations are compared from the beginning before it is given up.
const MAX_COMPARISONS: usize = 16;

/// A collection on its way to another model.
pub(crate) struct Reembedding {
    pub(super) foundation: Foundation,
    pub(super) context: RequestContext,
    pub(super) name: CollectionName,
    pub(super) fence: Arc<Fence>,
    pub(super) log: OperationLog,
    pub(super) progress: ReembedProgress,
}

/// The two sides, as they are for as long as the task runs.
pub(super) struct Sides {
    /// What is read.
    pub(super) source: CollectionName,
    /// What is filled.
    pub(super) target: CollectionName,
    /// The collection as it will be: with the fingerprint of the model.
    pub(super) spec: CollectionSpec,
    pub(super) model: Arc<dyn Embeddings>,
    /// An older generation of the same model, where there is one.
    pub(super) donor: Option<CollectionName>,
}

impl Reembedding {
    pub(crate) fn new(
        foundation: Foundation,
        context: RequestContext,
        name: CollectionName,
        log: OperationLog,
        progress: ReembedProgress,
    ) -> Self {
        let fence = foundation.fence(&context, &name);
        Self { foundation, context, name, fence, log, progress }
    }

    /// Runs it, within a span of its own.
    pub(crate) async fn run(mut self) {
        let span = spans::operation("reembed", self.name.logical(), &self.progress.fingerprint.model, self.log.id());
        let outcome = self.work().instrument(span.clone()).await;
        self.end(outcome, &span).instrument(span.clone()).await;
    }

    async fn work(&mut self) -> Result<(), Halt> {
        let record = match self.find().await? {
            // An earlier process was killed after the switch.
            Some(record) if self.has_made(&record) => return Ok(()),
            Some(record) if record.is_built_by(self.log.id()) => record,
            _ => return Err(Halt::Cancelled),
        };
        self.log.check()?;
        let sides = self.sides(record)?;
        self.copy_all(&sides).await?;
        for _ in 0..MAX_COMPARISONS {
            let tears = self.fence.tears();
            self.compare_all(&sides).await?;
            if self.switch(&sides, tears).await? {
                return Ok(());
            }
        }
        Err(Halt::Failed(Error::Aborted(format!(
            "the old and the new vectors of collection \"{}\" never held the same documents; is it written through another server at the same time?",
            self.name
        ))))
    }

    fn sides(&mut self, record: CollectionRecord) -> Result<Sides, Halt> {
        let fingerprint = &self.progress.fingerprint;
        let Some(model) = self.foundation.models.compatible_with(fingerprint) else {
            return Err(Halt::Failed(model_is_gone(self.log.operation(), fingerprint)));
        };
        let donor = record.generations.previous.as_ref().map(|previous| self.name.generation(previous.number));
        Ok(Sides {
            source: record.current_name(),
            target: self.name.generation(self.progress.generation),
            model: Arc::clone(model),
            donor,
            spec: CollectionSpec { fingerprint: fingerprint.clone(), ..record.spec },
        })
    }

    /// The collection's record; none when it is gone.
    async fn find(&self) -> Result<Option<CollectionRecord>> {
        let found = self.foundation.records.find(&self.context, &self.name).await?;
        Ok(found.map(|(_, record)| record).filter(|record| record.state == State::Ready))
    }

    /// Is the generation in its place?
    fn has_made(&self, record: &CollectionRecord) -> bool {
        record.generations.made_by.as_deref() == Some(self.log.id())
    }

    /// Is the generation still to be filled? Asked behind the fence, before it is written.
    pub(super) async fn check_mine(&self) -> Result<(), Halt> {
        match self.find().await? {
            Some(record) if record.is_built_by(self.log.id()) => Ok(()),
            _ => Err(Halt::Cancelled),
        }
    }

    /// Makes the new generation the current one; false when both may differ.
    async fn switch(&mut self, sides: &Sides, tears: u64) -> Result<bool, Halt> {
        let fence = Arc::clone(&self.fence);
        let _exclusive = fence.exclusive().await;
        self.check_mine().await?;
        self.log.check()?;
        let store = &self.foundation.store;
        let old = store.count(&self.context, &sides.source, None).await?;
        let new = store.count(&self.context, &sides.target, None).await?;
        if old != new || fence.tears() != tears {
            return Ok(false);
        }
        let (id, number) = (self.log.id().to_owned(), self.progress.generation);
        self.foundation
            .records
            .change(&self.context, &self.name, |record| {
                if !record.is_built_by(&id) {
                    return Err(Error::Aborted(format!("operation \"{id}\" was cancelled")));
                }
                let fingerprint = std::mem::replace(&mut record.spec.fingerprint, sides.spec.fingerprint.clone());
                let generations = &mut record.generations;
                generations.previous = Some(Generation { number: generations.current, fingerprint });
                generations.current = number;
                generations.made_by = Some(id.clone());
                generations.building = None;
                Ok(())
            })
            .await?;
        let operation = self.log.operation();
        (operation.done, operation.total) = (new, Some(new));
        if let Some(donor) = &sides.donor {
            self.drop_room(donor).await;
        }
        Ok(true)
    }

    async fn end(&mut self, outcome: Result<(), Halt>, span: &Span) {
        let outcome = match outcome {
            Err(halt @ (Halt::Failed(_) | Halt::Cancelled)) => match self.find().await {
                // Another process switched, one that this one took the operation over from.
                Ok(Some(record)) if self.has_made(&record) => Ok(()),
                Ok(Some(record)) if record.is_built_by(self.log.id()) => Err(halt),
                // A store that misses what was dropped under the task is no fault of the task.
                Ok(_) => Err(Halt::Cancelled),
                Err(_) => Err(halt),
            },
            other => other,
        };
        let (state, fault) = match outcome {
            Ok(()) => (OperationState::Succeeded, None),
            Err(Halt::Cancelled) => (OperationState::Cancelled, None),
            Err(Halt::Failed(fault)) => (OperationState::Failed, Some(fault)),
            Err(halt @ (Halt::Suspended | Halt::TakenOver)) => {
                info!(operation = self.log.id(), ?halt, "an operation is left to another process");
                return;
            }
        };
        spans::record_documents(span, self.log.operation().done);
        if let Some(fault) = &fault {
            spans::record_error(span, fault);
        }
        if state != OperationState::Succeeded
            && let Err(second) = self.abandon().await
        {
            warn!(operation = self.log.id(), error = %second, "an operation could not be undone; the next start of the server does it");
            return;
        }
        info!(operation = self.log.id(), collection = %self.name, ?state, fault = fault.as_ref().map(tracing::field::display), "an operation has ended");
        if let Err(halt) = self.log.end(state, fault.as_ref()).await {
            warn!(operation = self.log.id(), ?halt, "the end of an operation could not be recorded");
        }
    }

    /// Writes go to the current generation alone again, and what was filled is dropped.
    async fn abandon(&mut self) -> Result<()> {
        let fence = Arc::clone(&self.fence);
        let _exclusive = fence.exclusive().await;
        let id = self.log.id().to_owned();
        let forgotten = self.foundation.records.change(&self.context, &self.name, |record| {
            if record.is_built_by(&id) {
                record.generations.building = None;
            }
            Ok(())
        });
        let record = match forgotten.await {
            // Whoever deletes a collection drops all that it has.
            Err(Error::NotFound { .. }) => return Ok(()),
            other => other?,
        };
        let number = self.progress.generation;
        // A collection that was made after the first one was deleted counts from 1 again.
        if record.has_generation(number) {
            return Ok(());
        }
        self.foundation.drop_room(&self.context, &self.name.generation(number)).await
    }

    async fn drop_room(&self, room: &CollectionName) {
        if let Err(fault) = self.foundation.drop_room(&self.context, room).await {
            warn!(collection = %self.name, %fault, "an old generation of a collection stays until the collection is deleted");
        }
    }
}
