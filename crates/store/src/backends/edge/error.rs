//! What keeps an edge store from being opened, and the engine's errors in the terms of a caller.

use std::io;
use std::path::{Path, PathBuf};

use qdrant_edge::OperationError;
use toller_core::error::Error;

/// Why a folder cannot be opened as an edge store. Each names the file or folder and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EdgeError {
    /// The file system refused.
    #[error("cannot {action} {}: {source}; check that the folder exists, has room, and may be read and written", .path.display())]
    Io {
        /// What was tried, such as `write`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },

    /// Another store has it.
    #[error("{} is in use by another process; stop it, or choose another folder", .path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },

    /// The data was written by another version of Toller.
    #[error(
        "{} has format version {found}, this build reads version {supported}; open it with the release that wrote it",
        .path.display()
    )]
    UnsupportedVersion {
        /// The file.
        path: PathBuf,
        /// The version in it.
        found: u64,
        /// The version that this build reads.
        supported: u64,
    },

    /// The file is not what it should be.
    #[error("{}: {fault}; restore the folder from a copy", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        fault: String,
    },
}

impl EdgeError {
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }

    pub(super) fn damaged(path: &Path, fault: impl ToString) -> Self {
        Self::Damaged { path: path.to_owned(), fault: fault.to_string() }
    }
}

impl From<EdgeError> for Error {
    fn from(fault: EdgeError) -> Self {
        Self::Internal(fault.to_string())
    }
}

/// Requests are checked before they reach the engine, so what it refuses is a defect or a disk that failed.
pub(super) fn engine_fault(doing: &'static str) -> impl FnOnce(OperationError) -> Error {
    move |fault| Error::Internal(format!("{doing}: {fault}"))
}
