//! Records by vector, in Qdrant.

use async_trait::async_trait;
use toller_core::collection::{Durability, VectorParams};
use toller_core::error::{Error, Result};
use toller_core::keyword::{KeywordSearch, keyword_not_indexed};
use toller_core::vector_store::{Applied, ChangeSet, RecordSink, ScoredRecord, ScrollPage, Selector, VectorSearch};
use toller_core::{CollectionName, DocumentId, Filter, Record, RequestContext, VectorStore};
use tracing::Instrument;

use super::draft::Change;
use super::entries::EntryKey;
use super::patience::Patience;
use super::point::Prepared;
use super::record::{Snapshot, VECTORS, key_of};
use super::rows::Rows;
use super::shared::Shared;
use super::{change_set, keywords, ordered, physical, search};
use crate::backends::checks::{already_exists, check_params, check_query, check_records};

/// Keeps records in a Qdrant server or cluster. See the [module](super).
///
/// Order is total: better score, then id bytes. For cosine, vectors come back with unit length.
#[derive(Debug)]
pub struct QdrantVectorStore {
    shared: Shared,
}

impl QdrantVectorStore {
    pub(super) fn new(shared: Shared) -> Self {
        Self { shared }
    }

    /// The rows of a snapshot, for a caller.
    fn rows<'a>(&'a self, context: &'a RequestContext, snapshot: &'a Snapshot) -> Rows<'a> {
        Rows { client: &self.shared.client, snapshot, patience: Patience::Of(context) }
    }

    fn want_indexes(&self, snapshot: &Snapshot, filter: Option<&Filter>) {
        self.shared.field_indexes.want(&self.shared.client, snapshot, filter);
    }

    async fn change(
        &self,
        context: &RequestContext,
        key: &EntryKey,
        snapshot: Snapshot,
        change: Change,
    ) -> Result<u64> {
        self.shared.writers.change(&self.shared, context, key, snapshot.instance, change).await
    }
}

fn key(context: &RequestContext, collection: &CollectionName) -> EntryKey {
    key_of(VECTORS, context.tenant(), collection)
}

#[async_trait]
impl VectorStore for QdrantVectorStore {
    fn backend(&self) -> &'static str {
        "qdrant"
    }

    /// The server writes a log before it answers, which it does not flush for each write.
    fn durability(&self) -> Durability {
        Durability::Process
    }

    async fn create(&self, context: &RequestContext, collection: &CollectionName, params: VectorParams) -> Result<()> {
        check_params(&params)?;
        let name = physical::name_of(&self.shared.config.prefix, collection, &params)?;
        if self.shared.create(context, &key(context, collection), name, params, true).await? {
            return Ok(());
        }
        Err(already_exists(collection))
    }

    async fn drop_collection(&self, context: &RequestContext, collection: &CollectionName) -> Result<()> {
        self.shared.drop_collection(context, &key(context, collection)).await
    }

    async fn params(&self, context: &RequestContext, collection: &CollectionName) -> Result<VectorParams> {
        Ok(self.shared.snapshot(context, &key(context, collection)).await?.params)
    }

    async fn upsert(&self, context: &RequestContext, collection: &CollectionName, records: Vec<Record>) -> Result<()> {
        let key = key(context, collection);
        let snapshot = self.shared.snapshot(context, &key).await?;
        let params = snapshot.params.clone();
        let prepare = move || -> Result<Vec<Prepared>> {
            check_records(&params, &records)?;
            Ok(records.into_iter().map(|record| Prepared::new(record, &params)).collect())
        };
        let prepared = tokio::task::spawn_blocking(prepare)
            .await
            .map_err(|fault| Error::Internal(format!("records could not be made ready: {fault}")))??;
        if !prepared.is_empty() {
            self.change(context, &key, snapshot, Change::Upsert(prepared)).await?;
        }
        Ok(())
    }

    async fn delete(&self, context: &RequestContext, collection: &CollectionName, selector: &Selector) -> Result<u64> {
        let key = key(context, collection);
        let snapshot = self.shared.snapshot(context, &key).await?;
        let change = match selector {
            Selector::Ids(ids) if ids.is_empty() => return Ok(0),
            Selector::Ids(ids) => Change::Delete(ids.clone()),
            Selector::Filter(filter) => Change::DeleteMatching(filter.clone(), context.clone()),
            Selector::All => Change::DeleteAll,
        };
        self.change(context, &key, snapshot, change).await
    }

    async fn apply(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        changes: ChangeSet,
    ) -> Result<Applied> {
        let key = key(context, collection);
        let snapshot = self.shared.snapshot(context, &key).await?;
        let (shared, context) = (self.shared.clone(), context.clone());
        // A caller who goes away must not leave the others waiting for the end of a turn.
        let commit = async move { change_set::apply(&shared, &context, &key, &snapshot.instance, changes).await }
            .in_current_span();
        tokio::spawn(commit).await.map_err(|fault| Error::Internal(format!("a commit ended early: {fault}")))?
    }

    async fn ids(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentId>> {
        let key = key(context, collection);
        let snapshot = self.shared.snapshot(context, &key).await?;
        let ids = ordered::ids(self.rows(context, &snapshot), from, limit).await?;
        self.shared.confirm(context, &key, &snapshot).await?;
        Ok(ids)
    }

    async fn get(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Record>>> {
        let key = key(context, collection);
        let snapshot = self.shared.snapshot(context, &key).await?;
        let found = self.rows(context, &snapshot).get(ids).await?;
        self.shared.confirm(context, &key, &snapshot).await?;
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    async fn search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: VectorSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        let key = key(context, collection);
        let snapshot = self.shared.snapshot(context, &key).await?;
        let space = check_query(&snapshot.params, search.using, search.vector)?;
        self.want_indexes(&snapshot, search.filter);
        let is_exact = self.shared.config.exact;
        let hits = search::search(self.rows(context, &snapshot), search, space.metric, is_exact).await?;
        self.shared.confirm(context, &key, &snapshot).await?;
        Ok(hits)
    }

    async fn keyword_search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: KeywordSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        let key = key(context, collection);
        let snapshot = self.shared.snapshot(context, &key).await?;
        let keyword = snapshot.params.keyword.ok_or_else(|| keyword_not_indexed(collection))?;
        self.want_indexes(&snapshot, search.filter);
        let hits = keywords::search(self.rows(context, &snapshot), keyword, &search, context).await?;
        self.shared.confirm(context, &key, &snapshot).await?;
        Ok(hits)
    }

    async fn scroll(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<ScrollPage> {
        let key = key(context, collection);
        let snapshot = self.shared.snapshot(context, &key).await?;
        let (records, next) = ordered::scroll(self.rows(context, &snapshot), filter, from, limit).await?;
        self.shared.confirm(context, &key, &snapshot).await?;
        Ok(ScrollPage { records, next })
    }

    async fn snapshot(&self, context: &RequestContext, collection: &CollectionName, sink: RecordSink) -> Result<u64> {
        let key = key(context, collection);
        let snapshot = self.shared.snapshot(context, &key).await?;
        let count = self.rows(context, &snapshot).pour(sink).await?;
        self.shared.confirm(context, &key, &snapshot).await?;
        Ok(count)
    }

    async fn count(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
    ) -> Result<u64> {
        let key = key(context, collection);
        let snapshot = self.shared.snapshot(context, &key).await?;
        let Some(filter) = filter else { return Ok(snapshot.len) };
        self.want_indexes(&snapshot, Some(filter));
        let matching = self.rows(context, &snapshot).matching_ids(filter).await?;
        self.shared.confirm(context, &key, &snapshot).await?;
        Ok(matching.len() as u64)
    }
}
