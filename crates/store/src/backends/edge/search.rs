//! Search: the engine proposes, the metric and the filter decide.
//!
//! The engine gives candidates by its own scores (in `f32`) and a weaker filter. They are scored and filtered again as
//! `toller-core` defines it; when too few are left, more are asked for, and at last every point is looked at. So exactly
//! min(limit, matches) come back. Without approximation they are the best ones, ties included; with it, an index or quantised
//! vectors may miss some.
//!
//! A record without a vector in the space that is searched is no match: the engine does not give it, and the scan passes it
//! over.

use qdrant_edge as engine;
use toller_core::error::Result;
use toller_core::metric::squared_norm;
use toller_core::vector_store::{ScoredRecord, VectorSearch};
use toller_core::{Document, Metric, Record, RequestContext};

use super::engine::{DENSE, named};
use super::error::engine_fault;
use super::point::{as_compared, document_of, record_of, with_dense};
use super::pushdown::push_down;
use super::shard::Shard;
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

/// What one question to the engine gave.
struct Candidates {
    /// Those that match, best first.
    matching: Vec<ScoredRecord>,
    /// The worst score of all that the engine gave, matching or not.
    worst: Option<f64>,
    /// Are there no others?
    are_all: bool,
    /// How far the engine's scores may be from the true ones.
    tolerance: f64,
}

/// A search with what follows from it.
struct Question<'a> {
    search: VectorSearch<'a>,
    /// Of the space that is searched.
    metric: Metric,
    /// The engine's name of that space.
    space: String,
    /// What the engine can be given of the filter.
    pushed: Option<engine::Filter>,
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

/// The best records for a vector.
pub(super) fn search(shard: &Shard, search: VectorSearch<'_>, context: &RequestContext) -> Result<Vec<ScoredRecord>> {
    let limit = search.limit;
    let total = shard.len();
    if limit == 0 || total == 0 {
        return Ok(Vec::new());
    }
    let question = Question {
        metric: shard.params.space(search.using)?.metric,
        space: search.using.map_or_else(|| DENSE.to_owned(), named),
        pushed: search.filter.and_then(push_down).map(|pushed| pushed.filter),
        search,
    };
    let mut is_exact = shard.config.exact;
    let mut count = limit.saturating_add(SLACK);
    let most = count.max(MAX_CANDIDATES);
    while count < total && count <= most {
        context.check("during the search")?;
        let Some(candidates) = ask(shard, &question, count, is_exact)? else { break };
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
            && (is_enough || is_clear(question.metric, last, candidates.worst, candidates.tolerance))
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
    scan(shard, &question, context)
}

/// Asks the engine; none when its numbers overflowed, so that its order means nothing.
fn ask(shard: &Shard, question: &Question<'_>, count: usize, is_exact: bool) -> Result<Option<Candidates>> {
    let (metric, vector) = (question.metric, question.search.vector);
    let query = engine::VectorInternal::Dense(as_compared(vector, metric));
    // The engine takes more by the quantised vectors, and gives the best of them by the full ones.
    let quantization = shard.params.quantization.map(|quantization| engine::QuantizationSearchParams {
        ignore: false,
        rescore: Some(true),
        oversampling: Some(quantization.oversampling),
    });
    let oversampling = shard.params.quantization.map_or(1.0, |quantization| quantization.oversampling);
    let candidates = (count as f64 * oversampling).ceil() as usize;
    let view = candidates.saturating_mul(2).max(MIN_VIEW);
    let params = engine::SearchParams {
        exact: is_exact,
        hnsw_ef: Some(if question.search.filter.is_some() { view.saturating_mul(FILTERED_VIEW) } else { view }),
        quantization,
        ..engine::SearchParams::default()
    };
    let nearest = engine::QueryEnum::Nearest(engine::NamedQuery::new(query, question.space.as_str()));
    let request = engine::QueryRequest {
        query: Some(engine::ScoringQuery::Vector(nearest)),
        filter: question.pushed.clone(),
        params: Some(params),
        with_vector: with_dense(&shard.params),
        with_payload: engine::WithPayloadInterface::Bool(true),
        ..engine::QueryRequest::new(count)
    };
    let points = {
        let _whole_writes = shard.ids.read();
        shard.engine.query(request).map_err(engine_fault("searching"))?
    };
    if points.iter().any(|point| !point.score.is_finite()) {
        return Ok(None);
    }
    let are_all = points.len() < count;
    let mut best = Best::new(metric, usize::MAX);
    let mut worst: Option<f64> = None;
    let mut longest: f64 = 0.0;
    for point in points {
        let record = record_of(document_of(point.payload)?, point.vector, &shard.params)?;
        let Some(score) = question.score(&record) else { continue };
        let stored = record.vector_in(question.search.using).map_or(0.0, |stored| squared_norm(stored.as_slice()));
        longest = longest.max(stored);
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

/// Relative error of a sum of so many products in `f32`, which the engine adds up in lanes.
fn rounding(dimension: usize) -> f64 {
    f64::from(f32::EPSILON) * (16.0 + dimension as f64 / 4.0)
}

/// Is `last` better than everything that the engine did not give? That is at most as good as the worst it gave, but for
/// rounding.
pub(super) fn is_clear(metric: Metric, last: f64, worst: Option<f64>, tolerance: f64) -> bool {
    let Some(worst) = worst else { return true };
    let distance = if metric.more_is_better() { last - worst } else { worst - last };
    distance > 2.0 * tolerance
}

/// Looks at every point that passes the weaker filter. O(n) reads; memory for the best ones and one page.
fn scan(shard: &Shard, question: &Question<'_>, context: &RequestContext) -> Result<Vec<ScoredRecord>> {
    let mut best = Best::new(question.metric, question.search.limit);
    let check = |()| context.check("during the search");
    let (payload, vectors) = (engine::WithPayloadInterface::Bool(true), with_dense(&shard.params));
    shard.for_each_page(question.pushed.clone(), payload, vectors, check, |points| {
        for point in points {
            let document = document_of(point.payload)?;
            if !question.matches(&document) {
                continue;
            }
            let record = record_of(document, point.vector, &shard.params)?;
            if let Some(score) = question.score(&record) {
                best.offer(ScoredRecord { record, score });
            }
        }
        Ok(())
    })?;
    Ok(best.into_best_first())
}
