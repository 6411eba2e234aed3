//! What a restore writes down in the catalogue, for the process after the one that is killed.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::error::{Error, Result};
use toller_core::{Catalog, CollectionName, RequestContext};
use uuid::Uuid;

use super::documents::Notes;
use crate::pulse::{self, Pulse};

/// How often the record is written again where an earlier write arrived without its answer.
const SAVE_ATTEMPTS: usize = 4;

/// A stored retriever as its service encodes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodedRetriever {
    /// Its name.
    pub name: String,
    /// The catalogue's record of it.
    pub value: String,
}

/// What a restore has begun.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct RestoreRecord {
    /// Is it to be finished? Otherwise it is to be undone.
    pub(crate) committed: bool,
    /// The mark of the process that has it.
    #[serde(default)]
    owner: String,
    pub(crate) collections: Vec<CollectionName>,
    pub(crate) document_stores: Vec<CollectionName>,
    /// Written once it is committed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) retrievers: Vec<EncodedRetriever>,
}

/// The record with its place in the catalogue.
pub(crate) struct Journal {
    catalog: Arc<dyn Catalog>,
    context: RequestContext,
    id: String,
    version: u64,
    pub(crate) record: RestoreRecord,
    /// None until it is this process's.
    pulse: Option<Pulse>,
    /// Notes of documents that were written.
    notes: u64,
}

/// Is there a restore of that id, which has not ended?
pub(crate) async fn is_open(catalog: &dyn Catalog, context: &RequestContext, id: &str) -> Result<bool> {
    Ok(catalog.get(context, RecordKind::Restore, id).await?.is_some())
}

impl Journal {
    /// That of a new restore, which gives signs of life every so often.
    pub(crate) async fn begin(catalog: &Arc<dyn Catalog>, context: RequestContext, beat: Duration) -> Result<Self> {
        let id = Uuid::now_v7().to_string();
        let record = RestoreRecord { owner: Uuid::now_v7().to_string(), ..RestoreRecord::default() };
        let value = encode(&id, &record)?;
        // First, so that nobody takes it for left.
        let pulse = Pulse::begin(catalog, &context, &id, beat).await?;
        let version = catalog.swap(&context, RecordKind::Restore, &id, Expected::Absent, value).await?;
        Ok(Self { catalog: Arc::clone(catalog), context, id, version, record, pulse: Some(pulse), notes: 0 })
    }

    /// Those of the tenant.
    pub(crate) async fn all(catalog: &Arc<dyn Catalog>, context: &RequestContext) -> Result<Vec<Self>> {
        let mut journals = Vec::new();
        for versioned in catalog.list(context, RecordKind::Restore).await? {
            let record = decode(&versioned)?;
            journals.push(Self {
                catalog: Arc::clone(catalog),
                context: context.clone(),
                id: versioned.name,
                version: versioned.version,
                record,
                pulse: None,
                notes: 0,
            });
        }
        Ok(journals)
    }

    /// Does its process still give signs of life? Takes `silence` to say that it does not.
    pub(crate) async fn is_alive(&self, silence: Duration) -> Result<bool> {
        pulse::is_alive(self.catalog.as_ref(), &self.context, &self.id, silence).await
    }

    /// Makes it this process's.
    ///
    /// # Errors
    /// `Aborted` when it is not as it was read: another process has it, or it has ended.
    pub(crate) async fn take_over(&mut self, beat: Duration) -> Result<()> {
        self.record.owner = Uuid::now_v7().to_string();
        self.save().await?;
        self.pulse = Some(Pulse::begin(&self.catalog, &self.context, &self.id, beat).await?);
        Ok(())
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn context(&self) -> &RequestContext {
        &self.context
    }

    pub(crate) fn catalog(&self) -> &dyn Catalog {
        self.catalog.as_ref()
    }

    /// The notes of documents that were written.
    pub(super) fn notes(&self) -> Notes<'_> {
        Notes { catalog: &self.catalog, context: &self.context, restore: &self.id }
    }

    /// The number of the next note.
    pub(super) fn next_note(&mut self) -> u64 {
        self.notes += 1;
        self.notes
    }

    /// Is it still this process's?
    ///
    /// # Errors
    /// `Aborted` when it is not.
    pub(crate) async fn check_mine(&self) -> Result<()> {
        self.read().await.map(drop)
    }

    /// Writes the record as it is now.
    pub(crate) async fn save(&mut self) -> Result<()> {
        let (value, expected) = (encode(&self.id, &self.record)?, Expected::Version(self.version));
        self.version = self.catalog.swap(&self.context, RecordKind::Restore, &self.id, expected, value).await?;
        Ok(())
    }

    /// Makes sure that it is not committed, and will not be by a write that is still on its way; false when it is committed.
    ///
    /// # Errors
    /// Whether it is committed is open then.
    pub(crate) async fn give_up(&mut self) -> Result<bool> {
        self.record.committed = false;
        self.record.retrievers.clear();
        for _ in 0..SAVE_ATTEMPTS {
            match self.save().await {
                Err(Error::Aborted(_)) => {}
                other => return other.map(|()| true),
            }
            // An earlier write arrived though its answer did not.
            let (version, record) = self.read().await?;
            self.version = version;
            if record.committed {
                self.record = record;
                return Ok(false);
            }
        }
        Err(Error::Aborted(format!("the record of restore {} changes all the time", self.id)))
    }

    /// The restore has ended.
    pub(crate) async fn remove(self) -> Result<()> {
        self.catalog.remove(&self.context, RecordKind::Restore, &self.id, self.version).await?;
        if let Some(pulse) = self.pulse {
            pulse.end().await;
        }
        Ok(())
    }

    async fn read(&self) -> Result<(u64, RestoreRecord)> {
        if let Some(found) = self.catalog.get(&self.context, RecordKind::Restore, &self.id).await? {
            let record = decode(&found)?;
            if record.owner == self.record.owner {
                return Ok((found.version, record));
            }
        }
        Err(Error::Aborted(format!("another process took restore {} for left, and ends it", self.id)))
    }
}

fn encode(id: &str, record: &RestoreRecord) -> Result<Vec<u8>> {
    serde_json::to_vec(record)
        .map_err(|fault| Error::Internal(format!("the record of restore {id} cannot be written: {fault}")))
}

fn decode(versioned: &Versioned) -> Result<RestoreRecord> {
    serde_json::from_slice(&versioned.value).map_err(|fault| {
        Error::Internal(format!("the catalogue's record of restore {} cannot be read: {fault}", versioned.name))
    })
}
