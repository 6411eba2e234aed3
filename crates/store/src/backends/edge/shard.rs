//! One open collection as its readers and its writer share it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use qdrant_edge as engine;
use tokio::sync::watch;
use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::vector_store::RecordSink;
use toller_core::{DocumentId, Filter, Record, RequestContext, Tenant};

use super::collection_folder::CollectionFolder;
use super::commit::finish;
use super::config::EdgeConfig;
use super::disk_room::{DiskRoom, Promise};
use super::engine::set_up;
use super::error::engine_fault;
use super::journal::Journal;
use super::keywords::Frequencies;
use super::lock::FolderLock;
use super::point::{
    TermsOfPoint, document_of, id_of, metadata_of, point_id, record_of, terms_of, with_dense, with_keywords,
    with_metadata,
};
use super::pushdown::{Fields, push_down};
use super::size;
use super::unseen::Unseen;

/// Points that are read at once, between two looks at the caller's deadline; the lock is held while they are read.
pub(super) const PAGE: usize = 1024;

/// How often a read of many pages begins anew since a commit came between two of them, before the next commit has to wait.
const UNDISTURBED_ATTEMPTS: usize = 4;

/// Most indexes on metadata; fields that are filtered on later get none.
const MAX_INDEXED_FIELDS: usize = 16;

/// Records from which on an index on metadata is worth its upkeep.
const INDEX_FIELDS_FROM: usize = 1000;

/// Changes from which on it is worth asking the engine whether an index is to be built.
const OPTIMIZE_FROM: usize = 1000;

/// One open collection. Every method blocks.
///
/// The lock of `ids` is what makes a write visible as a whole: the engine shows points one by one as they are written, so
/// readers hold it while they ask the engine, and the writer while it writes. The many points of a commit are written without
/// it, and are left out of every answer until the commit is seen.
#[derive(Debug)]
pub(super) struct Shard {
    pub(super) tenant: Tenant,
    pub(super) params: VectorParams,
    pub(super) config: EdgeConfig,
    // Dropped in this order: the engine writes to the folder, and the folder may be removed with its last user.
    pub(super) engine: engine::EdgeShard,
    /// Every id, in the order of bytes: the engine knows only ids of points.
    pub(super) ids: RwLock<BTreeSet<DocumentId>>,
    /// Does the writer have the lock of `ids`, or wait for it?
    is_closed: watch::Sender<bool>,
    /// In how many records each term is. Changes while the lock of `ids` is held for writing only.
    pub(super) frequencies: RwLock<Frequencies>,
    /// What the engine has already and nobody is to see. Changes while the lock of `ids` is held for writing only.
    unseen: RwLock<Option<Unseen>>,
    /// How many commits were shown; counts while the lock of `ids` is held for writing only.
    commits: AtomicU64,
    /// Is held to keep commits from being shown, and for writing while one is.
    settled: RwLock<()>,
    indexed_fields: Mutex<Fields>,
    changes: AtomicUsize,
    /// One builder at a time: another one would find nothing to do, and return before the index is there.
    building: Mutex<()>,
    is_broken: AtomicBool,
    pub(super) folder: Arc<CollectionFolder>,
    pub(super) room: DiskRoom,
    _lock: Arc<FolderLock>,
}

impl Shard {
    /// Makes an empty collection in a folder.
    pub(super) fn create(
        folder: Arc<CollectionFolder>,
        lock: Arc<FolderLock>,
        room: DiskRoom,
        tenant: Tenant,
        params: VectorParams,
        config: EdgeConfig,
    ) -> Result<Self> {
        let engine = engine::EdgeShard::new(&folder.of_engine(), set_up(&params, &config))
            .map_err(engine_fault("making a collection"))?;
        engine.flush().map_err(engine_fault("making a collection"))?;
        Self::over(engine, folder, lock, room, tenant, params, config)
    }

    /// Opens the collection in a folder, with all that was acknowledged, and finishes a commit that was cut off. O(n) for n
    /// records.
    pub(super) fn open(
        folder: Arc<CollectionFolder>,
        lock: Arc<FolderLock>,
        room: DiskRoom,
        tenant: Tenant,
        params: VectorParams,
        config: EdgeConfig,
    ) -> Result<Self> {
        let engine = engine::EdgeShard::load(&folder.of_engine(), Some(set_up(&params, &config)))
            .map_err(engine_fault("opening a collection"))?;
        let shard = Self::over(engine, folder, lock, room, tenant, params, config)?;
        if let Some((journal, ids)) = Journal::left_in(shard.folder.path())? {
            tracing::info!(folder = %shard.folder.path().display(), "finishing a commit that was cut off");
            let _promise = shard.room.for_write(journal.bytes()?)?;
            finish(&shard, journal, ids)?;
        }
        Ok(shard)
    }

    fn over(
        engine: engine::EdgeShard,
        folder: Arc<CollectionFolder>,
        lock: Arc<FolderLock>,
        room: DiskRoom,
        tenant: Tenant,
        params: VectorParams,
        config: EdgeConfig,
    ) -> Result<Self> {
        let info = engine.info().map_err(engine_fault("opening a collection"))?;
        let fields = info.payload_schema.into_iter().map(|(path, info)| (path.to_string(), info.data_type)).collect();
        let shard = Self {
            tenant,
            params,
            config,
            engine,
            ids: RwLock::default(),
            is_closed: watch::Sender::new(false),
            frequencies: RwLock::default(),
            unseen: RwLock::default(),
            commits: AtomicU64::new(0),
            settled: RwLock::default(),
            indexed_fields: Mutex::new(fields),
            changes: AtomicUsize::new(0),
            building: Mutex::default(),
            is_broken: AtomicBool::new(false),
            folder,
            room,
            _lock: lock,
        };
        let mut ids = BTreeSet::new();
        let mut frequencies = Frequencies::default();
        let with_terms = if shard.params.keyword.is_some() { with_keywords() } else { no_vector() };
        let only_ids = engine::WithPayloadInterface::Fields(vec![path_of_id()?]);
        shard.for_each_page(
            None,
            only_ids,
            with_terms,
            |_| Ok(()),
            |points| {
                for point in points {
                    frequencies.add(terms_of(point.vector.as_ref()).terms());
                    ids.insert(id_of(point.payload.as_ref())?);
                }
                Ok(())
            },
        )?;
        shard.changes.store(ids.len(), Ordering::Relaxed);
        *shard.ids.write() = ids;
        *shard.frequencies.write() = frequencies;
        Ok(shard)
    }

    /// Records by id, aligned with the input.
    pub(super) fn get(&self, ids: &[DocumentId]) -> Result<Vec<Option<Record>>> {
        let known = self.whole()?;
        let found = self.retrieve(ids.iter().filter(|id| known.contains(*id)), true)?;
        drop(known);
        Ok(ids.iter().map(|id| found.get(id).cloned()).collect())
    }

    /// Up to `limit` matching records from an id on, and the id of the next match.
    pub(super) fn scroll(
        &self,
        filter: Option<&Filter>,
        from: Option<&DocumentId>,
        limit: usize,
        context: &RequestContext,
    ) -> Result<(Vec<Record>, Option<DocumentId>)> {
        self.undisturbed(|| self.scroll_once(filter, from.cloned(), limit, context))
    }

    fn scroll_once(
        &self,
        filter: Option<&Filter>,
        from: Option<DocumentId>,
        limit: usize,
        context: &RequestContext,
    ) -> Result<(Vec<Record>, Option<DocumentId>)> {
        let mut records: Vec<Record> = Vec::new();
        let mut bound = from.map_or(Bound::Unbounded, Bound::Included);
        loop {
            context.check("during the scroll")?;
            let missing = limit.saturating_sub(records.len()).saturating_add(1);
            let page_size = if filter.is_some() { PAGE } else { missing.min(PAGE) };
            let known = self.whole()?;
            let range = known.range::<DocumentId, _>((bound.as_ref(), Bound::Unbounded));
            let page: Vec<DocumentId> = range.take(page_size).cloned().collect();
            let wanted = match filter {
                None => page.iter().collect(),
                // Of those that do not match, nothing but their metadata is read.
                Some(filter) => {
                    let matching = self.matching_of(&page, filter)?;
                    page.iter().filter(|id| matching.contains(*id)).take(missing).collect::<Vec<_>>()
                }
            };
            let mut found = self.retrieve(wanted.into_iter(), true)?;
            drop(known);
            let is_last = page.len() < page_size;
            let Some(last_id) = page.last().cloned() else { return Ok((records, None)) };
            for id in page {
                let Some(record) = found.remove(&id) else { continue };
                if records.len() == limit {
                    return Ok((records, Some(id)));
                }
                records.push(record);
            }
            if is_last {
                return Ok((records, None));
            }
            bound = Bound::Excluded(last_id);
        }
    }

    /// Up to `limit` ids in the order of their bytes, from an id on.
    pub(super) fn ids_from(&self, from: Option<DocumentId>, limit: usize) -> Result<Vec<DocumentId>> {
        let known = self.whole()?;
        let from = from.map_or(Bound::Unbounded, Bound::Included);
        Ok(known.range::<DocumentId, _>((from.as_ref(), Bound::Unbounded)).take(limit).cloned().collect())
    }

    /// Keeps writers from showing anything, as long as the answer is held.
    ///
    /// # Errors
    /// `Unavailable` when a write failed and may be there in part.
    pub(super) fn whole(&self) -> Result<RwLockReadGuard<'_, BTreeSet<DocumentId>>> {
        let known = self.ids.read();
        if self.is_broken() {
            return Err(reopening());
        }
        Ok(known)
    }

    /// A filter for the engine that finds nothing which is not to be seen yet; the caller holds [`Self::whole`].
    pub(super) fn only_seen(&self, filter: Option<engine::Filter>) -> Option<engine::Filter> {
        match &*self.unseen.read() {
            None => filter,
            Some(unseen) => Some(unseen.left_out_of(filter)),
        }
    }

    /// Keeps readers out, for as short as may be: those that come meanwhile wait without a thread.
    pub(super) fn exclusively(&self) -> Exclusive<'_> {
        self.is_closed.send_replace(true);
        let gate = Gate(&self.is_closed);
        Exclusive { ids: self.ids.write(), _gate: gate }
    }

    /// Waits until the writer keeps nobody out. It may begin again at once; this is not to wait where it can be helped.
    pub(super) async fn readable(&self) {
        let mut is_closed = self.is_closed.subscribe();
        // It fails when the sender is gone, which is here.
        let _ = is_closed.wait_for(|is_closed| !is_closed).await;
    }

    /// Has points that are about to be written or removed left out of every answer.
    pub(super) fn hide(&self, points: Unseen, _nobody_reads: &Exclusive<'_>) {
        *self.unseen.write() = Some(points);
    }

    /// Hides nothing any more.
    pub(super) fn show_all(&self, _nobody_reads: &Exclusive<'_>) {
        *self.unseen.write() = None;
    }

    /// Counts a commit, which reads that look several times must not see half of.
    pub(super) fn count_commit(&self, _nobody_reads: &Exclusive<'_>) {
        self.commits.fetch_add(1, Ordering::Release);
    }

    /// Waits for reads that no commit may disturb; keeps others from beginning as long as the answer is held.
    pub(super) fn settle(&self) -> RwLockWriteGuard<'_, ()> {
        self.settled.write()
    }

    /// Runs a read that takes the lock of `ids` several times, so that no commit comes in between: it runs again when one did.
    pub(super) fn undisturbed<T>(&self, read: impl Fn() -> Result<T>) -> Result<T> {
        for _ in 0..UNDISTURBED_ATTEMPTS {
            let before = self.commits.load(Ordering::Acquire);
            let answer = read()?;
            if self.commits.load(Ordering::Acquire) == before {
                return Ok(answer);
            }
        }
        let _no_commit = self.settled.read();
        read()
    }

    /// How many records there are.
    pub(super) fn len(&self) -> usize {
        self.ids.read().len()
    }

    /// How many vectors an index has; about, while one is being built.
    pub(super) fn indexed_len(&self) -> Result<usize> {
        Ok(self.engine.info().map_err(engine_fault("reading the state of the index"))?.indexed_vectors_count)
    }

    /// The ids of all records that match, in no order.
    pub(super) fn matching_ids(&self, filter: &Filter, context: &RequestContext) -> Result<Vec<DocumentId>> {
        self.undisturbed(|| self.matching_ids_once(filter, context))
    }

    fn matching_ids_once(&self, filter: &Filter, context: &RequestContext) -> Result<Vec<DocumentId>> {
        let mut ids = Vec::new();
        let pushed = push_down(filter).map(|pushed| pushed.filter);
        let check = |()| context.check("while the filter was evaluated");
        self.for_each_page(pushed, with_metadata()?, no_vector(), check, |points| {
            for point in points {
                let id = id_of(point.payload.as_ref())?;
                if filter.matches(&metadata_of(point.payload)?) {
                    ids.push(id);
                }
            }
            Ok(())
        })?;
        Ok(ids)
    }

    /// Those of some ids that match; the caller holds the lock. Points that carry another id are no match.
    fn matching_of(&self, ids: &[DocumentId], filter: &Filter) -> Result<BTreeSet<DocumentId>> {
        let request = engine::RetrieveRequest {
            point_ids: ids.iter().map(|id| engine::PointId::Uuid(point_id(&self.tenant, id))).collect(),
            with_payload: Some(with_metadata()?),
            with_vector: Some(no_vector()),
        };
        let mut matching = BTreeSet::new();
        for point in self.engine.retrieve(request).map_err(engine_fault("reading points"))? {
            let id = id_of(point.payload.as_ref())?;
            if filter.matches(&metadata_of(point.payload)?) {
                matching.insert(id);
            }
        }
        Ok(matching)
    }

    /// Hands every record to `sink`; called by the writer, so that nothing changes meanwhile. Returns how many there were.
    pub(super) fn snapshot(&self, mut sink: RecordSink, context: &RequestContext) -> Result<u64> {
        let mut count = 0;
        let check = |()| context.check("while records were read");
        let everything = engine::WithPayloadInterface::Bool(true);
        self.for_each_page(None, everything, with_dense(&self.params), check, |points| {
            let record = |point: engine::Record| record_of(document_of(point.payload)?, point.vector, &self.params);
            let records = points.into_iter().map(record).collect::<Result<Vec<_>>>()?;
            count += records.len() as u64;
            sink(records)
        })?;
        Ok(count)
    }

    /// Hands all points that pass `filter` to `visit`, page by page. A point that is written meanwhile comes once, as it was
    /// before or after.
    pub(super) fn for_each_page(
        &self,
        filter: Option<engine::Filter>,
        with_payload: engine::WithPayloadInterface,
        with_vector: engine::WithVector,
        check: impl Fn(()) -> Result<()>,
        mut visit: impl FnMut(Vec<engine::Record>) -> Result<()>,
    ) -> Result<()> {
        let mut offset = None;
        loop {
            check(())?;
            let request = engine::ScrollRequest {
                offset,
                limit: Some(PAGE),
                filter: filter.clone(),
                with_payload: Some(with_payload.clone()),
                with_vector: with_vector.clone(),
                order_by: None,
            };
            let (points, next) = {
                let _whole_writes = self.whole()?;
                let (mut points, next) = self.engine.scroll(request).map_err(engine_fault("reading points"))?;
                if let Some(unseen) = &*self.unseen.read() {
                    points.retain(|point| !unseen.contains(&point.id));
                }
                (points, next)
            };
            visit(points)?;
            match next {
                Some(next) => offset = Some(next),
                None => return Ok(()),
            }
        }
    }

    /// Records by id; the caller holds the lock. A point that carries another id is another record: it is not given out.
    fn retrieve<'a>(
        &self,
        ids: impl Iterator<Item = &'a DocumentId>,
        with_vector: bool,
    ) -> Result<BTreeMap<DocumentId, Record>> {
        let points = ids.map(|id| engine::PointId::Uuid(point_id(&self.tenant, id))).collect();
        let request = engine::RetrieveRequest {
            point_ids: points,
            with_payload: Some(engine::WithPayloadInterface::Bool(true)),
            with_vector: Some(if with_vector { with_dense(&self.params) } else { no_vector() }),
        };
        let mut records = BTreeMap::new();
        for point in self.engine.retrieve(request).map_err(engine_fault("reading points"))? {
            let document = document_of(point.payload)?;
            records.insert(document.id.clone(), record_of(document, point.vector, &self.params)?);
        }
        Ok(records)
    }

    /// The terms of records that are there, record after record; what is indexed for keyword search and nothing else has any.
    pub(super) fn terms(&self, ids: &[DocumentId]) -> Result<Vec<TermsOfPoint>> {
        if self.params.keyword.is_none() || ids.is_empty() {
            return Ok(Vec::new());
        }
        let points = ids.iter().map(|id| engine::PointId::Uuid(point_id(&self.tenant, id))).collect();
        let request = engine::RetrieveRequest {
            point_ids: points,
            with_payload: Some(engine::WithPayloadInterface::Bool(false)),
            with_vector: Some(with_keywords()),
        };
        let found = self.engine.retrieve(request).map_err(engine_fault("reading points"))?;
        Ok(found.into_iter().map(|point| terms_of(point.vector.as_ref())).collect())
    }

    /// The ids that stand in the points of `ids`, where there are such points.
    pub(super) fn ids_in_points(&self, points: Vec<engine::PointId>) -> Result<Vec<(engine::PointId, DocumentId)>> {
        let request = engine::RetrieveRequest {
            point_ids: points,
            with_payload: Some(engine::WithPayloadInterface::Fields(vec![path_of_id()?])),
            with_vector: Some(engine::WithVector::Bool(false)),
        };
        let found = self.engine.retrieve(request).map_err(engine_fault("reading points"))?;
        found.into_iter().map(|point| Ok((point.id, id_of(point.payload.as_ref())?))).collect()
    }

    /// Those of `fields` that should get an index and have none; they count as indexed from now on.
    pub(super) fn fields_to_index(&self, fields: Fields) -> Fields {
        if self.len() < INDEX_FIELDS_FROM {
            return Fields::new();
        }
        let mut indexed = self.indexed_fields.lock();
        let mut missing = Fields::new();
        for (path, kind) in fields {
            if indexed.len() < MAX_INDEXED_FIELDS && !indexed.contains_key(&path) {
                indexed.insert(path.clone(), kind);
                missing.insert(path, kind);
            }
        }
        missing
    }

    /// Takes back what [`Self::fields_to_index`] gave, so that it is tried again.
    pub(super) fn forget_fields(&self, fields: &Fields) {
        let mut indexed = self.indexed_fields.lock();
        for path in fields.keys() {
            indexed.remove(path);
        }
    }

    /// Notes how many points were written or deleted.
    pub(super) fn changed(&self, points: usize) {
        self.changes.fetch_add(points, Ordering::Relaxed);
    }

    /// Has so much changed that the engine should look for something to build?
    pub(super) fn wants_index(&self) -> bool {
        let changes = self.changes.load(Ordering::Relaxed);
        // This is asked on threads that must not wait for the writer.
        changes >= OPTIMIZE_FROM && self.ids.try_read().is_none_or(|ids| changes >= ids.len() / 10)
    }

    /// Builds what is to be built; returns whether that was anything. Readers and the writer go on meanwhile.
    pub(super) fn build_index(&self) -> Result<bool> {
        let _turn = self.building.lock();
        let _promise = self.room_for_index()?;
        self.changes.store(0, Ordering::Relaxed);
        self.engine.optimize().map_err(engine_fault("building an index"))
    }

    /// Segments are written anew, with their texts, and the old ones go when that is done.
    fn room_for_index(&self) -> Result<Promise> {
        // Where there is too little for anything, nobody need count.
        let mut promise = self.room.for_write(0)?;
        promise.grow(size::of_folder(&self.folder.of_engine()) / 2, 0)?;
        Ok(promise)
    }

    /// Says that the engine failed within a write: what it holds in RAM may be a part of it. Opening the collection again
    /// puts that right from the log.
    pub(super) fn set_broken(&self) {
        self.is_broken.store(true, Ordering::Release);
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken.load(Ordering::Acquire)
    }
}

/// The ids of a shard, while nobody reads.
pub(super) struct Exclusive<'a> {
    // Dropped in this order.
    ids: RwLockWriteGuard<'a, BTreeSet<DocumentId>>,
    _gate: Gate<'a>,
}

impl Deref for Exclusive<'_> {
    type Target = BTreeSet<DocumentId>;

    fn deref(&self) -> &Self::Target {
        &self.ids
    }
}

impl DerefMut for Exclusive<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.ids
    }
}

/// Says that readers may come again when it is dropped.
struct Gate<'a>(&'a watch::Sender<bool>);

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

/// The collection cannot be used before it is opened again.
pub(super) fn reopening() -> Error {
    Error::Unavailable("the collection is being opened again after a fault; retry".to_owned())
}

fn no_vector() -> engine::WithVector {
    engine::WithVector::Bool(false)
}

fn path_of_id() -> Result<engine::JsonPath> {
    super::point::ID.parse().map_err(|()| Error::Internal("the path of ids cannot be parsed".to_owned()))
}
