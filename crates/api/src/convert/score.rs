//! Hits.

use toller_core::{MatchedChild, ScoredDocument, TextSpan, Vector};

use super::document::document_to_message;
use super::metric::metric_to_message;
use super::vector::{Encoding, vector_to_message};
use crate::v1;

/// The message of a hit. Its vector goes into `vector`, not into the document.
pub fn hit_to_message(hit: &ScoredDocument, encoding: Encoding) -> v1::ScoredDocument {
    v1::ScoredDocument {
        document: Some(document_to_message(&hit.document, None)),
        score: hit.score,
        relevance: hit.relevance,
        metric: metric_to_message(hit.metric).into(),
        rank: hit.rank,
        sources: hit
            .sources
            .iter()
            .map(|source| v1::SourceScore { source: source.source.clone(), score: source.score, rank: source.rank })
            .collect(),
        vector: hit.vector.as_ref().map(|vector: &Vector| vector_to_message(vector.as_slice(), encoding)),
        matched_children: hit.matched_children.iter().map(child_to_message).collect(),
        extracts: hit.extracts.iter().map(span_to_message).collect(),
    }
}

fn child_to_message(child: &MatchedChild) -> v1::MatchedChild {
    v1::MatchedChild {
        document: Some(document_to_message(&child.document, None)),
        score: child.score,
        relevance: child.relevance,
        rank: child.rank,
        span: child.span.as_ref().map(span_to_message),
    }
}

fn span_to_message(span: &TextSpan) -> v1::TextSpan {
    v1::TextSpan { start: span.start as u64, end: span.end as u64 }
}

/// The messages of hits, in order.
pub fn hits_to_message(hits: &[ScoredDocument], encoding: Encoding) -> Vec<v1::ScoredDocument> {
    hits.iter().map(|hit| hit_to_message(hit, encoding)).collect()
}
