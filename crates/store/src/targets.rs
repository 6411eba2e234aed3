//! Where the writes of a collection go, and how they get there.
//!
//! A write goes to the current generation, and while the collection is embedded anew also to the one that is being filled. It
//! is prepared for what the record said when the collection was opened; then, behind the fence, the record is read again, and
//! if it says something else by now, nothing is written and the write is prepared anew.

use std::sync::Arc;

use toller_core::error::{Error, Result};
use toller_core::vector_store::{Applied, ChangeSet, Selector};
use toller_core::{CollectionName, CollectionSpec, Fingerprint, Record, RequestContext};
use tracing::Instrument;

use crate::foundation::Foundation;
use crate::record::CollectionRecord;
use crate::reembed::REEMBED_RUNNING;

/// What a write has to be prepared for. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Targets {
    pub(crate) spec: Arc<CollectionSpec>,
    /// What the store keeps the current generation under.
    pub(crate) current: CollectionName,
    pub(crate) building: Option<BuildingTarget>,
}

/// A generation that is written besides the current one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BuildingTarget {
    pub(crate) name: CollectionName,
    pub(crate) fingerprint: Arc<Fingerprint>,
    /// Id of the operation that fills it.
    pub(crate) operation: Arc<str>,
}

/// Records for the current generation, and the same ones for the other where there is one.
#[derive(Debug)]
pub(crate) struct PreparedRecords {
    pub(crate) current: Vec<Record>,
    pub(crate) building: Option<Vec<Record>>,
}

/// What became of a write.
#[derive(Debug)]
pub(crate) enum Outcome<T = ()> {
    Written(T),
    /// Nothing is written: it has to be prepared for this.
    Moved(Targets),
}

impl Targets {
    pub(crate) fn of(record: CollectionRecord) -> Self {
        let current = record.current_name();
        let name = record.spec.name.clone();
        let building = record.generations.building.map(|building| BuildingTarget {
            name: name.generation(building.generation.number),
            fingerprint: Arc::new(building.generation.fingerprint),
            operation: building.operation.into(),
        });
        Self { spec: Arc::new(record.spec), current, building }
    }

    /// Is no other generation being filled?
    ///
    /// # Errors
    /// `FailedPrecondition` of [`REEMBED_RUNNING`], with the operation.
    pub(crate) fn check_settled(&self) -> Result<()> {
        let Some(building) = &self.building else { return Ok(()) };
        Err(Error::FailedPrecondition {
            reason: REEMBED_RUNNING,
            message: format!(
                "collection \"{}\" is being embedded anew by {}; wait for operation {}, or cancel it",
                self.spec.name, building.fingerprint, building.operation
            ),
        })
    }

    /// Is what was prepared for these right for `other`?
    fn are_as(&self, other: &Self) -> bool {
        self.current == other.current
            && self.building == other.building
            && self.spec.fingerprint == other.spec.fingerprint
            && self.spec.metric == other.spec.metric
    }
}

/// Writes records, all or none as readers see it.
///
/// The write is a task of its own: a caller who goes away must not open the fence before the store is done.
pub(crate) async fn write(
    foundation: &Foundation,
    context: &RequestContext,
    targets: &Targets,
    records: PreparedRecords,
) -> Result<Outcome> {
    let (foundation, context, targets) = (foundation.clone(), context.clone(), targets.clone());
    to_its_end(async move {
        let name = &targets.spec.name;
        let fence = foundation.fence(&context, name);
        let _shared = fence.shared().await;
        let now = Targets::of(foundation.records.ready(&context, name).await?.1);
        if !targets.are_as(&now) {
            return Ok(Outcome::Moved(now));
        }
        let store = &foundation.store;
        match (now.building, records.building) {
            (Some(building), Some(copies)) => {
                // First where nobody reads: a fault leaves everything as it was, but for what is compared later.
                let tearing = fence.tearing();
                store.upsert(&context, &building.name, copies).await?;
                store.upsert(&unhurried(&context), &now.current, records.current).await?;
                tearing.mend();
            }
            _ => store.upsert(&context, &now.current, records.current).await?,
        }
        Ok(Outcome::Written(()))
    })
    .await
}

/// Removes and writes any number of records in one commit of the current generation. Where the collection moved, nothing is
/// written and nothing was asked of the source.
///
/// The write is a task of its own, as [`write`] is. Whoever needs the fence alone waits for its end.
///
/// # Errors
/// `FailedPrecondition` of [`REEMBED_RUNNING`] while another generation is filled, which would need the same records by its
/// model; what the store reports.
pub(crate) async fn apply(
    foundation: &Foundation,
    context: &RequestContext,
    targets: &Targets,
    changes: ChangeSet,
) -> Result<Outcome<Applied>> {
    let (foundation, context, targets) = (foundation.clone(), context.clone(), targets.clone());
    to_its_end(async move {
        let name = &targets.spec.name;
        let fence = foundation.fence(&context, name);
        let _shared = fence.shared().await;
        let now = Targets::of(foundation.records.ready(&context, name).await?.1);
        now.check_settled()?;
        if !targets.are_as(&now) {
            return Ok(Outcome::Moved(now));
        }
        Ok(Outcome::Written(foundation.store.apply(&context, &now.current, changes).await?))
    })
    .await
}

/// What writes have to be prepared for now; none when it is the same still.
pub(crate) async fn moved(
    foundation: &Foundation,
    context: &RequestContext,
    targets: &Targets,
) -> Result<Option<Targets>> {
    let (_, record) = foundation.records.ready(context, &targets.spec.name).await?;
    Ok(Some(Targets::of(record)).filter(|now| !targets.are_as(now)))
}

/// Removes records from every generation that is written, and returns how many the current one had.
pub(crate) async fn delete(
    foundation: &Foundation,
    context: &RequestContext,
    name: &CollectionName,
    selector: &Selector,
) -> Result<u64> {
    let (foundation, context, name, selector) = (foundation.clone(), context.clone(), name.clone(), selector.clone());
    to_its_end(async move {
        let fence = foundation.fence(&context, &name);
        let _shared = fence.shared().await;
        let now = Targets::of(foundation.records.ready(&context, &name).await?.1);
        let store = &foundation.store;
        let Some(building) = now.building else { return store.delete(&context, &now.current, &selector).await };
        let tearing = fence.tearing();
        store.delete(&context, &building.name, &selector).await?;
        let deleted = store.delete(&unhurried(&context), &now.current, &selector).await?;
        tearing.mend();
        Ok(deleted)
    })
    .await
}

/// The same caller without a deadline and a flag: what is half done is worth finishing.
pub(crate) fn unhurried(context: &RequestContext) -> RequestContext {
    RequestContext::new(context.principal().clone()).with_trace_parent(context.trace_parent())
}

async fn to_its_end<T: Send + 'static>(work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
    tokio::spawn(work.in_current_span()).await.unwrap_or_else(|fault| {
        Err(if fault.is_panic() {
            Error::Internal("a write panicked; the log has the place".to_owned())
        } else {
            Error::Unavailable("the service is shutting down".to_owned())
        })
    })
}
