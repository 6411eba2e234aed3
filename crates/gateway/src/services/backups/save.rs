//! `Save`: everything that a tenant keeps goes out, one part after another.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use prost::Message as _;
use tokio::sync::mpsc;
use toller_api::convert::{self, Encoding};
use toller_api::v1;
use toller_api::v1::backup_item::Item;
use toller_core::{CollectionName, CollectionSpec, Document, DocumentStore, Error, Record, RequestContext, Result};
use toller_retrieval::StoredRetrievers;
use toller_serving::status::status;
use toller_store::Collections;
use tonic::Status;

use super::FORMAT;
use super::spool::{Spool, spool};

/// Most bytes of the items of a message, below the 1 MiB that the contract promises; one larger item goes alone.
const MESSAGE_BYTES: usize = 512 << 10;

/// Protobuf's own bytes around an item: tag and length.
const ITEM_OVERHEAD_BYTES: usize = 6;

/// One call.
pub(super) struct Saving {
    pub(super) collections: Arc<Collections>,
    pub(super) documents: Arc<dyn DocumentStore>,
    pub(super) stored: StoredRetrievers,
    pub(super) spool_folder: Arc<Path>,
    pub(super) context: RequestContext,
    pub(super) messages: mpsc::Sender<Result<v1::BackupsSaveResponse, Status>>,
}

/// What is to go out.
pub(super) struct Plan {
    collections: Vec<CollectionName>,
    document_stores: Vec<CollectionName>,
    retrievers: Vec<v1::Retriever>,
    /// Were the collections asked for by name? Then none may be missing.
    by_name: bool,
}

/// Items on their way into messages.
struct Outgoing<'a> {
    messages: &'a mpsc::Sender<Result<v1::BackupsSaveResponse, Status>>,
    items: Vec<v1::BackupItem>,
    bytes: usize,
    counts: v1::BackupCounts,
}

impl Saving {
    /// What the request asks for.
    ///
    /// # Errors
    /// `InvalidArgument` for `collections[i]`, `NotFound` for a collection that does not exist.
    pub(super) async fn plan(&self, request: v1::BackupsSaveRequest) -> Result<Plan> {
        let context = &self.context;
        if request.collections.is_empty() {
            let collections = self.collections.list(context).await?;
            let stored = self.stored.list(context).await?;
            return Ok(Plan {
                collections: collections.into_iter().map(|spec| spec.name).collect(),
                document_stores: self.documents.names(context).await?,
                retrievers: stored.iter().map(|stored| convert::retriever_to_message(&stored.spec)).collect(),
                by_name: false,
            });
        }
        let mut names = BTreeSet::new();
        for (index, name) in request.collections.iter().enumerate() {
            let field = format!("collections[{index}]");
            let name = convert::collection_name_from_message(&field, name)?;
            self.collections.get(context, &name).await?;
            if !names.insert(name) {
                return Err(Error::invalid(field, "stands twice"));
            }
        }
        let collections = names.into_iter().collect();
        Ok(Plan { collections, document_stores: Vec::new(), retrievers: Vec::new(), by_name: true })
    }

    /// Sends everything, to the end or to the first fault.
    pub(super) async fn run(self, plan: Plan) {
        if let Err(fault) = self.send_all(plan).await {
            // A client that has gone hears nothing any more.
            let _ = self.messages.send(Err(status(&fault))).await;
        }
    }

    async fn send_all(&self, plan: Plan) -> Result<()> {
        let mut outgoing =
            Outgoing { messages: &self.messages, items: Vec::new(), bytes: 0, counts: v1::BackupCounts::default() };
        outgoing.push(Item::Header(header(&plan))).await?;
        // Who has gone before anything is read costs nothing.
        outgoing.flush().await?;
        for name in &plan.collections {
            self.send_collection(&mut outgoing, name, plan.by_name).await?;
        }
        for name in &plan.document_stores {
            self.send_document_store(&mut outgoing, name).await?;
        }
        for retriever in plan.retrievers {
            outgoing.push(Item::Retriever(retriever)).await?;
            outgoing.counts.retrievers += 1;
        }
        let counts = Some(outgoing.counts);
        outgoing.push(Item::End(v1::BackupEnd { counts })).await?;
        outgoing.flush().await
    }

    async fn send_collection(
        &self,
        outgoing: &mut Outgoing<'_>,
        name: &CollectionName,
        must_be_there: bool,
    ) -> Result<()> {
        let (spec, count, spooled) = match self.spool_collection(name).await {
            // It was deleted before its turn came.
            Err(Error::NotFound { .. }) if !must_be_there => return Ok(()),
            other => other?,
        };
        let store = self.collections.store();
        let message = convert::collection_to_message(&spec, store.backend(), store.durability());
        outgoing.push(Item::Collection(message)).await?;
        outgoing.counts.collections += 1;
        outgoing.push_all(spooled).await?;
        outgoing.counts.documents += count;
        Ok(())
    }

    /// Puts a collection aside, as of one moment.
    async fn spool_collection(&self, name: &CollectionName) -> Result<(CollectionSpec, u64, Spool)> {
        let collection = self.collections.open(&self.context, name).await?;
        let (mut writer, spooled) = spool(&self.spool_folder)?;
        let sink = Box::new(move |records: Vec<Record>| writer.write(records.iter().map(record_item)));
        let count = collection.snapshot(&self.context, sink).await?;
        Ok((collection.spec().clone(), count, spooled))
    }

    async fn send_document_store(&self, outgoing: &mut Outgoing<'_>, name: &CollectionName) -> Result<()> {
        let (mut writer, spooled) = spool(&self.spool_folder)?;
        let sink = Box::new(move |documents: Vec<Document>| writer.write(documents.iter().map(document_item)));
        let count = self.documents.snapshot(&self.context, name, sink).await?;
        if count == 0 {
            // Its last document was deleted before its turn came.
            return Ok(());
        }
        outgoing.push(Item::DocumentStore(v1::BackupDocumentStore { name: name.as_str().to_owned() })).await?;
        outgoing.counts.document_stores += 1;
        outgoing.push_all(spooled).await?;
        outgoing.counts.stored_documents += count;
        Ok(())
    }
}

impl Outgoing<'_> {
    /// Sends an item, with others.
    ///
    /// # Errors
    /// `Cancelled` when the client has gone.
    async fn push(&mut self, item: Item) -> Result<()> {
        self.push_item(v1::BackupItem { item: Some(item) }).await
    }

    async fn push_item(&mut self, item: v1::BackupItem) -> Result<()> {
        let bytes = item.encoded_len() + ITEM_OVERHEAD_BYTES;
        if self.bytes + bytes > MESSAGE_BYTES {
            self.flush().await?;
        }
        self.bytes += bytes;
        self.items.push(item);
        Ok(())
    }

    async fn push_all(&mut self, spooled: Spool) -> Result<()> {
        let mut items = spooled.into_items()?;
        while let Some(item) = items.next().await? {
            self.push_item(item).await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        self.bytes = 0;
        let items = std::mem::take(&mut self.items);
        if items.is_empty() {
            return Ok(());
        }
        self.messages.send(Ok(v1::BackupsSaveResponse { items })).await.map_err(|_| Error::Cancelled)
    }
}

fn header(plan: &Plan) -> v1::BackupHeader {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX);
    let names = |names: &[CollectionName]| names.iter().map(|name| name.as_str().to_owned()).collect();
    v1::BackupHeader {
        format: FORMAT,
        server_version: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: Some(convert::timestamp_from_millis(millis)),
        collections: names(&plan.collections),
        document_stores: names(&plan.document_stores),
        retrievers: plan.retrievers.iter().map(|retriever| retriever.name.clone()).collect(),
    }
}

fn record_item(record: &Record) -> v1::BackupItem {
    let vectors = convert::vectors_to_message(record, Encoding::Packed);
    v1::BackupItem { item: Some(Item::Document(convert::document_to_message(&record.document, Some(vectors)))) }
}

fn document_item(document: &Document) -> v1::BackupItem {
    v1::BackupItem { item: Some(Item::StoredDocument(convert::document_to_message(document, None))) }
}
