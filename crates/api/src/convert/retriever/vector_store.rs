//! Searches of one collection by vector.

use toller_core::error::both;
use toller_core::retriever::{SearchType, VectorStoreRetrieverSpec};
use toller_core::{Error, Result};

use crate::convert::collection::collection_name_from_message;
use crate::convert::filter::{filter_to_message, optional_filter_from_message};
use crate::convert::metric::{relevance_function_from_message, relevance_function_to_message};
use crate::convert::vector_space::vector_name_from_message;
use crate::v1;

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
    let vector_name = vector_name_from_message(message.vector_name.as_deref());
    let (((collection, search_type), (filter, relevance_fn)), vector_name) =
        both(both(both(collection, search_type), both(filter, relevance_fn)), vector_name)?;
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
        vector_name,
    })
}

pub(super) fn vector_store_retriever_to_message(spec: &VectorStoreRetrieverSpec) -> v1::VectorStoreRetriever {
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
        vector_name: spec.vector_name.as_ref().map(|name| name.as_str().to_owned()),
    }
}
