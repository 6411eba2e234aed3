//! One commit: a group of changes that becomes visible at once, or not at all.
//!
//! In this order: take the turn; write the new rows, which nobody sees yet; set an end to the rows that they replace, which
//! everybody sees still; and name the commit in the collection's record, by one swap. A writer that is gone at any point before
//! that leaves rows that the next one clears away.

use tokio::sync::oneshot;
use toller_core::error::{Error, Result};

use super::draft::{Change, Draft, Ended, Plan};
use super::entries::EntryKey;
use super::shared::Shared;
use super::turn::OwnTurn;
use super::turn_rows::TurnRows;

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
        let outcome = if queued.instance == snapshot.instance {
            let mut rows = TurnRows { client: &shared.client, snapshot: &snapshot, turn: &mut turn };
            draft.apply(queued.change, &mut rows).await
        } else {
            Err(Error::Aborted(format!("the collection \"{}\" was made anew meanwhile; retry", key.name)))
        };
        outcomes.push((outcome, queued.reply));
    }
    let rows = TurnRows { client: &shared.client, snapshot: &snapshot, turn: &mut turn };
    let committed = match put_rows(rows, draft, &to_sweep).await {
        Ok(Some(plan)) => {
            let (number, has_ended) = (turn.number(), plan.ended != Ended::Ids(Vec::new()));
            let committed = turn.commit(plan.len, &to_sweep).await;
            if committed.is_ok() && has_ended {
                shared.collector.offer(shared, key, number);
            }
            committed
        }
        Ok(None) => turn.release(&to_sweep).await,
        Err(fault) => {
            turn.abort().await;
            Err(fault)
        }
    };
    if committed.is_err() {
        shared.clear_after_drop(key, &snapshot).await;
    }
    committed
}

/// Writes the rows of a draft and sets an end to those they replace; none when there is nothing to do.
async fn put_rows(mut rows: TurnRows<'_, '_>, draft: Draft, to_sweep: &[u64]) -> Result<Option<Plan>> {
    rows.sweep(to_sweep).await?;
    let Some(plan) = draft.plan(&mut rows).await? else { return Ok(None) };
    rows.put_new(&plan.new).await?;
    match &plan.ended {
        Ended::All => rows.end_all().await?,
        Ended::Ids(ids) => rows.end(ids).await?,
    }
    rows.turn.extend().await?;
    Ok(Some(plan))
}
