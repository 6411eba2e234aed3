//! Many changes in one commit of its own, written while they come: memory holds one answer of their source, and all ids.
//!
//! The order is that of any commit (see [`super::commit`]): new rows first, which nobody sees, then the ends of those they
//! replace, then the swap. The turn is made longer while the source is waited for.

use std::collections::BTreeSet;
use std::pin::pin;

use toller_core::error::{Error, Result};
use toller_core::vector_store::{Applied, ChangeSet, RecordSource};
use toller_core::{DocumentId, Record, RequestContext};

use super::entries::EntryKey;
use super::point::Prepared;
use super::record::Snapshot;
use super::rows::IDS_AT_ONCE;
use super::shared::Shared;
use super::turn::OwnTurn;
use super::turn_rows::TurnRows;
use crate::backends::checks::CheckedIds;

/// How often in the time of a turn it is looked after while the source is waited for.
const LOOKS_PER_TURN: u32 = 4;

/// Commits a change set.
pub(super) async fn apply(
    shared: &Shared,
    context: &RequestContext,
    key: &EntryKey,
    instance: &str,
    changes: ChangeSet,
) -> Result<Applied> {
    context.check("before the write")?;
    let mut turn = OwnTurn::take(&shared.entries, key, shared.config.lease()).await?;
    let snapshot = turn.record.snapshot(&key.tenant);
    let to_sweep = turn.record.to_sweep();
    if snapshot.instance != instance {
        turn.release(&[]).await?;
        return Err(Error::Aborted(format!("the collection \"{}\" was made anew meanwhile; retry", key.name)));
    }
    let mut rows = TurnRows { client: &shared.client, snapshot: &snapshot, turn: &mut turn };
    let written = match rows.sweep(&to_sweep).await {
        Ok(()) => write(shared, context, rows, changes).await,
        Err(fault) => Err(fault),
    };
    let applied = match written {
        Ok(Written { applied, ended: 0 }) if applied.upserted == 0 => turn.release(&to_sweep).await.map(|()| applied),
        Ok(Written { applied, ended }) => {
            let number = turn.number();
            let len = snapshot.len.saturating_sub(ended) + applied.upserted;
            let committed = turn.commit(len, &to_sweep).await;
            if committed.is_ok() && ended > 0 {
                shared.collector.offer(shared, key, number);
            }
            committed.map(|()| applied)
        }
        Err(fault) => {
            turn.abort().await;
            Err(fault)
        }
    };
    if applied.is_err() {
        shared.clear_after_drop(key, &snapshot).await;
    }
    applied
}

/// What was written and does not count yet.
struct Written {
    applied: Applied,
    /// Rows that end with the commit.
    ended: u64,
}

async fn write(
    shared: &Shared,
    context: &RequestContext,
    mut rows: TurnRows<'_, '_>,
    changes: ChangeSet,
) -> Result<Written> {
    let ChangeSet { delete, mut upsert } = changes;
    let mut ids = CheckedIds::default();
    while let Some(records) = next(rows.turn, shared, upsert.as_mut()).await? {
        context.check("during the write")?;
        let (checked, prepared) = prepare(ids, rows.snapshot, records).await?;
        ids = checked;
        rows.put_new(&prepared).await?;
    }
    let removed = ids.others(delete);
    let written: Vec<DocumentId> = ids.into_ids().collect();
    let upserted = written.len() as u64;

    let all: Vec<DocumentId> = written.into_iter().chain(removed.iter().cloned()).collect();
    let mut ended = BTreeSet::new();
    for some in all.chunks(IDS_AT_ONCE) {
        context.check("during the write")?;
        ended.extend(rows.present(some).await?);
    }
    let deleted = removed.intersection(&ended).count() as u64;
    let ended: Vec<DocumentId> = ended.into_iter().collect();
    rows.end(&ended).await?;
    context.check("during the write")?;
    rows.turn.extend().await?;
    Ok(Written { applied: Applied { upserted, deleted }, ended: ended.len() as u64 })
}

/// The next records of the source, however long they take.
async fn next(turn: &mut OwnTurn<'_>, shared: &Shared, source: &mut dyn RecordSource) -> Result<Option<Vec<Record>>> {
    let mut next = pin!(source.next());
    loop {
        match tokio::time::timeout(shared.config.lease() / LOOKS_PER_TURN, next.as_mut()).await {
            Ok(records) => return records,
            Err(_) => turn.extend().await?,
        }
    }
}

/// Checks records, and makes them ready.
async fn prepare(
    mut ids: CheckedIds,
    snapshot: &Snapshot,
    records: Vec<Record>,
) -> Result<(CheckedIds, Vec<Prepared>)> {
    let params = snapshot.params.clone();
    let prepare = move || {
        ids.check(&params, &records)?;
        Ok((ids, records.into_iter().map(|record| Prepared::new(record, &params)).collect()))
    };
    tokio::task::spawn_blocking(prepare)
        .await
        .map_err(|fault| Error::Internal(format!("records could not be made ready: {fault}")))?
}
