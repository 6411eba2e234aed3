//! A world to retrieve in: a memory store with its whims, a model on a compass, and a reranker that reads numbers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use toller_core::collection::VectorParams;
use toller_core::embeddings::Embedding;
use toller_core::fingerprint::Pooling;
use toller_core::retriever::RetrieverSpec;
use toller_core::vector_store::{Applied, ChangeSet, RecordSink, ScoredRecord, ScrollPage, Selector, VectorSearch};
use toller_core::{
    Catalog, CollectionName, DocumentId, DocumentStore, Durability, EmbeddingRole, Embeddings, Error, Filter,
    Fingerprint, KeywordSearch, Metadata, Metric, Models, Principal, Query, Record, RequestContext, RerankScore,
    Reranker, Result, ScoredDocument, Value, VectorStore,
};
use toller_retrieval::stored::WriteCondition;
use toller_retrieval::{Answer, PlanLimits, Planner, RunOptions, StoredRetrievers};
use toller_store::{Collections, MemoryStore, NewCollection, NewDocument, VectorSource};

use crate::specs::collection;

pub(crate) struct World {
    pub(crate) context: RequestContext,
    pub(crate) planner: Planner,
    pub(crate) collections: Arc<Collections>,
    pub(crate) stored: StoredRetrievers,
    pub(crate) memory: MemoryStore,
    pub(crate) compass: Arc<Compass>,
    pub(crate) slow_searches: Arc<SlowSearches>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with_limits(PlanLimits::default())
    }

    pub(crate) fn with_limits(limits: PlanLimits) -> Self {
        let memory = MemoryStore::new();
        let catalog = Arc::clone(&memory.catalog) as Arc<dyn Catalog>;
        let slow_searches = Arc::new(SlowSearches::default());
        let store = Arc::new(Whims(Arc::clone(&memory.vectors) as Arc<dyn VectorStore>, Arc::clone(&slow_searches)));
        let compass = Arc::new(Compass::default());
        let mut models = Models::from(Arc::clone(&compass) as Arc<dyn Embeddings>);
        models.rerankers.add("numbers", Arc::new(Numbers)).unwrap();
        let collections = Arc::new(Collections::new(store, Arc::clone(&catalog), models));
        let stored = StoredRetrievers::new(catalog);
        let documents = Arc::clone(&memory.documents) as Arc<dyn DocumentStore>;
        let planner = Planner::new(Arc::clone(&collections), stored.clone(), limits).with_documents(documents);
        let context = RequestContext::new(Principal::anonymous());
        Self { context, planner, collections, stored, memory, compass, slow_searches }
    }

    /// A new collection with documents of this id, text and metadata.
    pub(crate) async fn fill(&self, name: &str, documents: impl IntoIterator<Item = (&str, &str, Metadata)>) {
        self.fill_as(&self.context, name, Metric::Cosine, documents).await;
    }

    pub(crate) async fn fill_as(
        &self,
        context: &RequestContext,
        name: &str,
        metric: Metric,
        documents: impl IntoIterator<Item = (&str, &str, Metadata)>,
    ) {
        self.create(context, name, metric, VectorSource::Model).await;
        let documents = documents.into_iter().map(|(id, text, metadata)| NewDocument {
            id: Some(id.to_owned()),
            page_content: text.to_owned(),
            metadata,
            vector: None,
            ..NewDocument::default()
        });
        self.write(context, name, documents.collect()).await;
    }

    pub(crate) async fn create(&self, context: &RequestContext, name: &str, metric: Metric, vectors: VectorSource) {
        let new = NewCollection {
            name: collection(name),
            description: String::new(),
            labels: Default::default(),
            metric,
            vectors,
        };
        self.collections.create(context, new).await.unwrap();
    }

    pub(crate) async fn write(&self, context: &RequestContext, name: &str, documents: Vec<NewDocument>) {
        let handle = self.collections.open(context, &collection(name)).await.unwrap();
        handle.add(context, documents, None).await.unwrap();
    }

    /// A new collection of documents at these degrees, each with its degrees for an id.
    pub(crate) async fn fill_degrees(&self, name: &str, degrees: &[u32]) {
        let texts: Vec<(String, String)> =
            degrees.iter().map(|degrees| (degrees.to_string(), format!("at {degrees}"))).collect();
        let documents = texts.iter().map(|(id, text)| (id.as_str(), text.as_str(), Metadata::new()));
        self.fill(name, documents).await;
    }

    pub(crate) async fn store(&self, spec: RetrieverSpec) {
        self.stored.put(&self.context, spec, WriteCondition::Always).await.unwrap();
    }

    /// What a tree answers to a text.
    pub(crate) async fn ask(&self, spec: &RetrieverSpec, text: &str) -> Result<Answer> {
        self.ask_with(spec, text, RunOptions::default()).await
    }

    pub(crate) async fn ask_with(&self, spec: &RetrieverSpec, text: &str, options: RunOptions) -> Result<Answer> {
        let plan = self.planner.plan(&self.context, spec).await?;
        plan.run(&self.context, &Query::Text(text.to_owned()), options).await
    }

    pub(crate) async fn hits(&self, spec: &RetrieverSpec, text: &str) -> Vec<ScoredDocument> {
        self.ask(spec, text).await.unwrap().hits
    }

    /// The faults of a tree, as `path: description`.
    pub(crate) async fn faults(&self, spec: &RetrieverSpec) -> Vec<String> {
        let violations = self.planner.validate(&self.context, spec).await.unwrap();
        violations.iter().map(ToString::to_string).collect()
    }
}

pub(crate) fn ids(hits: &[ScoredDocument]) -> Vec<&str> {
    hits.iter().map(|hit| hit.document.id.as_str()).collect()
}

pub(crate) fn paths(answer: &Answer) -> Vec<&str> {
    answer.warnings.iter().map(|warning| warning.path.as_str()).collect()
}

pub(crate) fn metadata(key: &str, value: impl Into<Value>) -> Metadata {
    Metadata::from([(key.to_owned(), value.into())])
}

pub(crate) fn cos(degrees: f64) -> f64 {
    degrees.to_radians().cos()
}

/// A model whose vector of a text is the direction, in degrees, that the first number in it says; north-west without one.
#[derive(Debug)]
pub(crate) struct Compass {
    fingerprint: Fingerprint,
    pub(crate) query_calls: AtomicUsize,
    pub(crate) document_calls: AtomicUsize,
}

impl Default for Compass {
    fn default() -> Self {
        let fingerprint = Fingerprint {
            provider: "test".to_owned(),
            model: "compass".to_owned(),
            dimension: 2,
            pooling: Some(Pooling::Mean),
            ..Fingerprint::client(2)
        };
        Self { fingerprint, query_calls: AtomicUsize::new(0), document_calls: AtomicUsize::new(0) }
    }
}

pub(crate) fn first_number(text: &str) -> Option<f32> {
    text.split(|c: char| !c.is_ascii_digit()).find_map(|digits| digits.parse().ok())
}

pub(crate) fn at(degrees: f32) -> Vec<f32> {
    let (sin, cos) = degrees.to_radians().sin_cos();
    vec![cos, sin]
}

#[async_trait]
impl Embeddings for Compass {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, context: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        context.check("before embedding")?;
        let calls = match role {
            EmbeddingRole::Query => &self.query_calls,
            EmbeddingRole::Document => &self.document_calls,
        };
        calls.fetch_add(1, Ordering::Relaxed);
        // Others who want the same vector get time to ask for it.
        tokio::task::yield_now().await;
        let embedding = |text: String| Embedding {
            vector: at(first_number(&text).unwrap_or(135.0)),
            token_count: None,
            truncated: false,
        };
        Ok(texts.into_iter().map(embedding).collect())
    }
}

/// A reranker to which a document is the better the nearer its first number is to the query's.
struct Numbers;

#[async_trait]
impl Reranker for Numbers {
    fn provider(&self) -> &str {
        "test"
    }

    fn model(&self) -> &str {
        "numbers"
    }

    async fn rerank(&self, _: &RequestContext, query: &str, documents: Vec<String>) -> Result<Vec<RerankScore>> {
        let wanted = first_number(query).unwrap_or(0.0);
        let score = |text: String| RerankScore {
            logit: -(wanted - first_number(&text).unwrap_or(1000.0)).abs(),
            token_count: None,
            truncated: false,
        };
        Ok(documents.into_iter().map(score).collect())
    }
}

/// A store that cannot search collections called `broken…`, and takes its time for those called `slow20-…`, in milliseconds.
struct Whims(Arc<dyn VectorStore>, Arc<SlowSearches>);

/// Searches that take their time.
#[derive(Debug, Default)]
pub(crate) struct SlowSearches {
    now: AtomicUsize,
    /// How many there were at the same time, at most.
    pub(crate) most: AtomicUsize,
}

impl SlowSearches {
    async fn take(&self, time: Duration) {
        let now = self.now.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        tokio::time::sleep(time).await;
        self.now.fetch_sub(1, Ordering::Relaxed);
    }
}

#[async_trait]
impl VectorStore for Whims {
    fn backend(&self) -> &'static str {
        self.0.backend()
    }
    fn durability(&self) -> Durability {
        self.0.durability()
    }
    async fn create(&self, context: &RequestContext, name: &CollectionName, params: VectorParams) -> Result<()> {
        self.0.create(context, name, params).await
    }
    async fn drop_collection(&self, context: &RequestContext, name: &CollectionName) -> Result<()> {
        self.0.drop_collection(context, name).await
    }
    async fn params(&self, context: &RequestContext, name: &CollectionName) -> Result<VectorParams> {
        self.0.params(context, name).await
    }
    async fn upsert(&self, context: &RequestContext, name: &CollectionName, records: Vec<Record>) -> Result<()> {
        self.0.upsert(context, name, records).await
    }
    async fn delete(&self, context: &RequestContext, name: &CollectionName, selector: &Selector) -> Result<u64> {
        self.0.delete(context, name, selector).await
    }
    async fn apply(&self, context: &RequestContext, name: &CollectionName, changes: ChangeSet) -> Result<Applied> {
        self.0.apply(context, name, changes).await
    }
    async fn ids(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentId>> {
        self.0.ids(context, name, from, limit).await
    }
    async fn get(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Record>>> {
        self.0.get(context, name, ids).await
    }
    async fn search(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        search: VectorSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        if name.as_str().starts_with("broken") {
            return Err(Error::Unavailable("the store is away".to_owned()));
        }
        if name.as_str().starts_with("slow") {
            let millis = first_number(name.as_str()).unwrap_or(0.0);
            self.1.take(Duration::from_millis(millis as u64)).await;
        }
        self.0.search(context, name, search).await
    }
    async fn keyword_search(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        search: KeywordSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        self.0.keyword_search(context, name, search).await
    }
    async fn scroll(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        filter: Option<&Filter>,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<ScrollPage> {
        self.0.scroll(context, name, filter, from, limit).await
    }
    async fn count(&self, context: &RequestContext, name: &CollectionName, filter: Option<&Filter>) -> Result<u64> {
        self.0.count(context, name, filter).await
    }
    async fn snapshot(&self, context: &RequestContext, name: &CollectionName, sink: RecordSink) -> Result<u64> {
        self.0.snapshot(context, name, sink).await
    }
}
