//! Declared retrievers that choose among several: by the query, by what a language model says of it, or by how good an answer is.

use serde::{Deserialize, Serialize};

use super::{AskSpec, RetrieverName, RetrieverSpec};
use crate::filter::Filter;

/// Most routes that a language model may choose among: each is a line of its prompt.
pub const MOST_ROUTES: usize = 32;

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

/// Has a language model choose among described retrievers, and fuses what the chosen ones find.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LlmRouterSpec {
    /// 2 to [`MOST_ROUTES`], each name once.
    pub routes: Vec<RouteSpec>,
    /// Whom to ask.
    #[serde(default)]
    pub ask: AskSpec,
    /// Most routes that are taken for one query, 1 to the number of routes; none for all of them.
    pub max_routes: Option<u32>,
    /// What is taken when the model's answer is of no use or chooses nothing; none for an error or an empty answer.
    pub default_route: Option<RetrieverName>,
    /// Most hits, at least 1; none for all.
    pub k: Option<u32>,
}

/// A retriever that a language model may choose.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RouteSpec {
    /// What the model calls it; also its leg in `sources`.
    pub name: RetrieverName,
    /// What can be found there, for the prompt.
    pub description: String,
    /// What runs then.
    pub retriever: RetrieverSpec,
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
