//! Searches of one collection by keywords, alone and beside vectors.

use serde::{Deserialize, Serialize};
use toller_api::convert::filter_to_message;
use toller_api::v1;

use super::vector_store::shown_filter;
use crate::error::Error;
use crate::filter::JsonFilter;
use crate::names::Fusion;

/// Parameters of a search by keywords. What is absent takes the server's default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Keyword {
    pub(super) collection: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<JsonFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    with_vectors: Option<bool>,
}

/// Parameters of a search by vector and keywords. What is absent takes the server's default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hybrid {
    pub(super) collection: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leg_k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector_weight: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    keyword_weight: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fusion: Option<Fusion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    c: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<JsonFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    with_vectors: Option<bool>,
}

impl Keyword {
    pub(super) fn into_message(self) -> v1::KeywordRetriever {
        v1::KeywordRetriever {
            collection: self.collection,
            k: self.k,
            filter: self.filter.as_ref().map(|JsonFilter(filter)| filter_to_message(filter)),
            with_vectors: self.with_vectors,
        }
    }

    pub(super) fn from_message(message: v1::KeywordRetriever) -> Result<Self, Error> {
        Ok(Self {
            collection: message.collection,
            k: message.k,
            filter: shown_filter(message.filter)?,
            with_vectors: message.with_vectors,
        })
    }
}

impl Hybrid {
    pub(super) fn into_message(self) -> v1::HybridRetriever {
        v1::HybridRetriever {
            collection: self.collection,
            k: self.k,
            leg_k: self.leg_k,
            vector_weight: self.vector_weight,
            keyword_weight: self.keyword_weight,
            fusion: self.fusion.map_or(0, i32::from),
            c: self.c,
            filter: self.filter.as_ref().map(|JsonFilter(filter)| filter_to_message(filter)),
            with_vectors: self.with_vectors,
        }
    }

    pub(super) fn from_message(message: v1::HybridRetriever) -> Result<Self, Error> {
        Ok(Self {
            collection: message.collection,
            k: message.k,
            leg_k: message.leg_k,
            vector_weight: message.vector_weight,
            keyword_weight: message.keyword_weight,
            fusion: Fusion::from_message(message.fusion),
            c: message.c,
            filter: shown_filter(message.filter)?,
            with_vectors: message.with_vectors,
        })
    }
}
