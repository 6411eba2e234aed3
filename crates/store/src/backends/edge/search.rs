//! Search: the engine proposes, the metric and the filter decide.
//!
//! The engine gives candidates by its own scores (in `f32`) and a weaker filter. They are scored and filtered again as
//! `toller-core` defines it; when too few are left, more are asked for, and at last every point is looked at. So exactly
//! min(limit, matches) come back. Without approximation they are the best ones, ties included; with it, an index may miss some.

use qdrant_edge as engine;
use toller_core::error::Result;
use toller_core::metric::squared_norm;
use toller_core::vector_store::ScoredRecord;
use toller_core::{Filter, Metric, Record, RequestContext, Vector};

use super::engine::DENSE;
use super::error::engine_fault;
use super::point::{as_compared, document_of, vector_of, with_dense};
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

/// The best records for a vector.
pub(super) fn search(
    shard: &Shard,
    vector: &Vector,
    filter: Option<&Filter>,
    limit: usize,
    context: &RequestContext,
) -> Result<Vec<ScoredRecord>> {
    let total = shard.len();
    if limit == 0 || total == 0 {
        return Ok(Vec::new());
    }
    let pushed = filter.and_then(push_down).map(|pushed| pushed.filter);
    let mut is_exact = shard.config.exact;
    let mut count = limit.saturating_add(SLACK);
    let most = count.max(MAX_CANDIDATES);
    while count < total && count <= most {
        context.check("during the search")?;
        let Some(candidates) = ask(shard, vector, filter, pushed.clone(), count, is_exact)? else { break };
        let mut matching = candidates.matching;
        if candidates.are_all && is_exact {
            matching.truncate(limit);
            return Ok(matching);
        }
        let last = matching.get(limit - 1).map(|hit| hit.score);
        if let Some(last) = last
            && (!is_exact || is_clear(shard.params.metric, last, candidates.worst, candidates.tolerance))
        {
            matching.truncate(limit);
            return Ok(matching);
        }
        if candidates.are_all {
            // The index may have missed some.
            is_exact = true;
        } else {
            count = count.saturating_mul(WIDER);
        }
    }
    scan(shard, vector, filter, pushed, limit, context)
}

/// Asks the engine; none when its numbers overflowed, so that its order means nothing.
fn ask(
    shard: &Shard,
    vector: &Vector,
    filter: Option<&Filter>,
    pushed: Option<engine::Filter>,
    count: usize,
    is_exact: bool,
) -> Result<Option<Candidates>> {
    let metric = shard.params.metric;
    let query = engine::VectorInternal::Dense(as_compared(vector, metric));
    let params = engine::SearchParams {
        exact: is_exact,
        hnsw_ef: Some(count.saturating_mul(2).max(MIN_VIEW)),
        ..engine::SearchParams::default()
    };
    let request = engine::QueryRequest {
        query: Some(engine::ScoringQuery::Vector(engine::QueryEnum::Nearest(engine::NamedQuery::new(query, DENSE)))),
        filter: pushed,
        params: Some(params),
        with_vector: with_dense(),
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
        let document = document_of(point.payload)?;
        let stored = vector_of(point.vector, metric)?;
        let score = metric.score(vector.as_slice(), stored.as_slice());
        longest = longest.max(squared_norm(stored.as_slice()));
        if worst.is_none_or(|worst| metric.better_first(worst, score).is_lt()) {
            worst = Some(score);
        }
        if filter.is_none_or(|filter| filter.matches(&document.metadata)) {
            best.offer(ScoredRecord { record: Record { document, vector: stored }, score });
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
fn scan(
    shard: &Shard,
    vector: &Vector,
    filter: Option<&Filter>,
    pushed: Option<engine::Filter>,
    limit: usize,
    context: &RequestContext,
) -> Result<Vec<ScoredRecord>> {
    let metric = shard.params.metric;
    let mut best = Best::new(metric, limit);
    let check = |()| context.check("during the search");
    shard.for_each_page(pushed, engine::WithPayloadInterface::Bool(true), with_dense(), check, |points| {
        for point in points {
            let document = document_of(point.payload)?;
            if filter.is_some_and(|filter| !filter.matches(&document.metadata)) {
                continue;
            }
            let stored = vector_of(point.vector, metric)?;
            let score = metric.score(vector.as_slice(), stored.as_slice());
            best.offer(ScoredRecord { record: Record { document, vector: stored }, score });
        }
        Ok(())
    })?;
    Ok(best.into_best_first())
}
