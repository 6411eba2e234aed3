//! Documents by id, in Qdrant: rows like those of records, with a vector that nobody looks at.

use std::sync::Arc;

use async_trait::async_trait;
use toller_core::document_store::DocumentSink;
use toller_core::error::{Error, Result};
use toller_core::{CollectionName, Document, DocumentId, DocumentStore, Record, RequestContext, Vector};

use super::draft::Change;
use super::entries::EntryKey;
use super::error::damaged;
use super::ordered;
use super::patience::Patience;
use super::physical::{WITHOUT_VECTORS, name_of_documents};
use super::point::Prepared;
use super::record::{CollectionRecord, DOCUMENTS, Snapshot, key_of};
use super::rows::Rows;
use super::shared::Shared;
use crate::backends::checks::check_documents;

/// Keeps documents in a Qdrant server or cluster. A collection comes to be with its first document. See the [module](super).
#[derive(Debug)]
pub struct QdrantDocumentStore {
    shared: Shared,
}

impl QdrantDocumentStore {
    pub(super) fn new(shared: Shared) -> Self {
        Self { shared }
    }

    /// What is there now; none where nothing ever was.
    async fn found(&self, context: &RequestContext, key: &EntryKey) -> Result<Option<Snapshot>> {
        match self.shared.snapshot(context, key).await {
            Ok(snapshot) => Ok(Some(snapshot)),
            Err(Error::NotFound { .. }) => Ok(None),
            Err(fault) => Err(fault),
        }
    }

    async fn change(&self, context: &RequestContext, key: &EntryKey, of: Snapshot, change: Change) -> Result<u64> {
        self.shared.writers.change(&self.shared, context, key, of.instance, change).await
    }

    fn rows<'a>(&'a self, context: &'a RequestContext, snapshot: &'a Snapshot) -> Rows<'a> {
        Rows { client: &self.shared.client, snapshot, patience: Patience::Of(context) }
    }
}

fn key(context: &RequestContext, collection: &CollectionName) -> EntryKey {
    key_of(DOCUMENTS, context.tenant(), collection)
}

#[async_trait]
impl DocumentStore for QdrantDocumentStore {
    async fn put(&self, context: &RequestContext, collection: &CollectionName, documents: Vec<Document>) -> Result<()> {
        check_documents(&documents)?;
        if documents.is_empty() {
            return Ok(());
        }
        let placeholder = Vector::new(vec![1.0], WITHOUT_VECTORS.metric).map_err(Error::Internal)?;
        let prepare = |document| {
            let record = Record::new(Arc::new(document), placeholder.clone());
            Prepared::new(record, &WITHOUT_VECTORS)
        };
        let rows = documents.into_iter().map(prepare).collect();
        let key = key(context, collection);
        let snapshot = match self.found(context, &key).await? {
            Some(snapshot) => snapshot,
            None => {
                let name = name_of_documents(&self.shared.config.prefix);
                // Somebody else may make it at the same time.
                self.shared.create(context, &key, name, WITHOUT_VECTORS, false).await?;
                self.shared.snapshot(context, &key).await?
            }
        };
        self.change(context, &key, snapshot, Change::Upsert(rows)).await?;
        Ok(())
    }

    async fn get(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Document>>> {
        let key = key(context, collection);
        let Some(snapshot) = self.found(context, &key).await? else { return Ok(vec![None; ids.len()]) };
        let found = self.rows(context, &snapshot).get(ids).await?;
        self.shared.confirm(context, &key, &snapshot).await?;
        Ok(ids.iter().map(|id| found.get(id).map(|record| (*record.document).clone())).collect())
    }

    async fn delete(&self, context: &RequestContext, collection: &CollectionName, ids: &[DocumentId]) -> Result<u64> {
        if ids.is_empty() {
            return Ok(0);
        }
        let key = key(context, collection);
        let Some(snapshot) = self.found(context, &key).await? else { return Ok(0) };
        self.change(context, &key, snapshot, Change::Delete(ids.to_vec())).await
    }

    async fn scroll(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        let key = key(context, collection);
        let Some(snapshot) = self.found(context, &key).await? else { return Ok(Vec::new()) };
        // The cursor itself was given out before.
        let most = limit.saturating_add(usize::from(after.is_some()));
        let (records, _) = ordered::scroll(self.rows(context, &snapshot), None, after, most).await?;
        self.shared.confirm(context, &key, &snapshot).await?;
        let documents = records.into_iter().map(|record| Arc::unwrap_or_clone(record.document));
        Ok(documents.filter(|document| after != Some(&document.id)).take(limit).collect())
    }

    async fn names(&self, context: &RequestContext) -> Result<Vec<CollectionName>> {
        let entries = self.shared.entries.list(Patience::Of(context), DOCUMENTS, context.tenant()).await?;
        let mut names = Vec::with_capacity(entries.len());
        for entry in entries {
            if CollectionRecord::decode(&entry.value)?.has_rows() {
                let broken = |fault| damaged(format!("of the catalogue has a name that {fault}"));
                names.push(CollectionName::new(&entry.name).map_err(broken)?);
            }
        }
        Ok(names)
    }

    async fn snapshot(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        mut sink: DocumentSink,
    ) -> Result<u64> {
        let key = key(context, collection);
        let Some(snapshot) = self.found(context, &key).await? else { return Ok(0) };
        let documents = |record: Record| Arc::unwrap_or_clone(record.document);
        let sink = Box::new(move |records: Vec<Record>| sink(records.into_iter().map(documents).collect()));
        let count = self.rows(context, &snapshot).pour(sink).await?;
        self.shared.confirm(context, &key, &snapshot).await?;
        Ok(count)
    }
}
