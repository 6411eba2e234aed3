//! What a restore writes down in the catalogue, for the process after the one that is killed.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use toller_core::catalog::{Expected, RecordKind};
use toller_core::error::{Error, Result};
use toller_core::{Catalog, CollectionName, RequestContext};
use uuid::Uuid;

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
}

impl Journal {
    /// That of a new restore.
    pub(crate) async fn begin(catalog: &Arc<dyn Catalog>, context: RequestContext) -> Result<Self> {
        let (id, record) = (Uuid::now_v7().to_string(), RestoreRecord::default());
        let value = encode(&id, &record)?;
        let version = catalog.swap(&context, RecordKind::Restore, &id, Expected::Absent, value).await?;
        Ok(Self { catalog: Arc::clone(catalog), context, id, version, record })
    }

    /// Those of the tenant that an earlier process left.
    pub(crate) async fn all(catalog: &Arc<dyn Catalog>, context: &RequestContext) -> Result<Vec<Self>> {
        let mut journals = Vec::new();
        for versioned in catalog.list(context, RecordKind::Restore).await? {
            let record = serde_json::from_slice(&versioned.value).map_err(|fault| {
                Error::Internal(format!("the catalogue's record of restore {} cannot be read: {fault}", versioned.name))
            })?;
            journals.push(Self {
                catalog: Arc::clone(catalog),
                context: context.clone(),
                id: versioned.name,
                version: versioned.version,
                record,
            });
        }
        Ok(journals)
    }

    /// How long ago it was begun, by this machine's clock.
    pub(crate) fn age(&self) -> Duration {
        let begun = Uuid::parse_str(&self.id).ok().and_then(|id| id.get_timestamp());
        let (seconds, nanoseconds) = begun.map_or((0, 0), |timestamp| timestamp.to_unix());
        let begun = UNIX_EPOCH + Duration::new(seconds, nanoseconds);
        SystemTime::now().duration_since(begun).unwrap_or_default()
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

    /// Writes the record as it is now.
    pub(crate) async fn save(&mut self) -> Result<()> {
        let (value, expected) = (encode(&self.id, &self.record)?, Expected::Version(self.version));
        self.version = self.catalog.swap(&self.context, RecordKind::Restore, &self.id, expected, value).await?;
        Ok(())
    }

    /// The restore has ended.
    pub(crate) async fn remove(self) -> Result<()> {
        self.catalog.remove(&self.context, RecordKind::Restore, &self.id, self.version).await
    }
}

fn encode(id: &str, record: &RestoreRecord) -> Result<Vec<u8>> {
    serde_json::to_vec(record)
        .map_err(|fault| Error::Internal(format!("the record of restore {id} cannot be written: {fault}")))
}
