//! Keyword and hybrid.

use toller_core::Result;
use toller_core::error::both;
use toller_core::retriever::{HybridRetrieverSpec, KeywordRetrieverSpec};

use super::fusion::{fusion_from_message, fusion_to_message};
use crate::convert::collection::collection_name_from_message;
use crate::convert::filter::{filter_to_message, optional_filter_from_message};
use crate::v1;

pub(super) fn keyword_from_message(message: v1::KeywordRetriever) -> Result<KeywordRetrieverSpec> {
    let collection = collection_name_from_message("collection", &message.collection);
    let (collection, filter) = both(collection, optional_filter_from_message(message.filter))?;
    let with_vectors = message.with_vectors.unwrap_or(false);
    Ok(KeywordRetrieverSpec { collection, k: message.k, filter, with_vectors })
}

pub(super) fn keyword_to_message(spec: &KeywordRetrieverSpec) -> v1::KeywordRetriever {
    v1::KeywordRetriever {
        collection: spec.collection.as_str().to_owned(),
        k: spec.k,
        filter: spec.filter.as_ref().map(filter_to_message),
        with_vectors: Some(spec.with_vectors),
    }
}

pub(super) fn hybrid_from_message(message: v1::HybridRetriever) -> Result<HybridRetrieverSpec> {
    let collection = collection_name_from_message("collection", &message.collection);
    let filter = optional_filter_from_message(message.filter);
    let ((collection, filter), fusion) = both(both(collection, filter), fusion_from_message(message.fusion))?;
    Ok(HybridRetrieverSpec {
        collection,
        k: message.k,
        leg_k: message.leg_k,
        vector_weight: message.vector_weight,
        keyword_weight: message.keyword_weight,
        fusion,
        c: message.c,
        filter,
        with_vectors: message.with_vectors.unwrap_or(false),
    })
}

pub(super) fn hybrid_to_message(spec: &HybridRetrieverSpec) -> v1::HybridRetriever {
    v1::HybridRetriever {
        collection: spec.collection.as_str().to_owned(),
        k: spec.k,
        leg_k: spec.leg_k,
        vector_weight: spec.vector_weight,
        keyword_weight: spec.keyword_weight,
        fusion: fusion_to_message(spec.fusion),
        c: spec.c,
        filter: spec.filter.as_ref().map(filter_to_message),
        with_vectors: Some(spec.with_vectors),
    }
}
