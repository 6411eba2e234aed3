//! Makes, finds, changes and deletes collections: the catalogue and the store in step.
//!
//! The catalogue decides. A record says in which state its collection is, and every change of that state is one
//! compare-and-swap:
//!
//! - create: record `creating` → room in the store → record `ready`
//! - delete: record `deleting` → drop from the store → no record
//! - another model: record with a second generation → copy → record with the second one as the current one ([`crate::reembed`])
//!
//! Only `ready` collections can be seen. Of two creates at once one wins the first swap. What a crash (or a caller that went
//! away) leaves between two steps is a record that is not `ready`: nobody sees it, and the next create or delete of
//! that name clears it away, store first. So neither side ever ends up with half a collection, and a name that is used
//! again never finds the documents of its predecessor.
//!
//! Within one process creates and deletes of the same collection take turns, and a collection that is being restored names its
//! restore ([`crate::restore`]), so a leftover is never somebody's work in progress, and writes stand still while the other model
//! takes over. Several processes on one shared store would need a fence in the store itself: what they write while a collection is embedded anew is compared and mended before the switch, but
//! what another process writes in the very moment of the switch may be in the old generation only.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use toller_core::catalog::Expected;
use toller_core::collection::VectorParams;
use toller_core::error::{Error, FieldViolation, ResourceKind, Result};
use toller_core::vector::MAX_DIMENSION;
use toller_core::vector_space::check_named_spaces;
use toller_core::{
    Catalog, CollectionName, CollectionSpec, Fingerprint, KeywordParams, Metric, Models, Operation, Quantization,
    RequestContext, VectorName, VectorSpace, VectorStore,
};
use tracing::warn;

use crate::foundation::Foundation;
use crate::guard;
use crate::handle::CollectionHandle;
use crate::lifecycle::Turns;
use crate::operations::Operations;
use crate::record::{CollectionRecord, CollectionRecords, State, UPDATE_ATTEMPTS, not_found};
use crate::reembed;
use crate::run_turn::RunTurn;
use crate::targets::Targets;

/// Longest description in bytes.
pub const MAX_DESCRIPTION_BYTES: usize = 4096;

/// Most labels of a collection.
pub const MAX_LABELS: usize = 64;

/// Longest name of a label in bytes; it has at least one.
pub const MAX_LABEL_NAME_BYTES: usize = 256;

/// Longest value of a label in bytes; it may be empty.
pub const MAX_LABEL_VALUE_BYTES: usize = 1024;

/// Reason of the error when the store holds a collection with other vectors or another keyword index than the catalogue
/// says.
pub const COLLECTION_MISMATCH: &str = "COLLECTION_MISMATCH";

/// Reason of the error when a collection that requires a tenant is made or used without one.
pub const TENANT_REQUIRED: &str = "TENANT_REQUIRED";

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
    /// Is it for tenants with a name of their own only?
    pub require_tenant: bool,
}

impl Default for CollectionOptions {
    /// An index of English texts, and nothing else.
    fn default() -> Self {
        Self {
            keyword: Some(KeywordParams::default()),
            named: BTreeMap::new(),
            quantization: None,
            require_tenant: false,
        }
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
    pub(crate) foundation: Foundation,
    operations: Operations,
    pub(crate) turns: Turns,
}

impl Collections {
    /// Collections kept in `store` and `catalog`. Each is filled by the one of `models` that it was made for.
    pub fn new(store: Arc<dyn VectorStore>, catalog: Arc<dyn Catalog>, models: impl Into<Models>) -> Self {
        let operations = Operations::new(Arc::clone(&catalog));
        let foundation = Foundation::new(store, CollectionRecords { catalog }, models.into());
        Self { foundation, operations, turns: Turns::default() }
    }

    /// The same, which embed collections anew in steps of so many documents, at least 1; without this 64.
    #[must_use]
    pub fn with_reembed_batch(mut self, documents: usize) -> Self {
        self.foundation.reembed_batch = documents.max(1);
        self
    }

    /// The same, whose operations and restores give others a sign of life every so often; without this every five seconds.
    #[must_use]
    pub fn with_signs_of_life(mut self, every: Duration) -> Self {
        self.foundation.beat = every;
        self
    }

    /// The store that keeps them.
    pub fn store(&self) -> &Arc<dyn VectorStore> {
        &self.foundation.store
    }

    /// The catalogue that knows them.
    pub fn catalog(&self) -> &Arc<dyn Catalog> {
        &self.foundation.records.catalog
    }

    /// The models that fill them.
    pub fn models(&self) -> &Models {
        &self.foundation.models
    }

    /// What runs longer than a request.
    pub fn operations(&self) -> &Operations {
        &self.operations
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
    /// `quantization` where the store has none; `FailedPrecondition` with [`TENANT_REQUIRED`]; `NotFound` for a model that
    /// is named and not loaded; `FailedPrecondition` when the default model is wanted and there is none.
    pub async fn create_with(
        &self,
        context: &RequestContext,
        new: NewCollection,
        options: CollectionOptions,
    ) -> Result<CollectionSpec> {
        check_named_spaces(&options.named)?;
        let CollectionOptions { keyword, named, quantization, require_tenant } = options;
        let spec = CollectionSpec { keyword, named, quantization, require_tenant, ..self.spec_of(new)? };
        let name = spec.name.clone();
        let _turn = self.turns.take(context.tenant(), &name).await;
        let version = self.begin_creating(context, &spec, None).await?;
        let ready = CollectionRecord::new(spec, State::Ready);
        self.records().swap(context, Expected::Version(version), &ready).await?;
        Ok(ready.spec)
    }

    /// Makes a collection that nobody sees, for a restore where that is named, and returns the version of its record. The caller has
    /// the collection's turn.
    pub(crate) async fn begin_creating(
        &self,
        context: &RequestContext,
        spec: &CollectionSpec,
        restore: Option<&str>,
    ) -> Result<u64> {
        check_tenant(context, spec)?;
        let name = &spec.name;
        match self.records().find(context, name).await? {
            Some((_, record)) if record.state == State::Ready => return Err(already_exists(name)),
            Some((_, record)) if self.is_restored(context, &record).await? => return Err(already_exists(name)),
            Some((version, leftover)) => self.clear_away(context, version, &leftover).await?,
            None => {}
        }
        let restore = restore.map(str::to_owned);
        let creating = CollectionRecord { restore, ..CollectionRecord::new(spec.clone(), State::Creating) };
        let version = match self.records().swap(context, Expected::Absent, &creating).await {
            Err(Error::Aborted(_)) => return Err(already_exists(name)),
            other => other?,
        };
        if let Err(fault) = self.foundation.make_room(context, name, spec.vector_params()).await {
            // Should this fail too, the next create clears the record away.
            if let Err(second) = self.records().remove(context, name, version).await {
                warn!(collection = %name, error = %second, "a collection that could not be made left a record behind");
            }
            return Err(fault);
        }
        Ok(version)
    }

    /// One collection.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn get(&self, context: &RequestContext, name: &CollectionName) -> Result<CollectionSpec> {
        Ok(self.records().ready(context, name).await?.1.spec)
    }

    /// The tenant's collections, by name.
    ///
    /// # Errors
    /// As the catalogue.
    pub async fn list(&self, context: &RequestContext) -> Result<Vec<CollectionSpec>> {
        let mut records = self.records().list(context).await?;
        records.retain(|record| record.state == State::Ready);
        Ok(records.into_iter().map(|record| record.spec).collect())
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
        let changed = self.records().change(context, name, |record| {
            if let Some(description) = &update.description {
                record.spec.description.clone_from(description);
            }
            if let Some(labels) = &update.labels {
                record.spec.labels.clone_from(labels);
            }
            Ok(())
        });
        Ok(changed.await?.spec)
    }

    /// Deletes a collection with all it holds, in all its generations, and with what waits to be moved into it. If it is being embedded anew, that ends as cancelled. A
    /// delete that was cut off is finished by the next one.
    ///
    /// # Errors
    /// `NotFound`; what the store reports.
    pub async fn delete(&self, context: &RequestContext, name: &CollectionName) -> Result<()> {
        let _turn = self.turns.take(context.tenant(), name).await;
        // No write is to be on its way to a generation that is dropped.
        let fence = self.foundation.fence(context, name);
        let exclusive = fence.exclusive().await;
        for _ in 0..UPDATE_ATTEMPTS {
            let Some((version, record)) = self.records().find(context, name).await? else {
                return Err(not_found(name));
            };
            if record.state != State::Ready {
                if self.is_restored(context, &record).await? {
                    return Err(not_found(name));
                }
                self.clear_away(context, version, &record).await?;
                return if record.state == State::Deleting { Ok(()) } else { Err(not_found(name)) };
            }
            let deleting = CollectionRecord { state: State::Deleting, ..record };
            match self.records().swap(context, Expected::Version(version), &deleting).await {
                Ok(version) => {
                    self.drop_and_forget(context, version, &deleting).await?;
                    drop(exclusive);
                    self.cancel_building(context, &deleting).await;
                    return Ok(());
                }
                // An update came in between.
                Err(Error::Aborted(_)) => {}
                Err(fault) => return Err(fault),
            }
        }
        Err(Error::Aborted(format!("collection \"{name}\" was changed by other writers all the time; retry")))
    }

    /// Embeds a collection anew, from its stored texts, with the model of that name or the default one, while it is read and
    /// written; returns the operation at its beginning. See [`crate::reembed`].
    ///
    /// Documents that brought their own vectors get those of their texts. A model that gives the same vectors as the present one
    /// leaves nothing to be done: the operation has succeeded already, with 0 of 0 documents.
    ///
    /// # Errors
    /// `NotFound` for the collection or the model; `FailedPrecondition`: [`guard::CLIENT_VECTORS_ONLY`] for a collection without
    /// a model, [`REEMBED_RUNNING`](crate::reembed::REEMBED_RUNNING) naming the operation that runs already,
    /// [`guard::NO_EMBEDDING_MODEL`]; what the store reports.
    pub async fn reembed(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        model: Option<&str>,
    ) -> Result<Operation> {
        let _turn = self.turns.take(context.tenant(), name).await;
        reembed::begin(&self.foundation, &self.operations, context, name, model).await
    }

    /// Goes on with the operations that an earlier process of a store of its own left, of all tenants, and returns how many run. Those that cannot go
    /// on, since their model is gone, have ended as failed when this returns. To be called once, before any request.
    ///
    /// # Errors
    /// As the catalogue.
    pub async fn resume_operations(&self) -> Result<usize> {
        reembed::resume(&self.foundation, &self.operations, Duration::ZERO).await
    }

    /// Watches the operations of a store that several processes share: those that have not ended, of all tenants. Once one gives no
    /// sign of life for the time of `silence`, its process is gone, and this one goes on with it, or ends it as failed where it has
    /// not its model. To be called once, before any request.
    ///
    /// # Errors
    /// As the catalogue.
    pub async fn watch_operations(&self, silence: Duration) -> Result<()> {
        reembed::resume(&self.foundation, &self.operations, silence).await.map(drop)
    }

    /// Stops the operations that run, for the next process to go on with; none is started afterwards. To be called once, when no
    /// request is answered any more and before the store is closed.
    pub async fn suspend_operations(&self) {
        self.operations.suspend().await;
    }

    /// Waits for a turn to sweep away what index runs of a collection left, whether or not there is one of this name.
    ///
    /// # Errors
    /// `DeadlineExceeded` and `Cancelled` of the context, which is how long a run that is under way is waited for.
    pub async fn sweep_turn(&self, context: &RequestContext, name: &CollectionName) -> Result<RunTurn> {
        RunTurn::take_to_sweep(Arc::clone(self.catalog()), context, name).await
    }

    /// A handle to work with.
    ///
    /// # Errors
    /// `NotFound`; `FailedPrecondition` with [`COLLECTION_LOST`] or [`COLLECTION_MISMATCH`] when the store and the catalogue disagree.
    pub async fn open(&self, context: &RequestContext, name: &CollectionName) -> Result<CollectionHandle> {
        let (_, mut record) = self.records().ready(context, name).await?;
        for _ in 0..UPDATE_ATTEMPTS {
            let wanted = record.spec.vector_params();
            match self.store().params(context, &record.current_name()).await {
                Ok(found) if found == wanted => {
                    return Ok(CollectionHandle::new(Targets::of(record), self.foundation.clone()));
                }
                Ok(found) => {
                    return Err(Error::FailedPrecondition {
                        reason: COLLECTION_MISMATCH,
                        message: format!(
                            "collection \"{name}\" is recorded with {}, but the store holds it with {}; delete it and make it again",
                            described(&wanted),
                            described(&found)
                        ),
                    });
                }
                Err(Error::NotFound { .. }) => {
                    // It may have been deleted, or have got another model, since its record was read.
                    let (_, now) = self.records().ready(context, name).await?;
                    if now.generations.current == record.generations.current {
                        return Err(Error::FailedPrecondition {
                            reason: COLLECTION_LOST,
                            message: format!(
                                "collection \"{name}\" is in the catalogue but not in the {} store; delete it and make it again",
                                self.store().backend()
                            ),
                        });
                    }
                    record = now;
                }
                Err(fault) => return Err(fault),
            }
        }
        Err(Error::Aborted(format!("collection \"{name}\" got another model all the time; retry")))
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
            VectorSource::Model => guard::fingerprint_of_default(self.models())?,
            VectorSource::NamedModel(name) => self.models().embedding_model(Some(&name))?.fingerprint().clone(),
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
            require_tenant: false,
        })
    }

    /// Removes what a create or delete that was cut off left behind.
    async fn clear_away(&self, context: &RequestContext, version: u64, record: &CollectionRecord) -> Result<()> {
        let (name, state) = (&record.spec.name, record.state);
        warn!(collection = %name, ?state, "clearing away a collection that was left between two states");
        self.drop_and_forget(context, version, record).await
    }

    /// The store first: once the record is gone the name may be used again.
    pub(crate) async fn drop_and_forget(
        &self,
        context: &RequestContext,
        version: u64,
        record: &CollectionRecord,
    ) -> Result<()> {
        for room in record.all_names() {
            self.foundation.drop_room(context, &room).await?;
        }
        self.records().remove(context, &record.spec.name, version).await
    }

    /// Ends the operation that filled a generation of a collection which is gone. It would find out by itself, only later.
    async fn cancel_building(&self, context: &RequestContext, record: &CollectionRecord) {
        let Some(building) = &record.generations.building else { return };
        if let Err(fault) = self.operations.cancel(context, &building.operation).await {
            warn!(operation = building.operation, %fault, "the operation of a deleted collection could not be told");
        }
    }

    pub(crate) fn records(&self) -> &CollectionRecords {
        &self.foundation.records
    }
}

impl fmt::Debug for Collections {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Collections").field("store", &self.store().backend()).finish_non_exhaustive()
    }
}

/// Are description and labels within their bounds?
pub(crate) fn check_texts(description: Option<&str>, labels: Option<&BTreeMap<String, String>>) -> Result<()> {
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

/// Is the caller one that the collection is for?
pub(crate) fn check_tenant(context: &RequestContext, spec: &CollectionSpec) -> Result<()> {
    if !spec.require_tenant || !context.tenant().is_default() {
        return Ok(());
    }
    Err(Error::FailedPrecondition {
        reason: TENANT_REQUIRED,
        message: format!(
            "collection \"{}\" is for tenants only, and the caller's credential names none; use an API key with a tenant",
            spec.name
        ),
    })
}

fn already_exists(name: &CollectionName) -> Error {
    Error::AlreadyExists { kind: ResourceKind::Collection, name: name.to_string() }
}
