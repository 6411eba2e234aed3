//! Merger and ensemble.

use serde::{Deserialize, Serialize};
use toller_api::v1;

use super::{RetrieverFile, all_from_messages, all_to_messages};
use crate::error::Error;
use crate::names::Fusion;

/// Hits of several retrievers in turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Merger {
    pub(super) retrievers: Vec<RetrieverFile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allow_duplicates: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_key: Option<String>,
}

/// Rankings of several retrievers fused.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ensemble {
    pub(super) retrievers: Vec<RetrieverFile>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    weights: Vec<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fusion: Option<Fusion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    c: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
}

impl Merger {
    pub(super) fn into_message(self) -> Result<v1::MergerRetriever, Error> {
        let Self { retrievers, allow_duplicates, k, id_key } = self;
        Ok(v1::MergerRetriever { retrievers: all_to_messages(retrievers)?, allow_duplicates, k, id_key })
    }

    pub(super) fn from_message(message: v1::MergerRetriever) -> Result<Self, Error> {
        let v1::MergerRetriever { retrievers, allow_duplicates, k, id_key } = message;
        Ok(Self { retrievers: all_from_messages(retrievers)?, allow_duplicates, k, id_key })
    }
}

impl Ensemble {
    pub(super) fn into_message(self) -> Result<v1::EnsembleRetriever, Error> {
        Ok(v1::EnsembleRetriever {
            retrievers: all_to_messages(self.retrievers)?,
            weights: self.weights,
            fusion: self.fusion.map_or(0, i32::from),
            c: self.c,
            id_key: self.id_key,
            k: self.k,
        })
    }

    pub(super) fn from_message(message: v1::EnsembleRetriever) -> Result<Self, Error> {
        Ok(Self {
            fusion: Fusion::from_message(message.fusion),
            retrievers: all_from_messages(message.retrievers)?,
            weights: message.weights,
            c: message.c,
            id_key: message.id_key,
            k: message.k,
        })
    }
}
