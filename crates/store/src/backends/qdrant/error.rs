//! What keeps a Qdrant store from being opened, and the server's answers in the terms of a caller.

use std::path::PathBuf;
use std::time::Duration;

use toller_core::error::Error;
use tonic::{Code, Status};

/// Why a Qdrant server cannot be used. Each says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QdrantError {
    /// A part of the configuration is wrong.
    #[error("{what}")]
    Config {
        /// Which part, and what would be right.
        what: String,
    },

    /// The file of certificates cannot be read.
    #[error("cannot read the certificates in {}: {source}", .path.display())]
    Certificates {
        /// The file.
        path: PathBuf,
        /// Why it failed.
        source: std::io::Error,
    },

    /// There is no answer, or a refusal.
    #[error(
        "cannot use Qdrant at {url}: {fault}; check that it runs, that the address is that of its gRPC port, and the key"
    )]
    Unusable {
        /// The address.
        url: String,
        /// What went wrong.
        fault: Error,
    },

    /// The server does not know writes on a condition, on which all writes rest.
    #[error(
        "Qdrant {version} at {url} does not know conditional writes (insert_only, update_only, update_filter); use a newer release"
    )]
    TooOld {
        /// The address.
        url: String,
        /// What the server says it is.
        version: String,
    },
}

/// Retry hint for a full server that gives none.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The answer of a call in the terms of a caller. Requests are checked before they are sent, so that what the server finds
/// wrong with one is a defect of ours.
pub(super) fn of_status(call: &'static str, status: &Status) -> Error {
    let text = format!("Qdrant, {call}: {}", status.message());
    match status.code() {
        Code::Unavailable | Code::Aborted | Code::Cancelled | Code::DeadlineExceeded => Error::Unavailable(text),
        Code::ResourceExhausted => Error::ResourceExhausted { what: text, retry_after: Some(RETRY_AFTER) },
        Code::Unauthenticated | Code::PermissionDenied => {
            Error::Internal(format!("{text}; Qdrant refused the key of this service"))
        }
        code => Error::Internal(format!("{text} ({code:?})")),
    }
}

/// What a row or an entry should not be.
pub(super) fn damaged(what: impl std::fmt::Display) -> Error {
    Error::Internal(format!("a stored row {what}"))
}
