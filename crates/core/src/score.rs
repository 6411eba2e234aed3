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
    /// The raw value: the metric's value of query and document, or without a metric the score of what made the list, such as
    /// BM25.
    pub score: f64,
    /// How well the document fits the query, in [0, 1]; none for keywords and fused lists.
    pub relevance: Option<f64>,
    /// The metric of `score`; none where the score is no metric's value.
    pub metric: Option<Metric>,
    /// 1-based rank in the list that it came in.
    pub rank: u32,
    /// Which leg gave what score and rank.
    pub sources: Vec<SourceScore>,
    /// The document's vector in the space that was searched, where asked for.
    pub vector: Option<Vector>,
    /// The smaller documents that led to this one, best first.
    pub matched_children: Vec<MatchedChild>,
    /// Where the sentences of the document's text stood in the whole text, in order; none where it is whole.
    pub extracts: Vec<TextSpan>,
}

/// A small document that stands for a greater one.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchedChild {
    /// The small document.
    pub document: Arc<Document>,
    /// As of a hit.
    pub score: f64,
    /// As of a hit.
    pub relevance: Option<f64>,
    /// 1-based rank among the children that were found.
    pub rank: u32,
    /// Where its text is in its parent's, if that is known and true.
    pub span: Option<TextSpan>,
}

/// A part of a text, in Unicode code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextSpan {
    /// Of its first one.
    pub start: usize,
    /// Of the one after its last.
    pub end: usize,
}
