//! Scoring pairs: a model reads the query and a document together and says how well they fit.

use async_trait::async_trait;

use crate::context::RequestContext;
use crate::error::Result;

/// What a reranker says about one pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RerankScore {
    /// The model's raw logit; finite, the greater the better.
    pub logit: f32,
    /// Tokens that the model saw, special tokens included; none when the provider does not say.
    pub token_count: Option<u32>,
    /// Was the pair cut to the model's longest input?
    pub truncated: bool,
}

impl RerankScore {
    /// The sigmoid of the logit, in [0, 1].
    pub fn relevance(&self) -> f64 {
        1.0 / (1.0 + (-f64::from(self.logit)).exp())
    }
}

/// Scores documents against a query.
#[async_trait]
pub trait Reranker: Send + Sync {
    /// Who computes: `candle`, or the kind of the service that is called.
    fn provider(&self) -> &str;

    /// The model's name.
    fn model(&self) -> &str;

    /// Longest pair in tokens, special tokens included; none where the provider does not say.
    fn max_tokens(&self) -> Option<u32> {
        None
    }

    /// Scores each of `documents` against `query`; the answer is aligned with the documents, none give an empty answer, and an
    /// empty string is a text like any other.
    ///
    /// # Errors
    /// As [`crate::Embeddings::embed`].
    async fn rerank(&self, context: &RequestContext, query: &str, documents: Vec<String>) -> Result<Vec<RerankScore>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relevance_is_the_sigmoid_and_stays_within_its_range() {
        let relevance = |logit| RerankScore { logit, token_count: None, truncated: false }.relevance();
        assert_eq!(relevance(0.0), 0.5);
        assert!((relevance(2.0) - 0.880_797_077_977_882_3).abs() < 1e-15);
        assert_eq!(relevance(f32::MAX), 1.0);
        assert_eq!(relevance(f32::MIN), 0.0);
    }
}
