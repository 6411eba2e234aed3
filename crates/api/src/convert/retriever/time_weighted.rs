//! The retriever that prefers what is recent.

use toller_core::Result;
use toller_core::error::both;
use toller_core::retriever::TimeWeightedSpec;

use super::{child_from_message, retriever_to_message};
use crate::convert::collection::collection_name_from_message;
use crate::v1;

pub(super) fn time_weighted_from_message(message: v1::TimeWeightedRetriever) -> Result<TimeWeightedSpec> {
    let retriever = child_from_message("retriever", message.retriever.map(|retriever| *retriever));
    let access_log = message.access_log.map(|name| collection_name_from_message("access_log", &name)).transpose();
    let (retriever, access_log) = both(retriever, access_log)?;
    Ok(TimeWeightedSpec {
        retriever: Box::new(retriever),
        decay_rate: message.decay_rate,
        timestamp_field: message.timestamp_field,
        k: message.k,
        other_score_keys: message.other_score_keys,
        access_log,
    })
}

pub(super) fn time_weighted_to_message(spec: &TimeWeightedSpec) -> v1::TimeWeightedRetriever {
    v1::TimeWeightedRetriever {
        retriever: Some(Box::new(retriever_to_message(&spec.retriever))),
        decay_rate: spec.decay_rate,
        timestamp_field: spec.timestamp_field.clone(),
        k: spec.k,
        other_score_keys: spec.other_score_keys.clone(),
        access_log: spec.access_log.as_ref().map(|name| name.as_str().to_owned()),
    }
}
