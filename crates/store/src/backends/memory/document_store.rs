//! Documents by id, in RAM.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::RwLock;
use toller_core::document_store::DocumentSink;
use toller_core::error::Result;
use toller_core::{CollectionName, Document, DocumentId, DocumentStore, RequestContext};

use super::offload::run;
use crate::backends::CollectionKey;
use crate::backends::checks::check_documents;

/// Documents that a snapshot copies at once.
const SNAPSHOT_PAGE: usize = 256;

/// The documents of one collection, in the order of id bytes; shared with a dump that is under way.
pub(super) type DocumentSet = Arc<BTreeMap<DocumentId, Arc<Document>>>;

/// Keeps documents in RAM. A collection comes to be with its first document.
#[derive(Debug, Default)]
pub struct MemoryDocumentStore {
    pub(super) collections: RwLock<BTreeMap<CollectionKey, DocumentSet>>,
}

impl MemoryDocumentStore {
    /// A store without documents.
    pub fn new() -> Self {
        Self::default()
    }
}

fn key(context: &RequestContext, name: &CollectionName) -> CollectionKey {
    (context.tenant().clone(), name.clone())
}

#[async_trait]
impl DocumentStore for MemoryDocumentStore {
    async fn put(&self, context: &RequestContext, collection: &CollectionName, documents: Vec<Document>) -> Result<()> {
        check_documents(&documents)?;
        context.check("before the write")?;
        if documents.is_empty() {
            return Ok(());
        }
        let mut collections = self.collections.write();
        let set = Arc::make_mut(collections.entry(key(context, collection)).or_default());
        set.extend(documents.into_iter().map(|document| (document.id.clone(), Arc::new(document))));
        Ok(())
    }

    async fn get(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Document>>> {
        let found: Vec<Option<Arc<Document>>> = {
            let collections = self.collections.read();
            let set = collections.get(&key(context, collection));
            ids.iter().map(|id| set?.get(id).cloned()).collect()
        };
        Ok(found.into_iter().map(|document| document.map(Arc::unwrap_or_clone)).collect())
    }

    async fn delete(&self, context: &RequestContext, collection: &CollectionName, ids: &[DocumentId]) -> Result<u64> {
        context.check("before the delete")?;
        let key = key(context, collection);
        let mut collections = self.collections.write();
        let Some(shared) = collections.get_mut(&key) else { return Ok(0) };
        let set = Arc::make_mut(shared);
        let removed = ids.iter().filter(|id| set.remove(*id).is_some()).count();
        if set.is_empty() {
            collections.remove(&key);
        }
        Ok(removed as u64)
    }

    async fn scroll(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        let page: Vec<Arc<Document>> = {
            let collections = self.collections.read();
            let Some(set) = collections.get(&key(context, collection)) else { return Ok(Vec::new()) };
            let from = after.map_or(Bound::Unbounded, Bound::Excluded);
            set.range::<DocumentId, _>((from, Bound::Unbounded))
                .take(limit)
                .map(|(_, document)| Arc::clone(document))
                .collect()
        };
        Ok(page.into_iter().map(Arc::unwrap_or_clone).collect())
    }

    async fn names(&self, context: &RequestContext) -> Result<Vec<CollectionName>> {
        let collections = self.collections.read();
        let of_tenant = collections.keys().filter(|(tenant, _)| tenant == context.tenant());
        Ok(of_tenant.map(|(_, name)| name.clone()).collect())
    }

    async fn snapshot(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        mut sink: DocumentSink,
    ) -> Result<u64> {
        let found = self.collections.read().get(&key(context, collection)).map(Arc::clone);
        let Some(set) = found else { return Ok(0) };
        let context = context.clone();
        // The sink may block, however few documents there are.
        run(usize::MAX, move || {
            let mut documents = set.values();
            let mut count = 0;
            loop {
                context.check("while documents were read")?;
                let page: Vec<Document> =
                    documents.by_ref().take(SNAPSHOT_PAGE).map(|document| (**document).clone()).collect();
                if page.is_empty() {
                    return Ok(count);
                }
                count += page.len() as u64;
                sink(page)?;
            }
        })
        .await
    }
}
