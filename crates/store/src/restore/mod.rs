//! Brings collections, document stores and retrievers back from a backup: everything or nothing.
//!
//! Collections are filled while their records say `creating`, so that nobody sees them. What a restore has begun is written
//! down in the catalogue before it is begun, and one more write, the commit, says that from now on it is finished and not
//! undone. So a process that is killed leaves what the next one undoes or finishes before its first request
//! ([`Restores::settle`]). Their records name the restore, so that no process takes them for the leftovers of a create. Documents of
//! document stores have no state: they can be read as they arrive, and are noted before (`documents`), so that where the restore ends
//! otherwise they, and nothing that others wrote, are taken away again.

mod documents;
mod hidden;
mod journal;
mod session;

use std::sync::Arc;
use std::time::Duration;

use toller_core::catalog::RecordKind;
use toller_core::error::{Error, ResourceKind, Result};
use toller_core::{CollectionName, DocumentStore, RequestContext};
use tracing::info;

pub use journal::EncodedRetriever;
pub(crate) use journal::is_open;
pub use session::Restore;

use crate::collections::Collections;
use crate::reembed::context_of;
use crate::targets::unhurried;
use journal::Journal;

/// What is to come back, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RestoredNames {
    /// Collections.
    pub collections: Vec<CollectionName>,
    /// Document stores.
    pub document_stores: Vec<CollectionName>,
    /// Stored retrievers.
    pub retrievers: Vec<String>,
}

/// The restores of all tenants; the context says whose is meant.
#[derive(Clone)]
pub struct Restores {
    collections: Arc<Collections>,
    documents: Arc<dyn DocumentStore>,
}

impl Restores {
    /// Restores into these.
    pub fn new(collections: Arc<Collections>, documents: Arc<dyn DocumentStore>) -> Self {
        Self { collections, documents }
    }

    /// Finishes or undoes what an earlier process left, of all tenants, and returns how many restores that were. To be called
    /// once, before any request. Of a store that several processes share, only restores that give no sign of life for the time of
    /// `silence` are taken for left behind: the others are another process's work.
    ///
    /// # Errors
    /// As the catalogue and the stores.
    pub async fn settle(&self, silence: Duration) -> Result<usize> {
        let mut settled = 0;
        for tenant in self.collections.catalog().tenants(RecordKind::Restore).await? {
            let context = context_of(tenant);
            for mut journal in Journal::all(self.collections.catalog(), &context).await? {
                if !silence.is_zero() && journal.is_alive(silence).await? {
                    continue;
                }
                match journal.take_over(self.collections.foundation.beat).await {
                    // Another process that starts does it.
                    Err(Error::Aborted(_)) => continue,
                    other => other?,
                }
                let committed = journal.record.committed;
                info!(restore = journal.id(), committed, "a restore of the last run is finished, or undone");
                if committed {
                    session::finish(&self.collections, journal).await?;
                } else {
                    session::undo(&self.collections, self.documents.as_ref(), journal).await?;
                }
                settled += 1;
            }
        }
        Ok(settled)
    }

    /// Nothing of these names is there yet.
    ///
    /// # Errors
    /// `AlreadyExists` with all names of the first kind that are.
    pub async fn check_absent(&self, context: &RequestContext, names: &RestoredNames) -> Result<()> {
        let mut present = Vec::new();
        for name in &names.collections {
            if self.collections.is_taken(context, name).await? {
                present.push(name.as_str());
            }
        }
        already_there(ResourceKind::Collection, &present)?;
        let mut present = Vec::new();
        for name in &names.document_stores {
            if !self.documents.scroll(context, name, None, 1).await?.is_empty() {
                present.push(name.as_str());
            }
        }
        already_there(ResourceKind::DocumentStore, &present)?;
        let mut present = Vec::new();
        for name in &names.retrievers {
            if self.collections.catalog().get(context, RecordKind::Retriever, name).await?.is_some() {
                present.push(name.as_str());
            }
        }
        already_there(ResourceKind::Retriever, &present)
    }

    /// Begins a restore, which ends with [`Restore::commit`] or [`Restore::abort`].
    ///
    /// # Errors
    /// As the catalogue.
    pub async fn begin(&self, context: &RequestContext) -> Result<Restore> {
        // What is half done is undone also when its caller has gone.
        let journal =
            Journal::begin(self.collections.catalog(), unhurried(context), self.collections.foundation.beat).await?;
        Ok(Restore::new(self.clone(), journal))
    }
}

/// `AlreadyExists` unless there is no name.
fn already_there(kind: ResourceKind, names: &[&str]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    // The error puts quotation marks around all of them.
    Err(Error::AlreadyExists { kind, name: names.join("\", \"") })
}
