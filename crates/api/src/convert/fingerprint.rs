//! Embedding fingerprints.

use toller_core::fingerprint::Pooling;
use toller_core::{Error, Fingerprint, Result};

use crate::v1;

/// A fingerprint from its message, as another Toller reports it.
///
/// # Errors
/// `InvalidArgument` for an unknown pooling or a dimension of 0.
pub fn fingerprint_from_message(message: v1::Fingerprint) -> Result<Fingerprint> {
    let pooling = match v1::Pooling::try_from(message.pooling) {
        Ok(v1::Pooling::Unspecified) => None,
        Ok(v1::Pooling::Cls) => Some(Pooling::Cls),
        Ok(v1::Pooling::Mean) => Some(Pooling::Mean),
        Err(_) => return Err(Error::invalid("pooling", format!("unknown value {}", message.pooling))),
    };
    if message.dimension == 0 {
        return Err(Error::invalid("dimension", "must be at least 1"));
    }
    Ok(Fingerprint {
        provider: message.provider,
        model: message.model,
        revision: message.revision,
        dimension: message.dimension,
        pooling,
        normalized: message.normalized,
        query_instruction: message.query_instruction,
        document_instruction: message.document_instruction,
        max_tokens: message.max_tokens,
        weights_sha256: message.weights_sha256,
    })
}

/// The message of a fingerprint.
pub fn fingerprint_to_message(fingerprint: &Fingerprint) -> v1::Fingerprint {
    let pooling = match fingerprint.pooling {
        None => v1::Pooling::Unspecified,
        Some(Pooling::Cls) => v1::Pooling::Cls,
        Some(Pooling::Mean) => v1::Pooling::Mean,
    };
    v1::Fingerprint {
        provider: fingerprint.provider.clone(),
        model: fingerprint.model.clone(),
        revision: fingerprint.revision.clone(),
        dimension: fingerprint.dimension,
        pooling: pooling.into(),
        normalized: fingerprint.normalized,
        query_instruction: fingerprint.query_instruction.clone(),
        document_instruction: fingerprint.document_instruction.clone(),
        max_tokens: fingerprint.max_tokens,
        weights_sha256: fingerprint.weights_sha256.clone(),
    }
}
