//! Search: the engine proposes, the metric and the filter decide (see [`crate::backends::proposals`]).

use qdrant_edge as engine;
use toller_core::error::Result;
use toller_core::vector_store::{ScoredRecord, VectorSearch};
use toller_core::{Filter, RequestContext};

use super::engine::{DENSE, named};
use super::error::engine_fault;
use super::point::{as_compared, document_of, record_of, with_dense};
use super::pushdown::push_down;
use super::shard::Shard;
use crate::backends::best::Best;
use crate::backends::proposals::{Proposals, Question, Widening};

/// The best records for a vector.
pub(super) fn search(shard: &Shard, search: VectorSearch<'_>, context: &RequestContext) -> Result<Vec<ScoredRecord>> {
    let total = shard.len();
    if search.limit == 0 || total == 0 {
        return Ok(Vec::new());
    }
    let question = Question { metric: shard.params.space(search.using)?.metric, search };
    let mut widening = Widening::new(search.limit, total, shard.config.exact);
    while let Some(count) = widening.count() {
        context.check("during the search")?;
        let Some(proposals) = ask(shard, question, count, widening.is_exact())? else { break };
        if let Some(hits) = widening.take(proposals) {
            return Ok(hits);
        }
    }
    shard.undisturbed(|| scan(shard, question, context))
}

/// What the engine can be given of a filter.
fn pushed(filter: Option<&Filter>) -> Option<engine::Filter> {
    filter.and_then(push_down).map(|pushed| pushed.filter)
}

/// Asks the engine; none when its numbers overflowed, so that its order means nothing.
fn ask<'a>(shard: &Shard, question: Question<'a>, count: usize, is_exact: bool) -> Result<Option<Proposals<'a>>> {
    let search = question.search;
    let query = engine::VectorInternal::Dense(as_compared(search.vector, question.metric));
    let space = search.using.map_or_else(|| DENSE.to_owned(), named);
    // The engine takes more by the quantised vectors, and gives the best of them by the full ones.
    let quantization = shard.params.quantization.map(|quantization| engine::QuantizationSearchParams {
        ignore: false,
        rescore: Some(true),
        oversampling: Some(quantization.oversampling),
    });
    let params = engine::SearchParams {
        exact: is_exact,
        hnsw_ef: Some(question.view(count, shard.params.quantization)),
        quantization,
        ..engine::SearchParams::default()
    };
    let nearest = engine::QueryEnum::Nearest(engine::NamedQuery::new(query, space.as_str()));
    let mut request = engine::QueryRequest {
        query: Some(engine::ScoringQuery::Vector(nearest)),
        params: Some(params),
        with_vector: with_dense(&shard.params),
        with_payload: engine::WithPayloadInterface::Bool(true),
        ..engine::QueryRequest::new(count)
    };
    let points = {
        let _whole_writes = shard.whole()?;
        request.filter = shard.only_seen(pushed(search.filter));
        shard.engine.query(request).map_err(engine_fault("searching"))?
    };
    if points.iter().any(|point| !point.score.is_finite()) {
        return Ok(None);
    }
    let mut proposals = Proposals::new(question, points.len() < count);
    for point in points {
        proposals.offer(record_of(document_of(point.payload)?, point.vector, &shard.params)?);
    }
    Ok(Some(proposals))
}

/// Looks at every point that passes the weaker filter. O(n) reads; memory for the best ones and one page.
fn scan(shard: &Shard, question: Question<'_>, context: &RequestContext) -> Result<Vec<ScoredRecord>> {
    let mut best = Best::new(question.metric, question.search.limit);
    let check = |()| context.check("during the search");
    let (payload, vectors) = (engine::WithPayloadInterface::Bool(true), with_dense(&shard.params));
    shard.for_each_page(pushed(question.search.filter), payload, vectors, check, |points| {
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
