//! Search: the server proposes, the metric and the filter decide.
//!
//! The server gives candidates by its own scores (in `f32`) and a weaker filter. They are scored and filtered again as
//! `toller-core` defines it; when too few are left, more are asked for, and at last every row is looked at. So exactly
//! min(limit, matches) come back. Without approximation they are the best ones, ties included; with it, an index may miss some.

use qdrant_client::qdrant::{
    DenseVector, QuantizationSearchParams, Query, QueryPoints, SearchParams, SparseVector, VectorInput, query,
    vector_input,
};
use toller_core::error::Result;
use toller_core::metric::squared_norm;
use toller_core::vector_store::{ScoredRecord, VectorSearch};
use toller_core::{Document, Metric, Record};

use super::point::{DENSE, StoredVectors, as_compared, dense_names, document_of, named, with_document, with_vectors};
use super::rows::Rows;
use crate::backends::best::Best;

/// Candidates beyond the limit, so that a tie at the limit is seen.
pub(super) const SLACK: usize = 16;

/// How many times as many candidates are asked for when too few matched.
pub(super) const WIDER: usize = 4;

/// Most candidates that are asked for beyond the limit; a scan, which keeps only the best, takes over from there.
pub(super) const MAX_CANDIDATES: usize = 4096;

/// Neighbours that a search in an index keeps in view: at least this many, and twice as many as are asked for.
const MIN_VIEW: usize = 128;

/// How many times as many with a filter: only those that match are walked over, so that there are fewer ways to the best.
const FILTERED_VIEW: usize = 2;

/// What one question to the server gave.
struct Candidates {
    /// Those that match, best first.
    matching: Vec<ScoredRecord>,
    /// The worst score of all that the server gave, matching or not.
    worst: Option<f64>,
    /// Are there no others?
    are_all: bool,
    /// How far the server's scores may be from the true ones.
    tolerance: f64,
}

/// A search with what follows from it.
#[derive(Debug, Clone, Copy)]
struct Question<'a> {
    search: VectorSearch<'a>,
    /// Of the space that is searched.
    metric: Metric,
}

impl Question<'_> {
    fn matches(&self, document: &Document) -> bool {
        self.search.filter.is_none_or(|filter| filter.matches(&document.metadata))
    }

    /// The score of a record; none when it has no vector in the space.
    fn score(&self, record: &Record) -> Option<f64> {
        let stored = record.vector_in(self.search.using)?;
        Some(self.metric.score(self.search.vector.as_slice(), stored.as_slice()))
    }
}

/// The best records for a vector, by the metric of the space that is searched.
pub(super) async fn search(
    rows: Rows<'_>,
    search: VectorSearch<'_>,
    metric: Metric,
    mut is_exact: bool,
) -> Result<Vec<ScoredRecord>> {
    let limit = search.limit;
    let total = usize::try_from(rows.snapshot.len).unwrap_or(usize::MAX);
    if limit == 0 || total == 0 {
        return Ok(Vec::new());
    }
    let question = Question { search, metric };
    let mut count = limit.saturating_add(SLACK);
    let most = count.max(MAX_CANDIDATES);
    while count < total && count <= most {
        let Some(candidates) = ask(rows, question, count, is_exact).await? else { break };
        let mut matching = candidates.matching;
        if candidates.are_all && is_exact {
            matching.truncate(limit);
            return Ok(matching);
        }
        let last = matching.get(limit - 1).map(|hit| hit.score);
        let wider = count.saturating_mul(WIDER);
        // Equal scores are cut by their ids, as everywhere, unless there are more of them than an approximate search looks at.
        let is_enough = !is_exact && (candidates.are_all || (wider > most && total > most));
        if let Some(last) = last
            && (is_enough || is_clear(metric, last, candidates.worst, candidates.tolerance))
        {
            matching.truncate(limit);
            return Ok(matching);
        }
        if candidates.are_all {
            // The index may have missed some.
            is_exact = true;
        } else {
            count = wider;
        }
    }
    scan(rows, question).await
}

/// Asks the server; none when its numbers overflowed, so that its order means nothing.
async fn ask(rows: Rows<'_>, question: Question<'_>, count: usize, is_exact: bool) -> Result<Option<Candidates>> {
    let Question { search, metric } = question;
    let (vector, params) = (search.vector, &rows.snapshot.params);
    // The server takes more by the quantised vectors, and gives the best of them by the full ones.
    let quantization = params.quantization.map(|quantization| QuantizationSearchParams {
        ignore: Some(false),
        rescore: Some(true),
        oversampling: Some(quantization.oversampling),
    });
    let oversampling = params.quantization.map_or(1.0, |quantization| quantization.oversampling);
    let candidates = (count as f64 * oversampling).ceil() as usize;
    let view = candidates.saturating_mul(2).max(MIN_VIEW);
    let view = if search.filter.is_some() { view.saturating_mul(FILTERED_VIEW) } else { view };
    let search_params =
        SearchParams { exact: Some(is_exact), hnsw_ef: Some(view as u64), quantization, ..SearchParams::default() };
    let request = QueryPoints {
        collection_name: rows.snapshot.physical.clone(),
        query: nearest(vector_input::Variant::Dense(DenseVector { data: as_compared(vector, metric) })),
        using: Some(search.using.map_or_else(|| DENSE.to_owned(), named)),
        filter: Some(rows.filter(search.filter)),
        params: Some(search_params),
        limit: Some(count as u64),
        with_payload: with_document(),
        with_vectors: with_vectors(dense_names(params)),
        ..QueryPoints::default()
    };
    let points = rows.client.query(rows.patience, request).await?;
    if points.iter().any(|point| !point.score.is_finite()) {
        return Ok(None);
    }
    let are_all = points.len() < count;
    let mut best = Best::new(metric, usize::MAX);
    let mut worst: Option<f64> = None;
    let mut longest: f64 = 0.0;
    for point in points {
        let record = StoredVectors::of(point.vectors).record(document_of(point.payload)?, params)?;
        let Some(score) = question.score(&record) else { continue };
        longest = longest.max(record.vector_in(search.using).map_or(0.0, |stored| squared_norm(stored.as_slice())));
        if worst.is_none_or(|worst| metric.better_first(worst, score).is_lt()) {
            worst = Some(score);
        }
        if question.matches(&record.document) {
            best.offer(ScoredRecord { record, score });
        }
    }
    let scale = match metric {
        Metric::Cosine => 1.0,
        Metric::Dot => (squared_norm(vector.as_slice()) * longest).sqrt(),
        Metric::Euclidean => worst.unwrap_or_default(),
    };
    let tolerance = rounding(vector.dimension()) * scale;
    Ok(Some(Candidates { matching: best.into_best_first(), worst, are_all, tolerance }))
}

/// The question for the nearest rows.
pub(super) fn nearest(vector: vector_input::Variant) -> Option<Query> {
    Some(Query { variant: Some(query::Variant::Nearest(VectorInput { variant: Some(vector) })) })
}

/// The terms of a query as a question for the nearest rows.
pub(super) fn nearest_to_terms(terms: &[(u32, f64)]) -> Option<Query> {
    let (indices, values) = terms.iter().map(|(term, weight)| (*term, *weight as f32)).unzip();
    nearest(vector_input::Variant::Sparse(SparseVector { values, indices }))
}

/// Relative error of a sum of so many products in `f32`, which the server adds up in lanes.
fn rounding(dimension: usize) -> f64 {
    f64::from(f32::EPSILON) * (16.0 + dimension as f64 / 4.0)
}

/// Is `last` better than everything that the server did not give? That is at most as good as the worst it gave, but for
/// rounding.
pub(super) fn is_clear(metric: Metric, last: f64, worst: Option<f64>, tolerance: f64) -> bool {
    let Some(worst) = worst else { return true };
    let distance = if metric.more_is_better() { last - worst } else { worst - last };
    distance > 2.0 * tolerance
}

/// Looks at every row that passes the weaker filter. O(n) reads; memory for the best ones and one page.
async fn scan(rows: Rows<'_>, question: Question<'_>) -> Result<Vec<ScoredRecord>> {
    let mut best = Best::new(question.metric, question.search.limit);
    let pushed = rows.filter(question.search.filter);
    rows.each_page(pushed, with_document(), dense_names(&rows.snapshot.params), |points| {
        for point in points {
            let record = rows.record_of(point)?;
            let Some(score) = question.score(&record) else { continue };
            if question.matches(&record.document) {
                best.offer(ScoredRecord { record, score });
            }
        }
        Ok(())
    })
    .await?;
    Ok(best.into_best_first())
}
