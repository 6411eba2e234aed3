//! The catalogue: small named records with compare-and-swap versions, such as collections and stored retrievers.

use async_trait::async_trait;

use crate::context::{RequestContext, Tenant};
use crate::error::Result;

/// A kind of catalogue record; part of its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RecordKind {
    /// A [`crate::CollectionSpec`] as JSON.
    Collection,
    /// A stored retriever, encoded by its service.
    Retriever,
    /// A [`crate::Operation`] as JSON, with what its process needs to go on with it.
    Operation,
    /// A restore that is under way, as JSON, with what its process needs to end it.
    Restore,
    /// The turn of the index run that is under way in a collection, as JSON.
    IndexRun,
    /// The signs of life of an operation or a restore, by its id, as JSON.
    Pulse,
    /// Which documents a restore that is under way wrote to document stores, as JSON.
    RestoredDocuments,
}

impl RecordKind {
    /// Stable name, for formats on disk.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Collection => "collection",
            Self::Retriever => "retriever",
            Self::Operation => "operation",
            Self::Restore => "restore",
            Self::IndexRun => "index_run",
            Self::Pulse => "pulse",
            Self::RestoredDocuments => "restored_documents",
        }
    }
}

/// A record with the version that a later swap must name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned {
    /// Name, unique within tenant and kind.
    pub name: String,
    /// Changes with every write; at least 1.
    pub version: u64,
    /// The record itself.
    pub value: Vec<u8>,
}

/// What a write expects to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// No record of that name.
    Absent,
    /// The record in exactly this version.
    Version(u64),
}

/// Keeps small records. The tenant of the context is part of every key.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// One record, or none.
    async fn get(&self, context: &RequestContext, kind: RecordKind, name: &str) -> Result<Option<Versioned>>;

    /// All records of a kind, by name.
    async fn list(&self, context: &RequestContext, kind: RecordKind) -> Result<Vec<Versioned>>;

    /// Writes a record if the present state is as `expected`; returns the new version.
    ///
    /// # Errors
    /// `Aborted` when it is not.
    async fn swap(
        &self,
        context: &RequestContext,
        kind: RecordKind,
        name: &str,
        expected: Expected,
        value: Vec<u8>,
    ) -> Result<u64>;

    /// Removes a record in exactly this version.
    ///
    /// # Errors
    /// `Aborted` when the version is another one or the record is gone.
    async fn remove(&self, context: &RequestContext, kind: RecordKind, name: &str, version: u64) -> Result<()>;

    /// Every tenant that has records of a kind, in order. For a process that goes on with what its predecessor left, never
    /// for a request: it is the one call without a tenant.
    async fn tenants(&self, kind: RecordKind) -> Result<Vec<Tenant>>;
}
