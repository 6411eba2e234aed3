//! The retriever that prefers what is recent.

use serde::{Deserialize, Serialize};
use toller_api::v1;

use super::RetrieverFile;
use crate::error::Error;

/// Relevance and recency.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimeWeighted {
    pub(super) retriever: RetrieverFile,
    #[serde(skip_serializing_if = "Option::is_none")]
    decay_rate: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp_field: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    other_score_keys: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    access_log: Option<String>,
}

impl TimeWeighted {
    pub(super) fn into_message(self) -> Result<v1::TimeWeightedRetriever, Error> {
        Ok(v1::TimeWeightedRetriever {
            retriever: Some(Box::new(self.retriever.into_message()?)),
            decay_rate: self.decay_rate,
            timestamp_field: self.timestamp_field,
            k: self.k,
            other_score_keys: self.other_score_keys,
            access_log: self.access_log,
        })
    }

    pub(super) fn from_message(message: v1::TimeWeightedRetriever) -> Result<Self, Error> {
        Ok(Self {
            retriever: RetrieverFile::from_message(message.retriever.map(|inner| *inner).unwrap_or_default())?,
            decay_rate: message.decay_rate,
            timestamp_field: message.timestamp_field,
            k: message.k,
            other_score_keys: message.other_score_keys,
            access_log: message.access_log,
        })
    }
}
