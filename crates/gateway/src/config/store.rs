//! Section `store`: which backend keeps documents, and how safely.

use serde::{Deserialize, Serialize};
use toller_core::Durability;

use super::QdrantSectionConfig;

/// Section `store`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StoreConfig {
    /// What keeps documents.
    pub backend: StoreBackend,
    /// What an acknowledged write survives, with [`StoreBackend::Edge`].
    pub durability: StoreDurability,
    /// The server, with [`StoreBackend::Qdrant`].
    pub qdrant: QdrantSectionConfig,
}

impl Default for StoreConfig {
    fn default() -> Self {
        Self { backend: StoreBackend::Edge, durability: StoreDurability::Fsync, qdrant: QdrantSectionConfig::default() }
    }
}

/// What keeps documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreBackend {
    /// The data folder, with an index; in programs that were built with the feature `edge`.
    Edge,
    /// RAM, searched without an index; written to the data folder at an orderly shutdown only.
    Memory,
    /// A Qdrant server or cluster; in programs that were built with the feature `qdrant`.
    Qdrant,
}

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreDurability {
    /// Power loss.
    Fsync,
    /// A crash of the process, but not of the machine.
    Process,
}

impl From<StoreDurability> for Durability {
    fn from(durability: StoreDurability) -> Self {
        match durability {
            StoreDurability::Fsync => Self::Fsync,
            StoreDurability::Process => Self::Process,
        }
    }
}
