//! One restore, from its beginning to its commit or its undoing.

use toller_core::catalog::{Expected, RecordKind};
use toller_core::error::{Error, ResourceKind, Result, join_path};
use toller_core::value::check_metadata;
use toller_core::{CollectionName, CollectionSpec, Document, DocumentId, DocumentStore, Record};
use tracing::{error, warn};

use super::hidden::Hidden;
use super::journal::{EncodedRetriever, Journal};
use super::{RestoredNames, Restores};
use crate::collections::Collections;

/// A restore that is under way. One that is dropped is undone by the next process.
pub struct Restore {
    restores: Restores,
    journal: Journal,
    hidden: Vec<Hidden>,
}

impl Restore {
    pub(super) fn new(restores: Restores, journal: Journal) -> Self {
        Self { restores, journal, hidden: Vec::new() }
    }

    /// Begins a collection, out of everybody's sight. What it was is kept, its fingerprint and its age too.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument` for parts of `spec`, and for `quantization` where the store has none.
    pub async fn collection(&mut self, spec: CollectionSpec) -> Result<()> {
        self.journal.record.collections.push(spec.name.clone());
        self.journal.save().await?;
        match self.restores.collections.create_hidden(self.journal.context(), spec, self.journal.id()).await {
            Ok(hidden) => {
                self.hidden.push(hidden);
                Ok(())
            }
            Err(fault) => {
                // It is somebody else's, or nobody's.
                self.journal.record.collections.pop();
                self.journal.save().await?;
                Err(fault)
            }
        }
    }

    /// Writes records to the collection that was begun last.
    ///
    /// # Errors
    /// As [`VectorStore::upsert`](toller_core::VectorStore::upsert); `Internal` before the first collection.
    pub async fn records(&mut self, records: Vec<Record>) -> Result<()> {
        let Some(hidden) = self.hidden.last_mut() else {
            return Err(Error::Internal("records were to be restored into no collection".to_owned()));
        };
        for record in &records {
            check(&record.document)?;
        }
        // Where another process undid it, the name may be somebody else's by now.
        self.journal.check_mine().await?;
        let count = records.len() as u64;
        self.restores.collections.store().upsert(self.journal.context(), &hidden.name, records).await?;
        hidden.written += count;
        Ok(())
    }

    /// Begins a document store.
    ///
    /// # Errors
    /// `AlreadyExists` where it has documents.
    pub async fn document_store(&mut self, name: CollectionName) -> Result<()> {
        if !self.restores.documents.scroll(self.journal.context(), &name, None, 1).await?.is_empty() {
            return Err(Error::AlreadyExists { kind: ResourceKind::DocumentStore, name: name.to_string() });
        }
        self.journal.record.document_stores.push(name);
        self.journal.save().await
    }

    /// Writes documents to the document store that was begun last.
    ///
    /// # Errors
    /// As [`DocumentStore::put`]; `AlreadyExists` where somebody wrote one of them meanwhile; `Internal` before the first document
    /// store.
    pub async fn documents(&mut self, documents: Vec<Document>) -> Result<()> {
        let Some(name) = self.journal.record.document_stores.last().cloned() else {
            return Err(Error::Internal("documents were to be restored into no document store".to_owned()));
        };
        for document in &documents {
            check(document)?;
        }
        self.journal.check_mine().await?;
        let ids: Vec<DocumentId> = documents.iter().map(|document| document.id.clone()).collect();
        let present = self.restores.documents.get(self.journal.context(), &name, &ids).await?;
        if present.iter().any(Option::is_some) {
            return Err(Error::AlreadyExists { kind: ResourceKind::DocumentStore, name: name.to_string() });
        }
        let number = self.journal.next_note();
        self.journal.notes().add(number, &name, &documents).await?;
        self.restores.documents.put(self.journal.context(), &name, documents).await
    }

    /// Ends it: everything can be seen when this returns, the retrievers too. In case of an error before that is decided it has
    /// been undone.
    ///
    /// # Errors
    /// `AlreadyExists` for a retriever that somebody stored meanwhile; `InvalidArgument` when a collection holds fewer records
    /// than were written, since ids stood twice; `Aborted` when another process took it for left and ends it; `Internal` when it is decided and not finished, or when the catalogue does not say
    /// whether it is decided: the next process ends it.
    pub async fn commit(mut self, retrievers: Vec<EncodedRetriever>) -> Result<()> {
        if let Err(fault) = self.decide(retrievers).await {
            // The decision may have been written though the answer was lost.
            match self.journal.give_up().await {
                Ok(true) => {
                    self.undo().await;
                    return Err(fault);
                }
                Ok(false) => {}
                // Another process took it for left.
                Err(second @ Error::Aborted(_)) => return Err(second),
                Err(second) => {
                    error!(restore = self.journal.id(), %fault, %second, "whether a restore is decided is open; the next start of the server finishes or undoes it");
                    return Err(Error::Internal(format!(
                        "it is open whether everything is restored ({fault}): start the server again, which finishes or undoes it"
                    )));
                }
            }
        }
        let id = self.journal.id().to_owned();
        if let Err(fault) = finish(&self.restores.collections, self.journal).await {
            error!(restore = id, %fault, "a restore could not be finished");
            return Err(Error::Internal(format!(
                "everything is restored, and not everything can be seen yet ({fault}): start the server again, which finishes it"
            )));
        }
        Ok(())
    }

    /// The moment from which on it is finished and not undone.
    async fn decide(&mut self, retrievers: Vec<EncodedRetriever>) -> Result<()> {
        let context = self.journal.context();
        for Hidden { name, written, .. } in &self.hidden {
            let count = self.restores.collections.store().count(context, name, None).await?;
            if count != *written {
                let description =
                    format!("has {written} documents for collection \"{name}\", of {count} different ids");
                return Err(Error::invalid("document", description));
            }
        }
        let names = retrievers.iter().map(|retriever| retriever.name.clone()).collect();
        let names = RestoredNames { retrievers: names, ..RestoredNames::default() };
        self.restores.check_absent(context, &names).await?;
        self.journal.record.retrievers = retrievers;
        self.journal.record.committed = true;
        self.journal.save().await
    }

    /// Undoes everything. Where that fails, the log says so and the next process does it.
    pub async fn abort(mut self) {
        match self.journal.give_up().await {
            Ok(_) => self.undo().await,
            Err(fault) => error!(
                restore = self.journal.id(),
                %fault,
                "a restore could not be undone; the next start of the server does it"
            ),
        }
    }

    async fn undo(self) {
        let id = self.journal.id().to_owned();
        if let Err(fault) = undo(&self.restores.collections, self.restores.documents.as_ref(), self.journal).await {
            error!(restore = id, %fault, "a restore could not be undone; the next start of the server does it");
        }
    }
}

/// Metadata that a store takes: a backup may come from anywhere.
fn check(document: &Document) -> Result<()> {
    check_metadata(&document.metadata).map_err(|(path, fault)| {
        Error::invalid(join_path("metadata", &path), format!("{fault}, in document \"{}\"", document.id))
    })
}

/// Lets everybody see what a committed restore has brought.
pub(super) async fn finish(collections: &Collections, journal: Journal) -> Result<()> {
    let context = journal.context();
    for name in &journal.record.collections {
        collections.show(context, name, journal.id()).await?;
    }
    for EncodedRetriever { name, value } in &journal.record.retrievers {
        let value = value.clone().into_bytes();
        match journal.catalog().swap(context, RecordKind::Retriever, name, Expected::Absent, value).await {
            Ok(_) => {}
            // From an earlier attempt, or from somebody who was faster.
            Err(Error::Aborted(_)) => {
                warn!(retriever = name, "a stored retriever was there already and stays as it is")
            }
            Err(fault) => return Err(fault),
        }
    }
    journal.notes().forget().await?;
    journal.remove().await
}

/// Takes away what a restore has brought.
pub(super) async fn undo(collections: &Collections, documents: &dyn DocumentStore, journal: Journal) -> Result<()> {
    let context = journal.context();
    for name in &journal.record.collections {
        collections.discard_hidden(context, name, journal.id()).await?;
    }
    journal.notes().undo(documents).await?;
    journal.remove().await
}
