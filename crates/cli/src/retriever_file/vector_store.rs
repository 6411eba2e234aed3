//! A search of one collection.

use serde::{Deserialize, Serialize};
use toller_api::convert::{filter_from_message, filter_to_message};
use toller_api::v1;

use crate::error::Error;
use crate::filter::JsonFilter;
use crate::names::{RelevanceFunction, SearchType};

/// Parameters of a search in one collection. What is absent takes the server's default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct VectorStore {
    pub(super) collection: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    search_type: Option<SearchType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fetch_k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lambda_mult: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score_threshold: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_score_threshold: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<JsonFilter>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relevance_fn: Option<RelevanceFunction>,
    #[serde(skip_serializing_if = "Option::is_none")]
    with_vectors: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector_name: Option<String>,
}

impl VectorStore {
    pub(super) fn into_message(self) -> v1::VectorStoreRetriever {
        v1::VectorStoreRetriever {
            collection: self.collection,
            search_type: self.search_type.map_or(0, i32::from),
            k: self.k,
            fetch_k: self.fetch_k,
            lambda_mult: self.lambda_mult,
            score_threshold: self.score_threshold,
            raw_score_threshold: self.raw_score_threshold,
            filter: self.filter.as_ref().map(|JsonFilter(filter)| filter_to_message(filter)),
            relevance_fn: self.relevance_fn.map_or(0, i32::from),
            with_vectors: self.with_vectors,
            vector_name: self.vector_name,
        }
    }

    pub(super) fn from_message(message: v1::VectorStoreRetriever) -> Result<Self, Error> {
        Ok(Self {
            collection: message.collection,
            search_type: SearchType::from_message(message.search_type),
            k: message.k,
            fetch_k: message.fetch_k,
            lambda_mult: message.lambda_mult,
            score_threshold: message.score_threshold,
            raw_score_threshold: message.raw_score_threshold,
            filter: shown_filter(message.filter)?,
            relevance_fn: RelevanceFunction::from_message(message.relevance_fn),
            with_vectors: message.with_vectors,
            vector_name: message.vector_name,
        })
    }
}

/// The filter of a message, in its JSON form.
pub(super) fn shown_filter(message: Option<v1::Filter>) -> Result<Option<JsonFilter>, Error> {
    let filter = message.map(filter_from_message).transpose();
    Ok(filter.map_err(|fault| Error::Failed(format!("cannot show the filter: {fault}")))?.map(JsonFilter))
}
