//! Keyword search: the server finds rows by a sparse index of their terms, the formula of [`crate::keyword`] decides.
//!
//! How many rows have a term is counted by the server on an index of the terms, among the rows of the same commit, so that the
//! scores are those of every other backend. As in [`super::search`], the server only proposes.

use qdrant_client::qdrant::QueryPoints;
use tokio::task::JoinSet;
use toller_core::error::{Error, Result};
use toller_core::vector_store::ScoredRecord;
use toller_core::{Filter, KeywordParams, KeywordSearch, Metric, RequestContext};

use super::patience::Patience;
use super::point::{KEYWORDS, StoredVectors, TERMS, all_names, document_of, with_document, with_vectors};
use super::rows::Rows;
use super::search::nearest_to_terms;
use crate::backends::best::Best;
use crate::backends::proposals::{MAX_CANDIDATES, SLACK, WIDER, is_clear};
use crate::keyword::{Analyzer, bm25, query_vector};

/// Hits are ordered as by the inner product: more is better.
const ORDER: Metric = Metric::Dot;

/// Terms that are counted at once.
const COUNTS_AT_ONCE: usize = 8;

/// The terms of a query that some row has, ascending, each with its weight: its occurrences times its idf.
struct Weights(Vec<(u32, f64)>);

impl Weights {
    async fn new(rows: Rows<'_>, keyword: KeywordParams, text: &str, context: &RequestContext) -> Result<Self> {
        let terms = query_vector(Analyzer::new(keyword.language), text);
        let mut weighted = Vec::with_capacity(terms.len());
        for some_terms in terms.chunks(COUNTS_AT_ONCE) {
            let mut counts = JoinSet::new();
            for element in some_terms.iter().copied() {
                let (client, context) = (rows.client.clone(), context.clone());
                let filter = rows.snapshot.with_term(TERMS, element.term);
                let collection = rows.snapshot.physical.clone();
                counts.spawn(async move {
                    let count = client.count(Patience::Of(&context), &collection, filter).await;
                    (element, count)
                });
            }
            while let Some(counted) = counts.join_next().await {
                let (element, count) =
                    counted.map_err(|fault| Error::Internal(format!("a count of a term ended early: {fault}")))?;
                let with_term = count?;
                if with_term > 0 {
                    let idf = bm25::idf(rows.snapshot.len, with_term);
                    weighted.push((element.term, f64::from(element.weight) * idf));
                }
            }
        }
        weighted.sort_unstable_by_key(|(term, _)| *term);
        Ok(Self(weighted))
    }

    /// The score of a document with these terms; 0 when it has none of the query's. O(terms of both).
    fn score(&self, document: &[(u32, f32)]) -> f64 {
        let mut rest = document.iter().peekable();
        let mut score = 0.0;
        for (term, weight) in &self.0 {
            while let Some((other, value)) = rest.next_if(|(other, _)| other <= term) {
                if other == term {
                    score += weight * f64::from(*value);
                }
            }
        }
        score
    }

    /// Relative error of the server's sum in `f32`.
    fn rounding(&self) -> f64 {
        f64::from(f32::EPSILON) * (4.0 + self.0.len() as f64)
    }
}

/// The best records for keywords.
pub(super) async fn search(
    rows: Rows<'_>,
    keyword: KeywordParams,
    search: &KeywordSearch<'_>,
    context: &RequestContext,
) -> Result<Vec<ScoredRecord>> {
    let KeywordSearch { text, filter, limit } = *search;
    if limit == 0 || rows.snapshot.len == 0 {
        return Ok(Vec::new());
    }
    let weights = Weights::new(rows, keyword, text, context).await?;
    if weights.0.is_empty() {
        return Ok(Vec::new());
    }
    let total = usize::try_from(rows.snapshot.len).unwrap_or(usize::MAX);
    let mut count = limit.saturating_add(SLACK);
    let most = count.max(MAX_CANDIDATES);
    while count <= most {
        let candidates = ask(rows, &weights, filter, count.min(total)).await?;
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
    scan(rows, &weights, filter, limit).await
}

/// What one question to the server gave.
struct Candidates {
    /// Those that match, best first.
    matching: Vec<ScoredRecord>,
    /// The worst and the greatest score of all that the server gave, matching or not.
    worst: Option<f64>,
    greatest: f64,
    /// Are there no others with a term of the query?
    are_all: bool,
}

async fn ask(rows: Rows<'_>, weights: &Weights, filter: Option<&Filter>, count: usize) -> Result<Candidates> {
    let request = QueryPoints {
        collection_name: rows.snapshot.physical.clone(),
        query: nearest_to_terms(&weights.0),
        using: Some(KEYWORDS.to_owned()),
        filter: Some(rows.filter(filter)),
        limit: Some(count as u64),
        with_payload: with_document(),
        with_vectors: with_vectors(all_names(&rows.snapshot.params)),
        ..QueryPoints::default()
    };
    let points = rows.client.query(rows.patience, request).await?;
    let are_all = points.len() < count || count as u64 >= rows.snapshot.len;
    let mut best = Best::new(ORDER, usize::MAX);
    let mut worst: Option<f64> = None;
    let mut greatest: f64 = 0.0;
    for point in points {
        let stored = StoredVectors::of(point.vectors);
        let score = weights.score(stored.terms());
        worst = Some(worst.map_or(score, |worst| worst.min(score)));
        greatest = greatest.max(score);
        let document = document_of(point.payload)?;
        if score > 0.0 && filter.is_none_or(|filter| filter.matches(&document.metadata)) {
            best.offer(ScoredRecord { record: stored.record(document, &rows.snapshot.params)?, score });
        }
    }
    Ok(Candidates { matching: best.into_best_first(), worst, greatest, are_all })
}

/// Looks at every row that passes the weaker filter. O(n) reads; memory for the best ones and one page.
async fn scan(rows: Rows<'_>, weights: &Weights, filter: Option<&Filter>, limit: usize) -> Result<Vec<ScoredRecord>> {
    let mut best = Best::new(ORDER, limit);
    rows.each_page(rows.filter(filter), with_document(), all_names(&rows.snapshot.params), |points| {
        for point in points {
            let stored = StoredVectors::of(point.vectors);
            let score = weights.score(stored.terms());
            if score <= 0.0 {
                continue;
            }
            let document = document_of(point.payload)?;
            if filter.is_none_or(|filter| filter.matches(&document.metadata)) {
                best.offer(ScoredRecord { record: stored.record(document, &rows.snapshot.params)?, score });
            }
        }
        Ok(())
    })
    .await?;
    Ok(best.into_best_first())
}
