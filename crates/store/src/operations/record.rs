//! What the catalogue keeps of an operation.

use serde::{Deserialize, Serialize};
use toller_core::{DocumentId, Fingerprint, Operation};

/// An operation with what a process needs to go on with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct OperationRecord {
    #[serde(flatten)]
    pub(crate) operation: Operation,
    /// The mark of the process that runs it.
    pub(crate) owner: String,
    /// Shall it end as cancelled?
    #[serde(default)]
    pub(crate) cancel_requested: bool,
    /// None for what had nothing to do.
    pub(crate) progress: Option<ReembedProgress>,
}

/// How far a collection is embedded anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ReembedProgress {
    /// Number of the generation that is being filled.
    pub(crate) generation: u32,
    /// What fills it.
    pub(crate) fingerprint: Fingerprint,
    /// The document to go on from; none for the first one.
    pub(crate) next: Option<DocumentId>,
    /// Was every document copied once?
    pub(crate) copied: bool,
}
