//! How a Qdrant store is run.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Which server, and how new collections are laid out there.
#[derive(Clone, PartialEq)]
pub struct QdrantConfig {
    /// The address of the gRPC port, such as `http://localhost:6334`; `https` for TLS.
    pub url: String,
    /// The key that the server asks for.
    pub api_key: Option<String>,
    /// Certificates (PEM) that may vouch for the server, instead of those of the machine.
    pub ca_file: Option<PathBuf>,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long one call may take. A writer that is gone holds up others for four times as long.
    pub timeout: Duration,
    /// How often a call is tried again when the server cannot be reached.
    pub retries: u32,
    /// What the names of Toller's collections in Qdrant begin with: letters, digits, `-` and `_`.
    pub prefix: String,
    /// Copies of each shard of a new collection; none leaves it to the server.
    pub replication_factor: Option<u32>,
    /// Shards of a new collection; none leaves it to the server.
    pub shard_number: Option<u32>,
    /// Copies that must have a write before it counts; none is more than half of them.
    pub write_consistency_factor: Option<u32>,
    /// Keep vectors and payloads of new collections on disk instead of in memory.
    pub on_disk: bool,
    /// Search without approximation also where an index was built.
    pub exact: bool,
    /// How long replaced rows are kept for the searches that began before they were replaced.
    pub keep_replaced: Duration,
}

impl Default for QdrantConfig {
    fn default() -> Self {
        Self {
            url: "http://localhost:6334".to_owned(),
            api_key: None,
            ca_file: None,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(5),
            retries: 3,
            prefix: "toller_".to_owned(),
            replication_factor: None,
            shard_number: None,
            write_consistency_factor: None,
            on_disk: false,
            exact: false,
            keep_replaced: Duration::from_secs(60),
        }
    }
}

/// Without the key: it is a secret.
impl fmt::Debug for QdrantConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("QdrantConfig")
            .field("url", &self.url)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl QdrantConfig {
    /// How many copies must have a write.
    pub(super) fn write_consistency(&self) -> Option<u32> {
        self.write_consistency_factor.or_else(|| self.replication_factor.map(|copies| copies / 2 + 1))
    }

    /// Are there several copies, so that one that is read may lag behind another?
    pub(super) fn has_copies(&self) -> bool {
        self.replication_factor.is_some_and(|copies| copies > 1)
    }

    /// How long a writer has a collection to itself before it must ask again.
    pub(super) fn lease(&self) -> Duration {
        self.timeout * 4
    }
}
