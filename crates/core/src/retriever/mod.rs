//! The third and fourth layers: a query to scored documents, and trees of such.
//!
//! What a retriever does is declared as plain data ([`RetrieverSpec`]), one file for each family; numbers that are none take
//! their defaults, which are LangChain's.

mod asking;
mod compression;
mod fusion;
mod keyword;
mod parents;
mod routing;
mod time_weighted;
mod vector_store;

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::context::RequestContext;
use crate::error::Result;
use crate::name::name_type;
use crate::score::ScoredDocument;

pub use asking::{
    AskSpec, DEFAULT_MAX_QUERIES, DecomposeSpec, FieldKind, FieldSpec, HydeSpec, MOST_QUERIES, MultiQuerySpec,
    OnInvalid, RephraseSpec, SelfQuerySpec,
};
pub use compression::{
    CompressionSpec, CompressorKind, CompressorSpec, DEFAULT_FILTER_K, DEFAULT_MAX_SENTENCES, DEFAULT_REDUNDANCY,
    DEFAULT_TOP_N, EmbeddingsFilterSpec, ExtractSpec, LlmRerankSpec, RedundantFilterSpec, RerankSpec,
};
pub use fusion::{DEFAULT_RRF_C, EnsembleSpec, Fusion, MergerSpec};
pub use keyword::{DEFAULT_LEG_K, HybridRetrieverSpec, KeywordRetrieverSpec};
pub use parents::{DEFAULT_ID_KEY, MultiVectorSpec, ParentDocumentSpec, ParentScore, ParentSource};
pub use routing::{FallbackSpec, LlmRouterSpec, MOST_ROUTES, RouteSpec, RouterCondition, RouterRule, RouterSpec};
pub use time_weighted::{
    DEFAULT_DECAY_RATE, DEFAULT_TIME_WEIGHTED_CANDIDATES, DEFAULT_TIMESTAMP_FIELD, TimeWeightedSpec,
};
pub use vector_store::{DEFAULT_FETCH_K, DEFAULT_LAMBDA_MULT, SearchType, VectorStoreRetrieverSpec};

/// Default number of hits, as in LangChain.
pub const DEFAULT_K: u32 = 4;

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
    /// Longest time for it with all that is below it; none for no bound of its own.
    #[serde(default)]
    pub timeout: Option<Duration>,
    /// What becomes of the retrieval when it fails.
    #[serde(default)]
    pub on_error: OnError,
    /// What it does.
    pub kind: RetrieverKind,
}

impl RetrieverSpec {
    /// A retriever without name, tags or timeout.
    pub fn new(kind: RetrieverKind) -> Self {
        Self { name: None, tags: BTreeSet::new(), timeout: None, on_error: OnError::Fail, kind }
    }
}

/// What becomes of a retrieval when a part of it fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    /// It fails too.
    #[default]
    Fail,
    /// It goes on without the part, with a warning.
    Skip,
}

/// What a declared retriever does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetrieverKind {
    /// Searches one collection by vector.
    VectorStore(VectorStoreRetrieverSpec),
    /// Runs the stored retriever of this name in its place.
    Ref(RetrieverName),
    /// Finds small documents, and answers with those that they stand for.
    MultiVector(MultiVectorSpec),
    /// Searches chunks until enough of the documents are found that they were cut from.
    ParentDocument(ParentDocumentSpec),
    /// Passes hits through compressors.
    ContextualCompression(CompressionSpec),
    /// Takes hits from several retrievers in turn.
    Merger(MergerSpec),
    /// Fuses the rankings of several retrievers.
    Ensemble(EnsembleSpec),
    /// Chooses one retriever by the query.
    Router(RouterSpec),
    /// Asks one retriever after the other until an answer is good enough.
    Fallback(FallbackSpec),
    /// Prefers what is recent.
    TimeWeighted(TimeWeightedSpec),
    /// Searches one collection by keywords.
    Keyword(KeywordRetrieverSpec),
    /// Searches one collection by vector and by keywords.
    Hybrid(HybridRetrieverSpec),
    /// Retrieves for several wordings of the query.
    MultiQuery(MultiQuerySpec),
    /// Searches with the vector of a made-up answer.
    Hyde(HydeSpec),
    /// Makes a query that needs no conversation before it.
    Rephrase(RephraseSpec),
    /// Retrieves for the parts of a question.
    Decompose(DecomposeSpec),
    /// Has a model write the query's conditions as a filter.
    SelfQuery(SelfQuerySpec),
    /// Has a model choose among described retrievers.
    LlmRouter(LlmRouterSpec),
}

impl RetrieverKind {
    /// Name of the kind, in the spelling of the public contract.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::VectorStore(_) => "vector_store",
            Self::Ref(_) => "ref",
            Self::MultiVector(_) => "multi_vector",
            Self::ParentDocument(_) => "parent_document",
            Self::ContextualCompression(_) => "contextual_compression",
            Self::Merger(_) => "merger",
            Self::Ensemble(_) => "ensemble",
            Self::Router(_) => "router",
            Self::Fallback(_) => "fallback",
            Self::TimeWeighted(_) => "time_weighted",
            Self::Keyword(_) => "keyword",
            Self::Hybrid(_) => "hybrid",
            Self::MultiQuery(_) => "multi_query",
            Self::Hyde(_) => "hyde",
            Self::Rephrase(_) => "rephrase",
            Self::Decompose(_) => "decompose",
            Self::SelfQuery(_) => "self_query",
            Self::LlmRouter(_) => "llm_router",
        }
    }

    /// The retrievers directly below, each with its path from this retriever's message, such as `ensemble.retrievers[1]`.
    pub fn children_mut(&mut self) -> Vec<(String, &mut RetrieverSpec)> {
        let kind = self.as_str();
        match self {
            Self::VectorStore(_)
            | Self::Ref(_)
            | Self::ParentDocument(_)
            | Self::Keyword(_)
            | Self::Hybrid(_)
            | Self::SelfQuery(_) => Vec::new(),
            Self::MultiVector(spec) => vec![(format!("{kind}.retriever"), &mut *spec.retriever)],
            Self::ContextualCompression(spec) => vec![(format!("{kind}.retriever"), &mut *spec.retriever)],
            Self::TimeWeighted(spec) => vec![(format!("{kind}.retriever"), &mut *spec.retriever)],
            Self::MultiQuery(spec) => vec![(format!("{kind}.retriever"), &mut *spec.retriever)],
            Self::Hyde(spec) => vec![(format!("{kind}.retriever"), &mut *spec.retriever)],
            Self::Rephrase(spec) => vec![(format!("{kind}.retriever"), &mut *spec.retriever)],
            Self::Decompose(spec) => vec![(format!("{kind}.retriever"), &mut *spec.retriever)],
            Self::Merger(spec) => listed(kind, &mut spec.retrievers),
            Self::Ensemble(spec) => listed(kind, &mut spec.retrievers),
            Self::Fallback(spec) => listed(kind, &mut spec.retrievers),
            Self::LlmRouter(spec) => {
                let routes = spec.routes.iter_mut().enumerate();
                routes
                    .map(|(index, route)| (format!("{kind}.routes[{index}].retriever"), &mut route.retriever))
                    .collect()
            }
            Self::Router(spec) => {
                let rules = spec.rules.iter_mut().enumerate();
                let rules =
                    rules.map(|(index, rule)| (format!("{kind}.rules[{index}].retriever"), &mut rule.retriever));
                let default = spec.default_retriever.iter_mut();
                rules.chain(default.map(|spec| (format!("{kind}.default_retriever"), &mut **spec))).collect()
            }
        }
    }
}

fn listed<'a>(kind: &str, retrievers: &'a mut [RetrieverSpec]) -> Vec<(String, &'a mut RetrieverSpec)> {
    retrievers.iter_mut().enumerate().map(|(index, spec)| (format!("{kind}.retrievers[{index}]"), spec)).collect()
}
