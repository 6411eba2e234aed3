//! The one thread that writes to an open collection.
//!
//! It takes what waits in its queue as a group, applies it in order, makes the whole group durable at once, and only then
//! acknowledges each write. One write is one entry of the engine's log, so that after a crash all of it is there or nothing;
//! what is too much for that is a [`commit`] of many entries.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use qdrant_edge as engine;
use tokio::sync::{mpsc, oneshot};
use toller_core::error::{Error, Result};
use toller_core::vector_store::RecordSink;
use toller_core::{DocumentId, Durability, Filter, RequestContext};

use super::change_set::PreparedChanges;
use super::commit::commit;
use super::disk_room::Promise;
use super::durable;
use super::error::engine_fault;
use super::keywords::FrequencyChange;
use super::point::{point_id, terms_of_new};
use super::pushdown::Fields;
use super::shard::{PAGE, Shard, reopening};
use super::unseen::Unseen;

/// Writes that may wait; more wait with their callers.
pub(super) const QUEUE: usize = 64;

/// Most writes that are made durable at once.
const GROUP: usize = 64;

/// Points after which the engine's log is cut back when nobody asks for durability against power loss.
const FLUSH_AFTER: usize = 20_000;

/// What the log takes for a record that is removed.
const BYTES_OF_DELETE: u64 = 64;

/// What an index on metadata takes for a record.
const BYTES_OF_FIELD: u64 = 64;

/// Something to do for the writer.
#[derive(Debug)]
pub(super) enum Write {
    /// A change, with the room that it was promised, and where to tell how many records it was about.
    Change(Change, Option<Promise>, oneshot::Sender<Result<u64>>),
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
                Write::Change(change, promise, reply) => {
                    let is_unflushed = !matches!(change, Change::Snapshot(..) | Change::Commit(_));
                    let outcome = apply(shard, change, promise.as_ref());
                    if let Ok(count) = outcome
                        && is_unflushed
                    {
                        unflushed += count as usize;
                    }
                    // What is promised is on the disk once it is durable.
                    outcomes.push((outcome, promise, reply));
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
        for (outcome, promise, reply) in outcomes {
            drop(promise);
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

fn apply(shard: &Shard, change: Change, promise: Option<&Promise>) -> Result<u64> {
    if shard.is_broken() {
        return Err(reopening());
    }
    if let Some(promise) = promise {
        promise.check()?;
    }
    match change {
        Change::Upsert(ids, points) => upsert(shard, ids, points),
        Change::Delete(ids) => delete(shard, ids),
        Change::DeleteMatching(filter, context) => {
            // Nobody else writes, so what matches now matches still when it is deleted.
            let ids = shard.matching_ids(&filter, &context)?;
            context.check("before the delete")?;
            delete(shard, ids)
        }
        Change::Commit(changes) => {
            if promise.is_none() {
                room_for_delete(shard, changes.ids.removed.len())?;
            }
            commit(shard, *changes)
        }
        Change::Snapshot(Sink(sink), context) => shard.snapshot(sink, &context),
        Change::DeleteAll => delete_all(shard),
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
    let mut known = shard.exclusively();
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
    room_for_delete(shard, present.len())?;
    let mut terms = FrequencyChange::default();
    for some in present.chunks(PAGE) {
        shard.terms(some)?.iter().for_each(|old| terms.remove(old.terms()));
    }
    let points: Vec<engine::PointId> = present.iter().map(|id| point_of_id(shard, id)).collect();
    // A few are gone as soon as anything else. While the engine removes many, readers go on without them.
    let mut known = shard.exclusively();
    if points.len() > PAGE {
        forget(&mut known, &present);
        shard.frequencies.write().apply(terms);
        shard.hide(Unseen::new(points.iter().copied()), &known);
        drop(known);
        delete_points(shard, points)?;
        shard.show_all(&shard.exclusively());
    } else {
        delete_points(shard, points)?;
        forget(&mut known, &present);
        shard.frequencies.write().apply(terms);
        drop(known);
    }
    shard.changed(present.len());
    Ok(present.len() as u64)
}

/// Removes everything, and returns how much that was.
fn delete_all(shard: &Shard) -> Result<u64> {
    let points: Vec<engine::PointId> = shard.ids.read().iter().map(|id| point_of_id(shard, id)).collect();
    let count = points.len();
    if count == 0 {
        return Ok(0);
    }
    room_for_delete(shard, count)?;
    let mut known = shard.exclusively();
    let ids = std::mem::take(&mut *known);
    let terms = std::mem::take(&mut *shard.frequencies.write());
    shard.hide(Unseen::Everything, &known);
    drop(known);
    // What takes time readers do not wait for.
    drop((ids, terms));
    delete_points(shard, points)?;
    shard.show_all(&shard.exclusively());
    shard.changed(count);
    Ok(count as u64)
}

fn forget(known: &mut BTreeSet<DocumentId>, ids: &[DocumentId]) {
    for id in ids {
        known.remove(id);
    }
}

fn delete_points(shard: &Shard, ids: Vec<engine::PointId>) -> Result<()> {
    update(shard, engine::UpdateOperation::PointOperation(engine::PointOperations::DeletePoints { ids }))
}

fn room_for_delete(shard: &Shard, count: usize) -> Result<()> {
    shard.room.for_small((count as u64).saturating_mul(BYTES_OF_DELETE), "a delete")
}

/// The id of a record's point.
pub(super) fn point_of_id(shard: &Shard, id: &DocumentId) -> engine::PointId {
    engine::PointId::Uuid(point_id(&shard.tenant, id))
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
    let promise = shard.room.for_write((shard.len() as u64).saturating_mul(BYTES_OF_FIELD * fields.len() as u64));
    if shard.is_broken() || promise.is_err() {
        tracing::debug!("no index on metadata can be built now; a later filter asks for it again");
        shard.forget_fields(fields);
        return;
    }
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
