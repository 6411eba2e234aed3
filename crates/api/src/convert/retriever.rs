//! Queries and declared retrievers.

use std::collections::BTreeSet;

use toller_core::error::both;
use toller_core::retriever::{RetrieverKind, RetrieverName, RetrieverSpec, SearchType, VectorStoreRetrieverSpec};
use toller_core::{Error, Query, Result};

use super::collection::collection_name_from_message;
use super::filter::{filter_to_message, optional_filter_from_message};
use super::metric::{relevance_function_from_message, relevance_function_to_message};
use super::vector::vector_from_message;
use crate::v1;

/// Most tags of a retriever.
const MAX_TAGS: usize = 16;
/// Longest tag in bytes.
const MAX_TAG_BYTES: usize = 64;

/// A query from its message.
///
/// # Errors
/// `InvalidArgument` below `query` when it is missing, has no kind, or its vector is malformed.
pub fn query_from_message(message: Option<v1::Query>) -> Result<Query> {
    match message.and_then(|message| message.kind) {
        None => Err(Error::invalid("query", "must have a text or a vector")),
        Some(v1::query::Kind::Text(text)) => Ok(Query::Text(text)),
        Some(v1::query::Kind::Vector(vector)) => {
            vector_from_message(vector).map(Query::Vector).map_err(|error| error.within("query.vector"))
        }
    }
}

/// A declared retriever from its message.
///
/// # Errors
/// `InvalidArgument` with the path inside the retriever, of every fault that can be seen in the message.
pub fn retriever_from_message(message: v1::Retriever) -> Result<RetrieverSpec> {
    let name = match message.name.as_str() {
        "" => Ok(None),
        name => retriever_name_from_message("name", name).map(Some),
    };
    let tags = tags_from_message(message.tags);
    let kind = match message.kind {
        None => Err(Error::invalid("", "must have a kind, such as vector_store")),
        Some(v1::retriever::Kind::VectorStore(message)) => vector_store_retriever_from_message(message)
            .map(RetrieverKind::VectorStore)
            .map_err(|error| error.within("vector_store")),
        Some(v1::retriever::Kind::Ref(name)) => retriever_name_from_message("ref", &name).map(RetrieverKind::Ref),
    };
    let ((name, tags), kind) = both(both(name, tags), kind)?;
    Ok(RetrieverSpec { name, tags, kind })
}

fn tags_from_message(tags: Vec<String>) -> Result<BTreeSet<String>> {
    if tags.len() > MAX_TAGS {
        return Err(Error::invalid("tags", format!("must be at most {MAX_TAGS}, got {}", tags.len())));
    }
    if let Some(index) = tags.iter().position(|tag| tag.is_empty() || tag.len() > MAX_TAG_BYTES) {
        return Err(Error::invalid(format!("tags[{index}]"), format!("must be 1 to {MAX_TAG_BYTES} bytes long")));
    }
    Ok(BTreeSet::from_iter(tags))
}

/// The name of a retriever, in the request's field `field`.
///
/// # Errors
/// `InvalidArgument` for `field`.
pub fn retriever_name_from_message(field: &str, name: &str) -> Result<RetrieverName> {
    RetrieverName::new(name).map_err(|fault| Error::invalid(field, fault))
}

/// The parameters of a vector store retriever; their ranges are checked where the retriever is planned.
///
/// # Errors
/// `InvalidArgument` for the collection, unknown enum values and the filter, all that are at fault together.
pub fn vector_store_retriever_from_message(message: v1::VectorStoreRetriever) -> Result<VectorStoreRetrieverSpec> {
    let search_type = match v1::SearchType::try_from(message.search_type) {
        Ok(v1::SearchType::Unspecified | v1::SearchType::Similarity) => Ok(SearchType::Similarity),
        Ok(v1::SearchType::SimilarityScoreThreshold) => Ok(SearchType::SimilarityScoreThreshold),
        Ok(v1::SearchType::Mmr) => Ok(SearchType::Mmr),
        Err(_) => Err(Error::invalid("search_type", format!("unknown value {}", message.search_type))),
    };
    let collection = collection_name_from_message("collection", &message.collection);
    let filter = optional_filter_from_message(message.filter);
    let relevance_fn = relevance_function_from_message(message.relevance_fn);
    let ((collection, search_type), (filter, relevance_fn)) =
        both(both(collection, search_type), both(filter, relevance_fn))?;
    Ok(VectorStoreRetrieverSpec {
        collection,
        search_type,
        k: message.k,
        fetch_k: message.fetch_k,
        lambda_mult: message.lambda_mult,
        score_threshold: message.score_threshold,
        raw_score_threshold: message.raw_score_threshold,
        filter,
        relevance_fn,
        with_vectors: message.with_vectors.unwrap_or(false),
    })
}

/// The message of a declared retriever.
pub fn retriever_to_message(spec: &RetrieverSpec) -> v1::Retriever {
    let kind = match &spec.kind {
        RetrieverKind::VectorStore(spec) => v1::retriever::Kind::VectorStore(vector_store_retriever_to_message(spec)),
        RetrieverKind::Ref(name) => v1::retriever::Kind::Ref(name.as_str().to_owned()),
    };
    v1::Retriever {
        name: spec.name.as_ref().map(|name| name.as_str().to_owned()).unwrap_or_default(),
        tags: spec.tags.iter().cloned().collect(),
        kind: Some(kind),
    }
}

fn vector_store_retriever_to_message(spec: &VectorStoreRetrieverSpec) -> v1::VectorStoreRetriever {
    let search_type = match spec.search_type {
        SearchType::Similarity => v1::SearchType::Similarity,
        SearchType::SimilarityScoreThreshold => v1::SearchType::SimilarityScoreThreshold,
        SearchType::Mmr => v1::SearchType::Mmr,
    };
    v1::VectorStoreRetriever {
        collection: spec.collection.as_str().to_owned(),
        search_type: search_type.into(),
        k: spec.k,
        fetch_k: spec.fetch_k,
        lambda_mult: spec.lambda_mult,
        score_threshold: spec.score_threshold,
        raw_score_threshold: spec.raw_score_threshold,
        filter: spec.filter.as_ref().map(filter_to_message),
        relevance_fn: relevance_function_to_message(spec.relevance_fn).into(),
        with_vectors: Some(spec.with_vectors),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vector_store(change: impl FnOnce(&mut v1::VectorStoreRetriever)) -> v1::Retriever {
        let mut message = v1::VectorStoreRetriever { collection: "docs".to_owned(), ..Default::default() };
        change(&mut message);
        v1::Retriever { kind: Some(v1::retriever::Kind::VectorStore(message)), ..Default::default() }
    }

    #[test]
    fn presence_survives_the_round_trip() {
        let message = vector_store(|message| {
            message.k = Some(0);
            message.lambda_mult = Some(0.0);
        });
        let spec = retriever_from_message(message).unwrap();
        let RetrieverKind::VectorStore(inner) = &spec.kind else { panic!("wrong kind") };
        assert_eq!((inner.k, inner.fetch_k, inner.lambda_mult), (Some(0), None, Some(0.0)));
        assert_eq!(retriever_from_message(retriever_to_message(&spec)), Ok(spec));
    }

    #[test]
    fn every_fault_that_can_be_seen_is_named() {
        let mut message = vector_store(|message| {
            message.collection = "a/b".to_owned();
            message.search_type = 99;
            message.filter = Some(v1::Filter::default());
            message.relevance_fn = 99;
        });
        message.name = "c d".to_owned();
        message.tags = vec![String::new()];
        let Error::InvalidArgument(faults) = retriever_from_message(message).unwrap_err() else { panic!("wrong kind") };
        let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
        let expected =
            ["collection", "search_type", "filter", "relevance_fn"].map(|field| format!("vector_store.{field}"));
        assert_eq!(fields[..2], ["name", "tags[0]"]);
        assert_eq!(fields[2..], expected);
    }

    #[test]
    fn faults_carry_their_path() {
        let cases = [
            (vector_store(|message| message.search_type = 99), "vector_store.search_type: unknown value 99"),
            (vector_store(|message| message.relevance_fn = -1), "vector_store.relevance_fn: unknown value -1"),
            (vector_store(|message| message.collection = "a/b".to_owned()), "vector_store.collection: must be"),
            (
                vector_store(|message| {
                    let negate = v1::Filter { kind: Some(v1::filter::Kind::Negate(Box::default())) };
                    let list = v1::FilterList { filters: vec![negate] };
                    message.filter = Some(v1::Filter { kind: Some(v1::filter::Kind::AllOf(list)) });
                }),
                "vector_store.filter.all_of.filters[0].negate: must have a condition",
            ),
            (v1::Retriever::default(), "must have a kind"),
        ];
        for (message, expected) in cases {
            let error = retriever_from_message(message).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
