//! Hits: documents with their scores, and where each score came from.

use std::sync::Arc;

use crate::document::Document;
use crate::metric::Metric;
use crate::vector::Vector;

/// What one leg of a retrieval said about a document.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceScore {
    /// The leg, such as `similarity`, `mmr` or `keyword`.
    pub source: String,
    /// The leg's own score.
    pub score: f64,
    /// 1-based rank within the leg.
    pub rank: u32,
}

/// A document with its scores.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredDocument {
    /// The document.
    pub document: Arc<Document>,
    /// The raw value: the metric's value of query and document, or the BM25 score.
    pub score: f64,
    /// The score brought to [0, 1]; none for keywords and fused lists.
    pub relevance: Option<f64>,
    /// The metric of `score`; none where the score is no metric's value.
    pub metric: Option<Metric>,
    /// 1-based rank in the list that it came in.
    pub rank: u32,
    /// Which leg gave what score and rank.
    pub sources: Vec<SourceScore>,
    /// The document's vector, where asked for.
    pub vector: Option<Vector>,
}
