//! What a text is embedded as.

use toller_core::{EmbeddingRole, Error, Result};

use crate::v1;

/// The role of a text of a stream.
///
/// # Errors
/// `InvalidArgument` for the unspecified and for unknown enum values.
pub fn role_from_message(number: i32) -> Result<EmbeddingRole> {
    match v1::EmbeddingRole::try_from(number) {
        Ok(v1::EmbeddingRole::Document) => Ok(EmbeddingRole::Document),
        Ok(v1::EmbeddingRole::Query) => Ok(EmbeddingRole::Query),
        Ok(v1::EmbeddingRole::Unspecified) => {
            Err(Error::invalid("role", "must be EMBEDDING_ROLE_DOCUMENT or EMBEDDING_ROLE_QUERY"))
        }
        Err(_) => Err(Error::invalid("role", format!("unknown value {number}"))),
    }
}
