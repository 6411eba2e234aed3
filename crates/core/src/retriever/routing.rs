//! Declared retrievers that choose one of several: by the query, or by how good its answer is.

use serde::{Deserialize, Serialize};

use super::RetrieverSpec;
use crate::filter::Filter;

/// Chooses the retriever of the first rule whose condition holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterSpec {
    /// At least one, in order.
    pub rules: Vec<RouterRule>,
    /// When no condition holds; none for an empty answer.
    pub default_retriever: Option<Box<RetrieverSpec>>,
}

/// A condition and where it leads.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouterRule {
    /// When it applies.
    pub condition: RouterCondition,
    /// What runs then.
    pub retriever: RetrieverSpec,
}

/// A condition on a request. Those on the text never hold for a query by vector.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouterCondition {
    /// The text has this within it, whatever the case of letters.
    Contains(String),
    /// The text has a match of this regular expression.
    Regex(String),
    /// The text's length in code points, inclusive.
    Length {
        /// At least so long.
        min: Option<u32>,
        /// At most so long.
        max: Option<u32>,
    },
    /// The request's metadata matches.
    Metadata(Filter),
}

/// Asks one retriever after the other until an answer is good enough.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FallbackSpec {
    /// At least two, in order.
    pub retrievers: Vec<RetrieverSpec>,
    /// Hits that make an answer good enough, at least 1; default 1.
    pub min_hits: Option<u32>,
    /// Relevance from which a hit counts, in [0, 1]; none for every hit.
    pub min_relevance: Option<f64>,
}
