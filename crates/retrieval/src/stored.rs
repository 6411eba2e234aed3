//! Stored retrievers: declarations kept in the catalogue under their names, with versions.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::error::ResourceKind;
use toller_core::retriever::{RetrieverName, RetrieverSpec};
use toller_core::{Catalog, Error, RequestContext, Result};

/// Version of the stored form.
const FORMAT: u32 = 1;

/// A declaration as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRetriever {
    /// The declaration.
    pub spec: RetrieverSpec,
    /// Changes with every write; at least 1.
    pub version: u64,
    /// Milliseconds since 1970-01-01 UTC.
    pub updated_at_ms: i64,
}

#[derive(Serialize, Deserialize)]
struct StoredForm {
    format: u32,
    updated_at_ms: i64,
    retriever: RetrieverSpec,
}

/// What a write expects of the present state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteCondition {
    /// Nothing: the last writer wins.
    Always,
    /// Exactly this version, 0 for none.
    IfVersion(u64),
}

/// Reads and writes stored retrievers of the context's tenant.
#[derive(Clone)]
pub struct StoredRetrievers {
    catalog: Arc<dyn Catalog>,
}

impl StoredRetrievers {
    /// Stored retrievers in `catalog`.
    pub fn new(catalog: Arc<dyn Catalog>) -> Self {
        Self { catalog }
    }

    /// One stored retriever.
    ///
    /// # Errors
    /// `NotFound`; `Internal` for a record that cannot be read.
    pub async fn get(&self, context: &RequestContext, name: &RetrieverName) -> Result<StoredRetriever> {
        match self.catalog.get(context, RecordKind::Retriever, name.as_str()).await? {
            Some(record) => decode(&record),
            None => Err(not_found(name)),
        }
    }

    /// All of the tenant, by name.
    ///
    /// # Errors
    /// `Internal` for a record that cannot be read.
    pub async fn list(&self, context: &RequestContext) -> Result<Vec<StoredRetriever>> {
        self.catalog.list(context, RecordKind::Retriever).await?.iter().map(decode).collect()
    }

    /// Stores `spec` under its name.
    ///
    /// # Errors
    /// `InvalidArgument` for a declaration without a name; `Aborted` when the condition does not hold, or (without one)
    /// when other writers were faster every time.
    pub async fn put(
        &self,
        context: &RequestContext,
        spec: RetrieverSpec,
        condition: WriteCondition,
    ) -> Result<StoredRetriever> {
        /// Races with other writers that an unconditional write sits out.
        const MAX_RACES: usize = 16;

        let Some(name) = spec.name.clone() else {
            return Err(Error::invalid("name", "must be given, it is the key"));
        };
        let updated_at_ms = now_ms();
        let value = encode(&spec, updated_at_ms)?.into_bytes();

        for _ in 0..MAX_RACES {
            let expected = match condition {
                WriteCondition::IfVersion(0) => Expected::Absent,
                WriteCondition::IfVersion(version) => Expected::Version(version),
                WriteCondition::Always => {
                    match self.catalog.get(context, RecordKind::Retriever, name.as_str()).await? {
                        Some(record) => Expected::Version(record.version),
                        None => Expected::Absent,
                    }
                }
            };
            let written =
                self.catalog.swap(context, RecordKind::Retriever, name.as_str(), expected, value.clone()).await;
            match (written, condition) {
                (Ok(version), _) => return Ok(StoredRetriever { spec, version, updated_at_ms }),
                (Err(Error::Aborted(_)), WriteCondition::Always) => {}
                (Err(error), _) => return Err(error),
            }
        }
        Err(Error::Aborted(format!("retriever \"{name}\" is being written by others; retry")))
    }

    /// Deletes a stored retriever.
    ///
    /// # Errors
    /// `NotFound`; `Aborted` when another writer changed it in between.
    pub async fn delete(&self, context: &RequestContext, name: &RetrieverName) -> Result<()> {
        let record = self.catalog.get(context, RecordKind::Retriever, name.as_str()).await?;
        let record = record.ok_or_else(|| not_found(name))?;
        self.catalog.remove(context, RecordKind::Retriever, name.as_str(), record.version).await
    }
}

/// What the catalogue keeps of a retriever that is stored at this moment, for those who write it there by themselves.
///
/// # Errors
/// `Internal` for what cannot be encoded.
pub fn encoded_now(spec: &RetrieverSpec) -> Result<String> {
    encode(spec, now_ms())
}

fn encode(spec: &RetrieverSpec, updated_at_ms: i64) -> Result<String> {
    serde_json::to_string(&StoredForm { format: FORMAT, updated_at_ms, retriever: spec.clone() }).map_err(|fault| {
        let name = spec.name.as_ref().map_or("", RetrieverName::as_str);
        Error::Internal(format!("retriever {name} cannot be encoded: {fault}"))
    })
}

fn now_ms() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX)
}

fn decode(record: &Versioned) -> Result<StoredRetriever> {
    let form: StoredForm = serde_json::from_slice(&record.value)
        .map_err(|fault| Error::Internal(format!("stored retriever {} cannot be read: {fault}", record.name)))?;
    if form.format != FORMAT {
        return Err(Error::Internal(format!(
            "stored retriever {} has format {}, this version of Toller reads {FORMAT}",
            record.name, form.format
        )));
    }
    Ok(StoredRetriever { spec: form.retriever, version: record.version, updated_at_ms: form.updated_at_ms })
}

fn not_found(name: &RetrieverName) -> Error {
    Error::NotFound { kind: ResourceKind::Retriever, name: name.as_str().to_owned() }
}
