//! What can go wrong with a file that a store writes or reads.

use std::io;
use std::path::{Path, PathBuf};

/// A fault of a dump. Each names the file, where it can the line, and says what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
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

    /// The file is something else.
    #[error("{} is not a dump of the memory store; check the path", .path.display())]
    NotADump {
        /// The file.
        path: PathBuf,
    },

    /// The file was written by another version of Toller.
    #[error(
        "{} has format version {found}, this build reads versions up to {supported}; load it with the release that wrote it",
        .path.display()
    )]
    UnsupportedVersion {
        /// The file.
        path: PathBuf,
        /// The version in its header.
        found: u64,
        /// The newest version that this build reads.
        supported: u64,
    },

    /// The file ends too early.
    #[error("{}:{line}: the file was cut off here; restore it from a copy or dump again", .path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The last line, from 1.
        line: u64,
    },

    /// Every line reads well, but together they are not what was written.
    #[error(
        "{}:{line}: {what} is {found} but the last line says {expected}: the file was changed or damaged; restore it from a copy",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The last line, from 1.
        line: u64,
        /// What does not agree, such as `the number of records`.
        what: &'static str,
        /// What the file holds.
        found: u64,
        /// What it should hold.
        expected: u64,
    },

    /// A line is wrong.
    #[error("{}:{line}: {fault}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong and what to do.
        fault: String,
    },
}

impl FileError {
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { action, path, source }
    }
}
