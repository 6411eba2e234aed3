//! Decorators that give any `Embeddings`, any `Reranker`, any `LanguageModel` and any `VectorStore` their spans and metrics.
//!
//! Each call costs one span and a few numbers, whatever the number of texts or rows. Under a retriever's span they nest as
//! retrieval → embeddings, retrieval → search, retrieval → keyword_search, retrieval → mmr.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use toller_core::collection::VectorParams;
use toller_core::embeddings::Embedding;
use toller_core::language_model::{Completion, CompletionOptions};
use toller_core::vector_store::{
    Applied, ChangeSet, MmrParams, RecordSink, ScoredRecord, Scoring, ScrollPage, Selector, VectorSearch,
    choose_by_marginal_relevance,
};
use toller_core::{
    ChatMessage, CollectionName, DocumentId, Durability, EmbeddingRole, Embeddings, Filter, Fingerprint, KeywordSearch,
    LanguageModel, Record, RequestContext, RerankScore, Reranker, Result, ScoredDocument, Tokenizer, Vector,
    VectorName, VectorStore,
};
use tracing::{Instrument, Span};

use crate::metrics::{EmbeddingMetrics, LanguageModelMetrics, RerankMetrics, StoreMetrics, StoreOperation};
use crate::spans::{self, EmbeddingUsage, EmbeddingsSpan, RerankUsage};

/// Embeddings with a span and metrics around each call.
pub struct TracedEmbeddings {
    inner: Arc<dyn Embeddings>,
    metrics: EmbeddingMetrics,
}

impl TracedEmbeddings {
    /// Decorates `inner`.
    pub fn new(inner: Arc<dyn Embeddings>) -> Self {
        let fingerprint = inner.fingerprint();
        let metrics = EmbeddingMetrics::new(&fingerprint.provider, &fingerprint.model);
        Self { inner, metrics }
    }
}

#[async_trait]
impl Embeddings for TracedEmbeddings {
    fn fingerprint(&self) -> &Fingerprint {
        self.inner.fingerprint()
    }

    async fn embed(&self, context: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        let fingerprint = self.inner.fingerprint();
        let count = texts.len();
        let span = spans::embeddings(&EmbeddingsSpan {
            provider: &fingerprint.provider,
            model: &fingerprint.model,
            role,
            texts: count,
            dimension: fingerprint.dimension,
        });
        spans::record_texts(&span, role, &texts);
        let started = Instant::now();
        let result = self.inner.embed(context, role, texts).instrument(span.clone()).await;
        let usage = match &result {
            Ok(answer) => {
                let usage = EmbeddingUsage::of(answer);
                spans::record_embeddings(&span, usage, answer);
                Ok(usage)
            }
            Err(error) => {
                spans::record_error(&span, error);
                Err(error)
            }
        };
        self.metrics.record(role, count, started.elapsed(), usage);
        result
    }

    fn tokenizer(&self) -> Option<Arc<dyn Tokenizer>> {
        self.inner.tokenizer()
    }
}

/// A reranker with a span and metrics around each call.
pub struct TracedReranker {
    inner: Arc<dyn Reranker>,
    metrics: RerankMetrics,
}

impl TracedReranker {
    /// Decorates `inner`.
    pub fn new(inner: Arc<dyn Reranker>) -> Self {
        let metrics = RerankMetrics::new(inner.provider(), inner.model());
        Self { inner, metrics }
    }
}

#[async_trait]
impl Reranker for TracedReranker {
    fn provider(&self) -> &str {
        self.inner.provider()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    fn max_tokens(&self) -> Option<u32> {
        self.inner.max_tokens()
    }

    async fn rerank(&self, context: &RequestContext, query: &str, documents: Vec<String>) -> Result<Vec<RerankScore>> {
        let count = documents.len();
        let span = spans::rerank(self.inner.provider(), self.inner.model(), count);
        spans::record_pairs(&span, query, &documents);
        let started = Instant::now();
        let result = self.inner.rerank(context, query, documents).instrument(span.clone()).await;
        let usage = match &result {
            Ok(answer) => {
                let usage = RerankUsage::of(answer);
                spans::record_rerank(&span, usage);
                Ok(usage)
            }
            Err(error) => {
                spans::record_error(&span, error);
                Err(error)
            }
        };
        self.metrics.record(count, started.elapsed(), usage);
        result
    }
}

/// A language model with a span and metrics around each question.
pub struct TracedLanguageModel {
    inner: Arc<dyn LanguageModel>,
    metrics: LanguageModelMetrics,
}

impl TracedLanguageModel {
    /// Decorates `inner`.
    pub fn new(inner: Arc<dyn LanguageModel>) -> Self {
        let metrics = LanguageModelMetrics::new(inner.provider(), inner.model());
        Self { inner, metrics }
    }
}

#[async_trait]
impl LanguageModel for TracedLanguageModel {
    fn provider(&self) -> &str {
        self.inner.provider()
    }

    fn model(&self) -> &str {
        self.inner.model()
    }

    async fn complete(
        &self,
        context: &RequestContext,
        messages: &[ChatMessage],
        options: &CompletionOptions,
    ) -> Result<Completion> {
        let span = spans::chat(self.inner.provider(), self.inner.model());
        spans::record_question(&span, messages);
        let started = Instant::now();
        let result = self.inner.complete(context, messages, options).instrument(span.clone()).await;
        match &result {
            Ok(answer) => spans::record_answer(&span, answer),
            Err(error) => spans::record_error(&span, error),
        }
        self.metrics.record(started.elapsed(), result.as_ref().map(|answer| answer.usage));
        result
    }
}

/// A vector store with a span and metrics around each call.
///
/// A similarity search is the inner store's, within one span; marginal relevance is chosen here, in a span of its own after
/// the search, by the rule that all stores share.
pub struct TracedVectorStore {
    inner: Arc<dyn VectorStore>,
    metrics: StoreMetrics,
}

impl TracedVectorStore {
    /// Decorates `inner`.
    pub fn new(inner: Arc<dyn VectorStore>) -> Self {
        let metrics = StoreMetrics::new(inner.backend());
        Self { inner, metrics }
    }

    fn span(&self, operation: StoreOperation, collection: &CollectionName) -> Span {
        spans::store_operation(self.inner.backend(), collection.logical(), operation.as_str())
    }

    /// Runs `call` within `span`, and records its time and its error, or with `rows` what it returned.
    async fn measure<T>(
        &self,
        operation: StoreOperation,
        span: Span,
        call: impl Future<Output = Result<T>>,
        rows: impl FnOnce(&T) -> Option<usize>,
    ) -> Result<T> {
        let started = Instant::now();
        let result = call.instrument(span.clone()).await;
        match &result {
            Ok(value) => {
                if let Some(rows) = rows(value) {
                    spans::record_rows(&span, rows);
                }
            }
            Err(error) => spans::record_error(&span, error),
        }
        self.metrics.record(operation, started.elapsed(), result.as_ref().err());
        result
    }
}

#[async_trait]
impl VectorStore for TracedVectorStore {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    async fn create(&self, context: &RequestContext, collection: &CollectionName, params: VectorParams) -> Result<()> {
        let operation = StoreOperation::Create;
        let call = self.inner.create(context, collection, params);
        self.measure(operation, self.span(operation, collection), call, |()| None).await
    }

    async fn drop_collection(&self, context: &RequestContext, collection: &CollectionName) -> Result<()> {
        let operation = StoreOperation::DropCollection;
        let call = self.inner.drop_collection(context, collection);
        self.measure(operation, self.span(operation, collection), call, |()| None).await
    }

    /// Without a span: it is asked before every search and answered from memory.
    async fn params(&self, context: &RequestContext, collection: &CollectionName) -> Result<VectorParams> {
        self.inner.params(context, collection).await
    }

    async fn upsert(&self, context: &RequestContext, collection: &CollectionName, records: Vec<Record>) -> Result<()> {
        let operation = StoreOperation::Upsert;
        let count = records.len();
        let span = self.span(operation, collection);
        spans::record_batch_size(&span, count);
        let call = self.inner.upsert(context, collection, records);
        let result = self.measure(operation, span, call, |()| None).await;
        if result.is_ok() {
            self.metrics.add_written(count);
        }
        result
    }

    async fn delete(&self, context: &RequestContext, collection: &CollectionName, selector: &Selector) -> Result<u64> {
        let operation = StoreOperation::Delete;
        let call = self.inner.delete(context, collection, selector);
        self.measure(operation, self.span(operation, collection), call, |_| None).await
    }

    async fn apply(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        changes: ChangeSet,
    ) -> Result<Applied> {
        let operation = StoreOperation::Apply;
        let span = self.span(operation, collection);
        let call = self.inner.apply(context, collection, changes);
        let batch_size = span.clone();
        let applied = self.measure(operation, span, call, |_| None).await?;
        let written = usize::try_from(applied.upserted).unwrap_or(usize::MAX);
        spans::record_batch_size(&batch_size, written);
        self.metrics.add_written(written);
        Ok(applied)
    }

    async fn ids(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentId>> {
        let operation = StoreOperation::Ids;
        let call = self.inner.ids(context, collection, from, limit);
        self.measure(operation, self.span(operation, collection), call, |ids| Some(ids.len())).await
    }

    async fn get(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Record>>> {
        let operation = StoreOperation::Get;
        let span = self.span(operation, collection);
        spans::record_batch_size(&span, ids.len());
        let call = self.inner.get(context, collection, ids);
        self.measure(operation, span, call, |records| Some(records.iter().flatten().count())).await
    }

    async fn search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: VectorSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        let span = spans::store_search(self.inner.backend(), collection.logical(), search.limit);
        let call = self.inner.search(context, collection, search);
        self.measure(StoreOperation::Search, span, call, |hits| Some(hits.len())).await
    }

    async fn keyword_search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: KeywordSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        let span = spans::store_keyword_search(self.inner.backend(), collection.logical(), search.limit);
        let call = self.inner.keyword_search(context, collection, search);
        self.measure(StoreOperation::KeywordSearch, span, call, |hits| Some(hits.len())).await
    }

    async fn scroll(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<ScrollPage> {
        let operation = StoreOperation::Scroll;
        let call = self.inner.scroll(context, collection, filter, from, limit);
        self.measure(operation, self.span(operation, collection), call, |page| Some(page.records.len())).await
    }

    async fn count(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
    ) -> Result<u64> {
        let operation = StoreOperation::Count;
        let call = self.inner.count(context, collection, filter);
        self.measure(operation, self.span(operation, collection), call, |_| None).await
    }

    async fn snapshot(&self, context: &RequestContext, collection: &CollectionName, sink: RecordSink) -> Result<u64> {
        let operation = StoreOperation::Snapshot;
        let call = self.inner.snapshot(context, collection, sink);
        self.measure(operation, self.span(operation, collection), call, |count| usize::try_from(*count).ok()).await
    }

    async fn similarity(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: VectorSearch<'_>,
        scoring: Scoring,
    ) -> Result<Vec<ScoredDocument>> {
        let span = spans::store_search(self.inner.backend(), collection.logical(), search.limit);
        let call = self.inner.similarity(context, collection, search, scoring);
        self.measure(StoreOperation::Search, span, call, |hits| Some(hits.len())).await
    }

    async fn max_marginal_relevance(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        vector: &Vector,
        using: Option<&VectorName>,
        filter: Option<&Filter>,
        params: MmrParams,
        scoring: Scoring,
    ) -> Result<Vec<ScoredDocument>> {
        let search = VectorSearch { vector, using, filter, limit: params.fetch_k.max(params.k) };
        let candidates = self.similarity(context, collection, search, scoring).await?;
        let span = spans::mmr(candidates.len(), params.k, params.lambda_mult);
        Ok(span.in_scope(|| choose_by_marginal_relevance(candidates, vector, params.k, params.lambda_mult)))
    }
}
