//! Section `store.qdrant`: the server, and how new collections are laid out there.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{ConfigError, Origins, SETTINGS};

/// Longest time for a call in milliseconds: ten minutes. A writer that is gone holds up others for four times as long.
const MAX_TIMEOUT_MS: u64 = 600_000;

/// What the keys of the section begin with.
const SECTION: &str = "store.qdrant.";

/// Section `store.qdrant`.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct QdrantSectionConfig {
    /// The address of the gRPC port.
    pub url: String,
    /// The key that the server asks for.
    pub api_key: Option<String>,
    /// Certificates (PEM) that may vouch for the server, instead of those of the machine.
    pub ca_file: Option<PathBuf>,
    /// Longest time for one call.
    pub timeout_ms: u64,
    /// What the names of Toller's collections in Qdrant begin with.
    pub prefix: String,
    /// Copies of each shard of a new collection.
    pub replication_factor: Option<u32>,
    /// Shards of a new collection.
    pub shard_number: Option<u32>,
    /// Copies that must have a write before it counts.
    pub write_consistency_factor: Option<u32>,
    /// Are vectors and payloads of new collections on disk instead of in memory?
    pub on_disk: bool,
    /// Is searched without approximation?
    pub exact: bool,
}

impl Default for QdrantSectionConfig {
    fn default() -> Self {
        Self {
            url: "http://localhost:6334".to_owned(),
            api_key: None,
            ca_file: None,
            timeout_ms: 5000,
            prefix: "toller_".to_owned(),
            replication_factor: None,
            shard_number: None,
            write_consistency_factor: None,
            on_disk: false,
            exact: false,
        }
    }
}

impl fmt::Debug for QdrantSectionConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("QdrantSectionConfig")
            .field("url", &self.url)
            .field("api_key", &self.api_key.as_ref().map(|_| "(hidden)"))
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl QdrantSectionConfig {
    /// Checks the section; with another backend, nothing of it may be set.
    pub(super) fn check(&self, is_used: bool, origins: &Origins<'_>) -> Result<(), ConfigError> {
        if !is_used {
            let of_the_section = SETTINGS.iter().filter(|setting| setting.key.starts_with(SECTION));
            return match of_the_section.map(|setting| setting.key).find(|key| origins.of(key).is_some()) {
                Some(key) => Err(origins.invalid(key, "is of use with store.backend = \"qdrant\" only; leave it out")),
                None => Ok(()),
            };
        }
        let has_scheme = ["http://", "https://"].into_iter().any(|scheme| self.url.starts_with(scheme));
        if !has_scheme {
            let description =
                format!("must begin with http:// or https://, such as http://qdrant:6334, got {:?}", self.url);
            return Err(origins.invalid("store.qdrant.url", description));
        }
        if self.ca_file.is_some() && !self.url.starts_with("https://") {
            return Err(origins.invalid("store.qdrant.ca_file", "is of use with an https address only; leave it out"));
        }
        if !(1..=MAX_TIMEOUT_MS).contains(&self.timeout_ms) {
            let description = format!("must be 1 to {MAX_TIMEOUT_MS}, got {}", self.timeout_ms);
            return Err(origins.invalid("store.qdrant.timeout_ms", description));
        }
        for (key, value) in [
            ("store.qdrant.replication_factor", self.replication_factor),
            ("store.qdrant.shard_number", self.shard_number),
            ("store.qdrant.write_consistency_factor", self.write_consistency_factor),
        ] {
            if value == Some(0) {
                return Err(origins.invalid(key, "must be at least 1, got 0"));
            }
        }
        Ok(())
    }
}
