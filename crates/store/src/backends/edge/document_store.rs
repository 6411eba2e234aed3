//! Documents by id, on disk.

use std::collections::BTreeSet;

use async_trait::async_trait;
use toller_core::document_store::DocumentSink;
use toller_core::error::{Error, Result};
use toller_core::{CollectionName, Document, DocumentId, DocumentStore, RequestContext};

use super::database::{DOCUMENTS, Kind, Records, RecordsFault, fault};
use super::size;
use crate::backends::checks::check_documents;

/// Documents that a snapshot hands out at once.
const SNAPSHOT_PAGE: usize = 256;

/// Keeps documents on disk; every write is one transaction and survives power loss.
#[derive(Debug, Clone)]
pub struct EdgeDocumentStore {
    records: Records,
}

impl EdgeDocumentStore {
    pub(super) fn new(records: Records) -> Self {
        Self { records }
    }
}

fn decode(bytes: &[u8]) -> Result<Document> {
    serde_json::from_slice(bytes).map_err(|fault| Error::Internal(format!("a stored document cannot be read: {fault}")))
}

#[async_trait]
impl DocumentStore for EdgeDocumentStore {
    async fn put(&self, context: &RequestContext, collection: &CollectionName, documents: Vec<Document>) -> Result<()> {
        check_documents(&documents)?;
        if documents.is_empty() {
            return Ok(());
        }
        let (tenant, collection) = (context.tenant().clone(), collection.clone());
        let bytes = documents.iter().map(size::of_document).sum();
        self.records
            .write(context, Kind::Documents(bytes), move |transaction| {
                let mut table = transaction.open_table(DOCUMENTS).map_err(fault)?;
                for document in &documents {
                    let bytes = serde_json::to_vec(document)
                        .map_err(|fault| Error::Internal(format!("a document cannot be written: {fault}")))?;
                    let key = (tenant.as_str(), collection.as_str(), document.id.as_str());
                    table.insert(key, bytes.as_slice()).map_err(fault)?;
                }
                Ok(())
            })
            .await
    }

    async fn get(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Document>>> {
        let (tenant, collection, ids) = (context.tenant().clone(), collection.clone(), ids.to_vec());
        self.records
            .read(context, move |transaction| {
                let table = transaction.open_table(DOCUMENTS).map_err(fault)?;
                let find = |id: &DocumentId| -> Result<_, RecordsFault> {
                    let found = table.get((tenant.as_str(), collection.as_str(), id.as_str())).map_err(fault)?;
                    Ok(found.map(|bytes| decode(bytes.value())).transpose()?)
                };
                ids.iter().map(find).collect()
            })
            .await
    }

    async fn delete(&self, context: &RequestContext, collection: &CollectionName, ids: &[DocumentId]) -> Result<u64> {
        let ids: BTreeSet<DocumentId> = ids.iter().cloned().collect();
        if ids.is_empty() {
            return Ok(0);
        }
        let (tenant, collection) = (context.tenant().clone(), collection.clone());
        self.records
            .write(context, Kind::Removal, move |transaction| {
                let mut table = transaction.open_table(DOCUMENTS).map_err(fault)?;
                let mut removed = 0;
                for id in &ids {
                    let key = (tenant.as_str(), collection.as_str(), id.as_str());
                    if table.remove(key).map_err(fault)?.is_some() {
                        removed += 1;
                    }
                }
                Ok(removed)
            })
            .await
    }

    async fn scroll(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        after: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<Document>> {
        let (tenant, collection, after) = (context.tenant().clone(), collection.clone(), after.cloned());
        self.records
            .read(context, move |transaction| {
                let table = transaction.open_table(DOCUMENTS).map_err(fault)?;
                let from = after.as_ref().map_or("", DocumentId::as_str);
                let mut documents = Vec::new();
                for entry in table.range((tenant.as_str(), collection.as_str(), from)..).map_err(fault)? {
                    let (key, bytes) = entry.map_err(fault)?;
                    let (its_tenant, its_collection, id) = key.value();
                    if documents.len() == limit
                        || its_tenant != tenant.as_str()
                        || its_collection != collection.as_str()
                    {
                        break;
                    }
                    // The cursor itself was given out before; ids are never empty.
                    if id != from {
                        documents.push(decode(bytes.value())?);
                    }
                }
                Ok(documents)
            })
            .await
    }

    async fn names(&self, context: &RequestContext) -> Result<Vec<CollectionName>> {
        let tenant = context.tenant().clone();
        self.records
            .read(context, move |transaction| {
                let table = transaction.open_table(DOCUMENTS).map_err(fault)?;
                let mut names: Vec<CollectionName> = Vec::new();
                loop {
                    // From one name the search jumps over all its documents: no name begins with, or goes on with, a control
                    // character.
                    let from = names.last().map(|last| format!("{}\0", last.as_str())).unwrap_or_default();
                    let mut following = table.range((tenant.as_str(), from.as_str(), "")..).map_err(fault)?;
                    let Some(entry) = following.next() else { return Ok(names) };
                    let (key, _) = entry.map_err(fault)?;
                    let (its_tenant, name, _) = key.value();
                    if its_tenant != tenant.as_str() {
                        return Ok(names);
                    }
                    let broken = |fault| {
                        Error::Internal(format!("the name of a stored document's collection cannot be read: {fault}"))
                    };
                    names.push(CollectionName::new(name).map_err(broken)?);
                }
            })
            .await
    }

    async fn snapshot(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        mut sink: DocumentSink,
    ) -> Result<u64> {
        let (tenant, collection, owned_context) = (context.tenant().clone(), collection.clone(), context.clone());
        self.records
            .read(context, move |transaction| {
                let table = transaction.open_table(DOCUMENTS).map_err(fault)?;
                let (mut page, mut count) = (Vec::new(), 0);
                // The transaction sees what was there when it began, whatever is written meanwhile.
                for entry in table.range((tenant.as_str(), collection.as_str(), "")..).map_err(fault)? {
                    let (key, bytes) = entry.map_err(fault)?;
                    let (its_tenant, its_collection, _) = key.value();
                    if its_tenant != tenant.as_str() || its_collection != collection.as_str() {
                        break;
                    }
                    page.push(decode(bytes.value())?);
                    count += 1;
                    if page.len() == SNAPSHOT_PAGE {
                        owned_context.check("while documents were read")?;
                        sink(std::mem::take(&mut page))?;
                    }
                }
                if !page.is_empty() {
                    sink(page)?;
                }
                Ok(count)
            })
            .await
    }
}
