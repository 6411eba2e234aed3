//! The third and fourth layers: a query to scored documents, and trees of such.

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::collection::CollectionName;
use crate::context::RequestContext;
use crate::error::Result;
use crate::filter::Filter;
use crate::name::name_type;
use crate::relevance::RelevanceFunction;
use crate::score::ScoredDocument;

/// Default number of hits, as in LangChain.
pub const DEFAULT_K: u32 = 4;
/// Default number of MMR candidates, as in LangChain.
pub const DEFAULT_FETCH_K: u32 = 20;
/// Default trade-off of MMR, as in LangChain: 1 is pure relevance, 0 is pure diversity.
pub const DEFAULT_LAMBDA_MULT: f64 = 0.5;

/// What is looked for.
#[derive(Debug, Clone, PartialEq)]
pub enum Query {
    /// A text, embedded as a query by the collection's model.
    Text(String),
    /// A vector that the caller brings.
    Vector(Vec<f32>),
}

/// Finds documents for a query.
#[async_trait]
pub trait Retriever: Send + Sync {
    /// The name for spans and errors: the given one, or the kind.
    fn name(&self) -> &str;

    /// The kind, such as `vector_store`.
    fn kind(&self) -> &'static str;

    /// The hits, best first, ranks from 1 on. The same data and query give the same answer.
    ///
    /// # Errors
    /// `InvalidArgument` when the query does not fit the retriever, and whatever its parts report.
    async fn retrieve(&self, context: &RequestContext, query: &Query) -> Result<Vec<ScoredDocument>>;
}

name_type! {
    /// The name of a retriever: of its span, and its key where it is stored. Cheap to clone.
    RetrieverName
}

/// A retriever as declared: the plain form of the public message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RetrieverSpec {
    /// Name for spans and key where it is stored; none for the kind's name.
    pub name: Option<RetrieverName>,
    /// Tags for spans.
    pub tags: BTreeSet<String>,
    /// What it does.
    pub kind: RetrieverKind,
}

/// What a declared retriever does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetrieverKind {
    /// Searches one collection by vector.
    VectorStore(VectorStoreRetrieverSpec),
    /// Runs the stored retriever of this name in its place.
    Ref(RetrieverName),
}

impl RetrieverKind {
    /// Name of the kind, in the spelling of the public contract.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::VectorStore(_) => "vector_store",
            Self::Ref(_) => "ref",
        }
    }
}

/// Parameters of a retriever that searches one collection by vector. What is none takes its default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VectorStoreRetrieverSpec {
    /// The collection.
    pub collection: CollectionName,
    /// How hits are chosen.
    pub search_type: SearchType,
    /// Most hits, at least 1; default [`DEFAULT_K`].
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
