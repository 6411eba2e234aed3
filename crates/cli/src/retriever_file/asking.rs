//! Retrievers that ask a language model.

use serde::{Deserialize, Serialize};
use toller_api::v1;

use super::RetrieverFile;
use super::vector_store::VectorStore;
use crate::error::Error;
use crate::names::{FieldType, OnInvalid};

/// Several wordings of the query.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MultiQuery {
    pub(super) retriever: RetrieverFile,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_queries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_original: Option<bool>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    queries: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
}

/// The vector of a made-up answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hyde {
    pub(super) retriever: RetrieverFile,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_query: Option<bool>,
}

/// A query that needs no conversation before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rephrase {
    pub(super) retriever: RetrieverFile,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
}

/// The parts of a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Decompose {
    pub(super) retriever: RetrieverFile,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_queries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_original: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    k: Option<u32>,
}

/// Conditions of the query as a filter.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SelfQuery {
    pub(super) search: VectorStore,
    fields: Vec<Field>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    contents: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    on_invalid: Option<OnInvalid>,
}

/// A metadata field that may be filtered by.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Field {
    name: String,
    r#type: FieldType,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    description: String,
}

impl MultiQuery {
    pub(super) fn into_message(self) -> Result<v1::MultiQueryRetriever, Error> {
        let Self { retriever, model, prompt, max_queries, include_original, queries, k } = self;
        let retriever = Some(Box::new(retriever.into_message()?));
        Ok(v1::MultiQueryRetriever { retriever, model, prompt, max_queries, include_original, queries, k })
    }

    pub(super) fn from_message(message: v1::MultiQueryRetriever) -> Result<Self, Error> {
        let v1::MultiQueryRetriever { retriever, model, prompt, max_queries, include_original, queries, k } = message;
        let retriever = child_from_message(retriever)?;
        Ok(Self { retriever, model, prompt, max_queries, include_original, queries, k })
    }
}

impl Hyde {
    pub(super) fn into_message(self) -> Result<v1::HydeRetriever, Error> {
        let Self { retriever, model, prompt, include_query } = self;
        let retriever = Some(Box::new(retriever.into_message()?));
        Ok(v1::HydeRetriever { retriever, model, prompt, include_query })
    }

    pub(super) fn from_message(message: v1::HydeRetriever) -> Result<Self, Error> {
        let v1::HydeRetriever { retriever, model, prompt, include_query } = message;
        let retriever = child_from_message(retriever)?;
        Ok(Self { retriever, model, prompt, include_query })
    }
}

impl Rephrase {
    pub(super) fn into_message(self) -> Result<v1::RephraseRetriever, Error> {
        let Self { retriever, model, prompt } = self;
        let retriever = Some(Box::new(retriever.into_message()?));
        Ok(v1::RephraseRetriever { retriever, model, prompt })
    }

    pub(super) fn from_message(message: v1::RephraseRetriever) -> Result<Self, Error> {
        let v1::RephraseRetriever { retriever, model, prompt } = message;
        let retriever = child_from_message(retriever)?;
        Ok(Self { retriever, model, prompt })
    }
}

impl Decompose {
    pub(super) fn into_message(self) -> Result<v1::DecomposeRetriever, Error> {
        let Self { retriever, model, prompt, max_queries, include_original, k } = self;
        let retriever = Some(Box::new(retriever.into_message()?));
        Ok(v1::DecomposeRetriever { retriever, model, prompt, max_queries, include_original, k })
    }

    pub(super) fn from_message(message: v1::DecomposeRetriever) -> Result<Self, Error> {
        let v1::DecomposeRetriever { retriever, model, prompt, max_queries, include_original, k } = message;
        let retriever = child_from_message(retriever)?;
        Ok(Self { retriever, model, prompt, max_queries, include_original, k })
    }
}

impl SelfQuery {
    pub(super) fn into_message(self) -> v1::SelfQueryRetriever {
        v1::SelfQueryRetriever {
            search: Some(self.search.into_message()),
            fields: self.fields.into_iter().map(Field::into_message).collect(),
            model: self.model,
            prompt: self.prompt,
            contents: self.contents,
            on_invalid: self.on_invalid.map_or(0, i32::from),
        }
    }

    pub(super) fn from_message(message: v1::SelfQueryRetriever) -> Result<Self, Error> {
        Ok(Self {
            search: VectorStore::from_message(message.search.unwrap_or_default())?,
            fields: message.fields.into_iter().map(Field::from_message).collect::<Result<_, _>>()?,
            model: message.model,
            prompt: message.prompt,
            contents: message.contents,
            on_invalid: OnInvalid::from_message(message.on_invalid),
        })
    }
}

impl Field {
    fn into_message(self) -> v1::MetadataField {
        v1::MetadataField { name: self.name, r#type: self.r#type.into(), description: self.description }
    }

    fn from_message(message: v1::MetadataField) -> Result<Self, Error> {
        let kind = FieldType::from_message(message.r#type);
        let unknown =
            || Error::Failed(format!("the type of the field {:?} is not known to this version", message.name));
        Ok(Self { r#type: kind.ok_or_else(unknown)?, name: message.name, description: message.description })
    }
}

fn child_from_message(message: Option<Box<v1::Retriever>>) -> Result<RetrieverFile, Error> {
    RetrieverFile::from_message(message.map(|inner| *inner).unwrap_or_default())
}
