//! Collections.

use toller_core::{CollectionName, CollectionSpec, Durability, Error, Result};

use super::fingerprint::fingerprint_to_message;
use super::keyword::keyword_to_message;
use super::metric::metric_to_message;
use super::quantization::quantization_to_message;
use super::vector_space::named_spaces_to_message;
use crate::v1;

/// The name of a collection, in the request's field `field`.
///
/// # Errors
/// `InvalidArgument` for `field`.
pub fn collection_name_from_message(field: &str, name: &str) -> Result<CollectionName> {
    CollectionName::new(name).map_err(|fault| Error::invalid(field, fault))
}

/// The message of a collection that the backend `store` keeps.
pub fn collection_to_message(spec: &CollectionSpec, store: &str, durability: Durability) -> v1::Collection {
    v1::Collection {
        name: spec.name.as_str().to_owned(),
        description: spec.description.clone(),
        labels: spec.labels.clone(),
        metric: metric_to_message(Some(spec.metric)).into(),
        fingerprint: Some(fingerprint_to_message(&spec.fingerprint)),
        store: store.to_owned(),
        durability: durability_to_message(durability).into(),
        created_at: Some(super::timestamp_from_millis(spec.created_at_ms)),
        keyword: spec.keyword.map(keyword_to_message),
        named_vectors: named_spaces_to_message(&spec.named),
        quantization: spec.quantization.map(quantization_to_message),
    }
}

/// The message of a durability.
pub fn durability_to_message(durability: Durability) -> v1::Durability {
    match durability {
        Durability::None => v1::Durability::None,
        Durability::Process => v1::Durability::Process,
        Durability::Fsync => v1::Durability::Fsync,
    }
}
