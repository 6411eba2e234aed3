//! A collection with its store and its model: texts come in, queries become vectors.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::vector_store::{
    Applied, ChangeSet, MmrParams, RecordSink, Scoring, ScrollPage, Selector, VectorSearch, keyword_documents,
};
use toller_core::{
    CollectionName, CollectionSpec, DocumentId, EmbeddingRole, Embeddings, Filter, KeywordSearch, Query, Record,
    RequestContext, ScoredDocument, Vector, VectorName, VectorStore,
};

use crate::embedding;
use crate::foundation::Foundation;
use crate::guard;
use crate::new_document::{NewDocument, check_documents, check_vector};
use crate::run_turn::{RunConflict, RunTurn};
use crate::staging::Staging;
use crate::sweep_mark::{SweepMark, SweepMarks};
use crate::targets::{self, Outcome, Targets};

/// How often a write is prepared again since the collection got another model meanwhile.
const WRITE_ATTEMPTS: usize = 8;

/// One open collection. Cheap to clone.
///
/// Its reads go to the generation that was current when it was opened. Its writes go where the collection's writes go when they
/// are made, also if it has another model by then.
#[derive(Clone)]
pub struct CollectionHandle {
    targets: Targets,
    foundation: Foundation,
}

/// How documents are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AddOptions<'a> {
    /// Makes a retry harmless where the server makes the ids; 1 to 128 bytes. See [`CollectionHandle::add`].
    pub request_id: Option<&'a str>,
    /// Shall a text over the model's longest input be refused rather than cut?
    pub refuse_truncation: bool,
}

/// What [`CollectionHandle::add`] wrote; both lists are aligned with its input.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Added {
    /// The ids, given or made.
    pub ids: Vec<DocumentId>,
    /// What embedding said of each text; the default for documents that brought their vectors.
    pub usage: Vec<TextUsage>,
}

/// What embedding said of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextUsage {
    /// Tokens that the model saw; none when it did not say or nothing was embedded.
    pub token_count: Option<u32>,
    /// Was the text cut to the model's longest input?
    pub truncated: bool,
}

impl CollectionHandle {
    /// A handle on a collection whose current generation exists in the store with the parameters of its spec.
    pub(crate) fn new(targets: Targets, foundation: Foundation) -> Self {
        Self { targets, foundation }
    }

    /// The collection as the catalogue recorded it when it was opened.
    pub fn spec(&self) -> &CollectionSpec {
        &self.targets.spec
    }

    /// The store that keeps it.
    pub fn store(&self) -> &Arc<dyn VectorStore> {
        &self.foundation.store
    }

    /// What the store keeps it under.
    fn name(&self) -> &CollectionName {
        &self.targets.current
    }

    /// Embeds and writes documents, replacing those with the same ids; all or none. An empty list gives an empty answer.
    ///
    /// Everything is checked before any text is embedded. Documents without an id get one: a UUIDv7, or with a
    /// `request_id` a UUIDv5 of tenant, collection, request id, place in the list and content. So the same request gives the
    /// same ids however late it is repeated, also after a restart, and makes no duplicates. A request id that is used
    /// again with other documents overwrites nothing: other content gets other ids.
    ///
    /// # Errors
    /// `InvalidArgument` with `documents[i].id`, `.metadata`, `.vectors.dense` or `.vectors.named["name"]`, or `request_id`; `FailedPrecondition` of
    /// [`guard::embeddings_for_texts`] when a document without vector is among them; what embedding and the store
    /// report; `Internal` when the model gives a vector that is not finite, zero (for cosine) or of another dimension.
    pub async fn add(
        &self,
        context: &RequestContext,
        documents: Vec<NewDocument>,
        request_id: Option<&str>,
    ) -> Result<Added> {
        self.add_with(context, documents, AddOptions { request_id, ..AddOptions::default() }).await
    }

    /// As [`Self::add`], with all options.
    ///
    /// # Errors
    /// As [`Self::add`]; `InvalidArgument` with `documents[i].page_content` for a text that would be cut when that is
    /// refused, after embedding and before anything is written.
    pub async fn add_with(
        &self,
        context: &RequestContext,
        documents: Vec<NewDocument>,
        options: AddOptions<'_>,
    ) -> Result<Added> {
        let checked = check_documents(context, self.spec(), documents, options.request_id)?;
        if checked.is_empty() {
            return Ok(Added::default());
        }
        let ids = checked.iter().map(|checked| checked.document.id.clone()).collect();
        let Foundation { models, .. } = &self.foundation;
        let mut targets = self.targets.clone();
        for _ in 0..WRITE_ATTEMPTS {
            let prepared = embedding::prepared(context, models, &targets, &checked, options.refuse_truncation).await;
            let (records, usage) = match prepared {
                Err(fault @ Error::FailedPrecondition { .. }) => {
                    // What was wanted when the collection was opened may not be any more.
                    targets = targets::moved(&self.foundation, context, &targets).await?.ok_or(fault)?;
                    continue;
                }
                other => other?,
            };
            match targets::write(&self.foundation, context, &targets, records).await? {
                Outcome::Written(()) => return Ok(Added { ids, usage }),
                Outcome::Moved(now) => targets = now,
            }
        }
        Err(Error::Aborted(format!("collection \"{}\" got another model all the time; retry", self.spec().name)))
    }

    /// The vector to search with: the caller's own, or that of the text in the query role.
    ///
    /// # Errors
    /// `InvalidArgument` for `query.vector`; for a text `FailedPrecondition` of [`guard::embeddings_for_texts`] and what
    /// embedding reports; `Internal` when the model gives an unusable vector.
    pub async fn query_vector(&self, context: &RequestContext, query: &Query) -> Result<Vector> {
        let text = match query {
            Query::Vector(values) => {
                return check_vector(self.spec(), values.clone())
                    .map_err(|fault| Error::invalid("query.vector", fault));
            }
            Query::Text(text) => text.clone(),
        };
        let embeddings = self.embeddings()?.embed(context, EmbeddingRole::Query, vec![text]).await?;
        let [embedding] = <[_; 1]>::try_from(embeddings)
            .map_err(|all| Error::Internal(format!("the model gave {} vectors for one query", all.len())))?;
        self.embedded_query(embedding.vector)
    }

    /// The caller's own vector for a search in a named space.
    ///
    /// # Errors
    /// `InvalidArgument` for `vector_name` when there is no such space, for `query.vector`, and for `query.text`: no model
    /// embeds texts for named vectors.
    pub fn named_query_vector(&self, name: &VectorName, query: &Query) -> Result<Vector> {
        let space = self.spec().space(Some(name))?;
        match query {
            Query::Vector(values) => {
                space.vector(values.clone()).map_err(|fault| Error::invalid("query.vector", fault))
            }
            Query::Text(_) => {
                let description = format!("the vectors \"{name}\" are the client's own; search them with query.vector");
                Err(Error::invalid("query.text", description))
            }
        }
    }

    /// The model that embeds texts for this collection. O(models), no I/O.
    ///
    /// # Errors
    /// `FailedPrecondition` of [`guard::embeddings_for_texts`].
    pub fn embeddings(&self) -> Result<&Arc<dyn Embeddings>> {
        guard::embeddings_for_texts(self.spec(), &self.foundation.models)
    }

    /// What [`Self::embeddings`] gave for a query, as a vector to search with.
    ///
    /// # Errors
    /// `Internal` when it is unusable.
    pub fn embedded_query(&self, vector: Vec<f32>) -> Result<Vector> {
        check_vector(self.spec(), vector)
            .map_err(|fault| Error::Internal(format!("the embedding of the query {fault}")))
    }

    /// The best documents for a vector; see [`VectorStore::similarity`]. Nothing is embedded.
    ///
    /// # Errors
    /// As the store.
    pub async fn similarity(
        &self,
        context: &RequestContext,
        search: VectorSearch<'_>,
        scoring: Scoring,
    ) -> Result<Vec<ScoredDocument>> {
        self.store().similarity(context, self.name(), search, scoring).await
    }

    /// Documents that are near to a vector and far from each other; see [`VectorStore::max_marginal_relevance`]. Nothing is
    /// embedded.
    ///
    /// # Errors
    /// As the store.
    pub async fn max_marginal_relevance(
        &self,
        context: &RequestContext,
        vector: &Vector,
        using: Option<&VectorName>,
        filter: Option<&Filter>,
        params: MmrParams,
        scoring: Scoring,
    ) -> Result<Vec<ScoredDocument>> {
        self.store().max_marginal_relevance(context, self.name(), vector, using, filter, params, scoring).await
    }

    /// The best documents for keywords, with their BM25 scores and ranks, vectors included; without relevance and
    /// metric. See [`VectorStore::keyword_search`]. Nothing is embedded.
    ///
    /// # Errors
    /// `FailedPrecondition` when the collection has no keyword index; otherwise as the store.
    pub async fn keyword_search(
        &self,
        context: &RequestContext,
        search: KeywordSearch<'_>,
    ) -> Result<Vec<ScoredDocument>> {
        Ok(keyword_documents(self.store().keyword_search(context, self.name(), search).await?))
    }

    /// Records by id, aligned with the input; see [`VectorStore::get`].
    ///
    /// # Errors
    /// As the store.
    pub async fn get(&self, context: &RequestContext, ids: &[DocumentId]) -> Result<Vec<Option<Record>>> {
        self.store().get(context, self.name(), ids).await
    }

    /// Removes records and returns how many were there; see [`VectorStore::delete`].
    ///
    /// # Errors
    /// As the store.
    pub async fn delete(&self, context: &RequestContext, selector: &Selector) -> Result<u64> {
        targets::delete(&self.foundation, context, self.name(), selector).await
    }

    /// Removes and writes any number of records, with the vectors that they bring, in one commit; see [`VectorStore::apply`].
    ///
    /// # Errors
    /// `FailedPrecondition` of [`REEMBED_RUNNING`](crate::reembed::REEMBED_RUNNING) while the collection is embedded anew;
    /// `Aborted` when it got another model since it was opened, and then nothing was asked of the source; otherwise as the store.
    pub async fn apply(&self, context: &RequestContext, changes: ChangeSet) -> Result<Applied> {
        match targets::apply(&self.foundation, context, &self.targets, changes).await? {
            Outcome::Written(applied) => Ok(applied),
            Outcome::Moved(_) => Err(Error::Aborted(format!(
                "collection \"{}\" got another model meanwhile, and nothing is changed; run it again",
                self.spec().name
            ))),
        }
    }

    /// Up to `limit` ids in the order of their bytes, from an id on; see [`VectorStore::ids`].
    ///
    /// # Errors
    /// As the store.
    pub async fn ids(
        &self,
        context: &RequestContext,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentId>> {
        self.store().ids(context, self.name(), from, limit).await
    }

    /// How many records match; see [`VectorStore::count`].
    ///
    /// # Errors
    /// As the store.
    pub async fn count(&self, context: &RequestContext, filter: Option<&Filter>) -> Result<u64> {
        self.store().count(context, self.name(), filter).await
    }

    /// A page of records in the order of id bytes; see [`VectorStore::scroll`].
    ///
    /// # Errors
    /// As the store.
    pub async fn scroll(
        &self,
        context: &RequestContext,
        filter: Option<&Filter>,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<ScrollPage> {
        self.store().scroll(context, self.name(), filter, from, limit).await
    }

    /// Was it, when it was opened, being embedded anew? [`Self::apply`] is refused then.
    ///
    /// # Errors
    /// `FailedPrecondition` of [`REEMBED_RUNNING`](crate::reembed::REEMBED_RUNNING), with the operation.
    pub fn check_settled(&self) -> Result<()> {
        self.targets.check_settled()
    }

    /// The room beside the collection for records that nobody is to see yet. No I/O.
    pub fn staging(&self) -> Staging {
        // What is only moved on needs no index of its own.
        let params =
            VectorParams { keyword: None, named: BTreeMap::new(), quantization: None, ..self.spec().vector_params() };
        Staging::new(self.foundation.clone(), self.spec().name.staging(), params)
    }

    /// Waits for a turn at an index run of the collection, or refuses to.
    ///
    /// # Errors
    /// `Aborted` when another run is under way and this one does not wait; `DeadlineExceeded` and `Cancelled` of the context.
    pub async fn run_turn(&self, context: &RequestContext, conflict: RunConflict) -> Result<RunTurn> {
        let catalog = Arc::clone(&self.foundation.records.catalog);
        RunTurn::take(catalog, context, &self.spec().name, conflict).await
    }

    /// Waits for a turn to sweep away what index runs left.
    ///
    /// # Errors
    /// As [`Self::run_turn`] that waits.
    pub async fn sweep_turn(&self, context: &RequestContext) -> Result<RunTurn> {
        let catalog = Arc::clone(&self.foundation.records.catalog);
        RunTurn::take_to_sweep(catalog, context, &self.spec().name).await
    }

    /// The mark that something of the collection is still to be swept away; none where nothing is.
    ///
    /// # Errors
    /// As the catalogue.
    pub async fn sweep_mark(&self, context: &RequestContext) -> Result<Option<SweepMark>> {
        self.sweep_marks().get(context).await
    }

    /// Notes, also for a process that comes after this one, that something of the collection is to be swept away.
    ///
    /// # Errors
    /// As the catalogue.
    pub async fn set_sweep_mark(&self, context: &RequestContext) -> Result<SweepMark> {
        self.sweep_marks().set(context).await
    }

    /// Notes that what was to be swept away when the mark was set is; a mark that was set since stays.
    ///
    /// # Errors
    /// As the catalogue.
    pub async fn clear_sweep_mark(&self, context: &RequestContext, mark: SweepMark) -> Result<()> {
        self.sweep_marks().clear(context, mark).await
    }

    fn sweep_marks(&self) -> SweepMarks<'_> {
        SweepMarks { records: &self.foundation.records, collection: &self.spec().name }
    }

    /// What [`Self::embeddings`] gave for a document, as its vector.
    ///
    /// # Errors
    /// `Internal` when it is unusable.
    pub fn document_vector(&self, vector: Vec<f32>) -> Result<Vector> {
        embedding::vector_of(self.spec(), "a document", vector)
    }

    /// Hands every record to `sink`, all as of one moment; see [`VectorStore::snapshot`]. Returns how many there were.
    ///
    /// # Errors
    /// As the store.
    pub async fn snapshot(&self, context: &RequestContext, sink: RecordSink) -> Result<u64> {
        self.store().snapshot(context, self.name(), sink).await
    }
}

impl fmt::Debug for CollectionHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CollectionHandle")
            .field("spec", self.spec())
            .field("store", &self.store().backend())
            .finish_non_exhaustive()
    }
}
