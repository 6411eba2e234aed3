//! A pass over the posting lists of a query's terms.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;

use toller_core::error::{Error, Result};
use toller_core::vector_store::ScoredRecord;
use toller_core::{Filter, Metric, RequestContext};

use super::posting_list::{Place, PostingList};
use super::rows::Rows;
use super::scan::scored_record;
use super::top_k::{Candidate, TopK};

/// Matching rows between two looks at the caller's deadline.
const ROWS_BETWEEN_CHECKS: usize = 1024;

/// One term of a query with all that is needed to score it.
#[derive(Debug)]
pub(super) struct Leg {
    /// The term's occurrences in the query times its inverse document frequency.
    pub(super) weight: f64,
    /// Where it stands.
    pub(super) list: Arc<PostingList>,
}

/// One state of a collection, as far as a query needs it.
#[derive(Debug)]
pub(super) struct KeywordSnapshot {
    pub(super) rows: Arc<Rows>,
    /// The query's terms that stand anywhere, in ascending order of their numbers.
    pub(super) legs: Vec<Leg>,
}

impl KeywordSnapshot {
    /// Entries of all lists: what a search reads.
    pub(super) fn postings(&self) -> usize {
        self.legs.iter().map(|leg| leg.list.len()).sum()
    }
}

/// The best min(limit, matches) rows: filter, then score, best first, then insertion order. Exact.
///
/// The lists are merged row by row: O(p·log t + m·(log n + log limit)) for t terms with p postings in m of n rows; a
/// filter is evaluated on rows whose score is among the best so far. Beside the result it needs O(t + limit).
///
/// # Errors
/// `Cancelled` and `DeadlineExceeded` from the context, looked at every thousand or so rows.
pub(super) fn search(
    snapshot: &KeywordSnapshot,
    filter: Option<&Filter>,
    limit: usize,
    context: &RequestContext,
) -> Result<Vec<ScoredRecord>> {
    let rows = snapshot.rows.as_ref();
    // More is better, as for inner products, which scores of sparse vectors are.
    let mut best = TopK::new(Metric::Dot, limit.min(rows.live()));
    let mut merge = Merge::new(&snapshot.legs);
    let mut seen = 0_usize;
    while let Some((sequence, score)) = merge.next_row() {
        if seen.is_multiple_of(ROWS_BETWEEN_CHECKS) {
            context.check("during the search")?;
        }
        seen += 1;
        if best.score_to_beat().is_some_and(|worst| score <= worst) {
            continue;
        }
        let found = rows.locate(sequence).and_then(|(block, slot)| {
            let document = rows.blocks().get(block)?.block.document(slot)?;
            Some((block, slot, document))
        });
        let (block, slot, document) =
            found.ok_or_else(|| Error::Internal("the keyword index names a row that is not there".to_owned()))?;
        if filter.is_none_or(|filter| filter.matches(&document.metadata)) {
            best.offer(Candidate { score, block, slot });
        }
    }
    best.into_best_first().into_iter().map(|candidate| scored_record(rows, candidate)).collect()
}

/// Walks several ascending lists at once.
struct Merge<'a> {
    legs: &'a [Leg],
    /// The next row of each leg that has one, with the leg and the place in its list; the smallest is on top. Equal
    /// rows come in the order of the legs, so that sums are rounded the same way every time.
    heads: BinaryHeap<Reverse<(u64, usize, Place)>>,
}

impl<'a> Merge<'a> {
    fn new(legs: &'a [Leg]) -> Self {
        let first = Place::default();
        let first_rows =
            legs.iter().enumerate().filter_map(|(leg, terms)| Some(Reverse((terms.list.get(first)?.0, leg, first))));
        Self { legs, heads: first_rows.collect() }
    }

    /// The next row that any leg has, and its score over all legs.
    fn next_row(&mut self) -> Option<(u64, f64)> {
        let row = self.heads.peek()?.0.0;
        let mut score = 0.0;
        while let Some(mut head) = self.heads.peek_mut() {
            let Reverse((sequence, leg, place)) = *head;
            if sequence != row {
                break;
            }
            let found = self.legs.get(leg);
            let weight_in_row = found.and_then(|found| Some(found.weight * f64::from(found.list.get(place)?.1)));
            score += weight_in_row.unwrap_or_default();
            let next = found.and_then(|found| {
                let after = found.list.after(place);
                Some((found.list.get(after)?.0, leg, after))
            });
            match next {
                // The heap finds the new place of this head when `head` is dropped.
                Some(next) => *head = Reverse(next),
                None => {
                    PeekMut::pop(head);
                }
            }
        }
        Some((row, score))
    }
}
