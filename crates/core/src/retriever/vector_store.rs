//! Declared searches of one collection by vector.

use serde::{Deserialize, Serialize};

use crate::collection::CollectionName;
use crate::filter::Filter;
use crate::relevance::RelevanceFunction;
use crate::vector_space::VectorName;

/// Default number of MMR candidates, as in LangChain.
pub const DEFAULT_FETCH_K: u32 = 20;
/// Default trade-off of MMR, as in LangChain: 1 is pure relevance, 0 is pure diversity.
pub const DEFAULT_LAMBDA_MULT: f64 = 0.5;

/// Parameters of a retriever that searches one collection by vector. What is none takes its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VectorStoreRetrieverSpec {
    /// The collection.
    pub collection: CollectionName,
    /// How hits are chosen.
    pub search_type: SearchType,
    /// Most hits, at least 1; default [`super::DEFAULT_K`].
    pub k: Option<u32>,
    /// MMR only: candidates; default [`DEFAULT_FETCH_K`].
    pub fetch_k: Option<u32>,
    /// MMR only, in [0, 1]; default [`DEFAULT_LAMBDA_MULT`].
    pub lambda_mult: Option<f64>,
    /// Least relevance, in [0, 1], inclusive.
    pub score_threshold: Option<f64>,
    /// Bound on the metric's own value, inclusive.
    pub raw_score_threshold: Option<f64>,
    /// Which documents take part.
    pub filter: Option<Filter>,
    /// How relevance follows from the metric's value.
    pub relevance_fn: RelevanceFunction,
    /// Shall hits carry their vectors?
    pub with_vectors: bool,
    /// The named space to search, with a query by vector; none is the main one, as in specs of before there were others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vector_name: Option<VectorName>,
}

impl VectorStoreRetrieverSpec {
    /// A search of `collection` with every default.
    pub fn new(collection: CollectionName) -> Self {
        Self {
            collection,
            search_type: SearchType::default(),
            k: None,
            fetch_k: None,
            lambda_mult: None,
            score_threshold: None,
            raw_score_threshold: None,
            filter: None,
            relevance_fn: RelevanceFunction::default(),
            with_vectors: false,
            vector_name: None,
        }
    }
}

/// How a vector store retriever chooses hits; LangChain's `search_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchType {
    /// The best k.
    #[default]
    Similarity,
    /// The best k of those that reach a threshold; needs one.
    SimilarityScoreThreshold,
    /// Maximal marginal relevance.
    Mmr,
}

impl SearchType {
    /// LangChain's spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Similarity => "similarity",
            Self::SimilarityScoreThreshold => "similarity_score_threshold",
            Self::Mmr => "mmr",
        }
    }
}
