//! Restores: everything or nothing, also when the process ends anywhere.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::error::{Error, ResourceKind, Result};
use toller_core::{
    Catalog, CollectionName, CollectionSpec, Document, DocumentId, DocumentStore, Fingerprint, KeywordParams, Metadata,
    Metric, Models, Principal, Record, RequestContext, Role, Tenant, Value, Vector, VectorName, VectorSpace,
    VectorStore,
};
use toller_store::{
    CollectionOptions, Collections, EncodedRetriever, MemoryStore, NewCollection, Restore, RestoredNames, Restores,
    VectorSource,
};

fn context_of(tenant: &str) -> RequestContext {
    let tenant = Tenant::new(tenant).unwrap();
    RequestContext::new(Principal { name: "test".into(), tenant, role: Role::Admin })
}

fn context() -> RequestContext {
    context_of("acme")
}

fn name(name: &str) -> CollectionName {
    CollectionName::new(name).unwrap()
}

fn title() -> VectorName {
    VectorName::new("title").unwrap()
}

fn spec(text: &str) -> CollectionSpec {
    CollectionSpec {
        name: name(text),
        description: format!("about {text}"),
        labels: BTreeMap::from([("team".to_owned(), "search".to_owned())]),
        metric: Metric::Dot,
        fingerprint: Fingerprint {
            provider: "candle".to_owned(),
            model: "gone".to_owned(),
            max_tokens: 7,
            ..Fingerprint::client(2)
        },
        created_at_ms: 1_234_567,
        keyword: Some(KeywordParams::default()),
        named: BTreeMap::from([(title(), VectorSpace { dimension: 1, metric: Metric::Euclidean })]),
        quantization: None,
        require_tenant: false,
    }
}

fn document(id: &str) -> Document {
    let metadata = Metadata::from([("n".to_owned(), Value::Int((1 << 53) + 1))]);
    Document { id: DocumentId::new(id).unwrap(), page_content: format!("text of {id}"), metadata }
}

fn record(id: &str) -> Record {
    let mut record = Record::new(Arc::new(document(id)), Vector::new(vec![1.0, 2.5], Metric::Dot).unwrap());
    record.named.insert(title(), Vector::new(vec![3.0], Metric::Euclidean).unwrap());
    record
}

fn retriever(name: &str) -> EncodedRetriever {
    EncodedRetriever { name: name.to_owned(), value: format!("{{\"of\":\"{name}\"}}") }
}

/// What a process works with, over what another one may have left.
struct Process {
    collections: Arc<Collections>,
    restores: Restores,
}

fn process_with(memory: &MemoryStore, catalog: Arc<dyn Catalog>) -> Process {
    process_that_beats(memory, catalog, Duration::from_secs(5))
}

fn process_that_beats(memory: &MemoryStore, catalog: Arc<dyn Catalog>, every: Duration) -> Process {
    let vectors: Arc<dyn VectorStore> = Arc::clone(&memory.vectors) as Arc<dyn VectorStore>;
    let collections = Collections::new(vectors, catalog, Models::default()).with_signs_of_life(every);
    let collections = Arc::new(collections);
    let documents = Arc::clone(&memory.documents) as Arc<dyn DocumentStore>;
    Process { restores: Restores::new(Arc::clone(&collections), documents), collections }
}

fn process(memory: &MemoryStore) -> Process {
    process_with(memory, Arc::clone(&memory.catalog) as Arc<dyn Catalog>)
}

/// Two collections and a document store, up to the decision.
async fn bring(restores: &Restores) -> Result<Restore> {
    let mut restore = restores.begin(&context()).await?;
    let steps = async {
        restore.collection(spec("docs")).await?;
        restore.records(vec![record("a"), record("b")]).await?;
        restore.records(vec![record("c")]).await?;
        restore.collection(spec("empty")).await?;
        restore.document_store(name("parents")).await?;
        restore.documents(vec![document("p"), document("q")]).await
    };
    match steps.await {
        Ok(()) => Ok(restore),
        Err(fault) => {
            restore.abort().await;
            Err(fault)
        }
    }
}

async fn restore(restores: &Restores) -> Result<()> {
    bring(restores).await?.commit(vec![retriever("best"), retriever("worst")]).await
}

async fn kinds(memory: &MemoryStore) -> [usize; 4] {
    let mut counts = [0; 4];
    let kinds = [RecordKind::Collection, RecordKind::Retriever, RecordKind::Restore, RecordKind::RestoredDocuments];
    for (count, kind) in counts.iter_mut().zip(kinds) {
        *count = memory.catalog.list(&context(), kind).await.unwrap().len();
    }
    counts
}

async fn assert_nothing(memory: &MemoryStore) {
    assert_eq!(kinds(memory).await, [0, 0, 0, 0]);
    assert_eq!(memory.documents.names(&context()).await.unwrap(), []);
    for text in ["docs", "empty"] {
        let fault = memory.vectors.params(&context(), &name(text)).await.unwrap_err();
        assert!(matches!(fault, Error::NotFound { .. }), "{fault:?}");
    }
}

async fn assert_everything(memory: &MemoryStore, collections: &Collections) {
    assert_eq!(kinds(memory).await, [2, 2, 0, 0]);
    assert_eq!(collections.list(&context()).await.unwrap(), [spec("docs"), spec("empty")]);
    let docs = collections.open(&context(), &name("docs")).await.unwrap();
    let page = docs.scroll(&context(), None, None, 9).await.unwrap();
    assert_eq!(page.records, ["a", "b", "c"].map(record));
    let parents = memory.documents.scroll(&context(), &name("parents"), None, 9).await.unwrap();
    assert_eq!(parents, ["p", "q"].map(document));
    let best = memory.catalog.get(&context(), RecordKind::Retriever, "best").await.unwrap().unwrap();
    assert_eq!(best.value, retriever("best").value.into_bytes());
}

fn new(text: &str) -> NewCollection {
    NewCollection {
        name: name(text),
        description: String::new(),
        labels: BTreeMap::new(),
        metric: Metric::Dot,
        vectors: VectorSource::Client { dimension: 2 },
    }
}

#[tokio::test]
async fn collections_are_out_of_sight_until_the_restore_is_decided() {
    let memory = MemoryStore::new();
    let Process { collections, restores } = process(&memory);
    let restore = bring(&restores).await.unwrap();
    assert_eq!(collections.list(&context()).await.unwrap(), []);
    let docs = name("docs");
    let missing = Error::NotFound { kind: ResourceKind::Collection, name: "docs".to_owned() };
    assert_eq!(collections.open(&context(), &docs).await.unwrap_err(), missing);
    // Nobody takes it for a leftover.
    assert_eq!(collections.delete(&context(), &docs).await.unwrap_err(), missing);
    let taken = Error::AlreadyExists { kind: ResourceKind::Collection, name: "docs".to_owned() };
    assert_eq!(collections.create(&context(), new("docs")).await.unwrap_err(), taken);
    let mut second = restores.begin(&context()).await.unwrap();
    assert_eq!(second.collection(spec("docs")).await.unwrap_err(), taken);
    second.abort().await;
    // Another tenant has its own names.
    collections.create(&context_of("umbrella"), new("docs")).await.unwrap();

    restore.commit(vec![retriever("best"), retriever("worst")]).await.unwrap();
    assert_everything(&memory, &collections).await;
    assert_eq!(collections.open(&context_of("umbrella"), &docs).await.unwrap().spec().fingerprint.dimension, 2);
    assert_eq!(restores.settle(Duration::ZERO).await.unwrap(), 0);
    collections.delete(&context(), &docs).await.unwrap();
}

#[tokio::test]
async fn an_abort_leaves_nothing_and_the_names_are_free() {
    let memory = MemoryStore::new();
    let Process { collections, restores } = process(&memory);
    bring(&restores).await.unwrap().abort().await;
    assert_nothing(&memory).await;
    restore(&restores).await.unwrap();
    assert_everything(&memory, &collections).await;
}

#[tokio::test]
async fn what_is_there_is_named_and_stays() {
    let memory = MemoryStore::new();
    let Process { collections, restores } = process(&memory);
    restore(&restores).await.unwrap();
    let refused = |kind, text: &str| Error::AlreadyExists { kind, name: text.to_owned() };
    let mut names = RestoredNames {
        collections: vec![name("docs"), name("free"), name("empty")],
        document_stores: vec![name("parents")],
        retrievers: vec!["best".to_owned(), "free".to_owned()],
    };
    let fault = restores.check_absent(&context(), &names).await.unwrap_err();
    assert_eq!(fault.to_string(), "collection \"docs\", \"empty\" exists already");
    names.collections = vec![name("free")];
    let fault = restores.check_absent(&context(), &names).await.unwrap_err();
    assert_eq!(fault, refused(ResourceKind::DocumentStore, "parents"));
    names.document_stores.clear();
    let fault = restores.check_absent(&context(), &names).await.unwrap_err();
    assert_eq!(fault, refused(ResourceKind::Retriever, "best"));
    assert_eq!(restores.check_absent(&context_of("umbrella"), &names).await, Ok(()));

    assert_eq!(restore(&restores).await.unwrap_err(), refused(ResourceKind::Collection, "docs"));
    assert_everything(&memory, &collections).await;
    // Also what somebody stores while the restore runs.
    let mut late = restores.begin(&context()).await.unwrap();
    late.collection(spec("late")).await.unwrap();
    let fault = late.commit(vec![retriever("best")]).await.unwrap_err();
    assert_eq!(fault, refused(ResourceKind::Retriever, "best"));
    assert_everything(&memory, &collections).await;
}

#[tokio::test]
async fn what_cannot_be_right_is_refused_and_leaves_nothing() {
    let memory = MemoryStore::new();
    let Process { restores, .. } = process(&memory);
    let mut twice = restores.begin(&context()).await.unwrap();
    twice.collection(spec("docs")).await.unwrap();
    twice.records(vec![record("a")]).await.unwrap();
    twice.records(vec![record("a")]).await.unwrap();
    let fault = twice.commit(Vec::new()).await.unwrap_err().to_string();
    assert!(fault.contains("has 2 documents for collection \"docs\", of 1 different ids"), "{fault}");
    assert_nothing(&memory).await;

    let mut wrong = restores.begin(&context()).await.unwrap();
    let labels = BTreeMap::from([(String::new(), String::new())]);
    let fingerprint = Fingerprint { dimension: 0, ..spec("docs").fingerprint };
    for bad in [CollectionSpec { labels, ..spec("docs") }, CollectionSpec { fingerprint, ..spec("docs") }] {
        assert!(matches!(wrong.collection(bad).await, Err(Error::InvalidArgument(_))));
    }
    wrong.collection(spec("docs")).await.unwrap();
    let vector = Vector::new(vec![1.0], Metric::Dot).unwrap();
    let short = Record::new(Arc::new(document("a")), vector);
    assert!(matches!(wrong.records(vec![short]).await, Err(Error::InvalidArgument(_))));
    let mut nan = document("nan");
    nan.metadata.insert("n".to_owned(), Value::Double(f64::NAN));
    let nan = Record { document: Arc::new(nan), ..record("nan") };
    let fault = wrong.records(vec![nan]).await.unwrap_err().to_string();
    assert!(fault.starts_with("metadata.n: ") && fault.ends_with("in document \"nan\""), "{fault}");
    wrong.abort().await;
    assert_nothing(&memory).await;
}

#[tokio::test]
async fn a_process_that_is_killed_leaves_what_the_next_one_undoes() {
    let memory = MemoryStore::new();
    let killed = process(&memory);
    drop(bring(&killed.restores).await.unwrap());
    drop(killed);
    let next = process(&memory);
    assert_eq!(next.restores.settle(Duration::ZERO).await.unwrap(), 1);
    assert_nothing(&memory).await;
    assert_eq!(next.restores.settle(Duration::ZERO).await.unwrap(), 0);
    next.collections.create_with(&context(), new("docs"), CollectionOptions::default()).await.unwrap();
}

/// A catalogue that takes so many writes, and then nothing any more: the process is gone.
struct Ending {
    inner: Arc<dyn Catalog>,
    writes_left: AtomicUsize,
}

impl Ending {
    fn write(&self) -> Result<()> {
        let left = self.writes_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map(drop).map_err(|_| Error::Unavailable("the process is gone".to_owned()))
    }
}

#[async_trait]
impl Catalog for Ending {
    async fn get(&self, context: &RequestContext, kind: RecordKind, name: &str) -> Result<Option<Versioned>> {
        self.inner.get(context, kind, name).await
    }
    async fn list(&self, context: &RequestContext, kind: RecordKind) -> Result<Vec<Versioned>> {
        self.inner.list(context, kind).await
    }
    async fn swap(
        &self,
        context: &RequestContext,
        kind: RecordKind,
        name: &str,
        expected: Expected,
        value: Vec<u8>,
    ) -> Result<u64> {
        self.write()?;
        self.inner.swap(context, kind, name, expected, value).await
    }
    async fn remove(&self, context: &RequestContext, kind: RecordKind, name: &str, version: u64) -> Result<()> {
        self.write()?;
        self.inner.remove(context, kind, name, version).await
    }
    async fn tenants(&self, kind: RecordKind) -> Result<Vec<Tenant>> {
        self.inner.tenants(kind).await
    }
}

#[tokio::test]
async fn wherever_the_process_ends_the_next_one_has_everything_or_nothing() {
    let (mut undone, mut finished) = (0, 0);
    for writes in 0.. {
        let memory = MemoryStore::new();
        let catalog = Arc::clone(&memory.catalog) as Arc<dyn Catalog>;
        let ending = Arc::new(Ending { inner: catalog, writes_left: AtomicUsize::new(writes) });
        let killed = process_with(&memory, ending);
        let outcome = restore(&killed.restores).await;
        drop(killed);

        let next = process(&memory);
        next.restores.settle(Duration::ZERO).await.unwrap();
        if kinds(&memory).await == [0, 0, 0, 0] {
            assert!(outcome.is_err(), "after {writes} writes");
            assert_nothing(&memory).await;
            undone += 1;
        } else {
            assert_everything(&memory, &next.collections).await;
            finished += 1;
        }
        if outcome.is_ok() {
            break;
        }
    }
    assert!(undone >= 6, "{undone} ends before the decision");
    assert!(finished >= 5, "{finished} ends after the decision");
}

#[tokio::test]
async fn what_others_wrote_to_a_document_store_meanwhile_stays() {
    for is_killed in [false, true] {
        let memory = MemoryStore::new();
        let Process { restores, .. } = process(&memory);
        let restore = bring(&restores).await.unwrap();
        let newer = Document { page_content: "newer".to_owned(), ..document("q") };
        let theirs = vec![document("theirs"), newer.clone()];
        memory.documents.put(&context(), &name("parents"), theirs).await.unwrap();
        if is_killed {
            drop(restore);
            assert_eq!(process(&memory).restores.settle(Duration::ZERO).await.unwrap(), 1);
        } else {
            restore.abort().await;
        }
        let left = memory.documents.scroll(&context(), &name("parents"), None, 9).await.unwrap();
        assert_eq!(left, [newer, document("theirs")]);
        assert_eq!(kinds(&memory).await, [0, 0, 0, 0]);
    }
}

#[tokio::test]
async fn a_document_that_somebody_wrote_meanwhile_is_not_replaced() {
    let memory = MemoryStore::new();
    let Process { restores, .. } = process(&memory);
    let mut restore = restores.begin(&context()).await.unwrap();
    restore.document_store(name("parents")).await.unwrap();
    let theirs = Document { page_content: "theirs".to_owned(), ..document("q") };
    memory.documents.put(&context(), &name("parents"), vec![theirs.clone()]).await.unwrap();
    let fault = restore.documents(vec![document("p"), document("q")]).await.unwrap_err();
    assert_eq!(fault, Error::AlreadyExists { kind: ResourceKind::DocumentStore, name: "parents".to_owned() });
    restore.abort().await;
    let left = memory.documents.scroll(&context(), &name("parents"), None, 9).await.unwrap();
    assert_eq!(left, [theirs]);
}

#[tokio::test]
async fn other_processes_leave_the_names_of_a_restore_alone() {
    let memory = MemoryStore::new();
    let (first, second) = (process(&memory), process(&memory));
    let restore = bring(&first.restores).await.unwrap();
    let docs = name("docs");
    let taken = Error::AlreadyExists { kind: ResourceKind::Collection, name: "docs".to_owned() };
    let missing = Error::NotFound { kind: ResourceKind::Collection, name: "docs".to_owned() };
    assert_eq!(second.collections.create(&context(), new("docs")).await.unwrap_err(), taken);
    assert_eq!(second.collections.delete(&context(), &docs).await.unwrap_err(), missing);
    let names = RestoredNames { collections: vec![docs.clone()], ..RestoredNames::default() };
    assert_eq!(second.restores.check_absent(&context(), &names).await.unwrap_err(), taken);
    let mut late = second.restores.begin(&context()).await.unwrap();
    assert_eq!(late.collection(spec("docs")).await.unwrap_err(), taken);
    late.abort().await;
    restore.commit(vec![retriever("best"), retriever("worst")]).await.unwrap();
    assert_everything(&memory, &second.collections).await;

    second.collections.delete(&context(), &docs).await.unwrap();
    let mut again = first.restores.begin(&context()).await.unwrap();
    again.collection(spec("docs")).await.unwrap();
    again.abort().await;
    second.collections.create(&context(), new("docs")).await.unwrap();
}

#[tokio::test]
async fn a_restore_is_undone_by_others_once_it_gives_no_sign_of_life() {
    let memory = MemoryStore::new();
    let catalog = Arc::clone(&memory.catalog) as Arc<dyn Catalog>;
    let (often, never) = (Duration::from_millis(10), Duration::from_secs(10_000));
    let next = process(&memory);

    let alive = process_that_beats(&memory, Arc::clone(&catalog), often);
    let restore = bring(&alive.restores).await.unwrap();
    assert_eq!(next.restores.settle(Duration::from_secs(10)).await.unwrap(), 0, "it is the work of another process");
    restore.commit(vec![retriever("best"), retriever("worst")]).await.unwrap();
    assert_everything(&memory, &next.collections).await;

    let memory = MemoryStore::new();
    let stalled = process_that_beats(&memory, Arc::clone(&memory.catalog) as Arc<dyn Catalog>, never);
    let mut restore = bring(&stalled.restores).await.unwrap();
    let next = process(&memory);
    assert_eq!(next.restores.settle(Duration::from_millis(100)).await.unwrap(), 1);
    assert_nothing(&memory).await;
    // The name is somebody else's now, who finds nothing of what the stalled process goes on with.
    next.collections.create(&context(), NewCollection { name: name("empty"), ..new("empty") }).await.unwrap();
    assert!(matches!(restore.records(vec![record("late")]).await, Err(Error::Aborted(_))));
    assert!(matches!(restore.documents(vec![document("late")]).await, Err(Error::Aborted(_))));
    restore.commit(Vec::new()).await.unwrap_err();
    assert_eq!(next.collections.stats(&context(), &name("empty")).await.unwrap().document_count, 0);
    assert_eq!(memory.documents.names(&context()).await.unwrap(), []);
}

/// What becomes of the write that decides a restore.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Decision {
    /// It does not arrive.
    Lost,
    /// It arrives, and its answer does not.
    AnswerLost,
    /// It arrives without an answer, and then nothing is answered any more.
    AnswerLostForGood,
}

/// A catalogue with a bad line.
struct BadLine {
    inner: Arc<dyn Catalog>,
    decision: Decision,
    is_cut: AtomicUsize,
}

impl BadLine {
    fn check(&self) -> Result<()> {
        match self.is_cut.load(Ordering::SeqCst) {
            0 => Ok(()),
            _ => Err(Error::Unavailable("no answer".to_owned())),
        }
    }
}

#[async_trait]
impl Catalog for BadLine {
    async fn get(&self, context: &RequestContext, kind: RecordKind, name: &str) -> Result<Option<Versioned>> {
        self.check()?;
        self.inner.get(context, kind, name).await
    }
    async fn list(&self, context: &RequestContext, kind: RecordKind) -> Result<Vec<Versioned>> {
        self.check()?;
        self.inner.list(context, kind).await
    }
    async fn swap(
        &self,
        context: &RequestContext,
        kind: RecordKind,
        name: &str,
        expected: Expected,
        value: Vec<u8>,
    ) -> Result<u64> {
        self.check()?;
        let decides = kind == RecordKind::Restore && String::from_utf8_lossy(&value).contains("\"committed\":true");
        if !decides || self.decision != Decision::Lost {
            let version = self.inner.swap(context, kind, name, expected, value).await?;
            if !decides {
                return Ok(version);
            }
        }
        self.is_cut.store(usize::from(self.decision == Decision::AnswerLostForGood), Ordering::SeqCst);
        Err(Error::Unavailable("no answer".to_owned()))
    }
    async fn remove(&self, context: &RequestContext, kind: RecordKind, name: &str, version: u64) -> Result<()> {
        self.check()?;
        self.inner.remove(context, kind, name, version).await
    }
    async fn tenants(&self, kind: RecordKind) -> Result<Vec<Tenant>> {
        self.inner.tenants(kind).await
    }
}

#[tokio::test]
async fn a_decision_without_an_answer_is_looked_up() {
    for decision in [Decision::Lost, Decision::AnswerLost, Decision::AnswerLostForGood] {
        let memory = MemoryStore::new();
        let inner = Arc::clone(&memory.catalog) as Arc<dyn Catalog>;
        let line = Arc::new(BadLine { inner, decision, is_cut: AtomicUsize::new(0) });
        let Process { restores, collections } = process_with(&memory, line);
        let outcome = restore(&restores).await;
        match decision {
            Decision::Lost => {
                assert_eq!(outcome.unwrap_err(), Error::Unavailable("no answer".to_owned()));
                assert_nothing(&memory).await;
            }
            Decision::AnswerLost => {
                outcome.unwrap();
                assert_everything(&memory, &collections).await;
            }
            Decision::AnswerLostForGood => {
                let fault = outcome.unwrap_err().to_string();
                assert!(fault.contains("it is open whether everything is restored"), "{fault}");
                let next = process(&memory);
                assert_eq!(next.restores.settle(Duration::ZERO).await.unwrap(), 1);
                assert_everything(&memory, &next.collections).await;
            }
        }
    }
}
