//! Metrics and relevance functions.

use toller_core::{Error, Metric, RelevanceFunction, Result};

use crate::v1;

/// A metric; unspecified is cosine.
///
/// # Errors
/// `InvalidArgument` for an unknown enum value.
pub fn metric_from_message(number: i32) -> Result<Metric> {
    match v1::Metric::try_from(number) {
        Ok(v1::Metric::Unspecified | v1::Metric::Cosine) => Ok(Metric::Cosine),
        Ok(v1::Metric::Dot) => Ok(Metric::Dot),
        Ok(v1::Metric::Euclidean) => Ok(Metric::Euclidean),
        Err(_) => Err(Error::invalid("metric", format!("unknown value {number}"))),
    }
}

/// The message of a metric; none is unspecified.
pub fn metric_to_message(metric: Option<Metric>) -> v1::Metric {
    match metric {
        None => v1::Metric::Unspecified,
        Some(Metric::Cosine) => v1::Metric::Cosine,
        Some(Metric::Dot) => v1::Metric::Dot,
        Some(Metric::Euclidean) => v1::Metric::Euclidean,
    }
}

/// A relevance function; unspecified is the metric's own.
///
/// # Errors
/// `InvalidArgument` for an unknown enum value.
pub fn relevance_function_from_message(number: i32) -> Result<RelevanceFunction> {
    match v1::RelevanceFunction::try_from(number) {
        Ok(v1::RelevanceFunction::Unspecified) => Ok(RelevanceFunction::Default),
        Ok(v1::RelevanceFunction::HalfCosine) => Ok(RelevanceFunction::HalfCosine),
        Ok(v1::RelevanceFunction::Reciprocal) => Ok(RelevanceFunction::Reciprocal),
        Ok(v1::RelevanceFunction::Sigmoid) => Ok(RelevanceFunction::Sigmoid),
        Err(_) => Err(Error::invalid("relevance_fn", format!("unknown value {number}"))),
    }
}

/// The message of a relevance function.
pub fn relevance_function_to_message(function: RelevanceFunction) -> v1::RelevanceFunction {
    match function {
        RelevanceFunction::Default => v1::RelevanceFunction::Unspecified,
        RelevanceFunction::HalfCosine => v1::RelevanceFunction::HalfCosine,
        RelevanceFunction::Reciprocal => v1::RelevanceFunction::Reciprocal,
        RelevanceFunction::Sigmoid => v1::RelevanceFunction::Sigmoid,
    }
}
