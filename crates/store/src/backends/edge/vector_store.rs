//! Records by vector, on disk.

use std::sync::Arc;

use async_trait::async_trait;
use toller_core::collection::{Durability, VectorParams};
use toller_core::error::Result;
use toller_core::keyword::{KeywordSearch, keyword_not_indexed};
use toller_core::vector_store::{Applied, ChangeSet, RecordSink, ScoredRecord, ScrollPage, Selector, VectorSearch};
use toller_core::{CollectionName, DocumentId, Filter, Record, RequestContext, VectorStore};

use super::change_set::Preparation;
use super::config::EdgeConfig;
use super::disk_room::Promise;
use super::open_collection::OpenCollection;
use super::point::point_of;
use super::pool::Pool;
use super::pushdown::push_down;
use super::registry::Registry;
use super::slot::Slot;
use super::writer::{Change, Sink};
use super::{keywords, search, size};
use crate::backends::checks::{check_params, check_query, check_records};

/// Keeps records on disk in the engine's shards, one for each collection. See the [module](super).
///
/// Order is total: better score, then id bytes. For cosine, vectors come back with unit length.
#[derive(Debug)]
pub struct EdgeVectorStore {
    registry: Arc<Registry>,
    config: EdgeConfig,
    pool: Pool,
}

impl EdgeVectorStore {
    pub(super) fn new(registry: Registry, config: EdgeConfig, pool: Pool) -> Self {
        Self { registry: Arc::new(registry), config, pool }
    }

    /// How many collections there are, of all tenants.
    pub fn collection_count(&self) -> usize {
        self.registry.len()
    }

    /// How many of them are open; at most [`EdgeConfig::max_open`], but for those in use.
    pub fn open_count(&self) -> usize {
        self.registry.open_count()
    }

    /// Builds the index of what was written so far, and returns when it is built; without this it is built in the background
    /// once enough was written.
    ///
    /// # Errors
    /// `NotFound`; `Internal` when it cannot be built.
    pub async fn build_index(&self, context: &RequestContext, collection: &CollectionName) -> Result<()> {
        self.with_open(context, collection, |open| open.build_index()).await
    }

    /// How many vectors of a collection an index has; searches compare the others one by one.
    ///
    /// # Errors
    /// `NotFound`.
    pub async fn indexed_count(&self, context: &RequestContext, collection: &CollectionName) -> Result<u64> {
        self.with_open(context, collection, |open| Ok(open.shard().indexed_len()? as u64)).await
    }

    /// Runs blocking work on an open collection.
    async fn with_open<T: Send + 'static>(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        work: impl FnOnce(&Arc<OpenCollection>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let slot = self.registry.find(context, collection)?;
        self.with_slot(context, slot, work).await
    }

    async fn with_slot<T: Send + 'static>(
        &self,
        context: &RequestContext,
        slot: Arc<Slot>,
        work: impl FnOnce(&Arc<OpenCollection>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let open = self.registry.open_slot(context, &slot).await?;
        // Whoever waits for the writer in the pool keeps others from it.
        open.shard().readable().await;
        self.pool.run_within(&slot.share, context, move || work(&open)).await
    }

    /// Hands a change to the collection's writer, with the room that it was promised.
    async fn change(
        &self,
        context: &RequestContext,
        slot: Arc<Slot>,
        change: Change,
        promise: Option<Promise>,
    ) -> Result<u64> {
        let open = self.registry.open_slot(context, &slot).await?;
        context.check("before the store was asked")?;
        let count = open.change(change, promise).await?;
        self.registry.offer_to_indexer(&slot, &open);
        Ok(count)
    }
}

#[async_trait]
impl VectorStore for EdgeVectorStore {
    fn backend(&self) -> &'static str {
        "edge"
    }

    fn durability(&self) -> Durability {
        match self.config.durability {
            Durability::Fsync => Durability::Fsync,
            Durability::Process | Durability::None => Durability::Process,
        }
    }

    async fn create(&self, context: &RequestContext, collection: &CollectionName, params: VectorParams) -> Result<()> {
        check_params(&params)?;
        self.registry.create(context, collection, params).await
    }

    async fn drop_collection(&self, context: &RequestContext, collection: &CollectionName) -> Result<()> {
        self.registry.drop_collection(context, collection).await
    }

    async fn params(&self, context: &RequestContext, collection: &CollectionName) -> Result<VectorParams> {
        Ok(self.registry.find(context, collection)?.description.params.clone())
    }

    async fn upsert(&self, context: &RequestContext, collection: &CollectionName, records: Vec<Record>) -> Result<()> {
        let slot = self.registry.find(context, collection)?;
        let (place, tenant) = (Arc::clone(&slot), context.tenant().clone());
        let (change, promise) = self
            .pool
            .run(context, move || {
                let params = &place.description.params;
                check_records(params, &records)?;
                let bytes = records.iter().map(|record| size::of_record(record, params)).sum();
                let promise = place.room().for_write(bytes)?;
                let points = records.iter().map(|record| point_of(&tenant, record, params));
                let points = points.collect::<Result<Vec<_>>>()?;
                let ids = records.iter().map(|record| record.document.id.clone()).collect();
                Ok((Change::Upsert(ids, points), promise))
            })
            .await?;
        self.change(context, slot, change, Some(promise)).await?;
        Ok(())
    }

    async fn delete(&self, context: &RequestContext, collection: &CollectionName, selector: &Selector) -> Result<u64> {
        let slot = self.registry.find(context, collection)?;
        let change = match selector {
            Selector::Ids(ids) => Change::Delete(ids.clone()),
            Selector::Filter(filter) => Change::DeleteMatching(filter.clone(), context.clone()),
            Selector::All => Change::DeleteAll,
        };
        self.change(context, slot, change, None).await
    }

    async fn apply(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        changes: ChangeSet,
    ) -> Result<Applied> {
        let slot = self.registry.find(context, collection)?;
        let ChangeSet { delete, mut upsert } = changes;
        let place = Arc::clone(&slot);
        let mut preparation = self.pool.run(context, move || Preparation::begin(place)).await?;
        while let Some(records) = upsert.next().await? {
            let take = move || {
                preparation.take(&records)?;
                Ok(preparation)
            };
            preparation = self.pool.run(context, take).await?;
        }
        let (prepared, promise) = self.pool.run(context, move || preparation.end(delete)).await?;
        let upserted = prepared.ids.written.len() as u64;
        let deleted = self.change(context, slot, Change::Commit(Box::new(prepared)), promise).await?;
        Ok(Applied { upserted, deleted })
    }

    async fn ids(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentId>> {
        let from = from.cloned();
        self.with_open(context, collection, move |open| open.shard().ids_from(from, limit)).await
    }

    async fn get(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Record>>> {
        let ids = ids.to_vec();
        self.with_open(context, collection, move |open| open.shard().get(&ids)).await
    }

    async fn search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: VectorSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        let slot = self.registry.find(context, collection)?;
        check_query(&slot.description.params, search.using, search.vector)?;
        let (vector, using) = (search.vector.clone(), search.using.cloned());
        let (filter, limit) = (search.filter.cloned(), search.limit);
        let owned_context = context.clone();
        self.with_slot(context, slot, move |open| {
            want_indexes(open, filter.as_ref());
            let search = VectorSearch { vector: &vector, using: using.as_ref(), filter: filter.as_ref(), limit };
            search::search(open.shard(), search, &owned_context)
        })
        .await
    }

    async fn keyword_search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: KeywordSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        let slot = self.registry.find(context, collection)?;
        if slot.description.params.keyword.is_none() {
            return Err(keyword_not_indexed(collection));
        }
        let (text, filter, limit) = (search.text.to_owned(), search.filter.cloned(), search.limit);
        let owned_context = context.clone();
        self.with_slot(context, slot, move |open| {
            want_indexes(open, filter.as_ref());
            let search = KeywordSearch { text: &text, filter: filter.as_ref(), limit };
            keywords::search(open.shard(), search, &owned_context)
        })
        .await
    }

    async fn scroll(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<ScrollPage> {
        let (filter, from, owned_context) = (filter.cloned(), from.cloned(), context.clone());
        self.with_open(context, collection, move |open| {
            let (records, next) = open.shard().scroll(filter.as_ref(), from.as_ref(), limit, &owned_context)?;
            Ok(ScrollPage { records, next })
        })
        .await
    }

    async fn snapshot(&self, context: &RequestContext, collection: &CollectionName, sink: RecordSink) -> Result<u64> {
        let slot = self.registry.find(context, collection)?;
        self.change(context, slot, Change::Snapshot(Sink(sink), context.clone()), None).await
    }

    async fn count(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
    ) -> Result<u64> {
        let (filter, owned_context) = (filter.cloned(), context.clone());
        self.with_open(context, collection, move |open| match filter {
            None => Ok(open.shard().len() as u64),
            Some(filter) => {
                want_indexes(open, Some(&filter));
                Ok(open.shard().matching_ids(&filter, &owned_context)?.len() as u64)
            }
        })
        .await
    }
}

/// Has indexes built on the fields that a filter looks at, in the background.
fn want_indexes(open: &OpenCollection, filter: Option<&Filter>) {
    if let Some(pushed) = filter.and_then(push_down) {
        open.index_fields(pushed.fields);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toller_core::catalog::RecordKind;
    use toller_core::error::Error;
    use toller_core::{Catalog, Document, Metadata, Metric, Principal, Vector};

    use super::super::EdgeStore;
    use super::*;

    /// More than all pools hold.
    const READERS: usize = 1000;

    /// Until something that is kept waiting is taken for waiting forever.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn context() -> RequestContext {
        RequestContext::new(Principal::anonymous())
    }

    fn name(name: &str) -> CollectionName {
        CollectionName::new(name).unwrap()
    }

    async fn two_collections(folder: &std::path::Path) -> EdgeStore {
        let store = EdgeStore::open(folder, EdgeConfig::default()).unwrap();
        for collection in ["a", "b"] {
            store.vectors.create(&context(), &name(collection), VectorParams::new(1, Metric::Dot)).await.unwrap();
            let document =
                Document { id: DocumentId::new("x").unwrap(), page_content: String::new(), metadata: Metadata::new() };
            let record = Record::new(Arc::new(document), Vector::new(vec![1.0], Metric::Dot).unwrap());
            store.vectors.upsert(&context(), &name(collection), vec![record]).await.unwrap();
        }
        store
    }

    async fn read(store: &EdgeVectorStore, collection: &str) -> usize {
        let ids = [DocumentId::new("x").unwrap()];
        store.get(&context(), &name(collection), &ids).await.unwrap().into_iter().flatten().count()
    }

    /// Has many read "a", which must wait, and others read "b" and the catalogue, who must not; then lets them go on.
    async fn others_go_on(store: &EdgeStore, let_go: impl FnOnce()) {
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let store = Arc::clone(&store.vectors);
                tokio::spawn(async move { read(&store, "a").await })
            })
            .collect();
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(5)).await;
            assert_eq!(tokio::time::timeout(PATIENCE, read(&store.vectors, "b")).await, Ok(1));
        }
        let (context, third) = (context(), name("c"));
        let create = store.vectors.create(&context, &third, VectorParams::new(1, Metric::Dot));
        tokio::time::timeout(PATIENCE, create).await.unwrap().unwrap();
        let listed = store.catalog.list(&context, RecordKind::Retriever);
        assert_eq!(tokio::time::timeout(PATIENCE, listed).await.unwrap().unwrap(), []);
        assert!(readers.iter().all(|reader| !reader.is_finished()));
        let_go();
        for reader in readers {
            assert_eq!(reader.await.unwrap(), 1);
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_collection_that_is_being_opened_keeps_nobody_from_another() {
        let folder = tempfile::tempdir().unwrap();
        let store = two_collections(folder.path()).await;
        let slot = store.vectors.registry.find(&context(), &name("a")).unwrap();
        let closed = Arc::clone(&slot);
        assert!(tokio::task::spawn_blocking(move || closed.close()).await.unwrap());
        let turn = slot.turn().await;
        others_go_on(&store, || drop(turn)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_collection_whose_writer_keeps_readers_out_keeps_nobody_from_another() {
        let folder = tempfile::tempdir().unwrap();
        let store = two_collections(folder.path()).await;
        let slot = store.vectors.registry.find(&context(), &name("a")).unwrap();
        let open = store.vectors.registry.open_slot(&context(), &slot).await.unwrap();
        let nobody_reads = open.shard().exclusively();
        others_go_on(&store, || drop(nobody_reads)).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn a_collection_that_is_dropped_while_it_is_opened_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let store = two_collections(folder.path()).await;
        let slot = store.vectors.registry.find(&context(), &name("a")).unwrap();
        let closed = Arc::clone(&slot);
        assert!(tokio::task::spawn_blocking(move || closed.close()).await.unwrap());
        let turn = slot.turn().await;
        let reader = {
            let store = Arc::clone(&store.vectors);
            tokio::spawn(async move { store.get(&context(), &name("a"), &[]).await })
        };
        store.vectors.drop_collection(&context(), &name("a")).await.unwrap();
        drop(turn);
        let outcome = reader.await.unwrap();
        assert!(matches!(outcome, Err(Error::NotFound { .. })), "{outcome:?}");
    }
}
