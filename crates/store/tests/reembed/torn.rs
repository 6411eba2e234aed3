//! Writes that reach one generation only, since the store failed between the two.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::vector_store::{Applied, ChangeSet, RecordSink, ScoredRecord, ScrollPage, Selector, VectorSearch};
use toller_core::{
    CollectionName, DocumentId, Durability, Filter, KeywordSearch, OperationState, Record, RequestContext, VectorStore,
};
use toller_store::{Collections, MemoryStore};

use crate::ground::{contents, context, document, expected, id, make, name, until, writer};
use crate::model::{TestModel, models};

/// A store whose first generations take no write when they are told so.
struct Brittle {
    inner: Arc<dyn VectorStore>,
    breaks: AtomicBool,
}

impl Brittle {
    fn check(&self, collection: &CollectionName) -> Result<()> {
        if self.breaks.load(Ordering::SeqCst) && collection.as_str() == "docs" {
            return Err(Error::Internal("the disk is full".to_owned()));
        }
        Ok(())
    }
}

#[async_trait]
impl VectorStore for Brittle {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }

    fn durability(&self) -> Durability {
        self.inner.durability()
    }

    async fn create(&self, context: &RequestContext, collection: &CollectionName, params: VectorParams) -> Result<()> {
        self.inner.create(context, collection, params).await
    }

    async fn drop_collection(&self, context: &RequestContext, collection: &CollectionName) -> Result<()> {
        self.inner.drop_collection(context, collection).await
    }

    async fn params(&self, context: &RequestContext, collection: &CollectionName) -> Result<VectorParams> {
        self.inner.params(context, collection).await
    }

    async fn upsert(&self, context: &RequestContext, collection: &CollectionName, records: Vec<Record>) -> Result<()> {
        self.check(collection)?;
        self.inner.upsert(context, collection, records).await
    }

    async fn delete(&self, context: &RequestContext, collection: &CollectionName, selector: &Selector) -> Result<u64> {
        self.check(collection)?;
        self.inner.delete(context, collection, selector).await
    }

    async fn apply(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        changes: ChangeSet,
    ) -> Result<Applied> {
        self.check(collection)?;
        self.inner.apply(context, collection, changes).await
    }

    async fn ids(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentId>> {
        self.inner.ids(context, collection, from, limit).await
    }

    async fn get(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Record>>> {
        self.inner.get(context, collection, ids).await
    }

    async fn search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: VectorSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        self.inner.search(context, collection, search).await
    }

    async fn keyword_search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: KeywordSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        self.inner.keyword_search(context, collection, search).await
    }

    async fn scroll(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<ScrollPage> {
        self.inner.scroll(context, collection, filter, from, limit).await
    }

    async fn count(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
    ) -> Result<u64> {
        self.inner.count(context, collection, filter).await
    }

    async fn snapshot(&self, context: &RequestContext, collection: &CollectionName, sink: RecordSink) -> Result<u64> {
        self.inner.snapshot(context, collection, sink).await
    }
}

#[tokio::test]
async fn what_reached_one_generation_only_is_mended_before_the_switch() {
    let memory = MemoryStore::new();
    let brittle = Arc::new(Brittle { inner: Arc::clone(&memory.vectors) as _, breaks: AtomicBool::new(false) });
    let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
    let all = models(&[&old, &new]);
    let catalog = Arc::clone(&memory.catalog) as _;
    let collections = Collections::new(Arc::clone(&brittle) as _, catalog, all).with_reembed_batch(4);
    let handle = make(&collections, "docs", "old", 9).await;
    let before = contents(&handle).await;
    let started = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
    new.let_through(2);
    until(async || collections.operations().get(&context(), &started.id).await.unwrap().done == 8).await;

    // Of documents that were copied already.
    brittle.breaks.store(true, Ordering::SeqCst);
    for documents in [vec![document("d001", "newer")], vec![document("c", "never seen"), document("e", "nor this")]] {
        handle.add(&writer(), documents, None).await.unwrap_err();
    }
    handle.delete(&writer(), &Selector::Ids(vec![id("d002"), id("d003")])).await.unwrap_err();
    assert_eq!(contents(&handle).await, before, "a write that failed is not seen");
    let torn = name("docs").generation(2);
    assert_eq!(memory.vectors.count(&context(), &torn, None).await.unwrap(), 8 + 2 - 2);
    brittle.breaks.store(false, Ordering::SeqCst);

    new.let_through(100);
    let ended = collections.operations().wait(&context(), &started.id, None).await.unwrap();
    assert_eq!(ended.state, OperationState::Succeeded, "{ended:?}");
    let kept: Vec<(String, String)> = (0..9).map(|n| (format!("d{n:03}"), format!("text {n}"))).collect();
    let opened = collections.open(&context(), &name("docs")).await.unwrap();
    assert_eq!(contents(&opened).await, expected(&collections, &new, &kept).await);
}
