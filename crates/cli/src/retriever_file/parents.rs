//! Retrievers of small documents that stand for greater ones.

use serde::{Deserialize, Serialize};
use toller_api::v1;
use toller_api::v1::parent_source::Kind;

use super::vector_store::VectorStore;
use super::{RetrieverFile, at_most_one};
use crate::error::Error;
use crate::names::ParentScore;

/// Any retriever finds the children.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MultiVector {
    pub(super) retriever: RetrieverFile,
    parents: Parents,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<ParentScore>,
}

/// A search finds the children.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ParentDocument {
    pub(super) search: VectorStore,
    parents: Parents,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<ParentScore>,
}

/// Where the parents are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parents {
    #[serde(skip_serializing_if = "Option::is_none")]
    collection: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    document_store: Option<String>,
}

impl MultiVector {
    pub(super) fn into_message(self) -> Result<v1::MultiVectorRetriever, Error> {
        Ok(v1::MultiVectorRetriever {
            retriever: Some(Box::new(self.retriever.into_message()?)),
            parents: Some(self.parents.into_message()?),
            id_key: self.id_key,
            k: self.k,
            score: self.score.map_or(0, i32::from),
        })
    }

    pub(super) fn from_message(message: v1::MultiVectorRetriever) -> Result<Self, Error> {
        Ok(Self {
            retriever: RetrieverFile::from_message(message.retriever.map(|inner| *inner).unwrap_or_default())?,
            parents: Parents::from_message(message.parents),
            id_key: message.id_key,
            k: message.k,
            score: ParentScore::from_message(message.score),
        })
    }
}

impl ParentDocument {
    pub(super) fn into_message(self) -> Result<v1::ParentDocumentRetriever, Error> {
        Ok(v1::ParentDocumentRetriever {
            search: Some(self.search.into_message()),
            parents: Some(self.parents.into_message()?),
            id_key: self.id_key,
            k: self.k,
            score: self.score.map_or(0, i32::from),
        })
    }

    pub(super) fn from_message(message: v1::ParentDocumentRetriever) -> Result<Self, Error> {
        Ok(Self {
            search: VectorStore::from_message(message.search.unwrap_or_default())?,
            parents: Parents::from_message(message.parents),
            id_key: message.id_key,
            k: message.k,
            score: ParentScore::from_message(message.score),
        })
    }
}

impl Parents {
    fn into_message(self) -> Result<v1::ParentSource, Error> {
        let kinds = [
            self.collection.map(|name| Ok(Kind::Collection(name))),
            self.document_store.map(|name| Ok(Kind::DocumentStore(name))),
        ];
        Ok(v1::ParentSource { kind: at_most_one("parents", "collection", kinds)? })
    }

    fn from_message(message: Option<v1::ParentSource>) -> Self {
        let (collection, document_store) = match message.and_then(|message| message.kind) {
            Some(Kind::Collection(name)) => (Some(name), None),
            Some(Kind::DocumentStore(name)) => (None, Some(name)),
            None => (None, None),
        };
        Self { collection, document_store }
    }
}
