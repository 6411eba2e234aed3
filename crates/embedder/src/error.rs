//! What can go wrong while a model is found, fetched, loaded and started.
//!
//! Every message names the file, key or field at fault and says what to do next. Faults of a single request are
//! `toller_core::Error` instead.

use std::io;
use std::path::PathBuf;

/// The result of loading and starting.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a model cannot be loaded or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting is out of its range.
    #[error("{field}: {problem}")]
    Invalid {
        /// The setting, or the environment variable it came from.
        field: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },

    /// A model reference is neither a folder nor the name of a repository.
    #[error(
        "model {reference:?} is neither a folder that exists nor a hub repository: give a path, or owner/name such as \
         BAAI/bge-small-en-v1.5 (with @revision to pin it)"
    )]
    Reference {
        /// The reference as given.
        reference: String,
    },

    /// The hub did not answer, or stopped answering.
    #[error(
        "the hub at {endpoint} cannot be reached: {reason}. Ways out: set HF_ENDPOINT to a mirror; run \
         'toller model pull {repository}' on a machine that has access and copy its HF_HOME; give a local folder as the model; \
         or set HF_HUB_OFFLINE=1 when the cache holds the model"
    )]
    HubUnreachable {
        /// The hub's address.
        endpoint: String,
        /// What was asked for.
        repository: String,
        /// What happened.
        reason: String,
    },

    /// The hub answered that it does not have, or does not give, what was asked for.
    #[error("the hub at {endpoint} refused {file} of {repository} with HTTP status {status}: {hint}")]
    HubRefused {
        /// The hub's address.
        endpoint: String,
        /// Repository and revision.
        repository: String,
        /// The file asked for.
        file: String,
        /// HTTP status.
        status: u16,
        /// What to do.
        hint: &'static str,
    },

    /// A download failed after the hub had answered.
    #[error("download of {file} of {repository} failed: {reason}. Try again: what has arrived is kept")]
    Download {
        /// Repository and revision.
        repository: String,
        /// The file.
        file: String,
        /// What happened.
        reason: String,
    },

    /// Offline, and not in the cache.
    #[error(
        "{repository} is not complete in the cache {} and HF_HUB_OFFLINE is set: unset it, or run \
         'toller model pull {repository}' on a machine that has access and copy its HF_HOME", cache.display()
    )]
    NotCached {
        /// Repository and revision.
        repository: String,
        /// The cache folder.
        cache: PathBuf,
    },

    /// The model's folder does not exist.
    #[error("model folder {} does not exist: check the path", .0.display())]
    FolderMissing(PathBuf),

    /// A needed file does not exist.
    #[error("{} does not exist: {hint}", path.display())]
    FileMissing {
        /// The file.
        path: PathBuf,
        /// What it is for and how to get it.
        hint: &'static str,
    },

    /// A file or folder cannot be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },

    /// A file is not the JSON it should be.
    #[error("{} is not valid: {reason}; fetch the file again", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },

    /// A model file asks for something that this crate does not do; nothing is computed rather than something wrong.
    #[error("{}, key {key}: {problem}", path.display())]
    Unsupported {
        /// The file.
        path: PathBuf,
        /// The key in it.
        key: String,
        /// What is asked for and what is possible.
        problem: String,
    },

    /// The weights are damaged or are not this model's.
    #[error("{}: {problem}", path.display())]
    Weights {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },

    /// tokenizer.json cannot be used.
    #[error("{}: {problem}", path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },

    /// The worker threads cannot be started.
    #[error("the embedding threads cannot be started: {0}")]
    Threads(String),
}

impl Error {
    pub(crate) fn io(path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { path: path.into(), source }
    }

    pub(crate) fn unsupported(path: impl Into<PathBuf>, key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Unsupported { path: path.into(), key: key.into(), problem: problem.into() }
    }
}
