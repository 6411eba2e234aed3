//! Which documents a restore wrote to document stores. It is noted before they are written, so that undoing takes these away and
//! nothing that others wrote meanwhile.

use std::fmt::Write as _;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use toller_core::catalog::{Expected, RecordKind};
use toller_core::error::{Error, Result};
use toller_core::{Catalog, CollectionName, Document, DocumentId, DocumentStore, RequestContext};

/// Bytes of a hash that are kept: enough to tell versions of one document apart.
const HASH_BYTES: usize = 8;

/// Documents that were written at once.
#[derive(Debug, Serialize, Deserialize)]
struct Note {
    document_store: CollectionName,
    documents: Vec<Noted>,
}

/// A document: its id, and a hash of all of it.
#[derive(Debug, Serialize, Deserialize)]
struct Noted(DocumentId, String);

/// The notes of one restore.
pub(super) struct Notes<'a> {
    pub(super) catalog: &'a Arc<dyn Catalog>,
    pub(super) context: &'a RequestContext,
    /// Id of the restore.
    pub(super) restore: &'a str,
}

impl Notes<'_> {
    /// Notes that documents will be written.
    pub(super) async fn add(&self, number: u64, document_store: &CollectionName, documents: &[Document]) -> Result<()> {
        let noted = documents.iter().map(|document| Ok(Noted(document.id.clone(), hash_of(document)?)));
        let note = Note { document_store: document_store.clone(), documents: noted.collect::<Result<_>>()? };
        let value = serde_json::to_vec(&note).map_err(unwritable)?;
        let name = format!("{}{number:08}", self.prefix());
        self.catalog.swap(self.context, RecordKind::RestoredDocuments, &name, Expected::Absent, value).await?;
        Ok(())
    }

    /// Takes away those documents that are still as they were written, and the notes.
    pub(super) async fn undo(&self, documents: &dyn DocumentStore) -> Result<()> {
        for (name, version, note) in self.all().await? {
            let ids: Vec<DocumentId> = note.documents.iter().map(|noted| noted.0.clone()).collect();
            let present = documents.get(self.context, &note.document_store, &ids).await?;
            let mut own = Vec::new();
            for (Noted(id, hash), present) in note.documents.into_iter().zip(present) {
                if let Some(present) = present
                    && hash_of(&present)? == hash
                {
                    own.push(id);
                }
            }
            documents.delete(self.context, &note.document_store, &own).await?;
            self.remove(&name, version).await?;
        }
        Ok(())
    }

    /// Removes the notes alone.
    pub(super) async fn forget(&self) -> Result<()> {
        for (name, version, _) in self.all().await? {
            self.remove(&name, version).await?;
        }
        Ok(())
    }

    fn prefix(&self) -> String {
        format!("{}.", self.restore)
    }

    async fn all(&self) -> Result<Vec<(String, u64, Note)>> {
        let prefix = self.prefix();
        let listed = self.catalog.list(self.context, RecordKind::RestoredDocuments).await?;
        let own = listed.into_iter().filter(|found| found.name.starts_with(&prefix));
        own.map(|found| match serde_json::from_slice(&found.value) {
            Ok(note) => Ok((found.name, found.version, note)),
            Err(fault) => {
                let name = found.name;
                Err(Error::Internal(format!(
                    "the catalogue's note {name} of restored documents cannot be read: {fault}"
                )))
            }
        })
        .collect()
    }

    async fn remove(&self, name: &str, version: u64) -> Result<()> {
        match self.catalog.remove(self.context, RecordKind::RestoredDocuments, name, version).await {
            // Another process does the same.
            Err(Error::Aborted(_)) => Ok(()),
            other => other,
        }
    }
}

fn hash_of(document: &Document) -> Result<String> {
    let bytes = serde_json::to_vec(document).map_err(unwritable)?;
    let mut hash = String::with_capacity(2 * HASH_BYTES);
    for byte in Sha256::digest(bytes).iter().take(HASH_BYTES) {
        // A text takes whatever is written to it.
        write!(hash, "{byte:02x}").map_err(|fault| Error::Internal(fault.to_string()))?;
    }
    Ok(hash)
}

fn unwritable(fault: serde_json::Error) -> Error {
    Error::Internal(format!("a note of restored documents cannot be written: {fault}"))
}
