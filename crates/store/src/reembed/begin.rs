//! Starts embedding a collection anew, and goes on with what another process left.

use std::time::Duration;

use toller_core::catalog::RecordKind;
use toller_core::error::{Error, Result};
use toller_core::{
    CollectionName, CollectionSpec, Fingerprint, Operation, OperationKind, OperationState, Principal, RequestContext,
    Role, Tenant,
};
use tracing::{info, warn};

use super::REEMBED_RUNNING;
use super::task::Reembedding;
use crate::foundation::Foundation;
use crate::guard;
use crate::operations::{Begun, OperationRecord, Operations, ReembedProgress};
use crate::record::{Building, CollectionRecord, Generation, State};
use crate::targets::unhurried;

/// Starts it, and returns the operation. The caller has the collection's turn.
pub(crate) async fn begin(
    foundation: &Foundation,
    operations: &Operations,
    context: &RequestContext,
    name: &CollectionName,
    model: Option<&str>,
) -> Result<Operation> {
    let (_, record) = foundation.records.ready(context, name).await?;
    if model.is_some() {
        // A name that is wrong is wrong whatever the collection does.
        foundation.models.embedding_model(model)?;
    }
    refuse(&record)?;
    let fingerprint = foundation.models.embedding_model(model)?.fingerprint().clone();
    if fingerprint.is_compatible_with(&record.spec.fingerprint) {
        return operations.record_done(context, OperationKind::Reembed, name.logical()).await;
    }
    // What is begun is not to be left half done because the caller goes away.
    let context = &unhurried(context);
    let number = record.generations.last.saturating_add(1);
    let generation = Generation { number, fingerprint };
    let progress =
        ReembedProgress { generation: number, fingerprint: generation.fingerprint.clone(), next: None, copied: false };
    let kind = OperationKind::Reembed;
    let begun = operations.record_new(context, kind, name.logical(), progress, foundation.beat).await?;
    if let Err(fault) = build(foundation, context, &record, &begun.record.operation.id, generation).await {
        operations.forget(context, begun).await;
        return Err(fault);
    }
    let operation = begun.record.operation.clone();
    run(foundation, operations, context, begun)?;
    Ok(operation)
}

/// Goes on with what other processes left, of all tenants.
///
/// Without `silence` all that has not ended was left: returns how many operations run, and what cannot go on has ended by then.
/// Otherwise each is watched, besides, and gone on with once it has given no sign of life for that long; none runs by then.
pub(crate) async fn resume(foundation: &Foundation, operations: &Operations, silence: Duration) -> Result<usize> {
    let mut running = 0;
    for tenant in foundation.records.catalog.tenants(RecordKind::Operation).await? {
        let context = context_of(tenant);
        for (version, record) in operations.unfinished(&context).await? {
            if silence.is_zero() {
                running += usize::from(go_on(foundation, operations, &context, version, record).await?);
                continue;
            }
            let (id, context) = (record.operation.id, context.clone());
            let (foundation, its_operations) = (foundation.clone(), operations.clone());
            operations.watch(async move {
                while let Err(fault) = watch(&foundation, &its_operations, &context, &id, silence).await {
                    warn!(operation = id, %fault, "an operation of another process cannot be watched");
                    tokio::time::sleep(silence).await;
                }
            });
        }
    }
    Ok(running)
}

/// Returns when an operation has ended, or is this process's.
async fn watch(
    foundation: &Foundation,
    operations: &Operations,
    context: &RequestContext,
    id: &str,
    silence: Duration,
) -> Result<()> {
    loop {
        let is_alive = operations.is_alive(context, id, silence).await?;
        let Some((version, record)) = operations.find_unfinished(context, id).await? else { return Ok(()) };
        if !is_alive && go_on(foundation, operations, context, version, record).await? {
            return Ok(());
        }
        tokio::time::sleep(silence / 4).await;
    }
}

/// Goes on with an operation; false when somebody else does, or when it cannot go on and has ended.
async fn go_on(
    foundation: &Foundation,
    operations: &Operations,
    context: &RequestContext,
    version: u64,
    record: OperationRecord,
) -> Result<bool> {
    let begun = match operations.take_over(context, version, record, foundation.beat).await {
        // It recorded its progress, or another process was faster.
        Err(Error::Aborted(_)) => return Ok(false),
        other => other?,
    };
    let operation = &begun.record.operation;
    let lost = begun.record.progress.as_ref().filter(|progress| {
        // Writes would have to be embedded by it from the first request on.
        foundation.models.compatible_with(&progress.fingerprint).is_none()
    });
    if let Some(progress) = lost {
        let fault = model_is_gone(operation, &progress.fingerprint);
        warn!(operation = operation.id, %fault, "an operation that was left cannot go on");
    } else {
        info!(operation = operation.id, subject = operation.subject, "an operation goes on");
    }
    let is_lost = lost.is_some();
    let must_end = is_lost || begun.record.cancel_requested;
    let id = operation.id.clone();
    run(foundation, operations, context, begun)?;
    if must_end {
        operations.wait(context, &id, None).await?;
    }
    Ok(!is_lost)
}

/// The operation's model is not loaded.
pub(super) fn model_is_gone(operation: &Operation, fingerprint: &Fingerprint) -> Error {
    Error::FailedPrecondition {
        reason: guard::FINGERPRINT_MISMATCH,
        message: format!(
            "collection \"{}\" was being embedded anew by {fingerprint}, which this server does not have; start it with that model and begin again",
            operation.subject
        ),
    }
}

fn run(foundation: &Foundation, operations: &Operations, context: &RequestContext, begun: Begun) -> Result<()> {
    let operation = &begun.record.operation;
    debug_assert_eq!(operation.state, OperationState::Running);
    let Some(progress) = begun.record.progress.clone() else {
        return Err(Error::Internal(format!("operation \"{}\" runs and has nothing to do", operation.id)));
    };
    let name = CollectionName::new(&operation.subject)
        .map_err(|fault| Error::Internal(format!("the subject of operation \"{}\" {fault}", operation.id)))?;
    let (foundation, owned_context) = (foundation.clone(), context.clone());
    operations.run(context, begun, move |log| Reembedding::new(foundation, owned_context, name, log, progress).run())
}

/// Makes room for the generation, and has writes go to it from now on.
async fn build(
    foundation: &Foundation,
    context: &RequestContext,
    record: &CollectionRecord,
    operation: &str,
    generation: Generation,
) -> Result<()> {
    let name = &record.spec.name;
    // What the previous generation is kept for ends here, unless it is wanted again.
    let previous = record.generations.previous.as_ref();
    let kept = previous.filter(|previous| previous.fingerprint.is_compatible_with(&generation.fingerprint));
    if let (Some(previous), None) = (previous, kept) {
        foundation.drop_room(context, &name.generation(previous.number)).await?;
    }
    let spec = CollectionSpec { fingerprint: generation.fingerprint.clone(), ..record.spec.clone() };
    let room = name.generation(generation.number);
    let fence = foundation.fence(context, name);
    let _exclusive = fence.exclusive().await;
    foundation.make_room(context, &room, spec.vector_params()).await?;
    let built = foundation.records.change(context, name, |record| {
        refuse(record)?;
        record.generations.previous = kept.cloned();
        record.generations.last = generation.number;
        record.generations.building =
            Some(Building { operation: operation.to_owned(), generation: generation.clone() });
        Ok(())
    });
    if let Err(fault) = built.await {
        if let Err(second) = foundation.drop_room(context, &room).await {
            warn!(collection = %name, error = %second, "a generation that could not be begun left something in the store");
        }
        return Err(fault);
    }
    Ok(())
}

/// What cannot be embedded anew, or not now.
fn refuse(record: &CollectionRecord) -> Result<()> {
    let name = &record.spec.name;
    debug_assert_eq!(record.state, State::Ready);
    if record.spec.fingerprint.is_client() {
        return Err(Error::FailedPrecondition {
            reason: guard::CLIENT_VECTORS_ONLY,
            message: format!(
                "collection \"{name}\" takes its vectors from the client, so there is no model whose place another could take; make a new collection and send vectors of the other model"
            ),
        });
    }
    match &record.generations.building {
        None => Ok(()),
        Some(building) => Err(Error::FailedPrecondition {
            reason: REEMBED_RUNNING,
            message: format!(
                "collection \"{name}\" is being embedded anew by {} already; wait for operation {}, or cancel it",
                building.generation.fingerprint, building.operation
            ),
        }),
    }
}

/// The process itself, on behalf of a tenant.
pub(crate) fn context_of(tenant: Tenant) -> RequestContext {
    RequestContext::new(Principal { name: "toller".into(), tenant, role: Role::Admin })
}
