//! Queries and declared retrievers, one file for each family of retrievers.

mod asking;
mod compression;
mod fusion;
mod keyword;
mod parents;
mod routing;
mod time_weighted;
mod vector_store;

use std::collections::BTreeSet;
use std::time::Duration;

use toller_core::error::both;
use toller_core::retriever::{OnError, RetrieverKind, RetrieverName, RetrieverSpec};
use toller_core::{Error, Query, Result};

use super::vector::vector_from_message;
use crate::v1;
use crate::v1::retriever::Kind;

pub use asking::{history_from_messages, history_to_messages};
pub use vector_store::vector_store_retriever_from_message;

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
    let timeout = timeout_from_message(message.timeout);
    let on_error = on_error_from_message(message.on_error);
    let kind = match message.kind {
        None => Err(Error::invalid("", "must have a kind, such as vector_store")),
        Some(kind) => kind_from_message(kind),
    };
    let (((name, tags), (timeout, on_error)), kind) = both(both(both(name, tags), both(timeout, on_error)), kind)?;
    Ok(RetrieverSpec { name, tags, timeout, on_error, kind })
}

fn kind_from_message(kind: Kind) -> Result<RetrieverKind> {
    let name = kind_name(&kind);
    let spec = match kind {
        Kind::Ref(target) => return retriever_name_from_message("ref", &target).map(RetrieverKind::Ref),
        Kind::VectorStore(message) => vector_store_retriever_from_message(message).map(RetrieverKind::VectorStore),
        Kind::MultiVector(message) => parents::multi_vector_from_message(*message).map(RetrieverKind::MultiVector),
        Kind::ParentDocument(message) => {
            parents::parent_document_from_message(message).map(RetrieverKind::ParentDocument)
        }
        Kind::ContextualCompression(message) => {
            compression::compression_from_message(*message).map(RetrieverKind::ContextualCompression)
        }
        Kind::Merger(message) => fusion::merger_from_message(message).map(RetrieverKind::Merger),
        Kind::Ensemble(message) => fusion::ensemble_from_message(message).map(RetrieverKind::Ensemble),
        Kind::Router(message) => routing::router_from_message(*message).map(RetrieverKind::Router),
        Kind::Fallback(message) => routing::fallback_from_message(message).map(RetrieverKind::Fallback),
        Kind::TimeWeighted(message) => {
            time_weighted::time_weighted_from_message(*message).map(RetrieverKind::TimeWeighted)
        }
        Kind::Keyword(message) => keyword::keyword_from_message(message).map(RetrieverKind::Keyword),
        Kind::Hybrid(message) => keyword::hybrid_from_message(message).map(RetrieverKind::Hybrid),
        Kind::MultiQuery(message) => asking::multi_query_from_message(*message).map(RetrieverKind::MultiQuery),
        Kind::Hyde(message) => asking::hyde_from_message(*message).map(RetrieverKind::Hyde),
        Kind::Rephrase(message) => asking::rephrase_from_message(*message).map(RetrieverKind::Rephrase),
        Kind::Decompose(message) => asking::decompose_from_message(*message).map(RetrieverKind::Decompose),
        Kind::SelfQuery(message) => asking::self_query_from_message(message).map(RetrieverKind::SelfQuery),
        Kind::LlmRouter(message) => routing::llm_router_from_message(message).map(RetrieverKind::LlmRouter),
    };
    spec.map_err(|error| error.within(name))
}

fn kind_name(kind: &Kind) -> &'static str {
    match kind {
        Kind::Ref(_) => "ref",
        Kind::VectorStore(_) => "vector_store",
        Kind::MultiVector(_) => "multi_vector",
        Kind::ParentDocument(_) => "parent_document",
        Kind::ContextualCompression(_) => "contextual_compression",
        Kind::Merger(_) => "merger",
        Kind::Ensemble(_) => "ensemble",
        Kind::Router(_) => "router",
        Kind::Fallback(_) => "fallback",
        Kind::TimeWeighted(_) => "time_weighted",
        Kind::Keyword(_) => "keyword",
        Kind::Hybrid(_) => "hybrid",
        Kind::MultiQuery(_) => "multi_query",
        Kind::Hyde(_) => "hyde",
        Kind::Rephrase(_) => "rephrase",
        Kind::Decompose(_) => "decompose",
        Kind::SelfQuery(_) => "self_query",
        Kind::LlmRouter(_) => "llm_router",
    }
}

/// A retriever that must be there, in the field `field`.
fn child_from_message(field: &str, message: Option<v1::Retriever>) -> Result<RetrieverSpec> {
    let message = message.ok_or_else(|| Error::invalid("", "must be given"));
    message.and_then(retriever_from_message).map_err(|error| error.within(field))
}

/// The retrievers of a list, in the field `retrievers`.
fn children_from_message(messages: Vec<v1::Retriever>) -> Result<Vec<RetrieverSpec>> {
    all_from_messages("retrievers", messages, retriever_from_message)
}

/// Each of a list, or the faults of all, in the field `field`.
fn all_from_messages<M, T>(field: &str, messages: Vec<M>, from_message: impl Fn(M) -> Result<T>) -> Result<Vec<T>> {
    // No `try_fold`, which would end at the first fault.
    let mut all = Ok(Vec::with_capacity(messages.len()));
    for (index, message) in messages.into_iter().enumerate() {
        let item = from_message(message).map_err(|error| error.within(&format!("{field}[{index}]")));
        all = both(all, item).map(|(mut items, item)| {
            items.push(item);
            items
        });
    }
    all
}

fn timeout_from_message(timeout: Option<prost_types::Duration>) -> Result<Option<Duration>> {
    let Some(timeout) = timeout else { return Ok(None) };
    match Duration::try_from(timeout) {
        Ok(timeout) if !timeout.is_zero() => Ok(Some(timeout)),
        _ => Err(Error::invalid("timeout", "must be more than zero")),
    }
}

fn on_error_from_message(number: i32) -> Result<OnError> {
    match v1::OnError::try_from(number) {
        Ok(v1::OnError::Unspecified | v1::OnError::Fail) => Ok(OnError::Fail),
        Ok(v1::OnError::Skip) => Ok(OnError::Skip),
        Err(_) => Err(Error::invalid("on_error", format!("unknown value {number}"))),
    }
}

/// What is not said is not set, so that a round trip is one.
fn on_error_to_message(on_error: OnError) -> i32 {
    match on_error {
        OnError::Fail => v1::OnError::Unspecified,
        OnError::Skip => v1::OnError::Skip,
    }
    .into()
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

/// The message of a declared retriever.
pub fn retriever_to_message(spec: &RetrieverSpec) -> v1::Retriever {
    let kind = match &spec.kind {
        RetrieverKind::Ref(name) => Kind::Ref(name.as_str().to_owned()),
        RetrieverKind::VectorStore(spec) => Kind::VectorStore(vector_store::vector_store_retriever_to_message(spec)),
        RetrieverKind::MultiVector(spec) => Kind::MultiVector(Box::new(parents::multi_vector_to_message(spec))),
        RetrieverKind::ParentDocument(spec) => Kind::ParentDocument(parents::parent_document_to_message(spec)),
        RetrieverKind::ContextualCompression(spec) => {
            Kind::ContextualCompression(Box::new(compression::compression_to_message(spec)))
        }
        RetrieverKind::Merger(spec) => Kind::Merger(fusion::merger_to_message(spec)),
        RetrieverKind::Ensemble(spec) => Kind::Ensemble(fusion::ensemble_to_message(spec)),
        RetrieverKind::Router(spec) => Kind::Router(Box::new(routing::router_to_message(spec))),
        RetrieverKind::Fallback(spec) => Kind::Fallback(routing::fallback_to_message(spec)),
        RetrieverKind::TimeWeighted(spec) => {
            Kind::TimeWeighted(Box::new(time_weighted::time_weighted_to_message(spec)))
        }
        RetrieverKind::Keyword(spec) => Kind::Keyword(keyword::keyword_to_message(spec)),
        RetrieverKind::Hybrid(spec) => Kind::Hybrid(keyword::hybrid_to_message(spec)),
        RetrieverKind::MultiQuery(spec) => Kind::MultiQuery(Box::new(asking::multi_query_to_message(spec))),
        RetrieverKind::Hyde(spec) => Kind::Hyde(Box::new(asking::hyde_to_message(spec))),
        RetrieverKind::Rephrase(spec) => Kind::Rephrase(Box::new(asking::rephrase_to_message(spec))),
        RetrieverKind::Decompose(spec) => Kind::Decompose(Box::new(asking::decompose_to_message(spec))),
        RetrieverKind::SelfQuery(spec) => Kind::SelfQuery(asking::self_query_to_message(spec)),
        RetrieverKind::LlmRouter(spec) => Kind::LlmRouter(routing::llm_router_to_message(spec)),
    };
    v1::Retriever {
        name: spec.name.as_ref().map(|name| name.as_str().to_owned()).unwrap_or_default(),
        tags: spec.tags.iter().cloned().collect(),
        timeout: spec.timeout.and_then(|timeout| prost_types::Duration::try_from(timeout).ok()),
        on_error: on_error_to_message(spec.on_error),
        kind: Some(kind),
    }
}

fn children_to_message(retrievers: &[RetrieverSpec]) -> Vec<v1::Retriever> {
    retrievers.iter().map(retriever_to_message).collect()
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
