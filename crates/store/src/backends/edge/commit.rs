//! One commit of many changes, by the writer.
//!
//! What takes long happens while others read: points with new ids are written and stay unseen. Then, while readers wait, what is
//! removed and replaced goes, and all of it is seen at once. Before the first point is written the change set is decided (see
//! [`super::journal`]); should anything fail after that, the collection has to be opened again, which finishes it.

use std::collections::BTreeSet;

use qdrant_edge as engine;
use toller_core::DocumentId;
use toller_core::error::Result;

use super::change_set::PreparedChanges;
use super::durable;
use super::journal::{ChangedIds, Journal};
use super::keywords::FrequencyChange;
use super::point::terms_of_new;
use super::shard::{PAGE, Shard};
use super::unseen::Unseen;
use super::writer::{check_points_are_free, flush_engine, point_of_id, update};

/// Makes a change set happen, and durable. Returns how many records are there no more.
pub(super) fn commit(shard: &Shard, changes: PreparedChanges) -> Result<u64> {
    let PreparedChanges { draft, ids } = changes;
    let is_removed = |known: &BTreeSet<DocumentId>| ids.removed.iter().any(|id| known.contains(id));
    if ids.written.is_empty() && !is_removed(&shard.ids.read()) {
        return Ok(0);
    }
    let points = ids.written.iter().map(|id| (id, point_of_id(shard, id)));
    check_points_are_free(shard, points)?;
    let journal = draft.decide(shard.folder.path()).inspect_err(|_| shard.set_broken())?;
    finish(shard, journal, ids)
}

/// Makes a change set happen that is decided.
pub(super) fn finish(shard: &Shard, journal: Journal, ids: ChangedIds) -> Result<u64> {
    let done = write(shard, &journal, ids).and_then(|removed| {
        flush_engine(shard)?;
        journal.remove()?;
        Ok(removed)
    });
    // What is written next must not be overwritten by what is left of this.
    done.inspect_err(|_| shard.set_broken())
}

fn write(shard: &Shard, journal: &Journal, ids: ChangedIds) -> Result<u64> {
    let written = ids.written.len();
    let (new, replaced, removed) = {
        let known = shard.ids.read();
        let (replaced, new): (Vec<_>, Vec<_>) = ids.written.into_iter().partition(|id| known.contains(id));
        let removed: Vec<DocumentId> = ids.removed.into_iter().filter(|id| known.contains(id)).collect();
        (new, replaced, removed)
    };
    let mut terms = FrequencyChange::default();
    // Nobody else writes, so what stands there now is what will be removed and replaced.
    for some in replaced.chunks(PAGE).chain(removed.chunks(PAGE)) {
        shard.terms(some)?.iter().for_each(|old| terms.remove(old.terms()));
    }
    let unseen = Unseen::new(new.iter().map(|id| point_of_id(shard, id)));
    shard.hide(unseen.clone(), &shard.exclusively());
    journal.for_each_batch(|mut points| {
        points.iter().for_each(|point| terms.add(terms_of_new(point)));
        points.retain(|point| unseen.contains(&point.id));
        put(shard, points)
    })?;

    let settled = shard.settle();
    let mut known = shard.exclusively();
    let replace = || {
        for some in removed.chunks(PAGE) {
            let ids = some.iter().map(|id| point_of_id(shard, id)).collect();
            operate(shard, engine::PointOperations::DeletePoints { ids })?;
        }
        if replaced.is_empty() {
            return Ok(());
        }
        journal.for_each_batch(|mut points| {
            points.retain(|point| !unseen.contains(&point.id));
            put(shard, points)
        })
    };
    // Said while readers still wait: they must not see a part of it.
    replace().inspect_err(|_| shard.set_broken())?;
    for id in &removed {
        known.remove(id);
    }
    known.extend(new);
    shard.frequencies.write().apply(terms);
    shard.show_all(&known);
    shard.count_commit(&known);
    drop((known, settled));
    shard.changed(written + removed.len());
    Ok(removed.len() as u64)
}

fn put(shard: &Shard, points: Vec<engine::PointStructPersisted>) -> Result<()> {
    if points.is_empty() {
        return Ok(());
    }
    operate(shard, engine::PointOperations::UpsertPoints(engine::PointInsertOperations::PointsList(points)))
}

fn operate(shard: &Shard, operation: engine::PointOperations) -> Result<()> {
    durable::syncing(shard.folder.path(), || update(shard, engine::UpdateOperation::PointOperation(operation)))
}
