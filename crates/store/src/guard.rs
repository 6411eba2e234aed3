//! The fingerprint guard: vectors of different origins are never compared.

use std::sync::Arc;

use toller_core::error::{Error, Result};
pub use toller_core::models::NO_EMBEDDING_MODEL;
use toller_core::{CollectionSpec, Embeddings, Fingerprint, Models};

use crate::targets::BuildingTarget;

/// Reason of the error when no model of this server is the one that filled the collection.
pub const FINGERPRINT_MISMATCH: &str = "FINGERPRINT_MISMATCH";

/// Reason of the error when a text comes to a collection whose vectors the client brings.
pub const CLIENT_VECTORS_ONLY: &str = "CLIENT_VECTORS_ONLY";

/// The model that may embed texts, documents and queries alike, for a collection. O(models), no I/O.
///
/// # Errors
/// `FailedPrecondition`: [`CLIENT_VECTORS_ONLY`], [`NO_EMBEDDING_MODEL`], or [`FINGERPRINT_MISMATCH`] naming the
/// collection's fingerprint and those of the models that are loaded.
pub fn embeddings_for_texts<'a>(spec: &CollectionSpec, models: &'a Models) -> Result<&'a Arc<dyn Embeddings>> {
    let name = &spec.name;
    let needed = &spec.fingerprint;
    if needed.is_client() {
        return Err(precondition(
            CLIENT_VECTORS_ONLY,
            format!(
                "collection \"{name}\" takes its vectors from the client; send a vector of dimension {} instead of a text alone",
                needed.dimension
            ),
        ));
    }
    if models.embeddings.is_empty() {
        return Err(no_model(&format!(
            "collection \"{name}\" was filled by {needed}; start the server with that model"
        )));
    }
    models.compatible_with(needed).ok_or_else(|| {
        precondition(
            FINGERPRINT_MISMATCH,
            format!(
                "collection \"{name}\" was filled by {needed}, but this server embeds with {}; start the server with the collection's model, or embed its texts anew with another one (toller collections reembed {name})",
                loaded(models)
            ),
        )
    })
}

/// The model that embeds documents for a generation that is being filled. O(models), no I/O.
///
/// # Errors
/// `FailedPrecondition` with [`FINGERPRINT_MISMATCH`] when this process does not have it.
pub(crate) fn embeddings_for_building<'a>(
    spec: &CollectionSpec,
    building: &BuildingTarget,
    models: &'a Models,
) -> Result<&'a Arc<dyn Embeddings>> {
    models.compatible_with(&building.fingerprint).ok_or_else(|| {
        precondition(
            FINGERPRINT_MISMATCH,
            format!(
                "collection \"{}\" is being embedded anew by {}, which this server does not have; start the server with that model, or cancel operation {}",
                spec.name, building.fingerprint, building.operation
            ),
        )
    })
}

/// The fingerprint of a new collection that the default model is to fill.
///
/// # Errors
/// `FailedPrecondition` with [`NO_EMBEDDING_MODEL`].
pub fn fingerprint_of_default(models: &Models) -> Result<Fingerprint> {
    if models.embeddings.is_empty() {
        return Err(no_model("start the server with one, or make the collection for client vectors"));
    }
    Ok(models.embedding_model(None)?.fingerprint().clone())
}

fn no_model(what_to_do: &str) -> Error {
    precondition(NO_EMBEDDING_MODEL, format!("this server has no embedding model: {what_to_do}"))
}

/// The fingerprints of all models, the default one first.
fn loaded(models: &Models) -> String {
    let fingerprints: Vec<String> =
        models.embeddings.iter().map(|loaded| loaded.model.fingerprint().to_string()).collect();
    fingerprints.join(" and ")
}

fn precondition(reason: &'static str, message: String) -> Error {
    Error::FailedPrecondition { reason, message }
}
