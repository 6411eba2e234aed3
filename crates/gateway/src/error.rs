//! What keeps a server from starting, or from stopping cleanly.

use std::io;
use std::path::PathBuf;

/// Why [`crate::serve`] or [`crate::serve_embedder`] failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GatewayError {
    /// The data folder cannot be made, or not be written to.
    #[error("the data folder {path} cannot be used: {fault}; choose another with --data-dir")]
    DataFolder {
        /// The folder.
        path: PathBuf,
        /// Why.
        fault: io::Error,
    },
    /// The folder for backups cannot be made, or not be written to.
    #[error("the folder {path} of backup.spool_dir cannot be used: {fault}; choose another")]
    SpoolFolder {
        /// The folder.
        path: PathBuf,
        /// Why.
        fault: io::Error,
    },
    /// Another process has the data folder.
    #[error("the data folder {path} is in use by another process; stop it, or choose another folder with --data-dir")]
    DataFolderInUse {
        /// The folder.
        path: PathBuf,
    },
    /// The data cannot be read or written.
    #[error(transparent)]
    Store(#[from] toller_store::FileError),
    /// The edge backend's folder cannot be opened.
    #[cfg(feature = "edge")]
    #[error(transparent)]
    Edge(#[from] toller_store::EdgeError),
    /// The Qdrant server cannot be used.
    #[cfg(feature = "qdrant")]
    #[error("store.qdrant: {0}")]
    Qdrant(#[from] toller_store::QdrantError),
    /// The model cannot be loaded.
    #[error(transparent)]
    Model(#[from] toller_embedder::Error),
    /// The embedding provider cannot be reached.
    #[error(transparent)]
    Provider(#[from] toller_providers::ProviderError),
    /// The server cannot listen, or failed while it served.
    #[error(transparent)]
    Serving(#[from] toller_serving::Error),
    /// A configured API key is no good.
    #[error("auth.keys[{index}]: {fault}")]
    ApiKey {
        /// Position in the configuration, from 0.
        index: usize,
        /// What is wrong.
        fault: String,
    },
    /// A setting does not suit the model, the data folder or the program.
    #[error("{key} {problem}")]
    Setting {
        /// The setting.
        key: String,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// What the last run left to be gone on with cannot be read.
    #[error("the operations that the last run left cannot go on: {0}")]
    Operations(toller_core::Error),
    /// What an unfinished restore of the last run left cannot be finished or undone.
    #[error("a restore that the last run did not end can be neither finished nor undone: {0}")]
    Restores(toller_core::Error),
    /// A thread of the runtime died.
    #[error("internal error: {0}")]
    Internal(String),
}
