//! The retriever that prefers what is recent.

use toller_core::Result;
use toller_core::retriever::TimeWeightedSpec;

use super::{child_from_message, retriever_to_message};
use crate::v1;

pub(super) fn time_weighted_from_message(message: v1::TimeWeightedRetriever) -> Result<TimeWeightedSpec> {
    Ok(TimeWeightedSpec {
        retriever: Box::new(child_from_message("retriever", message.retriever.map(|retriever| *retriever))?),
        decay_rate: message.decay_rate,
        timestamp_field: message.timestamp_field,
        k: message.k,
        other_score_keys: message.other_score_keys,
    })
}

pub(super) fn time_weighted_to_message(spec: &TimeWeightedSpec) -> v1::TimeWeightedRetriever {
    v1::TimeWeightedRetriever {
        retriever: Some(Box::new(retriever_to_message(&spec.retriever))),
        decay_rate: spec.decay_rate,
        timestamp_field: spec.timestamp_field.clone(),
        k: spec.k,
        other_score_keys: spec.other_score_keys.clone(),
    }
}
