//! Search: the server proposes, the metric and the filter decide (see [`crate::backends::proposals`]).

use qdrant_client::qdrant::{
    DenseVector, QuantizationSearchParams, Query, QueryPoints, SearchParams, SparseVector, VectorInput, query,
    vector_input,
};
use toller_core::Metric;
use toller_core::error::Result;
use toller_core::vector_store::{ScoredRecord, VectorSearch};

use super::point::{DENSE, StoredVectors, as_compared, dense_names, document_of, named, with_document, with_vectors};
use super::rows::Rows;
use crate::backends::best::Best;
use crate::backends::proposals::{Proposals, Question, Widening};

/// The best records for a vector, by the metric of the space that is searched.
pub(super) async fn search(
    rows: Rows<'_>,
    search: VectorSearch<'_>,
    metric: Metric,
    is_exact: bool,
) -> Result<Vec<ScoredRecord>> {
    let total = usize::try_from(rows.snapshot.len).unwrap_or(usize::MAX);
    if search.limit == 0 || total == 0 {
        return Ok(Vec::new());
    }
    let question = Question { search, metric };
    let mut widening = Widening::new(search.limit, total, is_exact);
    while let Some(count) = widening.count() {
        let Some(proposals) = ask(rows, question, count, widening.is_exact()).await? else { break };
        if let Some(hits) = widening.take(proposals) {
            return Ok(hits);
        }
    }
    scan(rows, question).await
}

/// Asks the server; none when its numbers overflowed, so that its order means nothing.
async fn ask<'a>(
    rows: Rows<'_>,
    question: Question<'a>,
    count: usize,
    is_exact: bool,
) -> Result<Option<Proposals<'a>>> {
    let (search, params) = (question.search, &rows.snapshot.params);
    let elements = as_compared(search.vector, question.metric);
    // The server takes more by the quantised vectors, and gives the best of them by the full ones.
    let quantization = params.quantization.map(|quantization| QuantizationSearchParams {
        ignore: Some(false),
        rescore: Some(true),
        oversampling: Some(quantization.oversampling),
    });
    let search_params = SearchParams {
        exact: Some(is_exact),
        hnsw_ef: Some(question.view(count, params.quantization) as u64),
        quantization,
        ..SearchParams::default()
    };
    let request = QueryPoints {
        collection_name: rows.snapshot.physical.clone(),
        query: nearest(vector_input::Variant::Dense(DenseVector { data: elements })),
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
    let mut proposals = Proposals::new(question, points.len() < count);
    for point in points {
        proposals.offer(StoredVectors::of(point.vectors).record(document_of(point.payload)?, params)?);
    }
    Ok(Some(proposals))
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
