//! Relevance: a metric's value brought to [0, 1], where 1 is identity.
//!
//! The unclamped formulas are LangChain's (`VectorStore._*_relevance_score_fn`) where it has them; the clamp is ours, since
//! its functions go negative and its inner-product function is not monotone.

use std::f64::consts::SQRT_2;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::metric::Metric;

/// How a metric's value becomes a relevance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RelevanceFunction {
    /// The metric's own: the cosine itself; 1 − d/√2 for Euclidean; the product itself for dot (unit vectors).
    #[default]
    Default,
    /// (1 + s)/2 of a cosine or of the dot product of unit vectors.
    HalfCosine,
    /// 1/(1 + d) of a Euclidean distance, or of the cosine distance 1 − cos.
    Reciprocal,
    /// 1/(1 + e^−s) of a cosine or dot product.
    Sigmoid,
}

impl RelevanceFunction {
    /// Is this function defined for `metric`? Half cosine and sigmoid want a similarity, reciprocal wants a distance.
    pub fn applies_to(self, metric: Metric) -> bool {
        match self {
            Self::Default => true,
            Self::HalfCosine | Self::Sigmoid => metric != Metric::Euclidean,
            Self::Reciprocal => metric != Metric::Dot,
        }
    }

    /// Relevance in [0, 1] of a metric's value; monotone, better values never get less.
    ///
    /// Where the function does not apply to the metric (see [`Self::applies_to`]) the metric's own function is used.
    ///
    /// ```
    /// use toller_core::{Metric, RelevanceFunction};
    /// assert_eq!(RelevanceFunction::Default.relevance(Metric::Cosine, -0.2), 0.0);
    /// assert_eq!(RelevanceFunction::HalfCosine.relevance(Metric::Cosine, 0.5), 0.75);
    /// assert_eq!(RelevanceFunction::Reciprocal.relevance(Metric::Euclidean, 1.0), 0.5);
    /// ```
    pub fn relevance(self, metric: Metric, value: f64) -> f64 {
        let unclamped = match (self, metric) {
            (Self::HalfCosine, Metric::Cosine | Metric::Dot) => (1.0 + value) / 2.0,
            (Self::Sigmoid, Metric::Cosine | Metric::Dot) => 1.0 / (1.0 + (-value).exp()),
            (Self::Reciprocal, Metric::Euclidean) => 1.0 / (1.0 + value),
            (Self::Reciprocal, Metric::Cosine) => 1.0 / (2.0 - value),
            (_, Metric::Euclidean) => euclidean_relevance(value),
            (_, Metric::Cosine | Metric::Dot) => value,
        };
        unclamped.clamp(0.0, 1.0)
    }
}

impl fmt::Display for RelevanceFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Default => "default",
            Self::HalfCosine => "half_cosine",
            Self::Reciprocal => "reciprocal",
            Self::Sigmoid => "sigmoid",
        })
    }
}

/// 1 − d/√2 of a Euclidean distance between unit vectors, unclamped (LangChain's `_euclidean_relevance_score_fn`).
pub fn euclidean_relevance(distance: f64) -> f64 {
    1.0 - distance / SQRT_2
}

/// 1 − d of a cosine distance d = 1 − cos, unclamped (LangChain's `_cosine_relevance_score_fn`).
pub fn cosine_relevance(distance: f64) -> f64 {
    1.0 - distance
}
