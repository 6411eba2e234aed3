//! The one thread that writes to an open collection.
//!
//! It takes what waits in its queue as a group, applies it in order, makes the whole group durable at once, and only then
//! acknowledges each write. One write is one entry of the engine's log, so that after a crash all of it is there or nothing;
//! what is too much for that is a [`commit`] of many entries.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use qdrant_edge as engine;
use tokio::sync::{mpsc, oneshot};
use toller_core::error::{Error, Result};
use toller_core::vector_store::RecordSink;
use toller_core::{DocumentId, Durability, Filter, RequestContext};

use super::change_set::PreparedChanges;
use super::commit::commit;
use super::error::engine_fault;
use super::point::{point_id, terms_of_new};
use super::pushdown::Fields;
use super::shard::{PAGE, Shard, reopening};
use super::{disk_room, durable};

/// Writes that may wait; more wait with their callers.
pub(super) const QUEUE: usize = 64;

/// Most writes that are made durable at once.
const GROUP: usize = 64;

/// Points after which the engine's log is cut back when nobody asks for durability against power loss.
const FLUSH_AFTER: usize = 20_000;

/// Something to do for the writer.
#[derive(Debug)]
pub(super) enum Write {
    /// A change, with where to tell how many records it was about.
    Change(Change, oneshot::Sender<Result<u64>>),
    /// Indexes to build on metadata.
    IndexFields(Fields),
    /// Make durable what an index builder did.
    Flush,
}

/// A change of records.
#[derive(Debug)]
pub(super) enum Change {
    /// Write points with these ids, aligned.
    Upsert(Vec<DocumentId>, Vec<engine::PointStructPersisted>),
    /// Remove those of these ids that are there.
    Delete(Vec<DocumentId>),
    /// Remove all that match.
    DeleteMatching(Filter, RequestContext),
    /// Remove everything.
    DeleteAll,
    /// Many changes, which are written down.
    Commit(Box<PreparedChanges>),
    /// Change nothing: hand every record out, while nobody writes.
    Snapshot(Sink, RequestContext),
}

/// Where the records of a snapshot go.
pub(super) struct Sink(pub(super) RecordSink);

impl fmt::Debug for Sink {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Sink")
    }
}

/// Writes until the queue is closed.
pub(super) fn run(shard: &Shard, mut queue: mpsc::Receiver<Write>) {
    let mut unflushed = 0;
    while let Some(first) = queue.blocking_recv() {
        let mut outcomes = Vec::new();
        let mut flush = false;
        let mut next = Some(first);
        let mut taken = 0;
        while let Some(write) = next {
            match write {
                Write::Change(change, reply) => {
                    let is_unflushed = !matches!(change, Change::Snapshot(..) | Change::Commit(_));
                    let outcome = apply(shard, change);
                    if let Ok(count) = outcome
                        && is_unflushed
                    {
                        unflushed += count as usize;
                    }
                    outcomes.push((outcome, reply));
                }
                Write::IndexFields(fields) => index_fields(shard, &fields),
                Write::Flush => flush = true,
            }
            taken += 1;
            next = if taken < GROUP { queue.try_recv().ok() } else { None };
        }
        let is_durable = shard.config.durability == Durability::Fsync && unflushed > 0;
        let flushed = if flush || is_durable || unflushed >= FLUSH_AFTER { flush_engine(shard) } else { Ok(()) };
        if flushed.is_ok() && (flush || is_durable || unflushed >= FLUSH_AFTER) {
            unflushed = 0;
        }
        for (outcome, reply) in outcomes {
            // Who does not wait any more need not be told.
            let _ = reply.send(flushed.clone().and(outcome));
        }
    }
}

/// Makes durable what was written.
pub(super) fn flush_engine(shard: &Shard) -> Result<()> {
    durable::syncing(shard.folder.path(), || shard.engine.flush()).map_err(|fault| {
        shard.set_broken();
        engine_fault("making writes durable")(fault)
    })
}

fn apply(shard: &Shard, change: Change) -> Result<u64> {
    if shard.is_broken() {
        return Err(reopening());
    }
    match change {
        Change::Upsert(ids, points) => upsert(shard, ids, points),
        Change::Delete(ids) => {
            disk_room::for_opening(shard.folder.path())?;
            delete(shard, ids)
        }
        Change::DeleteMatching(filter, context) => {
            // Nobody else writes, so what matches now matches still when it is deleted.
            let ids = shard.matching_ids(&filter, &context)?;
            context.check("before the delete")?;
            disk_room::for_opening(shard.folder.path())?;
            delete(shard, ids)
        }
        Change::Commit(changes) => commit(shard, *changes),
        Change::Snapshot(Sink(sink), context) => shard.snapshot(sink, &context),
        Change::DeleteAll => {
            disk_room::for_opening(shard.folder.path())?;
            let ids = shard.ids.read().iter().cloned().collect();
            delete(shard, ids)
        }
    }
}

fn upsert(shard: &Shard, ids: Vec<DocumentId>, points: Vec<engine::PointStructPersisted>) -> Result<u64> {
    if ids.is_empty() {
        return Ok(0);
    }
    check_points_are_free(shard, ids.iter().zip(points.iter().map(|point| point.id)))?;
    let count = ids.len();
    let replaced: Vec<DocumentId> = {
        let known = shard.ids.read();
        ids.iter().filter(|id| known.contains(*id)).cloned().collect()
    };
    // Nobody else writes, so what stands there now is what will be replaced.
    let old_terms = shard.terms(&replaced)?;
    let new_terms: Vec<Vec<u32>> = points.iter().map(|point| terms_of_new(point).to_vec()).collect();
    let operation = engine::PointOperations::UpsertPoints(engine::PointInsertOperations::PointsList(points));
    let mut known = shard.ids.write();
    update(shard, engine::UpdateOperation::PointOperation(operation))?;
    known.extend(ids);
    let mut frequencies = shard.frequencies.write();
    old_terms.iter().for_each(|terms| frequencies.remove(terms.terms()));
    new_terms.iter().for_each(|terms| frequencies.add(terms));
    drop((known, frequencies));
    shard.changed(count);
    Ok(count as u64)
}

/// Two ids whose points fall on one another (somebody took pains to find them) must not overwrite each other.
pub(super) fn check_points_are_free<'a>(
    shard: &Shard,
    points: impl Iterator<Item = (&'a DocumentId, engine::PointId)>,
) -> Result<()> {
    let mut owners: HashMap<engine::PointId, &DocumentId> = HashMap::new();
    let known = shard.ids.read();
    let mut new_points = Vec::new();
    for (id, point) in points {
        if let Some(other) = owners.insert(point, id) {
            return Err(falls_on(id, other));
        }
        if !known.contains(id) {
            new_points.push(point);
        }
    }
    drop(known);
    for some in new_points.chunks(PAGE) {
        for (point, other) in shard.ids_in_points(some.to_vec())? {
            match owners.get(&point) {
                Some(id) if **id != other => return Err(falls_on(id, &other)),
                _ => {}
            }
        }
    }
    Ok(())
}

fn falls_on(id: &DocumentId, other: &DocumentId) -> Error {
    Error::invalid("records", format!("\"{id}\" cannot be told from \"{other}\"; choose another id"))
}

/// Removes those of the ids that are there, and returns how many that were.
fn delete(shard: &Shard, ids: Vec<DocumentId>) -> Result<u64> {
    let mut present: Vec<DocumentId> = {
        let known = shard.ids.read();
        ids.into_iter().filter(|id| known.contains(id)).collect()
    };
    present.sort_unstable();
    present.dedup();
    if present.is_empty() {
        return Ok(0);
    }
    let old_terms = shard.terms(&present)?;
    let points = present.iter().map(|id| engine::PointId::Uuid(point_id(&shard.tenant, id))).collect();
    let mut known = shard.ids.write();
    let operation = engine::PointOperations::DeletePoints { ids: points };
    update(shard, engine::UpdateOperation::PointOperation(operation))?;
    for id in &present {
        known.remove(id);
    }
    let mut frequencies = shard.frequencies.write();
    old_terms.iter().for_each(|terms| frequencies.remove(terms.terms()));
    drop((known, frequencies));
    shard.changed(present.len());
    Ok(present.len() as u64)
}

/// Has the engine do something. When it fails the collection has to be opened again.
pub(super) fn update(shard: &Shard, operation: engine::UpdateOperation) -> Result<()> {
    shard.engine.update(operation).map_err(|fault| {
        shard.set_broken();
        engine_fault("writing")(fault)
    })
}

/// An index makes filters faster and is no condition for them, so a fault is only noted.
fn index_fields(shard: &Shard, fields: &Fields) {
    for (path, kind) in fields {
        let Ok(field_name) = path.parse() else { continue };
        let field_schema = Some(engine::PayloadFieldSchema::FieldType(*kind));
        let create = engine::FieldIndexOperations::CreateIndex(engine::CreateIndex { field_name, field_schema });
        match shard.engine.update(engine::UpdateOperation::FieldIndexOperation(create)) {
            Ok(()) => tracing::debug!(field = %path, "an index on metadata was built"),
            Err(fault) => tracing::warn!(field = %path, %fault, "an index on metadata could not be built"),
        }
    }
}

/// Starts the writer of a collection.
pub(super) fn spawn(shard: Arc<Shard>, queue: mpsc::Receiver<Write>) -> std::io::Result<std::thread::JoinHandle<()>> {
    std::thread::Builder::new().name("toller-writer".to_owned()).spawn(move || run(&shard, queue))
}
