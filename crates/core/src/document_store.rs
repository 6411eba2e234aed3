//! Documents by id, without vectors: where parents of child chunks live.

use async_trait::async_trait;

use crate::collection::CollectionName;
use crate::context::RequestContext;
use crate::document::{Document, DocumentId};
use crate::error::Result;

/// Keeps documents by id. The tenant of the context is part of every key.
#[async_trait]
pub trait DocumentStore: Send + Sync {
    /// Writes documents, replacing those with the same ids; all or none.
    async fn put(&self, context: &RequestContext, collection: &CollectionName, documents: Vec<Document>) -> Result<()>;

    /// Documents by id, aligned with the input; none where missing, repeated where an id is repeated.
    async fn get(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Document>>>;

    /// Removes documents; missing ids are no error. Returns how many were there.
    async fn delete(&self, context: &RequestContext, collection: &CollectionName, ids: &[DocumentId]) -> Result<u64>;

    /// Up to `limit` documents after the id `after`, in the order of id bytes.
    async fn scroll(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<Document>>;
}
