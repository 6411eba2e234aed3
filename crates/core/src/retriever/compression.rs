//! Declared compressors: what changes a list of hits after it was found.

use serde::{Deserialize, Serialize};

use super::{AskSpec, OnError, RetrieverSpec};

/// Default bound of an embeddings filter without threshold, as in LangChain.
pub const DEFAULT_FILTER_K: u32 = 20;
/// Default similarity from which a hit is redundant, as in LangChain.
pub const DEFAULT_REDUNDANCY: f64 = 0.95;
/// Default number of hits after reranking, as in LangChain.
pub const DEFAULT_TOP_N: u32 = 3;
/// Default number of sentences of one hit, without threshold.
pub const DEFAULT_MAX_SENTENCES: u32 = 3;

/// Passes the hits of a retriever through compressors (LangChain's `ContextualCompressionRetriever`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompressionSpec {
    /// Finds the hits.
    pub retriever: Box<RetrieverSpec>,
    /// At least one, in the order in which they run.
    pub compressors: Vec<CompressorSpec>,
}

/// A compressor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CompressorSpec {
    /// Skip passes the hits on as they came.
    pub on_error: OnError,
    /// What it does.
    pub kind: CompressorKind,
}

/// What a compressor does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompressorKind {
    /// Keeps hits near the query.
    EmbeddingsFilter(EmbeddingsFilterSpec),
    /// Drops hits that are like better ones.
    RedundantFilter(RedundantFilterSpec),
    /// Scores query and document together.
    Rerank(RerankSpec),
    /// Puts the best hits at both ends.
    LongContextReorder,
    /// Keeps the sentences near the query.
    Extract(ExtractSpec),
    /// Keeps the sentences that a language model chooses.
    LlmExtract(AskSpec),
    /// Keeps the hits that a language model calls relevant.
    LlmFilter(AskSpec),
    /// Has a language model put the hits in order.
    LlmRerank(LlmRerankSpec),
}

impl CompressorKind {
    /// Name of the kind, in the spelling of the public contract.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::EmbeddingsFilter(_) => "embeddings_filter",
            Self::RedundantFilter(_) => "redundant_filter",
            Self::Rerank(_) => "rerank",
            Self::LongContextReorder => "long_context_reorder",
            Self::Extract(_) => "extract",
            Self::LlmExtract(_) => "llm_extract",
            Self::LlmFilter(_) => "llm_filter",
            Self::LlmRerank(_) => "llm_rerank",
        }
    }
}

/// Keeps hits near the query, best first (LangChain's `EmbeddingsFilter`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct EmbeddingsFilterSpec {
    /// Least cosine similarity, in [-1, 1], inclusive.
    pub threshold: Option<f64>,
    /// Most hits, at least 1; default [`DEFAULT_FILTER_K`] without a threshold, else no bound.
    pub k: Option<u32>,
    /// Embedding model; none for the default one.
    pub model: Option<String>,
}

/// Drops hits that are like better ones (LangChain's `EmbeddingsRedundantFilter`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RedundantFilterSpec {
    /// Cosine similarity above which a hit is dropped, in [-1, 1]; default [`DEFAULT_REDUNDANCY`].
    pub threshold: Option<f64>,
    /// Embedding model; none for the hits' own vectors or the default model.
    pub model: Option<String>,
}

/// Scores with a cross-encoder (LangChain's `CrossEncoderReranker`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RerankSpec {
    /// Reranker; none for the default one.
    pub model: Option<String>,
    /// Most hits, at least 1; default [`DEFAULT_TOP_N`].
    pub top_n: Option<u32>,
}

/// Keeps the sentences near the query.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ExtractSpec {
    /// Least cosine similarity of a sentence, in [-1, 1], inclusive.
    pub threshold: Option<f64>,
    /// Most sentences of one hit, at least 1; default [`DEFAULT_MAX_SENTENCES`] without a threshold, else no bound.
    pub max_sentences: Option<u32>,
    /// Embedding model; none for the default one.
    pub model: Option<String>,
}

/// Has a language model put the hits in order (LangChain's `LLMListwiseRerank`).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct LlmRerankSpec {
    /// Whom to ask.
    pub ask: AskSpec,
    /// Most hits, at least 1; default [`DEFAULT_TOP_N`].
    pub top_n: Option<u32>,
}
