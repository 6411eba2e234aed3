//! Documents by id, without vectors: where parents of child chunks live.

use async_trait::async_trait;

use crate::collection::CollectionName;
use crate::context::RequestContext;
use crate::document::{Document, DocumentId};
use crate::error::Result;

/// Takes the documents of a [`DocumentStore::snapshot`], some at a time, on a thread where it may block.
pub type DocumentSink = Box<dyn FnMut(Vec<Document>) -> Result<()> + Send>;

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

    /// Removes every document, and returns how many there were. Page by page: what fails on the way leaves the rest, and can be asked
    /// for again.
    ///
    /// # Errors
    /// As [`Self::scroll`] and [`Self::delete`].
    async fn delete_all(&self, context: &RequestContext, collection: &CollectionName) -> Result<u64> {
        /// Documents that are read to be removed at a time.
        const PAGE: usize = 500;

        let mut removed = 0;
        loop {
            // Others may write as fast as this removes.
            context.check("while documents were removed")?;
            let page = self.scroll(context, collection, None, PAGE).await?;
            if page.is_empty() {
                return Ok(removed);
            }
            let ids: Vec<DocumentId> = page.into_iter().map(|document| document.id).collect();
            removed += self.delete(context, collection, &ids).await?;
        }
    }

    /// The tenant's collections that have documents here, by name. O(names · log documents) at most.
    async fn names(&self, context: &RequestContext) -> Result<Vec<CollectionName>>;

    /// Hands every document to `sink`, in any order, all as of one moment: a write meanwhile is in it whole or not at all. Reads and writes go
    /// on. Returns how many there were; none where the collection has none.
    ///
    /// # Errors
    /// What the sink returns, at once.
    async fn snapshot(&self, context: &RequestContext, collection: &CollectionName, sink: DocumentSink) -> Result<u64>;
}
