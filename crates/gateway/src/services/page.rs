//! Pages of documents in the order of their ids: how large one is, and the tokens that lead from one to the next.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use toller_api::v1;
use toller_core::{DocumentId, Error, Result};

const DEFAULT_SIZE: u32 = 100;
const MAX_SIZE: u32 = 1000;

/// An id of the longest allowed length, in base64, with the bytes of its field.
pub(super) const MAX_TOKEN_BYTES: usize = 1400;

/// The wanted number of documents.
pub(super) fn size(page_size: Option<u32>) -> Result<usize> {
    let size = page_size.unwrap_or(DEFAULT_SIZE);
    if !(1..=MAX_SIZE).contains(&size) {
        return Err(Error::invalid("page_size", format!("must be from 1 to {MAX_SIZE}, got {size}")));
    }
    Ok(size as usize)
}

/// The bytes that a document adds to an answer.
pub(super) fn encoded_bytes(document: &v1::Document) -> usize {
    /// Tag and length of a repeated message.
    const OVERHEAD_BYTES: usize = 6;
    prost::Message::encoded_len(document) + OVERHEAD_BYTES
}

/// The token of a page that `id` leads to; opaque to clients.
pub(super) fn token(id: &DocumentId) -> String {
    URL_SAFE_NO_PAD.encode(id.as_str())
}

/// The id of a token; none for the first page.
pub(super) fn id_from_token(token: &str) -> Result<Option<DocumentId>> {
    if token.is_empty() {
        return Ok(None);
    }
    let id = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let id = id.and_then(|id| DocumentId::new(id).ok());
    id.map(Some).ok_or_else(|| Error::invalid("page_token", "must be the next_page_token of an earlier answer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_survive_the_round_trip() {
        for id in ["a", "docs/ünï.md#1", "\u{10FFFF}"] {
            let id = DocumentId::new(id).unwrap();
            assert_eq!(id_from_token(&token(&id)), Ok(Some(id)));
        }
        assert!(id_from_token("???").is_err());
        assert_eq!(id_from_token(""), Ok(None));
    }
}
