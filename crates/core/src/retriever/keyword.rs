//! Declared searches of one collection by keywords, and by keywords and vectors together.

use serde::{Deserialize, Serialize};

use super::Fusion;
use crate::collection::CollectionName;
use crate::filter::Filter;

/// Default number of hits that each leg of a hybrid search finds; at least as many as the search gives.
pub const DEFAULT_LEG_K: u32 = 20;

/// Parameters of a retriever that searches one collection by keywords (BM25).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KeywordRetrieverSpec {
    /// The collection; it must have a keyword index.
    pub collection: CollectionName,
    /// Most hits, at least 1; default [`super::DEFAULT_K`].
    pub k: Option<u32>,
    /// Which documents take part.
    pub filter: Option<Filter>,
    /// Shall hits carry their vectors?
    pub with_vectors: bool,
}

/// Parameters of a retriever that searches one collection by vector and by keywords, and fuses what both find.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HybridRetrieverSpec {
    /// The collection; it must have a keyword index.
    pub collection: CollectionName,
    /// Most hits, at least 1; default [`super::DEFAULT_K`].
    pub k: Option<u32>,
    /// Most hits of each leg; default [`DEFAULT_LEG_K`], at least `k`.
    pub leg_k: Option<u32>,
    /// Weight of what the search by vector finds, at least 0; default 1.
    pub vector_weight: Option<f64>,
    /// Weight of what the search by keywords finds, at least 0; default 1.
    pub keyword_weight: Option<f64>,
    /// How the two rankings become one; not by relevances, which keywords do not give.
    pub fusion: Fusion,
    /// Reciprocal ranks only; default [`super::DEFAULT_RRF_C`].
    pub c: Option<u32>,
    /// Which documents take part, in both legs.
    pub filter: Option<Filter>,
    /// Shall hits carry their vectors?
    pub with_vectors: bool,
}
