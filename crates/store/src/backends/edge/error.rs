//! What keeps an edge store from being opened, and the engine's errors in the terms of a caller.

use std::fmt;
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
        match &fault {
            EdgeError::Io { source, .. } if is_full(source) => disk_is_full(fault),
            _ => Self::Internal(fault.to_string()),
        }
    }
}

/// Requests are checked before they reach the engine, so what it refuses is a disk that is full or failed, or a defect.
pub(super) fn engine_fault(doing: &'static str) -> impl FnOnce(OperationError) -> Error {
    move |fault| {
        let fault = format!("{doing}: {fault}");
        // The engine has a text for each fault of the system, and nothing else; the text ends with the system's number.
        if fault.contains(NO_SPACE) { disk_is_full(fault) } else { Error::Internal(fault) }
    }
}

/// How the standard library writes the number of `ENOSPC`, which is the same on all Unix systems.
const NO_SPACE: &str = "(os error 28)";

/// Was there no room on the disk?
pub(super) fn is_full(fault: &io::Error) -> bool {
    matches!(fault.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What a caller gets to hear when it was looked for room before, and there was none in the end.
pub(super) fn disk_is_full(fault: impl fmt::Display) -> Error {
    Error::ResourceExhausted { what: format!("the disk of the data folder is full: {fault}"), retry_after: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_one_that_failed() {
        let of =
            |number: i32| Error::from(EdgeError::io("write", Path::new("a"))(io::Error::from_raw_os_error(number)));
        let (full, failed) = (28, 5);
        assert!(matches!(of(full), Error::ResourceExhausted { what, .. } if what.contains("cannot write a")));
        assert!(matches!(of(failed), Error::Internal(_)));
        let of_engine = |number: i32| {
            let description = format!("no file for the log: {}", io::Error::from_raw_os_error(number));
            engine_fault("writing")(OperationError::service_error(description))
        };
        assert!(matches!(of_engine(full), Error::ResourceExhausted { what, .. } if what.contains("writing: ")));
        assert!(matches!(of_engine(failed), Error::Internal(_)));
    }
}
