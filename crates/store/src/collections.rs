//! Makes, finds, changes and deletes collections: the catalogue and the store in step.
//!
//! The catalogue decides. A record says in which state its collection is, and every change of that state is one
//! compare-and-swap:
//!
//! - create: record `creating` → room in the store → record `ready`
//! - delete: record `deleting` → drop from the store → no record
//!
//! Only `ready` collections can be seen. Of two creates at once one wins the first swap. What a crash (or a caller that went
//! away) leaves between two steps is a record that is not `ready`: nobody sees it, and the next create or delete of
//! that name clears it away, store first. So neither side ever ends up with half a collection, and a name that is used
//! again never finds the documents of its predecessor.
//!
//! Within one process creates and deletes of the same collection take turns, so a leftover is never somebody's work
//! in progress. Several processes on one shared store would need a fence in the store itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::collection::VectorParams;
use toller_core::error::{Error, FieldViolation, ResourceKind, Result};
use toller_core::vector::MAX_DIMENSION;
use toller_core::vector_space::check_named_spaces;
use toller_core::{
    Catalog, CollectionName, CollectionSpec, Fingerprint, KeywordParams, Metric, Models, Quantization, RequestContext,
    VectorName, VectorSpace, VectorStore,
};
use tracing::warn;

use crate::guard;
use crate::handle::CollectionHandle;
use crate::lifecycle::Turns;

/// Longest description in bytes.
pub const MAX_DESCRIPTION_BYTES: usize = 4096;

/// Most labels of a collection.
pub const MAX_LABELS: usize = 64;

/// Longest name of a label in bytes; it has at least one.
pub const MAX_LABEL_NAME_BYTES: usize = 256;

/// Longest value of a label in bytes; it may be empty.
pub const MAX_LABEL_VALUE_BYTES: usize = 1024;

/// How often a change is tried again when another writer was first.
const UPDATE_ATTEMPTS: usize = 16;

/// Reason of the error when the store holds a collection with other vectors or another keyword index than the catalogue
/// says.
pub const COLLECTION_MISMATCH: &str = "COLLECTION_MISMATCH";

/// Reason of the error when the catalogue knows a collection that the store does not hold.
pub const COLLECTION_LOST: &str = "COLLECTION_LOST";

/// A collection to be made.
#[derive(Debug, Clone, PartialEq)]
pub struct NewCollection {
    /// Unique within the tenant.
    pub name: CollectionName,
    /// For people; at most [`MAX_DESCRIPTION_BYTES`].
    pub description: String,
    /// For the caller; at most [`MAX_LABELS`], with names of 1 to [`MAX_LABEL_NAME_BYTES`] and values of at most
    /// [`MAX_LABEL_VALUE_BYTES`] bytes.
    pub labels: BTreeMap<String, String>,
    /// How vectors are compared.
    pub metric: Metric,
    /// Where they come from.
    pub vectors: VectorSource,
}

/// What a collection has beside its main vectors.
#[derive(Debug, Clone, PartialEq)]
pub struct CollectionOptions {
    /// How its texts are indexed for keyword search; none is not at all.
    pub keyword: Option<KeywordParams>,
    /// Vector spaces beside the main one, by name; see [`check_named_spaces`]. The client brings their vectors.
    pub named: BTreeMap<VectorName, VectorSpace>,
    /// How vectors are kept beside their full form, where the store has that.
    pub quantization: Option<Quantization>,
}

impl Default for CollectionOptions {
    /// An index of English texts, and nothing else.
    fn default() -> Self {
        Self { keyword: Some(KeywordParams::default()), named: BTreeMap::new(), quantization: None }
    }
}

/// Where the main vectors of a collection come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VectorSource {
    /// The server's default model.
    Model,
    /// The server's model of this name.
    NamedModel(String),
    /// The caller, with every document and query.
    Client {
        /// Dimension of every vector, 1 to 65536.
        dimension: u32,
    },
}

/// What to change; none leaves as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CollectionUpdate {
    /// The new description; may be empty.
    pub description: Option<String>,
    /// Replaces all labels; may be empty.
    pub labels: Option<BTreeMap<String, String>>,
}

/// How much a collection holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CollectionStats {
    /// Documents in it.
    pub document_count: u64,
}

/// The collections of all tenants; the context says whose are meant.
pub struct Collections {
    store: Arc<dyn VectorStore>,
    catalog: Arc<dyn Catalog>,
    models: Arc<Models>,
    turns: Turns,
}

/// What the catalogue keeps: the spec with its state beside its fields.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct CollectionRecord {
    #[serde(flatten)]
    spec: CollectionSpec,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum State {
    Creating,
    Ready,
    Deleting,
}

impl Collections {
    /// Collections kept in `store` and `catalog`. Each is filled by the one of `models` that it was made for.
    pub fn new(store: Arc<dyn VectorStore>, catalog: Arc<dyn Catalog>, models: impl Into<Models>) -> Self {
        Self { store, catalog, models: Arc::new(models.into()), turns: Turns::default() }
    }

    /// The store that keeps them.
    pub fn store(&self) -> &Arc<dyn VectorStore> {
        &self.store
    }

    /// The catalogue that knows them.
    pub fn catalog(&self) -> &Arc<dyn Catalog> {
        &self.catalog
    }

    /// The models that fill them.
    pub fn models(&self) -> &Models {
        &self.models
    }

    /// Makes a collection with the default keyword index, that of English texts.
    ///
    /// # Errors
    /// As [`Self::create_with`].
    pub async fn create(&self, context: &RequestContext, new: NewCollection) -> Result<CollectionSpec> {
        self.create_with(context, new, CollectionOptions::default()).await
    }

    /// Makes a collection with these options.
    ///
    /// # Errors
    /// `AlreadyExists`; `InvalidArgument` for `description`, `labels`, `client.dimension`, what [`check_named_spaces`] says, or
    /// `quantization` where the store has none; `NotFound` for a model that
    /// is named and not loaded; `FailedPrecondition` when the default model is wanted and there is none.
    pub async fn create_with(
        &self,
        context: &RequestContext,
        new: NewCollection,
        options: CollectionOptions,
    ) -> Result<CollectionSpec> {
        check_named_spaces(&options.named)?;
        let CollectionOptions { keyword, named, quantization } = options;
        let spec = CollectionSpec { keyword, named, quantization, ..self.spec_of(new)? };
        let name = spec.name.clone();
        let _turn = self.turns.take(context.tenant(), &name).await;
        match self.record(context, &name).await? {
            Some((_, record)) if record.state == State::Ready => return Err(already_exists(&name)),
            Some((version, leftover)) => self.clear_away(context, &name, version, leftover.state).await?,
            None => {}
        }
        let creating = CollectionRecord { spec: spec.clone(), state: State::Creating };
        let version = match self.swap(context, Expected::Absent, &creating).await {
            Err(Error::Aborted(_)) => return Err(already_exists(&name)),
            other => other?,
        };
        if let Err(fault) = self.make_room(context, &spec).await {
            // Should this fail too, the next create clears the record away.
            if let Err(second) = self.catalog.remove(context, RecordKind::Collection, name.as_str(), version).await {
                warn!(collection = %name, error = %second, "a collection that could not be made left a record behind");
            }
            return Err(fault);
        }
        let ready = CollectionRecord { spec, state: State::Ready };
        self.swap(context, Expected::Version(version), &ready).await?;
        Ok(ready.spec)
    }

    /// One collection.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn get(&self, context: &RequestContext, name: &CollectionName) -> Result<CollectionSpec> {
        Ok(self.ready(context, name).await?.1.spec)
    }

    /// The tenant's collections, by name.
    ///
    /// # Errors
    /// As the catalogue.
    pub async fn list(&self, context: &RequestContext) -> Result<Vec<CollectionSpec>> {
        let mut specs = Vec::new();
        for versioned in self.catalog.list(context, RecordKind::Collection).await? {
            let record = decode(&versioned)?;
            if record.state == State::Ready {
                specs.push(record.spec);
            }
        }
        Ok(specs)
    }

    /// Changes description and labels; what the update does not name stays as another writer may just have made it.
    ///
    /// # Errors
    /// `NotFound`; `InvalidArgument` for `description` or `labels`; `Aborted` when other writers were first too often.
    pub async fn update(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        update: CollectionUpdate,
    ) -> Result<CollectionSpec> {
        check_texts(update.description.as_deref(), update.labels.as_ref())?;
        let mut last_fault = None;
        for _ in 0..UPDATE_ATTEMPTS {
            let (version, mut record) = self.ready(context, name).await?;
            if let Some(description) = &update.description {
                record.spec.description.clone_from(description);
            }
            if let Some(labels) = &update.labels {
                record.spec.labels.clone_from(labels);
            }
            match self.swap(context, Expected::Version(version), &record).await {
                Ok(_) => return Ok(record.spec),
                Err(fault @ Error::Aborted(_)) => last_fault = Some(fault),
                Err(fault) => return Err(fault),
            }
        }
        Err(last_fault.unwrap_or_else(|| Error::Internal("no update was tried".to_owned())))
    }

    /// Deletes a collection with all it holds. A delete that was cut off is finished by the next one.
    ///
    /// # Errors
    /// `NotFound`; what the store reports.
    pub async fn delete(&self, context: &RequestContext, name: &CollectionName) -> Result<()> {
        let _turn = self.turns.take(context.tenant(), name).await;
        for _ in 0..UPDATE_ATTEMPTS {
            let Some((version, record)) = self.record(context, name).await? else { return Err(not_found(name)) };
            if record.state != State::Ready {
                self.clear_away(context, name, version, record.state).await?;
                return if record.state == State::Deleting { Ok(()) } else { Err(not_found(name)) };
            }
            let deleting = CollectionRecord { state: State::Deleting, ..record };
            match self.swap(context, Expected::Version(version), &deleting).await {
                Ok(version) => return self.drop_and_forget(context, name, version).await,
                // An update came in between.
                Err(Error::Aborted(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        Err(Error::Aborted(format!("collection \"{name}\" was changed by other writers all the time; retry")))
    }

    /// A handle to work with.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` with [`COLLECTION_LOST`] or [`COLLECTION_MISMATCH`] when the store and the catalogue disagree.
    pub async fn open(&self, context: &RequestContext, name: &CollectionName) -> Result<CollectionHandle> {
        let spec = self.get(context, name).await?;
        let wanted = spec.vector_params();
        match self.store.params(context, name).await {
            Ok(found) if found == wanted => {
                Ok(CollectionHandle::new(spec, Arc::clone(&self.store), Arc::clone(&self.models)))
            }
            Ok(found) => Err(Error::FailedPrecondition {
                reason: COLLECTION_MISMATCH,
                message: format!(
                    "collection \"{name}\" is recorded with {}, but the store holds it with {}; delete it and make it again",
                    described(&wanted),
                    described(&found)
                ),
            }),
            Err(Error::NotFound { .. }) => {
                // It may have been deleted since its record was read.
                self.get(context, name).await?;
                Err(Error::FailedPrecondition {
                    reason: COLLECTION_LOST,
                    message: format!(
                        "collection \"{name}\" is in the catalogue but not in the {} store; delete it and make it again",
                        self.store.backend()
                    ),
                })
            }
            Err(fault) => Err(fault),
        }
    }

    /// How much a collection holds.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn stats(&self, context: &RequestContext, name: &CollectionName) -> Result<CollectionStats> {
        let document_count = self.open(context, name).await?.count(context, None).await?;
        Ok(CollectionStats { document_count })
    }

    fn spec_of(&self, new: NewCollection) -> Result<CollectionSpec> {
        check_texts(Some(&new.description), Some(&new.labels))?;
        let fingerprint = match new.vectors {
            VectorSource::Model => guard::fingerprint_of_default(&self.models)?,
            VectorSource::NamedModel(name) => self.models.embedding_model(Some(&name))?.fingerprint().clone(),
            VectorSource::Client { dimension } if (1..=MAX_DIMENSION).contains(&(dimension as usize)) => {
                Fingerprint::client(dimension)
            }
            VectorSource::Client { dimension } => {
                return Err(Error::invalid(
                    "client.dimension",
                    format!("must be between 1 and {MAX_DIMENSION}, got {dimension}"),
                ));
            }
        };
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(CollectionSpec {
            name: new.name,
            description: new.description,
            labels: new.labels,
            metric: new.metric,
            fingerprint,
            created_at_ms: i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX),
            keyword: None,
            named: BTreeMap::new(),
            quantization: None,
        })
    }

    /// Makes room in the store. What it holds under that name has no record, so it is nobody's, and goes.
    async fn make_room(&self, context: &RequestContext, spec: &CollectionSpec) -> Result<()> {
        match self.store.create(context, &spec.name, spec.vector_params()).await {
            Err(Error::AlreadyExists { .. }) => {
                warn!(collection = %spec.name, "the store held a collection that the catalogue did not know; it is dropped");
                self.drop_from_store(context, &spec.name).await?;
                self.store.create(context, &spec.name, spec.vector_params()).await
            }
            other => other,
        }
    }

    /// Removes what a create or delete that was cut off left behind.
    async fn clear_away(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        version: u64,
        state: State,
    ) -> Result<()> {
        warn!(collection = %name, ?state, "clearing away a collection that was left between two states");
        self.drop_and_forget(context, name, version).await
    }

    /// The store first: once the record is gone the name may be used again.
    async fn drop_and_forget(&self, context: &RequestContext, name: &CollectionName, version: u64) -> Result<()> {
        self.drop_from_store(context, name).await?;
        self.catalog.remove(context, RecordKind::Collection, name.as_str(), version).await
    }

    async fn drop_from_store(&self, context: &RequestContext, name: &CollectionName) -> Result<()> {
        match self.store.drop_collection(context, name).await {
            Err(Error::NotFound { .. }) => Ok(()),
            other => other,
        }
    }

    async fn ready(&self, context: &RequestContext, name: &CollectionName) -> Result<(u64, CollectionRecord)> {
        match self.record(context, name).await? {
            Some((version, record)) if record.state == State::Ready => Ok((version, record)),
            _ => Err(not_found(name)),
        }
    }

    async fn record(&self, context: &RequestContext, name: &CollectionName) -> Result<Option<(u64, CollectionRecord)>> {
        match self.catalog.get(context, RecordKind::Collection, name.as_str()).await? {
            Some(versioned) => Ok(Some((versioned.version, decode(&versioned)?))),
            None => Ok(None),
        }
    }

    async fn swap(&self, context: &RequestContext, expected: Expected, record: &CollectionRecord) -> Result<u64> {
        let name = record.spec.name.as_str();
        let value = serde_json::to_vec(record).map_err(|fault| {
            Error::Internal(format!("the record of collection \"{name}\" cannot be written: {fault}"))
        })?;
        self.catalog.swap(context, RecordKind::Collection, name, expected, value).await
    }
}

impl fmt::Debug for Collections {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Collections").field("store", &self.store.backend()).finish_non_exhaustive()
    }
}

fn decode(versioned: &Versioned) -> Result<CollectionRecord> {
    serde_json::from_slice(&versioned.value).map_err(|fault| {
        Error::Internal(format!("the catalogue's record of collection \"{}\" cannot be read: {fault}", versioned.name))
    })
}

fn check_texts(description: Option<&str>, labels: Option<&BTreeMap<String, String>>) -> Result<()> {
    let mut violations = Vec::new();
    let mut fault = |field: &str, description: String| {
        violations.push(FieldViolation { field: field.to_owned(), description });
    };
    if let Some(bytes) = description.map(str::len).filter(|bytes| *bytes > MAX_DESCRIPTION_BYTES) {
        fault("description", format!("must be at most {MAX_DESCRIPTION_BYTES} bytes long, got {bytes}"));
    }
    if let Some(count) = labels.map(BTreeMap::len).filter(|count| *count > MAX_LABELS) {
        fault("labels", format!("must be at most {MAX_LABELS}, got {count}"));
    }
    for (name, value) in labels.into_iter().flatten() {
        let (name_bytes, value_bytes) = (name.len(), value.len());
        // Neither the long name nor one of many faults is worth repeating: the first says what is wrong.
        if !(1..=MAX_LABEL_NAME_BYTES).contains(&name_bytes) {
            fault("labels", format!("must have names of 1 to {MAX_LABEL_NAME_BYTES} bytes, got one of {name_bytes}"));
            break;
        }
        if value_bytes > MAX_LABEL_VALUE_BYTES {
            let most = MAX_LABEL_VALUE_BYTES;
            fault("labels", format!("must have values of at most {most} bytes, got {value_bytes} for {name:?}"));
            break;
        }
    }
    Error::from_violations(violations)
}

fn described(params: &VectorParams) -> String {
    let VectorParams { dimension, metric, keyword, named, quantization } = params;
    let mut parts = vec![format!("metric {metric}"), format!("dimension {dimension}")];
    let named = named.iter();
    parts.extend(named.map(|(name, space)| format!("vectors \"{name}\" ({} {})", space.dimension, space.metric)));
    parts.extend(quantization.map(|quantization| format!("quantization {}", quantization.kind)));
    let index =
        keyword.map_or_else(|| "no keyword index".to_owned(), |keyword| format!("keywords in {}", keyword.language));
    format!("{} and {index}", parts.join(", "))
}

fn already_exists(name: &CollectionName) -> Error {
    Error::AlreadyExists { kind: ResourceKind::Collection, name: name.to_string() }
}

fn not_found(name: &CollectionName) -> Error {
    Error::NotFound { kind: ResourceKind::Collection, name: name.to_string() }
}
