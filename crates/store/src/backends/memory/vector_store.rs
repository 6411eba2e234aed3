//! Records by vector, in RAM, with exact search.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::RwLock;
use toller_core::collection::{Durability, VectorParams};
use toller_core::error::{Error, Result};
use toller_core::keyword::{KeywordSearch, keyword_not_indexed};
use toller_core::vector_store::{Applied, ChangeSet, RecordSink, ScoredRecord, ScrollPage, Selector, VectorSearch};
use toller_core::{CollectionName, DocumentId, Filter, Record, RequestContext, VectorStore};

use super::block::Row;
use super::keyword_scan;
use super::offload::{STEPS_PER_FILTERED_ROW, STEPS_PER_POSTING, STEPS_PER_TEXT_BYTE, STEPS_PER_UNINDEXED_ROW, run};
use super::postings::NewPostings;
use super::rows::Rows;
use super::scan;
use super::spaces::Spaces;
use super::table::{Selection, Table};
use crate::backends::CollectionKey;
use crate::backends::checks::{CheckedIds, already_exists, check_params, check_query, not_found};
use crate::keyword::{Analyzer, TermWeight, document_vector, query_vector};

/// Ids that a filtered scroll takes from the index at once, between two looks at the caller's deadline.
const SCROLL_BATCH: usize = 1024;

/// Keeps records in RAM and scans them all for every search by vector: exact, at a cost of O(n·d). A keyword search
/// reads what an inverted index has of its terms, and is exact too.
///
/// Order is total: better score, then insertion order. A replaced record keeps its place. See the
/// [module](super) for how readers and writers share a collection.
#[derive(Debug, Default)]
pub struct MemoryVectorStore {
    pub(super) collections: RwLock<BTreeMap<CollectionKey, Arc<Collection>>>,
}

/// One collection of one tenant.
#[derive(Debug)]
pub(super) struct Collection {
    pub(super) params: VectorParams,
    pub(super) spaces: Arc<Spaces>,
    pub(super) table: RwLock<Table>,
}

impl Collection {
    pub(super) fn new(params: VectorParams) -> Self {
        let spaces = Arc::new(Spaces::new(&params));
        let table = RwLock::new(Table::new(&params, Arc::clone(&spaces)));
        Self { params, spaces, table }
    }

    /// Elements of a record with a vector in every space.
    fn width(&self) -> usize {
        self.spaces.width()
    }

    /// How much work it is to make rows of records, and to write them.
    fn steps_of(&self, records: &[Record]) -> usize {
        let text_bytes: usize = match self.params.keyword {
            Some(_) => records.iter().map(|record| record.document.page_content.len()).sum(),
            None => 0,
        };
        records.len() * self.width() + text_bytes * STEPS_PER_TEXT_BYTE
    }
}

/// Rows that are about to be written, with what is cached beside them.
#[derive(Debug, Default)]
struct NewRows {
    ids: CheckedIds,
    rows: Vec<Row>,
    vectors_of_terms: Vec<Vec<TermWeight>>,
}

impl NewRows {
    /// Checks records against the collection and those that came before, and takes them.
    fn take(&mut self, collection: &Collection, records: Vec<Record>) -> Result<()> {
        self.ids.check(&collection.params, &records)?;
        self.rows.reserve(records.len());
        for record in records {
            self.vectors_of_terms.extend(vector_of_terms(&collection.params, &record.document.page_content));
            self.rows.push(collection.spaces.row(record));
        }
        Ok(())
    }
}

/// The vector of a text for keyword search; none where the collection has no index for it.
pub(super) fn vector_of_terms(params: &VectorParams, text: &str) -> Option<Vec<TermWeight>> {
    Some(document_vector(Analyzer::new(params.keyword?.language), text))
}

impl MemoryVectorStore {
    /// A store without collections.
    pub fn new() -> Self {
        Self::default()
    }

    fn find(&self, context: &RequestContext, name: &CollectionName) -> Result<Arc<Collection>> {
        let collections = self.collections.read();
        collections.get(&key(context, name)).map(Arc::clone).ok_or_else(|| not_found(name))
    }
}

fn key(context: &RequestContext, name: &CollectionName) -> CollectionKey {
    (context.tenant().clone(), name.clone())
}

#[async_trait]
impl VectorStore for MemoryVectorStore {
    fn backend(&self) -> &'static str {
        "memory"
    }

    fn durability(&self) -> Durability {
        Durability::None
    }

    async fn create(&self, context: &RequestContext, collection: &CollectionName, params: VectorParams) -> Result<()> {
        check_params(&params)?;
        if params.quantization.is_some() {
            return Err(Error::invalid(
                "quantization",
                "the memory store keeps vectors in full only; the edge store has it (store.backend = \"edge\")",
            ));
        }
        let mut collections = self.collections.write();
        let key = key(context, collection);
        if collections.contains_key(&key) {
            return Err(already_exists(collection));
        }
        collections.insert(key, Arc::new(Collection::new(params)));
        Ok(())
    }

    async fn drop_collection(&self, context: &RequestContext, collection: &CollectionName) -> Result<()> {
        let removed = self.collections.write().remove(&key(context, collection));
        let removed = removed.ok_or_else(|| not_found(collection))?;
        // Freeing gigabytes takes long.
        let steps = removed.table.read().len() * removed.width();
        run(steps, move || {
            drop(removed);
            Ok(())
        })
        .await
    }

    async fn params(&self, context: &RequestContext, collection: &CollectionName) -> Result<VectorParams> {
        Ok(self.find(context, collection)?.params.clone())
    }

    async fn upsert(&self, context: &RequestContext, collection: &CollectionName, records: Vec<Record>) -> Result<()> {
        let collection = self.find(context, collection)?;
        context.check("before the write")?;
        run(collection.steps_of(&records), move || {
            let mut new = NewRows::default();
            new.take(&collection, records)?;
            let postings = NewPostings::new(&new.vectors_of_terms);
            collection.table.write().upsert(new.rows, postings);
            Ok(())
        })
        .await
    }

    async fn delete(&self, context: &RequestContext, collection: &CollectionName, selector: &Selector) -> Result<u64> {
        let collection = self.find(context, collection)?;
        context.check("before the delete")?;
        match selector {
            Selector::Ids(ids) if collection.params.keyword.is_none() => Ok(collection.table.write().remove(ids)),
            Selector::Ids(ids) => {
                let ids = ids.clone();
                let steps = ids.len() * STEPS_PER_UNINDEXED_ROW;
                run(steps, move || Ok(collection.table.write().remove(&ids))).await
            }
            Selector::All => {
                let old = {
                    let mut table = collection.table.write();
                    let empty = table.emptied(&collection.params, Arc::clone(&collection.spaces));
                    std::mem::replace(&mut *table, empty)
                };
                run(old.len() * collection.width(), move || Ok(old.len() as u64)).await
            }
            Selector::Filter(filter) => {
                let rows = collection.table.read().snapshot();
                let (filter, context) = (filter.clone(), context.clone());
                run(rows.live() * STEPS_PER_FILTERED_ROW, move || {
                    let selection = Selection::new(rows, &filter, &context)?;
                    let mut table = collection.table.write();
                    let ids = selection.in_present_state(&table, &filter);
                    Ok(table.remove(&ids))
                })
                .await
            }
        }
    }

    async fn apply(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        changes: ChangeSet,
    ) -> Result<Applied> {
        let collection = self.find(context, collection)?;
        let ChangeSet { delete, mut upsert } = changes;
        let (mut new, mut steps) = (NewRows::default(), delete.len() * STEPS_PER_UNINDEXED_ROW);
        while let Some(records) = upsert.next().await? {
            context.check("before the write")?;
            let steps_of_these = collection.steps_of(&records);
            steps += steps_of_these;
            let owner = Arc::clone(&collection);
            new = run(steps_of_these, move || {
                new.take(&owner, records)?;
                Ok(new)
            })
            .await?;
        }
        context.check("before the write")?;
        run(steps, move || {
            let NewRows { ids, rows, vectors_of_terms } = new;
            let delete: Vec<DocumentId> = ids.others(delete).into_iter().collect();
            let (upserted, postings) = (rows.len() as u64, NewPostings::new(&vectors_of_terms));
            let deleted = collection.table.write().apply(&delete, rows, postings);
            Ok(Applied { upserted, deleted })
        })
        .await
    }

    async fn ids(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentId>> {
        let collection = self.find(context, collection)?;
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        let ids = collection.table.read().ids_from(from, limit);
        Ok(ids.into_iter().map(|(id, _)| id).collect())
    }

    async fn get(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Record>>> {
        let collection = self.find(context, collection)?;
        let (rows, positions) = {
            let table = collection.table.read();
            let positions: Vec<_> = ids.iter().map(|id| table.position(id)).collect();
            (table.snapshot(), positions)
        };
        positions.into_iter().map(|position| position.map_or(Ok(None), |position| rows.record(position))).collect()
    }

    async fn search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: VectorSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        let collection = self.find(context, collection)?;
        let space = check_query(&collection.params, search.using, search.vector)?;
        context.check("before the search")?;
        let rows = collection.table.read().snapshot();
        if search.limit == 0 || rows.live() == 0 {
            return Ok(Vec::new());
        }
        let filter_steps = if search.filter.is_some() { STEPS_PER_FILTERED_ROW } else { 0 };
        let steps = rows.live() * (space.dimension as usize + filter_steps);
        let (vector, using) = (search.vector.clone(), search.using.cloned());
        let (filter, limit, context) = (search.filter.cloned(), search.limit, context.clone());
        run(steps, move || scan::search(&rows, &vector, using.as_ref(), filter.as_ref(), limit, &context)).await
    }

    async fn keyword_search(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        search: KeywordSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        let found = self.find(context, collection)?;
        let keyword = found.params.keyword.ok_or_else(|| keyword_not_indexed(collection))?;
        context.check("before the search")?;
        if search.limit == 0 {
            return Ok(Vec::new());
        }
        let text = search.text.to_owned();
        let analysis = move || Ok(query_vector(Analyzer::new(keyword.language), &text));
        let query = run(search.text.len() * STEPS_PER_TEXT_BYTE, analysis).await?;
        let Some(snapshot) = found.table.read().keyword_snapshot(&query) else {
            return Err(keyword_not_indexed(collection));
        };
        let filter_steps = if search.filter.is_some() { STEPS_PER_FILTERED_ROW } else { 0 };
        let steps = snapshot.postings() * (STEPS_PER_POSTING + filter_steps);
        let (filter, limit, context) = (search.filter.cloned(), search.limit, context.clone());
        run(steps, move || keyword_scan::search(&snapshot, filter.as_ref(), limit, &context)).await
    }

    async fn scroll(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<ScrollPage> {
        let collection = self.find(context, collection)?;
        let steps = match filter {
            Some(_) => collection.table.read().len() * STEPS_PER_FILTERED_ROW,
            None => limit.saturating_mul(collection.width()),
        };
        let (filter, from, context) = (filter.cloned(), from.cloned(), context.clone());
        run(steps, move || scroll(&collection, filter.as_ref(), from, limit, &context)).await
    }

    async fn snapshot(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        mut sink: RecordSink,
    ) -> Result<u64> {
        let collection = self.find(context, collection)?;
        let rows = collection.table.read().snapshot();
        let context = context.clone();
        // The sink may block, however few rows there are.
        run(usize::MAX, move || {
            let mut count = 0;
            for numbered in rows.blocks() {
                context.check("while records were read")?;
                let slots = 0..numbered.block.sequences().len();
                let records = slots.filter_map(|slot| rows.spaces().record_of(&numbered.block, slot).transpose());
                let records = records.collect::<Result<Vec<_>>>()?;
                count += records.len() as u64;
                sink(records)?;
            }
            Ok(count)
        })
        .await
    }

    async fn count(
        &self,
        context: &RequestContext,
        collection: &CollectionName,
        filter: Option<&Filter>,
    ) -> Result<u64> {
        let collection = self.find(context, collection)?;
        let rows = collection.table.read().snapshot();
        let Some(filter) = filter.cloned() else { return Ok(rows.live() as u64) };
        let context = context.clone();
        run(rows.live() * STEPS_PER_FILTERED_ROW, move || scan::count(&rows, &filter, &context)).await
    }
}

/// Walks the ordered index in batches, all of them between the same two commits; the lock is held while a batch of ids is copied, not while the filter is evaluated.
fn scroll(
    collection: &Collection,
    filter: Option<&Filter>,
    from: Option<DocumentId>,
    limit: usize,
    context: &RequestContext,
) -> Result<ScrollPage> {
    let mut records = Vec::new();
    let start = from.map_or(Bound::Unbounded, Bound::Included);
    let mut bound = start.clone();
    let (mut commits, mut most) = (None, SCROLL_BATCH);
    loop {
        context.check("during the scroll")?;
        let missing = limit.saturating_sub(records.len()).saturating_add(1);
        let batch_size = if filter.is_some() { most } else { missing.min(most) };
        let (rows, batch): (Arc<Rows>, Vec<_>) = {
            let table = collection.table.read();
            if *commits.get_or_insert(table.commits()) != table.commits() {
                // A page is not of both sides of a commit: again, with all ids at once.
                (commits, most, bound) = (None, usize::MAX, start.clone());
                records.clear();
                continue;
            }
            (table.snapshot(), table.ids_from(bound.as_ref(), batch_size))
        };
        let is_last = batch.len() < batch_size;
        let Some((last_id, _)) = batch.last().cloned() else { return Ok(ScrollPage { records, next: None }) };
        for (id, position) in batch {
            let Some(document) = rows.document(position) else { continue };
            if filter.is_some_and(|filter| !filter.matches(&document.metadata)) {
                continue;
            }
            if records.len() == limit {
                return Ok(ScrollPage { records, next: Some(id) });
            }
            records.extend(rows.record(position)?);
        }
        if is_last {
            return Ok(ScrollPage { records, next: None });
        }
        bound = Bound::Excluded(last_id);
    }
}
