//! Passes over all rows of a snapshot: search and filter.

use toller_core::error::{Error, Result};
use toller_core::metric::{cosine_from_parts, dot};
use toller_core::vector_store::ScoredRecord;
use toller_core::{DocumentId, Filter, Metric, RequestContext, Vector, VectorName};

use super::block::Block;
use super::kernel::{Gate, quick_products};
use super::rows::Rows;
use super::top_k::{Candidate, TopK};

/// The best min(limit, matches) rows for `query` in one space, best first, then insertion order. Exact.
/// Rows without a vector there do not match.
///
/// O(n·d + n·log limit) for n rows of dimension d, on one thread: concurrent queries use the other ones. Beside the result
/// it needs O(limit) and the space for one block's slots.
///
/// # Errors
/// `InvalidArgument` for `vector_name` when there is no such space; `Cancelled` and `DeadlineExceeded` from the context,
/// looked at once per block.
pub(super) fn search(
    rows: &Rows,
    query: &Vector,
    using: Option<&VectorName>,
    filter: Option<&Filter>,
    limit: usize,
    context: &RequestContext,
) -> Result<Vec<ScoredRecord>> {
    let (column, metric) = rows.spaces().column(using)?;
    let query = query.as_slice();
    let gate = Gate::new(metric, query);
    let mut best = TopK::new(metric, limit.min(rows.live()));
    let mut slots = Vec::new();
    let mut products = Vec::new();
    for (index, numbered) in rows.blocks().iter().enumerate() {
        context.check("during the search")?;
        let block = numbered.block.as_ref();
        let Some(column) = block.column(column) else { continue };
        // Once there are as many hits as are wanted, the few rows that may beat one are cheaper to ask than all.
        let (first, last) = if best.score_to_beat().is_some() { (None, filter) } else { (filter, None) };
        slots.clear();
        slots.extend(matching_slots(block, first).filter(|slot| column.squared_norm(*slot).is_some()));
        products.clear();
        quick_products(query, column.elements(), &slots, &mut products);
        for (slot, product) in slots.iter().zip(&products) {
            let Some(squared_norm) = column.squared_norm(*slot) else { continue };
            if best.score_to_beat().is_some_and(|score| !gate.may_beat(*product, squared_norm, score)) {
                continue;
            }
            if last.is_some_and(|filter| !is_match(block, *slot, filter)) {
                continue;
            }
            let Some(vector) = column.vector(*slot) else { continue };
            let score = match metric {
                // The same as `metric.score`, with both lengths known.
                Metric::Cosine => cosine_from_parts(dot(query, vector), gate.query_squared_norm(), squared_norm),
                Metric::Dot | Metric::Euclidean => metric.score(query, vector),
            };
            best.offer(Candidate { score, block: index, slot: *slot });
        }
    }
    best.into_best_first().into_iter().map(|candidate| scored_record(rows, candidate)).collect()
}

/// The row of a candidate, with its score.
pub(super) fn scored_record(rows: &Rows, candidate: Candidate) -> Result<ScoredRecord> {
    let block = rows.blocks().get(candidate.block);
    let record = match block {
        Some(numbered) => rows.spaces().record_of(&numbered.block, candidate.slot)?,
        None => None,
    };
    let record = record.ok_or_else(|| Error::Internal("a row left a snapshot during a search".to_owned()))?;
    Ok(ScoredRecord { record, score: candidate.score })
}

/// How many rows match. O(n · size of the filter).
///
/// # Errors
/// As [`search`].
pub(super) fn count(rows: &Rows, filter: &Filter, context: &RequestContext) -> Result<u64> {
    let mut matches = 0;
    for numbered in rows.blocks() {
        context.check("during the count")?;
        matches += matching_slots(&numbered.block, Some(filter)).count() as u64;
    }
    Ok(matches)
}

/// The ids of the matching rows of a block.
pub(super) fn matching_ids(block: &Block, filter: &Filter) -> Vec<DocumentId> {
    let slots = matching_slots(block, Some(filter));
    slots.filter_map(|slot| block.document(slot).map(|document| document.id.clone())).collect()
}

fn is_match(block: &Block, slot: usize, filter: &Filter) -> bool {
    block.document(slot).is_some_and(|document| filter.matches(&document.metadata))
}

fn matching_slots<'a>(block: &'a Block, filter: Option<&'a Filter>) -> impl Iterator<Item = usize> + 'a {
    block.documents().iter().enumerate().filter_map(move |(slot, document)| {
        let document = document.as_ref()?;
        filter.is_none_or(|filter| filter.matches(&document.metadata)).then_some(slot)
    })
}
