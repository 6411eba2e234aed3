//! Which of the two servers reads the configuration, and what each has use for.

use super::{ConfigError, Origins, SETTINGS, Setting};

/// A server that is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// `toller serve`: every service.
    Gateway,
    /// `toller-embedder`: the Embedder service alone.
    Embedder,
}

/// Settings that only a gateway reads: of data, of the language model that retrievers ask, and of requests that have documents and
/// filters.
const GATEWAY_ONLY: [&str; 27] = [
    "auth.require_tenant",
    "data.dir",
    "store.backend",
    "store.durability",
    "store.qdrant.url",
    "store.qdrant.api_key",
    "store.qdrant.ca_file",
    "store.qdrant.timeout_ms",
    "store.qdrant.prefix",
    "store.qdrant.replication_factor",
    "store.qdrant.shard_number",
    "store.qdrant.write_consistency_factor",
    "store.qdrant.on_disk",
    "store.qdrant.exact",
    "backup.spool_dir",
    "llm.address",
    "llm.model",
    "llm.api_key",
    "llm.timeout_ms",
    "llm.structured_output",
    "limits.max_document_bytes",
    "limits.max_metadata_bytes",
    "limits.max_k",
    "limits.max_queries",
    "limits.max_retrievers",
    "limits.max_filter_depth",
    "limits.max_filter_nodes",
];

impl Program {
    /// Has it a use for `setting`?
    pub fn reads(self, setting: &Setting) -> bool {
        self == Self::Gateway || !GATEWAY_ONLY.contains(&setting.key)
    }

    /// Nothing is set that would be ignored.
    pub(super) fn check(self, origins: &Origins<'_>) -> Result<(), ConfigError> {
        let ignored = SETTINGS.iter().find(|setting| !self.reads(setting) && origins.of(setting.key).is_some());
        match ignored {
            Some(setting) => Err(origins.invalid(setting.key, "is of use to the gateway only; leave it out")),
            None => Ok(()),
        }
    }
}
