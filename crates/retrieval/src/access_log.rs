//! When documents were last found, for the retriever that prefers what is recent.
//!
//! The moments are kept in the document store, as documents without a text that have the ids of those that were found. A retrieval
//! never waits for one to be written and never fails by it: moments are noted in memory, where later retrievals of this process see
//! them at once, and a task writes what was noted meanwhile, some time later and many in one write. What an ending process has not
//! written yet is [flushed](AccessLog::flush); one that is killed loses the moments of the last second.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use toller_core::{
    CollectionName, Document, DocumentId, DocumentStore, Error, Metadata, Principal, RequestContext, Result, Role,
    ScoredDocument, Tenant, Value,
};

use crate::timestamp::unix_seconds;

/// What a log's name begins with in the document store, so that no set of parents is taken for one.
const PREFIX: &str = "access-log.";
/// Where the moment is in a document's metadata: seconds since 1970-01-01 UTC.
const MOMENT: &str = "last_accessed_at";
/// Moments that wait to be written, of all tenants; further ones are lost, and told in the log. Some megabytes, with long ids.
const MAX_PENDING: usize = 20_000;
/// Documents of one write.
const WRITE_DOCUMENTS: usize = 1000;

/// How fast moments are written.
#[derive(Debug, Clone, Copy)]
struct Pace {
    /// How long they are collected before.
    delay: Duration,
    /// Longest time for one write.
    timeout: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self { delay: Duration::from_secs(1), timeout: Duration::from_secs(10) }
    }
}

/// The access logs of all tenants. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct AccessLog(Arc<Shared>);

/// One log of one tenant.
type Place = (Tenant, CollectionName);

struct Shared {
    pace: Pace,
    documents: Arc<dyn DocumentStore>,
    pending: Mutex<Pending>,
    /// One writer at a time, so that an older moment never overwrites a newer one.
    writing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Pending {
    moments: BTreeMap<Place, BTreeMap<DocumentId, f64>>,
    count: usize,
    /// Since the last write.
    lost: usize,
    /// Is there a task that will write?
    is_scheduled: bool,
}

impl AccessLog {
    /// Logs in `documents`.
    pub fn new(documents: Arc<dyn DocumentStore>) -> Self {
        Self::at_pace(documents, Pace::default())
    }

    fn at_pace(documents: Arc<dyn DocumentStore>, pace: Pace) -> Self {
        let (pending, writing) = (Mutex::default(), tokio::sync::Mutex::default());
        Self(Arc::new(Shared { pace, documents, pending, writing }))
    }

    /// The name in the document store of the log that a declaration calls `name`.
    ///
    /// # Errors
    /// Says that it is too long.
    pub(crate) fn stored_name(name: &CollectionName) -> Result<CollectionName, String> {
        CollectionName::new(&format!("{PREFIX}{name}"))
    }

    /// When each of `hits` was last found, in seconds since 1970-01-01 UTC; none for those that never were.
    ///
    /// # Errors
    /// What the document store reports.
    pub(crate) async fn last(
        &self,
        context: &RequestContext,
        log: &CollectionName,
        hits: &[ScoredDocument],
    ) -> Result<Vec<Option<f64>>> {
        let ids: Vec<DocumentId> = hits.iter().map(|hit| hit.document.id.clone()).collect();
        // Before the store is read: what is written in between is then seen in either.
        let noted = self.0.noted(context, log, &ids);
        let stored = self.0.documents.get(context, log, &ids).await?;
        let of_document = |document: &Document| document.metadata.get(MOMENT).and_then(unix_seconds);
        let stored = stored.iter().map(|document| document.as_ref().and_then(of_document));
        Ok(stored.zip(noted).map(|(stored, noted)| later(stored, noted)).collect())
    }

    /// Notes that `hits` were found at `moment`, in seconds since 1970-01-01 UTC. Waits for nothing.
    pub(crate) fn record(&self, context: &RequestContext, log: &CollectionName, hits: &[ScoredDocument], moment: f64) {
        let mut guard = self.0.pending.lock();
        let pending = &mut *guard;
        let moments = pending.moments.entry((context.tenant().clone(), log.clone())).or_default();
        for hit in hits {
            let id = &hit.document.id;
            match moments.get_mut(id) {
                Some(known) => *known = known.max(moment),
                None if pending.count >= MAX_PENDING => pending.lost += 1,
                None => {
                    moments.insert(id.clone(), moment);
                    pending.count += 1;
                }
            }
        }
        if !pending.is_scheduled
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            pending.is_scheduled = true;
            runtime.spawn(write_later(Arc::downgrade(&self.0), self.0.pace.delay));
        }
    }

    /// Writes what was noted and is not written yet. For the end of a process, after its last request.
    ///
    /// # Errors
    /// What the document store reports; then moments are left, and may be flushed again.
    pub async fn flush(&self) -> Result<()> {
        self.0.write().await
    }
}

impl Shared {
    /// What is noted of these documents and may not be written yet.
    fn noted(&self, context: &RequestContext, log: &CollectionName, ids: &[DocumentId]) -> Vec<Option<f64>> {
        let pending = self.pending.lock();
        let moments = pending.moments.get(&(context.tenant().clone(), log.clone()));
        ids.iter().map(|id| moments?.get(id).copied()).collect()
    }

    /// Writes what was noted before it began. Moments stay noted until they are written.
    async fn write(&self) -> Result<()> {
        let _turn = self.writing.lock().await;
        let noted: Vec<(Place, Vec<(DocumentId, f64)>)> = {
            let mut pending = self.pending.lock();
            let lost = std::mem::take(&mut pending.lost);
            if lost > 0 {
                tracing::warn!(
                    lost,
                    limit = MAX_PENDING,
                    "moments of access were not recorded, too many waited to be written"
                );
            }
            let moments = pending.moments.iter();
            moments.map(|(place, moments)| (place.clone(), moments.clone().into_iter().collect())).collect()
        };
        for (place, moments) in noted {
            for batch in moments.chunks(WRITE_DOCUMENTS) {
                self.put(&place, batch).await?;
                self.forget(&place, batch);
            }
        }
        Ok(())
    }

    async fn put(&self, (tenant, log): &Place, batch: &[(DocumentId, f64)]) -> Result<()> {
        let principal = Principal { name: "access log".into(), tenant: tenant.clone(), role: Role::Writer };
        let context = RequestContext::new(principal).with_deadline(Instant::now().checked_add(self.pace.timeout));
        let document = |(id, moment): &(DocumentId, f64)| Document {
            id: id.clone(),
            page_content: String::new(),
            metadata: Metadata::from([(MOMENT.to_owned(), Value::Double(*moment))]),
        };
        let put = self.documents.put(&context, log, batch.iter().map(document).collect());
        let in_time = tokio::time::timeout(self.pace.timeout, put).await;
        in_time.unwrap_or(Err(Error::DeadlineExceeded("while moments of access were written")))
    }

    /// Takes out what was written, unless it was noted anew meanwhile.
    fn forget(&self, place: &Place, written: &[(DocumentId, f64)]) {
        let mut guard = self.pending.lock();
        let pending = &mut *guard;
        let Some(moments) = pending.moments.get_mut(place) else { return };
        for (id, moment) in written {
            if moments.get(id) == Some(moment) {
                moments.remove(id);
                pending.count -= 1;
            }
        }
        if moments.is_empty() {
            pending.moments.remove(place);
        }
    }
}

/// Writes until nothing is left. After a failure it ends, and the next moment that is noted begins anew; a log that nobody has any
/// more is not kept alive.
async fn write_later(shared: Weak<Shared>, delay: Duration) {
    loop {
        tokio::time::sleep(delay).await;
        let Some(shared) = shared.upgrade() else { return };
        let written = shared.write().await;
        if let Err(error) = &written {
            tracing::warn!(%error, "moments of access could not be written; they are kept for the next time");
        }
        let mut pending = shared.pending.lock();
        if written.is_err() || pending.moments.is_empty() {
            pending.is_scheduled = false;
            return;
        }
    }
}

fn later(left: Option<f64>, right: Option<f64>) -> Option<f64> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.max(right)),
        (left, right) => left.or(right),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use async_trait::async_trait;
    use toller_core::DocumentStore;
    use toller_core::document_store::DocumentSink;
    use toller_store::MemoryStore;

    use super::*;

    /// A store in RAM whose writes fail or never end while it is told so.
    struct Moody {
        inner: Arc<dyn DocumentStore>,
        is_broken: AtomicBool,
        is_stuck: AtomicBool,
        puts: AtomicUsize,
    }

    impl Moody {
        fn new() -> Arc<Self> {
            let inner = MemoryStore::new().documents as Arc<dyn DocumentStore>;
            let (is_broken, is_stuck) = (AtomicBool::new(false), AtomicBool::new(false));
            Arc::new(Self { inner, is_broken, is_stuck, puts: AtomicUsize::new(0) })
        }
    }

    #[async_trait]
    impl DocumentStore for Moody {
        async fn put(&self, context: &RequestContext, name: &CollectionName, documents: Vec<Document>) -> Result<()> {
            self.puts.fetch_add(1, Ordering::Relaxed);
            if self.is_stuck.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
            if self.is_broken.load(Ordering::Relaxed) {
                return Err(Error::Unavailable("the store is away".to_owned()));
            }
            self.inner.put(context, name, documents).await
        }

        async fn get(
            &self,
            context: &RequestContext,
            name: &CollectionName,
            ids: &[DocumentId],
        ) -> Result<Vec<Option<Document>>> {
            self.inner.get(context, name, ids).await
        }

        async fn delete(&self, context: &RequestContext, name: &CollectionName, ids: &[DocumentId]) -> Result<u64> {
            self.inner.delete(context, name, ids).await
        }

        async fn scroll(
            &self,
            context: &RequestContext,
            name: &CollectionName,
            after: Option<&DocumentId>,
            limit: usize,
        ) -> Result<Vec<Document>> {
            self.inner.scroll(context, name, after, limit).await
        }

        async fn names(&self, context: &RequestContext) -> Result<Vec<CollectionName>> {
            self.inner.names(context).await
        }

        async fn snapshot(&self, context: &RequestContext, name: &CollectionName, sink: DocumentSink) -> Result<u64> {
            self.inner.snapshot(context, name, sink).await
        }
    }

    const PACE: Pace = Pace { delay: Duration::from_millis(40), timeout: Duration::from_millis(200) };

    fn log_in(store: &Arc<Moody>) -> AccessLog {
        log_at(PACE, store)
    }

    fn log_at(pace: Pace, store: &Arc<Moody>) -> AccessLog {
        AccessLog::at_pace(Arc::clone(store) as Arc<dyn DocumentStore>, pace)
    }

    /// Waits until it holds, and then for long enough that a store is written to again at [`PACE`].
    async fn until(holds: impl Fn() -> bool) {
        let comes = async {
            while !holds() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), comes).await.unwrap();
        tokio::time::sleep(PACE.delay * 10).await;
    }

    fn context() -> RequestContext {
        RequestContext::new(Principal::anonymous())
    }

    fn log_name() -> CollectionName {
        AccessLog::stored_name(&CollectionName::new("news").unwrap()).unwrap()
    }

    fn hits(ids: impl IntoIterator<Item = String>) -> Vec<ScoredDocument> {
        let hit = |id: String| ScoredDocument {
            document: Arc::new(Document {
                id: DocumentId::new(id).unwrap(),
                page_content: String::new(),
                metadata: Metadata::new(),
            }),
            score: 0.0,
            relevance: None,
            metric: None,
            rank: 0,
            sources: Vec::new(),
            vector: None,
            matched_children: Vec::new(),
            extracts: Vec::new(),
        };
        ids.into_iter().map(hit).collect()
    }

    fn named(ids: &[&str]) -> Vec<ScoredDocument> {
        hits(ids.iter().map(|id| (*id).to_owned()))
    }

    #[tokio::test]
    async fn moments_are_seen_at_once_and_written_together_later() {
        let store = Moody::new();
        let log = log_at(Pace { delay: Duration::from_secs(3), ..PACE }, &store);
        for moment in [5.0, 7.0, 6.0] {
            log.record(&context(), &log_name(), &named(&["a", "b"]), moment);
        }
        log.record(&context(), &log_name(), &named(&["b"]), 9.0);
        let last = log.last(&context(), &log_name(), &named(&["a", "b", "c"])).await.unwrap();
        assert_eq!(last, [Some(7.0), Some(9.0), None]);
        assert_eq!(store.puts.load(Ordering::Relaxed), 0);

        until(|| log.0.pending.lock().moments.is_empty()).await;
        assert_eq!(store.puts.load(Ordering::Relaxed), 1, "one write for all of them");
        let another_process = log_in(&store);
        let last = another_process.last(&context(), &log_name(), &named(&["a", "b", "c"])).await.unwrap();
        assert_eq!(last, [Some(7.0), Some(9.0), None]);
    }

    #[tokio::test]
    async fn a_store_that_fails_or_hangs_costs_nothing_but_the_write() {
        let store = Moody::new();
        let log = log_in(&store);
        store.is_broken.store(true, Ordering::Relaxed);
        log.record(&context(), &log_name(), &named(&["a"]), 1.0);
        until(|| store.puts.load(Ordering::Relaxed) > 0).await;
        assert_eq!(store.puts.load(Ordering::Relaxed), 1, "it is not tried again until there is more to write");
        assert_eq!(log.last(&context(), &log_name(), &named(&["a"])).await.unwrap(), [Some(1.0)]);

        store.is_broken.store(false, Ordering::Relaxed);
        store.is_stuck.store(true, Ordering::Relaxed);
        assert!(matches!(log.flush().await, Err(Error::DeadlineExceeded(_))));
        store.is_stuck.store(false, Ordering::Relaxed);
        log.flush().await.unwrap();
        assert!(log.0.pending.lock().moments.is_empty());
    }

    #[tokio::test]
    async fn what_waits_is_bounded() {
        let store = Moody::new();
        let log = log_in(&store);
        log.record(&context(), &log_name(), &hits((0..MAX_PENDING + 5).map(|number| number.to_string())), 1.0);
        // What is noted already is still brought up to date.
        log.record(&context(), &log_name(), &named(&["0"]), 2.0);
        {
            let pending = log.0.pending.lock();
            assert_eq!((pending.count, pending.lost), (MAX_PENDING, 5));
        }
        log.flush().await.unwrap();
        assert_eq!(log.0.pending.lock().count, 0);
        let last = log.last(&context(), &log_name(), &named(&["0", "1", "20003"])).await.unwrap();
        assert_eq!(last, [Some(2.0), Some(1.0), None]);
    }

    #[tokio::test]
    async fn tenants_have_logs_of_their_own_and_a_log_ends_with_its_last_owner() {
        let store = Moody::new();
        let log = log_in(&store);
        let other = Principal { tenant: Tenant::new("other").unwrap(), ..Principal::anonymous() };
        log.record(&RequestContext::new(other.clone()), &log_name(), &named(&["a"]), 1.0);
        for _ in 0..2 {
            assert_eq!(log.last(&context(), &log_name(), &named(&["a"])).await.unwrap(), [None]);
            let theirs = log.last(&RequestContext::new(other.clone()), &log_name(), &named(&["a"])).await.unwrap();
            assert_eq!(theirs, [Some(1.0)]);
            log.flush().await.unwrap();
        }
        let shared = Arc::downgrade(&log.0);
        log.record(&context(), &log_name(), &named(&["b"]), 1.0);
        drop(log);
        assert!(shared.upgrade().is_none(), "the task that will write keeps nothing alive");
    }
}
