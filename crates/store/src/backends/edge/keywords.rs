//! Keyword search: the engine finds points by a sparse index of their terms, the formula of [`crate::keyword`] decides.
//!
//! The engine keeps the terms of a text as a sparse vector beside the dense one. How many records have a term is counted here,
//! in step with every write, since the engine goes on counting what was deleted. As in [`super::search`], the engine only
//! proposes: what it gives is scored and filtered again, more is asked for when too little is left, and at last every point is
//! looked at.

use std::collections::HashMap;

use qdrant_edge as engine;
use toller_core::error::Result;
use toller_core::vector_store::ScoredRecord;
use toller_core::{Filter, KeywordSearch, Metric, RequestContext};

use super::error::engine_fault;
use super::point::{TermsOfPoint, document_of, record_of, terms_of, with_all};
use super::pushdown::push_down;
use super::shard::Shard;
use crate::backends::best::Best;
use crate::backends::proposals::{MAX_CANDIDATES, SLACK, WIDER, is_clear};
use crate::keyword::{Analyzer, bm25, query_vector};

/// The name of the sparse vectors of terms.
pub(super) const KEYWORDS: &str = "keywords";

/// Hits are ordered as by the inner product: more is better.
const ORDER: Metric = Metric::Dot;

/// In how many records each term is. Memory in O(different terms).
#[derive(Debug, Default)]
pub(super) struct Frequencies(HashMap<u32, u32>);

impl Frequencies {
    /// A record with these terms was written.
    pub(super) fn add(&mut self, terms: &[u32]) {
        for term in terms {
            let count = self.0.entry(*term).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// A record with these terms is gone.
    pub(super) fn remove(&mut self, terms: &[u32]) {
        for term in terms {
            match self.0.get_mut(term) {
                Some(count) if *count > 1 => *count -= 1,
                _ => drop(self.0.remove(term)),
            }
        }
    }

    /// A commit was made.
    pub(super) fn apply(&mut self, change: FrequencyChange) {
        for (term, difference) in change.0 {
            let count = i64::from(self.0.get(&term).copied().unwrap_or_default()).saturating_add(difference);
            match u32::try_from(count) {
                Ok(0) | Err(_) => drop(self.0.remove(&term)),
                Ok(count) => drop(self.0.insert(term, count)),
            }
        }
    }

    fn of(&self, term: u32) -> u64 {
        self.0.get(&term).copied().unwrap_or_default().into()
    }
}

/// What a commit changes of [`Frequencies`]. Memory in O(different terms).
#[derive(Debug, Default)]
pub(super) struct FrequencyChange(HashMap<u32, i64>);

impl FrequencyChange {
    /// A record with these terms is to be written.
    pub(super) fn add(&mut self, terms: &[u32]) {
        terms.iter().for_each(|term| *self.0.entry(*term).or_default() += 1);
    }

    /// A record with these terms is to go.
    pub(super) fn remove(&mut self, terms: &[u32]) {
        terms.iter().for_each(|term| *self.0.entry(*term).or_default() -= 1);
    }
}

/// The terms of a query that some record has, ascending, each with its weight: its occurrences times its idf.
struct Weights(Vec<(u32, f64)>);

impl Weights {
    fn new(shard: &Shard, text: &str) -> Result<Self> {
        let Some(keyword) = shard.params.keyword else { return Ok(Self(Vec::new())) };
        let terms = query_vector(Analyzer::new(keyword.language), text);
        let known = shard.whole()?;
        let frequencies = shard.frequencies.read();
        let weighted = terms.into_iter().filter_map(|element| {
            let with_term = frequencies.of(element.term);
            let idf = bm25::idf(known.len() as u64, with_term);
            (with_term > 0).then(|| (element.term, f64::from(element.weight) * idf))
        });
        Ok(Self(weighted.collect()))
    }

    /// The score of a document with these terms; 0 when it has none of the query's. O(terms of both).
    fn score(&self, document: &TermsOfPoint) -> f64 {
        let mut rest = document.elements();
        let mut score = 0.0;
        for (term, weight) in &self.0 {
            while let Some((other, value)) = rest.next_if(|(other, _)| other <= term) {
                if other == *term {
                    score += weight * f64::from(value);
                }
            }
        }
        score
    }

    fn for_engine(&self) -> engine::SparseVector {
        engine::SparseVector {
            indices: self.0.iter().map(|(term, _)| *term).collect(),
            values: self.0.iter().map(|(_, weight)| *weight as f32).collect(),
        }
    }

    /// Relative error of the engine's sum in `f32`.
    fn rounding(&self) -> f64 {
        f64::from(f32::EPSILON) * (4.0 + self.0.len() as f64)
    }
}

/// The best records for keywords, with statistics of the same moment.
pub(super) fn search(shard: &Shard, search: KeywordSearch<'_>, context: &RequestContext) -> Result<Vec<ScoredRecord>> {
    shard.undisturbed(|| search_once(shard, search, context))
}

fn search_once(shard: &Shard, search: KeywordSearch<'_>, context: &RequestContext) -> Result<Vec<ScoredRecord>> {
    let KeywordSearch { text, filter, limit } = search;
    let weights = Weights::new(shard, text)?;
    if limit == 0 || weights.0.is_empty() {
        return Ok(Vec::new());
    }
    let pushed = filter.and_then(push_down).map(|pushed| pushed.filter);
    let total = shard.len();
    let mut count = limit.saturating_add(SLACK);
    let most = count.max(MAX_CANDIDATES);
    while count <= most {
        context.check("during the search")?;
        let candidates = ask(shard, &weights, filter, pushed.clone(), count.min(total.max(1)))?;
        let mut matching = candidates.matching;
        let last = matching.get(limit - 1).map(|hit| hit.score);
        let is_clear = last.is_some_and(|last| {
            let tolerance = weights.rounding() * candidates.greatest;
            is_clear(ORDER, last, candidates.worst, tolerance)
        });
        if candidates.are_all || is_clear {
            matching.truncate(limit);
            return Ok(matching);
        }
        count = count.saturating_mul(WIDER);
    }
    scan(shard, &weights, filter, pushed, limit, context)
}

/// What one question to the engine gave.
struct Candidates {
    /// Those that match, best first.
    matching: Vec<ScoredRecord>,
    /// The worst and the greatest score of all that the engine gave, matching or not.
    worst: Option<f64>,
    greatest: f64,
    /// Are there no others with a term of the query?
    are_all: bool,
}

fn ask(
    shard: &Shard,
    weights: &Weights,
    filter: Option<&Filter>,
    pushed: Option<engine::Filter>,
    count: usize,
) -> Result<Candidates> {
    let query = engine::VectorInternal::Sparse(weights.for_engine());
    let nearest = engine::QueryEnum::Nearest(engine::NamedQuery::new(query, KEYWORDS));
    let mut request = engine::QueryRequest {
        query: Some(engine::ScoringQuery::Vector(nearest)),
        with_vector: with_all(&shard.params),
        with_payload: engine::WithPayloadInterface::Bool(true),
        ..engine::QueryRequest::new(count)
    };
    let (points, total) = {
        let known = shard.whole()?;
        request.filter = shard.only_seen(pushed);
        (shard.engine.query(request).map_err(engine_fault("searching"))?, known.len())
    };
    let are_all = points.len() < count || count >= total;
    let mut best = Best::new(ORDER, usize::MAX);
    let mut worst: Option<f64> = None;
    let mut greatest: f64 = 0.0;
    for point in points {
        let score = weights.score(&terms_of(point.vector.as_ref()));
        worst = Some(worst.map_or(score, |worst| worst.min(score)));
        greatest = greatest.max(score);
        let document = document_of(point.payload)?;
        if score > 0.0 && filter.is_none_or(|filter| filter.matches(&document.metadata)) {
            best.offer(ScoredRecord { record: record_of(document, point.vector, &shard.params)?, score });
        }
    }
    Ok(Candidates { matching: best.into_best_first(), worst, greatest, are_all })
}

/// Looks at every point that passes the weaker filter. O(n) reads; memory for the best ones and one page.
fn scan(
    shard: &Shard,
    weights: &Weights,
    filter: Option<&Filter>,
    pushed: Option<engine::Filter>,
    limit: usize,
    context: &RequestContext,
) -> Result<Vec<ScoredRecord>> {
    let mut best = Best::new(ORDER, limit);
    let check = |()| context.check("during the search");
    let vectors = with_all(&shard.params);
    shard.for_each_page(pushed, engine::WithPayloadInterface::Bool(true), vectors, check, |points| {
        for point in points {
            let score = weights.score(&terms_of(point.vector.as_ref()));
            if score <= 0.0 {
                continue;
            }
            let document = document_of(point.payload)?;
            if filter.is_none_or(|filter| filter.matches(&document.metadata)) {
                best.offer(ScoredRecord { record: record_of(document, point.vector, &shard.params)?, score });
            }
        }
        Ok(())
    })?;
    Ok(best.into_best_first())
}
