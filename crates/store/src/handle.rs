//! A collection with its store and its model: texts come in, queries become vectors.

use std::fmt;
use std::sync::Arc;

use toller_core::error::{Error, FieldViolation, Result};
use toller_core::vector_store::{ScrollPage, Selector, keyword_documents};
use toller_core::{
    CollectionSpec, Document, DocumentId, EmbeddingRole, Embeddings, Filter, KeywordSearch, Models, Query, Record,
    RequestContext, ScoredDocument, Vector, VectorName, VectorStore,
};

use crate::guard;
use crate::new_document::{CheckedDocument, NewDocument, check_documents, check_vector};

/// One open collection. Cheap to clone.
#[derive(Clone)]
pub struct CollectionHandle {
    spec: Arc<CollectionSpec>,
    store: Arc<dyn VectorStore>,
    models: Arc<Models>,
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
    /// A handle on a collection that exists in `store` with the parameters of `spec`.
    pub fn new(spec: CollectionSpec, store: Arc<dyn VectorStore>, models: Arc<Models>) -> Self {
        Self { spec: Arc::new(spec), store, models }
    }

    /// The collection as the catalogue records it.
    pub fn spec(&self) -> &CollectionSpec {
        &self.spec
    }

    /// The store that keeps it.
    pub fn store(&self) -> &Arc<dyn VectorStore> {
        &self.store
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
        let checked = check_documents(context, &self.spec, documents, options.request_id)?;
        if checked.is_empty() {
            return Ok(Added::default());
        }
        let ids = checked.iter().map(|document| document.id.clone()).collect();
        let (records, usage) = self.embedded(context, checked, options.refuse_truncation).await?;
        self.store.upsert(context, &self.spec.name, records).await?;
        Ok(Added { ids, usage })
    }

    /// Gives every document without a vector that of its text.
    async fn embedded(
        &self,
        context: &RequestContext,
        documents: Vec<CheckedDocument>,
        refuse_truncation: bool,
    ) -> Result<(Vec<Record>, Vec<TextUsage>)> {
        let without_vector = || documents.iter().enumerate().filter(|(_, document)| document.vector.is_none());
        let indexes: Vec<usize> = without_vector().map(|(index, _)| index).collect();
        let texts: Vec<String> = without_vector().map(|(_, document)| document.page_content.clone()).collect();
        let embeddings = if texts.is_empty() {
            Vec::new()
        } else {
            let model = guard::embeddings_for_texts(&self.spec, &self.models)?;
            model.embed(context, EmbeddingRole::Document, texts).await?
        };
        if embeddings.len() != indexes.len() {
            return Err(Error::Internal(format!(
                "the model gave {} vectors for {} texts",
                embeddings.len(),
                indexes.len()
            )));
        }
        if refuse_truncation {
            let cut = indexes.iter().zip(&embeddings).filter(|(_, embedding)| embedding.truncated);
            Error::from_violations(cut.map(|(index, _)| self.truncation_violation(*index)).collect())?;
        }

        let mut embeddings = embeddings.into_iter();
        let mut records = Vec::with_capacity(documents.len());
        let mut usage = Vec::with_capacity(documents.len());
        for (index, document) in documents.into_iter().enumerate() {
            let CheckedDocument { id, page_content, metadata, vector, named } = document;
            let (vector, text_usage) = match (vector, &mut embeddings) {
                (Some(vector), _) => (vector, TextUsage::default()),
                (None, rest) => {
                    let embedding =
                        rest.next().ok_or_else(|| Error::Internal(format!("text {index} has no vector")))?;
                    let vector = check_vector(&self.spec, embedding.vector).map_err(|fault| {
                        Error::Internal(format!("the embedding of documents[{index}] {fault}; nothing was written"))
                    })?;
                    (vector, TextUsage { token_count: embedding.token_count, truncated: embedding.truncated })
                }
            };
            records.push(Record { document: Arc::new(Document { id, page_content, metadata }), vector, named });
            usage.push(text_usage);
        }
        Ok((records, usage))
    }

    fn truncation_violation(&self, index: usize) -> FieldViolation {
        let most = self.spec.fingerprint.max_tokens;
        FieldViolation {
            field: format!("documents[{index}].page_content"),
            description: format!("is longer than the model's {most} tokens; split it, or allow truncation"),
        }
    }

    /// The vector to search with: the caller's own, or that of the text in the query role.
    ///
    /// # Errors
    /// `InvalidArgument` for `query.vector`; for a text `FailedPrecondition` of [`guard::embeddings_for_texts`] and what
    /// embedding reports; `Internal` when the model gives an unusable vector.
    pub async fn query_vector(&self, context: &RequestContext, query: &Query) -> Result<Vector> {
        let text = match query {
            Query::Vector(values) => {
                return check_vector(&self.spec, values.clone()).map_err(|fault| Error::invalid("query.vector", fault));
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
        let space = self.spec.space(Some(name))?;
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
        guard::embeddings_for_texts(&self.spec, &self.models)
    }

    /// What [`Self::embeddings`] gave for a query, as a vector to search with.
    ///
    /// # Errors
    /// `Internal` when it is unusable.
    pub fn embedded_query(&self, vector: Vec<f32>) -> Result<Vector> {
        check_vector(&self.spec, vector).map_err(|fault| Error::Internal(format!("the embedding of the query {fault}")))
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
        Ok(keyword_documents(self.store.keyword_search(context, &self.spec.name, search).await?))
    }

    /// Records by id, aligned with the input; see [`VectorStore::get`].
    ///
    /// # Errors
    /// As the store.
    pub async fn get(&self, context: &RequestContext, ids: &[DocumentId]) -> Result<Vec<Option<Record>>> {
        self.store.get(context, &self.spec.name, ids).await
    }

    /// Removes records and returns how many were there; see [`VectorStore::delete`].
    ///
    /// # Errors
    /// As the store.
    pub async fn delete(&self, context: &RequestContext, selector: &Selector) -> Result<u64> {
        self.store.delete(context, &self.spec.name, selector).await
    }

    /// How many records match; see [`VectorStore::count`].
    ///
    /// # Errors
    /// As the store.
    pub async fn count(&self, context: &RequestContext, filter: Option<&Filter>) -> Result<u64> {
        self.store.count(context, &self.spec.name, filter).await
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
        self.store.scroll(context, &self.spec.name, filter, from, limit).await
    }
}

impl fmt::Debug for CollectionHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("CollectionHandle")
            .field("spec", &self.spec)
            .field("store", &self.store.backend())
            .finish_non_exhaustive()
    }
}
