//! A retriever as JSON: the field names of the contract, with filters in their JSON form.
//!
//! ```json
//! {"name": "docs-mmr", "tags": ["demo"],
//!  "vector_store": {"collection": "docs", "search_type": "mmr", "k": 4, "filter": {"lang": "en"}}}
//! ```

use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};
use toller_api::convert::{filter_from_message, filter_to_message};
use toller_api::v1;
use toller_api::v1::retriever::Kind;

use crate::error::Error;
use crate::filter::{JsonFilter, check_integers};
use crate::names::{RelevanceFunction, SearchType};

/// A retriever.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetrieverFile {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector_store: Option<VectorStore>,
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    reference: Option<String>,
}

/// Parameters of a search in one collection. What is absent takes the server's default.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct VectorStore {
    collection: String,
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
}

impl RetrieverFile {
    /// Reads a file; `-` is standard input.
    ///
    /// # Errors
    /// `File`, or `Failed` with line and column where the JSON is not a retriever's.
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        let text = if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(path)
        };
        let text = text.map_err(|source| Error::File { path: path.to_owned(), source })?;
        let failed = |fault: String| Error::Failed(format!("{}: {fault}", path.display()));
        check_integers(&text).map_err(failed)?;
        serde_json::from_str(&text).map_err(|fault| failed(fault.to_string()))
    }

    /// The message.
    ///
    /// # Errors
    /// `Failed` when it is of two kinds at once; all else is the server's to check.
    pub(crate) fn into_message(self) -> Result<v1::Retriever, Error> {
        let kind = match (self.vector_store, self.reference) {
            (Some(_), Some(_)) => {
                return Err(Error::Failed("a retriever is either vector_store or ref, not both".to_owned()));
            }
            (Some(search), None) => Some(Kind::VectorStore(search.into_message())),
            (None, Some(name)) => Some(Kind::Ref(name)),
            (None, None) => None,
        };
        Ok(v1::Retriever { name: self.name, tags: self.tags, kind })
    }

    /// From its message.
    ///
    /// # Errors
    /// `Failed` when the server's filter has a condition that this version does not know.
    pub(crate) fn from_message(message: v1::Retriever) -> Result<Self, Error> {
        let (vector_store, reference) = match message.kind {
            Some(Kind::VectorStore(search)) => (Some(VectorStore::from_message(search)?), None),
            Some(Kind::Ref(name)) => (None, Some(name)),
            None => (None, None),
        };
        Ok(Self { name: message.name, tags: message.tags, vector_store, reference })
    }

    /// Its name; empty for none.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Its tags.
    pub(crate) fn tags(&self) -> &[String] {
        &self.tags
    }

    /// What it does, in a word, and on what.
    pub(crate) fn summary(&self) -> (&'static str, &str) {
        match (&self.vector_store, &self.reference) {
            (Some(search), _) => ("vector_store", &search.collection),
            (None, Some(name)) => ("ref", name),
            (None, None) => ("-", "-"),
        }
    }
}

impl VectorStore {
    fn into_message(self) -> v1::VectorStoreRetriever {
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
        }
    }

    fn from_message(message: v1::VectorStoreRetriever) -> Result<Self, Error> {
        let filter = message.filter.map(filter_from_message).transpose();
        Ok(Self {
            collection: message.collection,
            search_type: SearchType::from_message(message.search_type),
            k: message.k,
            fetch_k: message.fetch_k,
            lambda_mult: message.lambda_mult,
            score_threshold: message.score_threshold,
            raw_score_threshold: message.raw_score_threshold,
            filter: filter.map_err(|fault| Error::Failed(format!("cannot show the filter: {fault}")))?.map(JsonFilter),
            relevance_fn: RelevanceFunction::from_message(message.relevance_fn),
            with_vectors: message.with_vectors,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_becomes_the_message_and_comes_back() {
        let text = r#"{"name":"docs-mmr","tags":["demo"],"vector_store":{"collection":"docs","search_type":"mmr","k":0,"lambda_mult":0.0,"filter":{"year":{"$gte":2020}},"relevance_fn":"half_cosine","with_vectors":false}}"#;
        let file: RetrieverFile = serde_json::from_str(text).unwrap();
        let message = file.clone().into_message().unwrap();
        let Some(Kind::VectorStore(search)) = &message.kind else { panic!("wrong kind") };
        assert_eq!((search.k, search.fetch_k, search.with_vectors), (Some(0), None, Some(false)));
        assert_eq!(search.search_type(), v1::SearchType::Mmr);
        let back = RetrieverFile::from_message(message).unwrap();
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
        assert_eq!(back.summary(), ("vector_store", "docs"));
    }

    #[test]
    fn references_and_faults() {
        let reference: RetrieverFile = serde_json::from_str(r#"{"ref":"other"}"#).unwrap();
        assert_eq!(reference.into_message().unwrap().kind, Some(Kind::Ref("other".to_owned())));
        let both = r#"{"ref":"a","vector_store":{"collection":"b"}}"#;
        assert!(serde_json::from_str::<RetrieverFile>(both).unwrap().into_message().is_err());
        for (text, expected) in [
            (r#"{"vector_store":{"collection":"a","kk":1}}"#, "unknown field `kk`"),
            (r#"{"vector_store":{"collection":"a","search_type":"best"}}"#, "unknown variant `best`"),
            (r#"{"vector_store":{"collection":"a","filter":{"x":{"$gt3":1}}}}"#, "x.$gt3: unknown operator"),
            (r#"{"vector_store":{}}"#, "missing field `collection`"),
        ] {
            let fault = serde_json::from_str::<RetrieverFile>(text).unwrap_err().to_string();
            assert!(fault.contains(expected), "{fault}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = RetrieverFile::read(Path::new("/nowhere/r.json")).unwrap_err();
        assert!(error.to_string().contains("/nowhere/r.json"), "{error}");
    }
}
