//! The declared retriever that prefers what is recent.

use serde::{Deserialize, Serialize};

use super::RetrieverSpec;
use crate::collection::CollectionName;

/// Default rate of decay in an hour, as in LangChain.
pub const DEFAULT_DECAY_RATE: f64 = 0.01;
/// Default key of the time in a document's metadata, as in LangChain.
pub const DEFAULT_TIMESTAMP_FIELD: &str = "last_accessed_at";
/// Candidates of a vector store retriever that does not say how many, as in LangChain.
pub const DEFAULT_TIME_WEIGHTED_CANDIDATES: u32 = 100;

/// Scores by relevance and recency (LangChain's `TimeWeightedVectorStoreRetriever`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimeWeightedSpec {
    /// Finds the candidates.
    pub retriever: Box<RetrieverSpec>,
    /// In [0, 1]; default [`DEFAULT_DECAY_RATE`].
    pub decay_rate: Option<f64>,
    /// Path of the time in the metadata; default [`DEFAULT_TIMESTAMP_FIELD`].
    pub timestamp_field: Option<String>,
    /// Most hits, at least 1; default [`super::DEFAULT_K`].
    pub k: Option<u32>,
    /// Paths in the metadata of numbers that are added.
    pub other_score_keys: Vec<String>,
    /// Where the moments are kept at which documents were last found; then recency counts from them too. None for no such record.
    #[serde(default)]
    pub access_log: Option<CollectionName>,
}
