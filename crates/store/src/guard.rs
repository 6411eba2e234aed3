//! The fingerprint guard: vectors of different origins are never compared.

use std::sync::Arc;

use toller_core::error::{Error, Result};
use toller_core::{CollectionSpec, Embeddings, Fingerprint};

/// Reason of the error when the model of this server is not the one that filled the collection.
pub const FINGERPRINT_MISMATCH: &str = "FINGERPRINT_MISMATCH";

/// Reason of the error when a text comes to a collection whose vectors the client brings.
pub const CLIENT_VECTORS_ONLY: &str = "CLIENT_VECTORS_ONLY";

/// Reason of the error when a text has to be embedded and this server has no model.
pub const NO_EMBEDDING_MODEL: &str = "NO_EMBEDDING_MODEL";

/// The model that may embed texts, documents and queries alike, for a collection. O(1), no I/O.
///
/// # Errors
/// `FailedPrecondition`: [`CLIENT_VECTORS_ONLY`], [`NO_EMBEDDING_MODEL`], or [`FINGERPRINT_MISMATCH`] naming both
/// fingerprints.
pub fn embeddings_for_texts<'a>(
    spec: &CollectionSpec,
    embeddings: Option<&'a Arc<dyn Embeddings>>,
) -> Result<&'a Arc<dyn Embeddings>> {
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
    let Some(embeddings) = embeddings else {
        return Err(no_model(&format!(
            "collection \"{name}\" was filled by {needed}; start the server with that model"
        )));
    };
    let present = embeddings.fingerprint();
    if present.is_compatible_with(needed) {
        return Ok(embeddings);
    }
    Err(precondition(
        FINGERPRINT_MISMATCH,
        format!(
            "collection \"{name}\" was filled by {needed}, but this server embeds with {present}; start the server with the collection's model, or make a new collection"
        ),
    ))
}

/// The fingerprint of a new collection that the server's model is to fill.
///
/// # Errors
/// `FailedPrecondition` with [`NO_EMBEDDING_MODEL`].
pub fn fingerprint_of_model(embeddings: Option<&Arc<dyn Embeddings>>) -> Result<Fingerprint> {
    match embeddings {
        Some(embeddings) => Ok(embeddings.fingerprint().clone()),
        None => Err(no_model("start the server with one, or make the collection for client vectors")),
    }
}

fn no_model(what_to_do: &str) -> Error {
    precondition(NO_EMBEDDING_MODEL, format!("this server has no embedding model: {what_to_do}"))
}

fn precondition(reason: &'static str, message: String) -> Error {
    Error::FailedPrecondition { reason, message }
}
