//! What a commit will change, before it is written: changes in their order, on top of the rows that are there.

use std::collections::{BTreeMap, BTreeSet};

use toller_core::error::Result;
use toller_core::{DocumentId, Filter, RequestContext};

use super::point::Prepared;
use super::turn_rows::TurnRows;

/// A change of rows.
#[derive(Debug)]
pub(super) enum Change {
    /// Write these, whose ids are distinct.
    Upsert(Vec<Prepared>),
    /// Remove those of these ids that are there.
    Delete(Vec<DocumentId>),
    /// Remove all that match, for one who waits.
    DeleteMatching(Filter, RequestContext),
    /// Remove everything.
    DeleteAll,
}

impl Change {
    /// About how much work it is.
    pub(super) fn size(&self) -> usize {
        match self {
            Self::Upsert(rows) => rows.len(),
            Self::Delete(ids) => ids.len(),
            Self::DeleteMatching(..) | Self::DeleteAll => 1,
        }
    }
}

/// The rows after some changes, as differences to those that are there.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// Does nothing remain of what is there?
    is_cleared: bool,
    /// The new state of ids: a row, or none.
    changed: BTreeMap<DocumentId, Option<Prepared>>,
}

/// What is to be done for a commit.
#[derive(Debug)]
pub(super) struct Plan {
    /// Rows to write.
    pub(super) new: Vec<Prepared>,
    /// Rows to end: these ids, or all.
    pub(super) ended: Ended,
    /// How many rows there are afterwards.
    pub(super) len: u64,
}

/// Which of the rows that are there end with a commit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Those of these ids.
    Ids(Vec<DocumentId>),
    /// Every one.
    All,
}

impl Draft {
    /// Adds a change; returns how many rows it was about. A change that fails is not a part of the draft.
    pub(super) async fn apply(&mut self, change: Change, rows: &mut TurnRows<'_, '_>) -> Result<u64> {
        match change {
            Change::Upsert(new) => {
                let count = new.len() as u64;
                self.changed.extend(new.into_iter().map(|row| (row.document.id.clone(), Some(row))));
                Ok(count)
            }
            Change::Delete(ids) => {
                let ids: BTreeSet<DocumentId> = ids.into_iter().collect();
                let unknown = ids.iter().filter(|id| !self.changed.contains_key(*id)).cloned();
                let unknown: Vec<DocumentId> = if self.is_cleared { Vec::new() } else { unknown.collect() };
                let mut present = rows.present(&unknown).await?;
                present.extend(ids.into_iter().filter(|id| matches!(self.changed.get(id), Some(Some(_)))));
                Ok(self.remove(present))
            }
            Change::DeleteMatching(filter, context) => {
                context.check("before the delete")?;
                let there = if self.is_cleared { Vec::new() } else { rows.matching_ids(&filter, &context).await? };
                context.check("before the delete")?;
                let mut matching: BTreeSet<DocumentId> =
                    there.into_iter().filter(|id| !self.changed.contains_key(id)).collect();
                let drafted = self.changed.values().flatten().map(|row| &row.document);
                matching.extend(
                    drafted.filter(|document| filter.matches(&document.metadata)).map(|document| document.id.clone()),
                );
                Ok(self.remove(matching))
            }
            Change::DeleteAll => {
                let count = self.len(rows).await?;
                self.is_cleared = true;
                self.changed.clear();
                Ok(count)
            }
        }
    }

    /// What is to be done; none when nothing is.
    pub(super) async fn plan(self, rows: &mut TurnRows<'_, '_>) -> Result<Option<Plan>> {
        if self.changed.is_empty() && (!self.is_cleared || rows.snapshot.len == 0) {
            return Ok(None);
        }
        let ended = if self.is_cleared {
            Ended::All
        } else {
            Ended::Ids(rows.present(&self.changed_ids()).await?.into_iter().collect())
        };
        let new: Vec<Prepared> = self.changed.into_values().flatten().collect();
        let gone = match &ended {
            Ended::Ids(ids) => ids.len() as u64,
            Ended::All => rows.snapshot.len,
        };
        if new.is_empty() && gone == 0 {
            return Ok(None);
        }
        let len = rows.snapshot.len.saturating_sub(gone) + new.len() as u64;
        Ok(Some(Plan { new, ended, len }))
    }

    fn remove(&mut self, ids: BTreeSet<DocumentId>) -> u64 {
        let count = ids.len() as u64;
        self.changed.extend(ids.into_iter().map(|id| (id, None)));
        count
    }

    fn changed_ids(&self) -> Vec<DocumentId> {
        self.changed.keys().cloned().collect()
    }

    async fn len(&self, rows: &mut TurnRows<'_, '_>) -> Result<u64> {
        let drafted = self.changed.values().flatten().count() as u64;
        if self.is_cleared {
            return Ok(drafted);
        }
        let replaced = rows.present(&self.changed_ids()).await?.len() as u64;
        Ok(rows.snapshot.len.saturating_sub(replaced) + drafted)
    }
}
