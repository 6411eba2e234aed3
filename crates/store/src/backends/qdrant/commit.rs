//! One commit: a group of changes that becomes visible at once, or not at all.
//!
//! In this order: take the turn; write the new rows, which nobody sees yet; set an end to the rows that they replace, which
//! everybody sees still; and name the commit in the collection's record, by one swap. A writer that is gone at any point before
//! that leaves rows that the next one clears away.

use std::collections::HashMap;

use qdrant_client::qdrant::{DeletePoints, Filter, PointStruct, SetPayloadPoints, UpdateMode, UpsertPoints};
use tokio::sync::oneshot;
use toller_core::DocumentId;
use toller_core::error::{Error, Result};

use super::client::upsert_of;
use super::conditions::{all_that_pass, is_one_of_texts};
use super::draft::{Change, Draft, Ended, Plan};
use super::entries::EntryKey;
use super::point::{ALIVE, DIED, ID, Prepared, number};
use super::record::Snapshot;
use super::rows::{IDS_AT_ONCE, Rows};
use super::shared::Shared;
use super::turn::OwnTurn;

/// Rows that one call writes.
const ROWS_AT_ONCE: usize = 256;

/// A change that waits for its commit.
#[derive(Debug)]
pub(super) struct Queued {
    /// The collection that it is meant for, should there be another one of its name by then.
    pub(super) instance: String,
    /// What to do.
    pub(super) change: Change,
    /// Where to tell how many rows it was about.
    pub(super) reply: oneshot::Sender<Result<u64>>,
}

/// Commits a group of changes, and tells each its outcome.
pub(super) async fn commit(shared: &Shared, key: &EntryKey, group: Vec<Queued>) {
    let turn = match OwnTurn::take(&shared.entries, key, shared.config.lease()).await {
        Ok(turn) => turn,
        Err(fault) => {
            for queued in group {
                // Who does not wait any more need not be told.
                let _ = queued.reply.send(Err(fault.clone()));
            }
            return;
        }
    };
    let mut outcomes = Vec::with_capacity(group.len());
    let committed = write(shared, key, turn, group, &mut outcomes).await;
    for (outcome, reply) in outcomes {
        let _ = reply.send(committed.clone().and(outcome));
    }
}

/// The outcome of a change, with where to tell it.
type Outcome = (Result<u64>, oneshot::Sender<Result<u64>>);

async fn write(
    shared: &Shared,
    key: &EntryKey,
    mut turn: OwnTurn<'_>,
    group: Vec<Queued>,
    outcomes: &mut Vec<Outcome>,
) -> Result<()> {
    let snapshot = turn.record.snapshot(&key.tenant);
    let to_sweep = turn.record.to_sweep();
    let mut draft = Draft::default();
    for queued in group {
        let outcome = match turn.extend().await {
            Ok(()) if queued.instance == snapshot.instance => {
                let rows = Rows { client: &shared.client, snapshot: &snapshot, patience: turn.patience() };
                draft.apply(queued.change, rows).await
            }
            Ok(()) => Err(Error::Aborted(format!("the collection \"{}\" was made anew meanwhile; retry", key.name))),
            Err(fault) => Err(fault),
        };
        outcomes.push((outcome, queued.reply));
    }
    let written = match sweep(shared, &mut turn, &snapshot, &to_sweep).await {
        Ok(()) => put_rows(shared, &mut turn, &snapshot, draft).await,
        Err(fault) => Err(fault),
    };
    match written {
        Ok(Some(plan)) => {
            let (number, has_ended) = (turn.number(), plan.ended != Ended::Ids(Vec::new()));
            turn.commit(plan.len, &to_sweep).await?;
            if has_ended {
                shared.collector.offer(shared, key, number);
            }
            Ok(())
        }
        Ok(None) => turn.release(&to_sweep).await,
        Err(fault) => {
            turn.abort().await;
            Err(fault)
        }
    }
}

/// Writes the rows of a draft and sets an end to those they replace; none when there is nothing to do.
async fn put_rows(shared: &Shared, turn: &mut OwnTurn<'_>, snapshot: &Snapshot, draft: Draft) -> Result<Option<Plan>> {
    turn.extend().await?;
    let rows = Rows { client: &shared.client, snapshot, patience: turn.patience() };
    let Some(plan) = draft.plan(rows).await? else { return Ok(None) };
    put_new(shared, turn, snapshot, &plan.new).await?;
    match &plan.ended {
        Ended::All => end(shared, turn, snapshot, snapshot.filter_of_unended(), turn.number()).await?,
        Ended::Ids(ids) => end_rows(shared, turn, snapshot, ids).await?,
    }
    turn.extend().await?;
    Ok(Some(plan))
}

/// Writes rows that are born with the commit of the turn.
pub(super) async fn put_new(
    shared: &Shared,
    turn: &mut OwnTurn<'_>,
    snapshot: &Snapshot,
    new: &[Prepared],
) -> Result<()> {
    for some_rows in new.chunks(ROWS_AT_ONCE) {
        turn.extend().await?;
        let born = turn.number();
        let points = some_rows.iter().map(|row| row.point(&snapshot.tenant, &snapshot.instance, born));
        let points = points.collect::<Result<Vec<PointStruct>>>()?;
        // Should this call arrive twice, late, it must not bring back to life what was ended meanwhile.
        let update_mode = Some(UpdateMode::InsertOnly.into());
        let request = UpsertPoints { update_mode, ..upsert_of(&snapshot.physical, points) };
        shared.client.upsert(turn.patience(), request).await?;
    }
    Ok(())
}

/// Ends rows of the snapshot with the commit of the turn.
pub(super) async fn end_rows(
    shared: &Shared,
    turn: &mut OwnTurn<'_>,
    snapshot: &Snapshot,
    ids: &[DocumentId],
) -> Result<()> {
    for some_ids in ids.chunks(IDS_AT_ONCE) {
        turn.extend().await?;
        let mut filter = snapshot.filter_of_unended();
        filter.must.push(is_one_of_texts(ID, some_ids.iter().map(ToString::to_string).collect()));
        end(shared, turn, snapshot, filter, turn.number()).await?;
    }
    Ok(())
}

/// Clears away what failed commits left.
pub(super) async fn sweep(shared: &Shared, turn: &mut OwnTurn<'_>, snapshot: &Snapshot, numbers: &[u64]) -> Result<()> {
    if numbers.is_empty() {
        return Ok(());
    }
    turn.extend().await?;
    let request = DeletePoints {
        collection_name: snapshot.physical.clone(),
        wait: Some(true),
        points: all_that_pass(snapshot.filter_of_born(numbers)),
        ..DeletePoints::default()
    };
    shared.client.delete(turn.patience(), request).await?;
    end(shared, turn, snapshot, snapshot.filter_of_ended(numbers), ALIVE).await
}

async fn end(shared: &Shared, turn: &OwnTurn<'_>, snapshot: &Snapshot, filter: Filter, died: u64) -> Result<()> {
    let request = SetPayloadPoints {
        collection_name: snapshot.physical.clone(),
        wait: Some(true),
        payload: HashMap::from([(DIED.to_owned(), number(died))]),
        points_selector: all_that_pass(filter),
        ..SetPayloadPoints::default()
    };
    shared.client.set_payload(turn.patience(), request).await
}
