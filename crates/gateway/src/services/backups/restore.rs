//! `Restore`: items come in, in the order of a backup, and become everything or nothing.

use prost::Message as _;
use tokio::sync::oneshot;
use toller_api::convert;
use toller_api::v1;
use toller_api::v1::backup_item::Item;
use toller_core::error::both;
use toller_core::{CollectionName, CollectionSpec, Document, Error, Record, RequestContext, Result};
use toller_retrieval::stored::encoded_now;
use toller_serving::status::status;
use toller_store::{EncodedRetriever, Restore, RestoredNames, Restores};
use tonic::{Status, Streaming};

use super::FORMAT;

/// Most documents that are written at once: a store on disk makes sure of each write, which costs the same for all of them.
const WRITE_DOCUMENTS: usize = 1000;

/// Most bytes of them, as encoded; one larger document goes alone.
const WRITE_BYTES: usize = 4 << 20;

/// One call.
pub(super) struct Restoring {
    restores: Restores,
    context: RequestContext,
    /// None before the header.
    begun: Option<Begun>,
}

/// A restore after its header.
struct Begun {
    restore: Restore,
    place: Place,
    counts: v1::BackupCounts,
    retrievers: Vec<EncodedRetriever>,
}

/// Which items may come next.
enum Place {
    Header,
    Collection { spec: Box<CollectionSpec>, waiting: Vec<Record>, bytes: usize },
    DocumentStore { waiting: Vec<Document>, bytes: usize },
    Retrievers,
}

impl Restoring {
    pub(super) fn new(restores: Restores, context: RequestContext) -> Self {
        Self { restores, context, begun: None }
    }

    /// Takes everything in until the end item, which decides. `caller_is_gone` completes when nobody waits for the answer; after
    /// the end item that makes no difference.
    pub(super) async fn run(
        mut self,
        mut messages: Streaming<v1::BackupsRestoreRequest>,
        mut caller_is_gone: oneshot::Receiver<()>,
    ) -> Result<v1::BackupsRestoreResponse, Status> {
        let outcome = loop {
            let message = tokio::select! {
                message = messages.message() => message,
                _ = &mut caller_is_gone => break Err(status(&Error::Cancelled)),
            };
            let items = match message {
                Ok(Some(message)) => message.items,
                Ok(None) => {
                    let fault = "must be the last one: the backup is cut off, so nothing of it is restored";
                    break Err(status(&Error::invalid("items.end", fault)));
                }
                Err(broken) => break Err(broken),
            };
            match self.take_all(items).await {
                Ok(None) => {}
                Ok(Some(counts)) => return self.commit(counts).await.map_err(|fault| status(&fault)),
                Err(fault) => break Err(status(&fault)),
            }
        };
        if let Some(begun) = self.begun {
            begun.restore.abort().await;
        }
        outcome
    }

    /// The counts of the end item, when it was among these.
    async fn take_all(&mut self, items: Vec<v1::BackupItem>) -> Result<Option<v1::BackupCounts>> {
        let mut items = items.into_iter().enumerate();
        while let Some((index, item)) = items.next() {
            let ended = self.take(item).await.map_err(|fault| fault.within(&format!("items[{index}]")))?;
            if ended.is_some() {
                return match items.next() {
                    None => Ok(ended),
                    Some((index, _)) => Err(Error::invalid(format!("items[{index}]"), "comes after the end")),
                };
            }
        }
        Ok(None)
    }

    async fn take(&mut self, item: v1::BackupItem) -> Result<Option<v1::BackupCounts>> {
        let item = item.item.ok_or_else(|| Error::invalid("", "must have an item; it may be of a newer version"))?;
        let Some(begun) = &mut self.begun else {
            let Item::Header(header) = item else { return Err(Error::invalid("header", "must be the first item")) };
            let names = names_of(header).map_err(|fault| fault.within("header"))?;
            self.restores.check_absent(&self.context, &names).await?;
            let restore = self.restores.begin(&self.context).await?;
            let (counts, retrievers) = (v1::BackupCounts::default(), Vec::new());
            self.begun = Some(Begun { restore, place: Place::Header, counts, retrievers });
            return Ok(None);
        };
        begun.take(item).await
    }

    async fn commit(self, counts: v1::BackupCounts) -> Result<v1::BackupsRestoreResponse> {
        let Some(Begun { restore, retrievers, .. }) = self.begun else {
            return Err(Error::Internal("a restore ended before it began".to_owned()));
        };
        restore.commit(retrievers).await?;
        tracing::info!(
            tenant = self.context.tenant().as_str(),
            collections = counts.collections,
            documents = counts.documents,
            document_stores = counts.document_stores,
            stored_documents = counts.stored_documents,
            retrievers = counts.retrievers,
            "a backup is restored"
        );
        Ok(v1::BackupsRestoreResponse { counts: Some(counts) })
    }
}

/// Counts for people.
fn told(counts: &v1::BackupCounts) -> String {
    format!(
        "{} collections with {} documents, {} document stores with {} documents and {} retrievers",
        counts.collections, counts.documents, counts.document_stores, counts.stored_documents, counts.retrievers
    )
}

impl Begun {
    async fn take(&mut self, item: Item) -> Result<Option<v1::BackupCounts>> {
        let misplaced = |field: &str, place: &str| Error::invalid(field, format!("comes {place}"));
        match item {
            Item::Header(_) => return Err(misplaced("header", "a second time")),
            Item::Collection(message) => {
                if !matches!(self.place, Place::Header | Place::Collection { .. }) {
                    return Err(misplaced("collection", "after document stores or retrievers"));
                }
                self.write_waiting().await?;
                let spec = convert::collection_from_message(message).map_err(|fault| fault.within("collection"))?;
                self.restore.collection(spec.clone()).await.map_err(|fault| fault.within("collection"))?;
                self.counts.collections += 1;
                self.place = Place::Collection { spec: Box::new(spec), waiting: Vec::new(), bytes: 0 };
            }
            Item::Document(message) => {
                let Place::Collection { spec, waiting, bytes } = &mut self.place else {
                    return Err(misplaced("document", "without a collection before it"));
                };
                *bytes += message.encoded_len();
                let record = convert::record_from_message(message, spec).map_err(|fault| fault.within("document"))?;
                waiting.push(record);
                self.counts.documents += 1;
                if waiting.len() >= WRITE_DOCUMENTS || *bytes >= WRITE_BYTES {
                    self.write_waiting().await?;
                }
            }
            Item::DocumentStore(message) => {
                if matches!(self.place, Place::Retrievers) {
                    return Err(misplaced("document_store", "after retrievers"));
                }
                self.write_waiting().await?;
                let name = convert::collection_name_from_message("document_store.name", &message.name)?;
                self.restore.document_store(name).await?;
                self.counts.document_stores += 1;
                self.place = Place::DocumentStore { waiting: Vec::new(), bytes: 0 };
            }
            Item::StoredDocument(message) => {
                let Place::DocumentStore { waiting, bytes } = &mut self.place else {
                    return Err(misplaced("stored_document", "without a document store before it"));
                };
                *bytes += message.encoded_len();
                let document = convert::document_from_message(message);
                waiting.push(document.map_err(|fault| fault.within("stored_document"))?);
                self.counts.stored_documents += 1;
                if waiting.len() >= WRITE_DOCUMENTS || *bytes >= WRITE_BYTES {
                    self.write_waiting().await?;
                }
            }
            Item::Retriever(message) => {
                self.write_waiting().await?;
                let retriever = encoded(message).map_err(|fault| fault.within("retriever"))?;
                if self.retrievers.iter().any(|earlier| earlier.name == retriever.name) {
                    return Err(Error::invalid("retriever.name", format!("\"{}\" stands twice", retriever.name)));
                }
                self.retrievers.push(retriever);
                self.counts.retrievers += 1;
                self.place = Place::Retrievers;
            }
            Item::End(end) => {
                self.write_waiting().await?;
                let counts = end.counts.unwrap_or_default();
                if counts != self.counts {
                    let description = format!(
                        "say {}, and what came is {}: the backup is damaged",
                        told(&counts),
                        told(&self.counts)
                    );
                    return Err(Error::invalid("end.counts", description));
                }
                return Ok(Some(counts));
            }
        }
        Ok(None)
    }

    /// Writes the documents that wait for others to be written with.
    async fn write_waiting(&mut self) -> Result<()> {
        match &mut self.place {
            Place::Collection { waiting, bytes, .. } if !waiting.is_empty() => {
                *bytes = 0;
                self.restore.records(std::mem::take(waiting)).await.map_err(|fault| up_to_here("document", fault))
            }
            Place::DocumentStore { waiting, bytes } if !waiting.is_empty() => {
                *bytes = 0;
                let written = self.restore.documents(std::mem::take(waiting)).await;
                written.map_err(|fault| up_to_here("stored_document", fault))
            }
            _ => Ok(()),
        }
    }
}

/// What is wrong with documents that waited to be written, of which the store does not know the items.
fn up_to_here(field: &str, fault: Error) -> Error {
    match fault {
        Error::InvalidArgument(_) => Error::invalid(field, format!("one of those up to here is wrong: {fault}")),
        other => other,
    }
}

/// What the header says will come.
fn names_of(header: v1::BackupHeader) -> Result<RestoredNames> {
    if header.format != FORMAT {
        let description = format!(
            "is {}, made by version {:?}, and this server reads {FORMAT}; restore with a server of that version",
            header.format, header.server_version
        );
        return Err(Error::invalid("format", description));
    }
    let names = |field: &str, names: &[String]| -> Result<Vec<CollectionName>> {
        let names = names.iter().enumerate();
        names.map(|(index, name)| convert::collection_name_from_message(&format!("{field}[{index}]"), name)).collect()
    };
    let (collections, document_stores) =
        both(names("collections", &header.collections), names("document_stores", &header.document_stores))?;
    Ok(RestoredNames { collections, document_stores, retrievers: header.retrievers })
}

fn encoded(message: v1::Retriever) -> Result<EncodedRetriever> {
    let spec = convert::retriever_from_message(message)?;
    let Some(name) = &spec.name else { return Err(Error::invalid("name", "must be given, it is the key")) };
    Ok(EncodedRetriever { name: name.as_str().to_owned(), value: encoded_now(&spec)? })
}
