//! The mutable state of one collection: its rows and the ordered index of its ids.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use toller_core::collection::VectorParams;
use toller_core::error::Result;
use toller_core::{DocumentId, Filter, RequestContext};

use super::block::Row;
use super::keyword_scan::{KeywordSnapshot, Leg};
use super::postings::{NewPostings, Postings};
use super::rows::{Position, Rows};
use super::scan;
use super::spaces::Spaces;
use crate::keyword::TermWeight;
use crate::keyword::bm25::idf;

/// Rows, where each id is, and for keyword search where each term is. The index of ids is ordered by id bytes, so that
/// scrolling needs no sort.
#[derive(Debug)]
pub(super) struct Table {
    rows: Arc<Rows>,
    positions: BTreeMap<DocumentId, Position>,
    postings: Option<Postings>,
    /// How many commits there were: change sets and deletes of everything.
    commits: u64,
}

impl Table {
    pub(super) fn new(params: &VectorParams, spaces: Arc<Spaces>) -> Self {
        Self {
            rows: Arc::new(Rows::new(spaces)),
            positions: BTreeMap::new(),
            postings: params.keyword.map(|_| Postings::default()),
            commits: 0,
        }
    }

    /// An empty one to take its place, by a commit.
    pub(super) fn emptied(&self, params: &VectorParams, spaces: Arc<Spaces>) -> Self {
        Self { commits: self.commits + 1, ..Self::new(params, spaces) }
    }

    /// The rows as they are now. O(1); later writes do not show in it.
    pub(super) fn snapshot(&self) -> Arc<Rows> {
        Arc::clone(&self.rows)
    }

    /// What a search for these terms needs of the present state; none without an index. O(terms).
    pub(super) fn keyword_snapshot(&self, query: &[TermWeight]) -> Option<KeywordSnapshot> {
        let postings = self.postings.as_ref()?;
        let records = self.len() as u64;
        let legs = query.iter().filter_map(|element| {
            let list = Arc::clone(postings.list(element.term)?);
            Some(Leg { weight: f64::from(element.weight) * idf(records, list.len() as u64), list })
        });
        Some(KeywordSnapshot { rows: self.snapshot(), legs: legs.collect() })
    }

    /// Number of records.
    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(super) fn contains(&self, id: &DocumentId) -> bool {
        self.positions.contains_key(id)
    }

    pub(super) fn position(&self, id: &DocumentId) -> Option<Position> {
        self.positions.get(id).copied()
    }

    /// Up to `limit` ids from a bound on, in the order of id bytes. O(log n + limit).
    pub(super) fn ids_from(&self, from: Bound<&DocumentId>, limit: usize) -> Vec<(DocumentId, Position)> {
        let range = self.positions.range::<DocumentId, _>((from, Bound::Unbounded));
        range.take(limit).map(|(id, position)| (id.clone(), *position)).collect()
    }

    /// Writes rows, with their terms where the collection has an index of them: a known id keeps its place, a new one
    /// goes to the end.
    pub(super) fn upsert(&mut self, rows: Vec<Row>, new_postings: NewPostings) {
        let table = Arc::make_mut(&mut self.rows);
        let mut sequences = Vec::with_capacity(rows.len());
        for row in rows {
            let position = match self.positions.get(&row.document.id) {
                Some(position) => {
                    table.replace(*position, row);
                    *position
                }
                None => {
                    let id = row.document.id.clone();
                    let position = table.append(row);
                    self.positions.insert(id, position);
                    position
                }
            };
            sequences.extend(table.sequence(position));
        }
        if let Some(postings) = &mut self.postings {
            postings.write(&sequences, new_postings);
        }
    }

    /// Removes records and writes rows, as [`Self::remove`] and [`Self::upsert`] do, in one commit.
    pub(super) fn apply(&mut self, ids: &[DocumentId], rows: Vec<Row>, new_postings: NewPostings) -> u64 {
        let removed = self.remove(ids);
        self.upsert(rows, new_postings);
        self.commits += 1;
        removed
    }

    /// How many commits there were: what is read at two times with the same number is not of both sides of one.
    pub(super) fn commits(&self) -> u64 {
        self.commits
    }

    /// Removes records by id and returns how many were there.
    pub(super) fn remove(&mut self, ids: &[DocumentId]) -> u64 {
        let mut removed = 0;
        let mut touched = BTreeSet::new();
        let mut sequences = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(position) = self.positions.remove(id) {
                sequences.extend(self.rows.sequence(position));
                touched.insert(Arc::make_mut(&mut self.rows).remove(position));
                removed += 1;
            }
        }
        if let Some(postings) = &mut self.postings {
            postings.remove(&sequences);
        }
        for number in touched {
            let positions = &mut self.positions;
            Arc::make_mut(&mut self.rows).compact(number, |id, position| {
                if let Some(known) = positions.get_mut(id) {
                    *known = position;
                }
            });
        }
        removed
    }
}

/// What a filter selects in a snapshot, so that the long part of a delete by filter needs no lock.
#[derive(Debug)]
pub(super) struct Selection {
    rows: Arc<Rows>,
    ids_by_block: HashMap<u64, Vec<DocumentId>>,
}

impl Selection {
    /// Evaluates the filter on every row of the snapshot.
    ///
    /// # Errors
    /// `Cancelled` and `DeadlineExceeded` from the context.
    pub(super) fn new(rows: Arc<Rows>, filter: &Filter, context: &RequestContext) -> Result<Self> {
        let mut ids_by_block = HashMap::new();
        for numbered in rows.blocks() {
            context.check("before the delete")?;
            ids_by_block.insert(numbered.number, scan::matching_ids(&numbered.block, filter));
        }
        Ok(Self { rows, ids_by_block })
    }

    /// The ids that the filter selects in `table` now: blocks that nobody wrote to since are taken from the snapshot, the
    /// others are evaluated again.
    pub(super) fn in_present_state(mut self, table: &Table, filter: &Filter) -> Vec<DocumentId> {
        let mut ids = Vec::new();
        for numbered in table.rows.blocks() {
            let unchanged = self.rows.block(numbered.number).is_some_and(|old| Arc::ptr_eq(old, &numbered.block));
            match self.ids_by_block.remove(&numbered.number) {
                Some(selected) if unchanged => ids.extend(selected),
                _ => ids.extend(scan::matching_ids(&numbered.block, filter)),
            }
        }
        ids
    }
}
