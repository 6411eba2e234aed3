//! Declared retrievers that make one list of several.

use serde::{Deserialize, Serialize};

use super::RetrieverSpec;

/// Default constant of reciprocal rank fusion, as in LangChain.
pub const DEFAULT_RRF_C: u32 = 60;

/// Takes hits from several retrievers in turn (LangChain's `MergerRetriever`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MergerSpec {
    /// At least one.
    pub retrievers: Vec<RetrieverSpec>,
    /// May a document come more than once?
    pub allow_duplicates: bool,
    /// Most hits, at least 1; none for all.
    pub k: Option<u32>,
    /// Path in the metadata of what makes two hits the same; none for the document's id.
    pub id_key: Option<String>,
}

/// Fuses the rankings of several retrievers (LangChain's `EnsembleRetriever`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnsembleSpec {
    /// At least one.
    pub retrievers: Vec<RetrieverSpec>,
    /// Aligned with the retrievers, at least 0; none for equal weights.
    pub weights: Vec<f64>,
    /// How rankings become one.
    pub fusion: Fusion,
    /// Reciprocal ranks only; default [`DEFAULT_RRF_C`].
    pub c: Option<u32>,
    /// Path in the metadata of what makes two hits the same; none for the document's id.
    pub id_key: Option<String>,
    /// Most hits, at least 1; none for all.
    pub k: Option<u32>,
}

/// How several rankings become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fusion {
    /// Reciprocal ranks.
    #[default]
    Rrf,
    /// Scores between each list's least and greatest.
    MinMax,
    /// Scores between three standard deviations below and above each list's mean.
    DistributionBased,
    /// Relevances, by weights that add up to 1.
    Convex,
}

impl Fusion {
    /// Name, in the spelling of the public contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rrf => "rrf",
            Self::MinMax => "min_max",
            Self::DistributionBased => "distribution_based",
            Self::Convex => "convex",
        }
    }
}
