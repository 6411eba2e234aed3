//! Collections and their handle: texts in, guarded; catalogue and store in step whatever fails.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests: they fail by panicking"
)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use toller_core::catalog::{Expected, RecordKind, Versioned};
use toller_core::collection::{Durability, VectorParams};
use toller_core::embeddings::Embedding;
use toller_core::error::{Error, ResourceKind, Result};
use toller_core::vector_store::{Applied, ChangeSet, RecordSink, ScoredRecord, ScrollPage, Selector, VectorSearch};
use toller_core::{
    Catalog, CollectionName, DocumentId, EmbeddingRole, Embeddings, Filter, Fingerprint, KeywordParams, KeywordSearch,
    Language, Metadata, Metric, Models, Principal, Query, Record, RequestContext, Role, Tenant, Value, VectorStore,
};
use toller_store::{
    AddOptions, CollectionHandle, CollectionOptions, CollectionUpdate, Collections, MemoryStore, NewCollection,
    NewDocument, TextUsage, VectorSource,
};

const DIMENSION: u32 = 3;

/// Gives a text the vector (length, role, 1), unless it is told to misbehave by the text itself.
struct FakeModel {
    fingerprint: Fingerprint,
    calls: AtomicUsize,
}

impl FakeModel {
    fn new(model: &str) -> Arc<Self> {
        let fingerprint = Fingerprint {
            provider: "fake".to_owned(),
            model: model.to_owned(),
            max_tokens: 8,
            ..Fingerprint::client(DIMENSION)
        };
        Arc::new(Self { fingerprint, calls: AtomicUsize::new(0) })
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl Embeddings for FakeModel {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, _: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let role = if role == EmbeddingRole::Query { 1.0 } else { 0.0 };
        let mut embeddings = Vec::new();
        for text in texts {
            let length = text.chars().count();
            let vector = match text.as_str() {
                "nan" => vec![0.0, f32::NAN, 1.0],
                "zero" => vec![0.0; 3],
                "short" => vec![1.0],
                _ => vec![length as f32, role, 1.0],
            };
            if text != "lost" {
                embeddings.push(Embedding { vector, token_count: Some(length as u32), truncated: length > 8 });
            }
        }
        Ok(embeddings)
    }
}

fn context_of(tenant: &str) -> RequestContext {
    let tenant = Tenant::new(tenant).unwrap();
    RequestContext::new(Principal { name: "test".into(), tenant, role: Role::Admin })
}

fn context() -> RequestContext {
    context_of("ours")
}

fn name(name: &str) -> CollectionName {
    CollectionName::new(name).unwrap()
}

fn new(text: &str, vectors: VectorSource) -> NewCollection {
    NewCollection {
        name: name(text),
        description: "for tests".to_owned(),
        labels: BTreeMap::from([("team".to_owned(), "search".to_owned())]),
        metric: Metric::Cosine,
        vectors,
    }
}

fn without_keywords() -> CollectionOptions {
    CollectionOptions { keyword: None, ..CollectionOptions::default() }
}

fn text(content: &str) -> NewDocument {
    NewDocument { page_content: content.to_owned(), ..NewDocument::default() }
}

fn with_id(id: &str, content: &str) -> NewDocument {
    NewDocument { id: Some(id.to_owned()), ..text(content) }
}

fn with_vector(vector: &[f32]) -> NewDocument {
    NewDocument { vector: Some(vector.to_vec()), ..text("own vector") }
}

fn collections(memory: &MemoryStore, model: Option<&Arc<FakeModel>>) -> Collections {
    let embeddings = model.map(|model| Arc::clone(model) as Arc<dyn Embeddings>);
    Collections::new(Arc::clone(&memory.vectors) as _, Arc::clone(&memory.catalog) as _, embeddings)
}

async fn handle(collections: &Collections, text: &str, vectors: VectorSource) -> CollectionHandle {
    collections.create(&context(), new(text, vectors)).await.unwrap();
    collections.open(&context(), &name(text)).await.unwrap()
}

fn reason<T: std::fmt::Debug>(answer: Result<T>) -> (&'static str, String) {
    match answer {
        Err(Error::FailedPrecondition { reason, message }) => (reason, message),
        other => panic!("must be a failed precondition: {other:?}"),
    }
}

fn fields<T: std::fmt::Debug>(answer: Result<T>) -> Vec<String> {
    match answer {
        Err(Error::InvalidArgument(violations)) => violations.into_iter().map(|violation| violation.field).collect(),
        other => panic!("must be an invalid argument: {other:?}"),
    }
}

#[tokio::test]
async fn collections_are_made_found_changed_and_deleted() {
    let memory = MemoryStore::new();
    let model = FakeModel::new("m");
    let collections = collections(&memory, Some(&model));
    let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64;
    let spec = collections.create(&context(), new("b", VectorSource::Model)).await.unwrap();
    assert_eq!(spec.fingerprint, model.fingerprint);
    assert!(spec.created_at_ms >= before);
    collections.create(&context(), new("a", VectorSource::Client { dimension: 7 })).await.unwrap();
    assert_eq!(collections.get(&context(), &name("b")).await.unwrap(), spec);
    let listed: Vec<String> =
        collections.list(&context()).await.unwrap().into_iter().map(|spec| spec.name.to_string()).collect();
    assert_eq!(listed, ["a", "b"]);
    assert_eq!(collections.list(&context_of("theirs")).await.unwrap(), []);

    let again = collections.create(&context(), new("b", VectorSource::Client { dimension: 1 })).await;
    assert!(matches!(again, Err(Error::AlreadyExists { .. })), "{again:?}");
    assert_eq!(collections.get(&context(), &name("b")).await.unwrap(), spec);

    let update = CollectionUpdate { description: Some(String::new()), labels: None };
    let updated = collections.update(&context(), &name("b"), update).await.unwrap();
    assert_eq!((updated.description.as_str(), &updated.labels), ("", &spec.labels), "what is not named stays");
    let update = CollectionUpdate { description: None, labels: Some(BTreeMap::new()) };
    let updated = collections.update(&context(), &name("b"), update).await.unwrap();
    assert_eq!(updated.labels, BTreeMap::new());
    assert_eq!(collections.get(&context(), &name("b")).await.unwrap(), updated);

    let opened = collections.open(&context(), &name("b")).await.unwrap();
    opened.add(&context(), vec![text("x"), text("yy")], None).await.unwrap();
    assert_eq!(collections.stats(&context(), &name("b")).await.unwrap().document_count, 2);
    collections.delete(&context(), &name("b")).await.unwrap();
    for answer in [
        collections.get(&context(), &name("b")).await.map(|_| ()),
        collections.delete(&context(), &name("b")).await,
        collections.open(&context(), &name("b")).await.map(|_| ()),
        collections.update(&context(), &name("b"), CollectionUpdate::default()).await.map(|_| ()),
        opened.count(&context(), None).await.map(|_| ()),
    ] {
        assert!(matches!(answer, Err(Error::NotFound { .. })), "{answer:?}");
    }
    let remade = handle(&collections, "b", VectorSource::Model).await;
    assert_eq!(remade.count(&context(), None).await.unwrap(), 0, "a new collection finds nothing of the old one");
}

#[tokio::test]
async fn what_cannot_be_a_collection_is_refused() {
    let memory = MemoryStore::new();
    let collections = collections(&memory, None);
    for dimension in [0, 65_537] {
        let answer = collections.create(&context(), new("a", VectorSource::Client { dimension })).await;
        assert_eq!(fields(answer), ["client.dimension"]);
    }
    let labels: BTreeMap<String, String> = (0..65).map(|n| (n.to_string(), String::new())).collect();
    let much = NewCollection {
        description: "x".repeat(4097),
        labels: labels.clone(),
        ..new("a", VectorSource::Client { dimension: 2 })
    };
    assert_eq!(fields(collections.create(&context(), much).await), ["description", "labels"]);
    for (label, value) in [(String::new(), 0), ("x".repeat(257), 0), ("x".to_owned(), 1025)] {
        let labels = BTreeMap::from([(label, "x".repeat(value))]);
        let new = NewCollection { labels, ..new("a", VectorSource::Client { dimension: 2 }) };
        assert_eq!(fields(collections.create(&context(), new).await), ["labels"]);
    }
    let (reason, message) = reason(collections.create(&context(), new("a", VectorSource::Model)).await);
    assert_eq!(reason, "NO_EMBEDDING_MODEL");
    assert!(message.contains("start the server with one"), "{message}");
    assert_eq!(collections.list(&context()).await.unwrap(), []);
    assert!(memory.vectors.params(&context(), &name("a")).await.is_err(), "nothing is half made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_creates_at_once_one_wins() {
    let memory = MemoryStore::new();
    let collections = Arc::new(collections(&memory, None));
    let tasks: Vec<_> = (1..=8)
        .map(|dimension| {
            let collections = Arc::clone(&collections);
            tokio::spawn(
                async move { collections.create(&context(), new("a", VectorSource::Client { dimension })).await },
            )
        })
        .collect();
    let mut made = Vec::new();
    for task in tasks {
        match task.await.unwrap() {
            Ok(spec) => made.push(spec),
            Err(fault) => assert!(matches!(fault, Error::AlreadyExists { .. }), "{fault:?}"),
        }
    }
    assert_eq!(made.len(), 1);
    let opened = collections.open(&context(), &name("a")).await.unwrap();
    assert_eq!(opened.spec(), &made[0], "the store has the winner's parameters");
}

/// Lets a number of calls through, then fails every one: what a crash at that moment leaves behind.
struct Failing<T> {
    inner: Arc<T>,
    calls_left: Arc<AtomicUsize>,
}

impl<T> Failing<T> {
    fn step(&self) -> Result<&T> {
        let taken = self.calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        taken.map(|_| self.inner.as_ref()).map_err(|_| Error::Unavailable("crashed".to_owned()))
    }
}

#[async_trait]
impl<T: Catalog> Catalog for Failing<T> {
    async fn get(&self, context: &RequestContext, kind: RecordKind, name: &str) -> Result<Option<Versioned>> {
        self.step()?.get(context, kind, name).await
    }
    async fn list(&self, context: &RequestContext, kind: RecordKind) -> Result<Vec<Versioned>> {
        self.step()?.list(context, kind).await
    }
    async fn swap(
        &self,
        context: &RequestContext,
        kind: RecordKind,
        name: &str,
        expected: Expected,
        value: Vec<u8>,
    ) -> Result<u64> {
        self.step()?.swap(context, kind, name, expected, value).await
    }
    async fn remove(&self, context: &RequestContext, kind: RecordKind, name: &str, version: u64) -> Result<()> {
        self.step()?.remove(context, kind, name, version).await
    }
    async fn tenants(&self, kind: RecordKind) -> Result<Vec<Tenant>> {
        self.step()?.tenants(kind).await
    }
}

#[async_trait]
impl<T: VectorStore> VectorStore for Failing<T> {
    fn backend(&self) -> &'static str {
        self.inner.backend()
    }
    fn durability(&self) -> Durability {
        self.inner.durability()
    }
    async fn create(&self, context: &RequestContext, name: &CollectionName, params: VectorParams) -> Result<()> {
        self.step()?.create(context, name, params).await
    }
    async fn drop_collection(&self, context: &RequestContext, name: &CollectionName) -> Result<()> {
        self.step()?.drop_collection(context, name).await
    }
    async fn params(&self, context: &RequestContext, name: &CollectionName) -> Result<VectorParams> {
        self.step()?.params(context, name).await
    }
    async fn upsert(&self, context: &RequestContext, name: &CollectionName, records: Vec<Record>) -> Result<()> {
        self.step()?.upsert(context, name, records).await
    }
    async fn delete(&self, context: &RequestContext, name: &CollectionName, selector: &Selector) -> Result<u64> {
        self.step()?.delete(context, name, selector).await
    }
    async fn apply(&self, context: &RequestContext, name: &CollectionName, changes: ChangeSet) -> Result<Applied> {
        self.step()?.apply(context, name, changes).await
    }
    async fn ids(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<Vec<DocumentId>> {
        self.step()?.ids(context, name, from, limit).await
    }
    async fn get(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        ids: &[DocumentId],
    ) -> Result<Vec<Option<Record>>> {
        self.step()?.get(context, name, ids).await
    }
    async fn search(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        search: VectorSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        self.step()?.search(context, name, search).await
    }
    async fn keyword_search(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        search: KeywordSearch<'_>,
    ) -> Result<Vec<ScoredRecord>> {
        self.step()?.keyword_search(context, name, search).await
    }
    async fn scroll(
        &self,
        context: &RequestContext,
        name: &CollectionName,
        filter: Option<&Filter>,
        from: Option<&DocumentId>,
        limit: usize,
    ) -> Result<ScrollPage> {
        self.step()?.scroll(context, name, filter, from, limit).await
    }
    async fn count(&self, context: &RequestContext, name: &CollectionName, filter: Option<&Filter>) -> Result<u64> {
        self.step()?.count(context, name, filter).await
    }
    async fn snapshot(&self, context: &RequestContext, name: &CollectionName, sink: RecordSink) -> Result<u64> {
        self.step()?.snapshot(context, name, sink).await
    }
}

/// The same data, through a process that crashes after `calls` calls.
fn crashing_after(memory: &MemoryStore, calls: usize) -> Collections {
    let calls_left = Arc::new(AtomicUsize::new(calls));
    Collections::new(
        Arc::new(Failing { inner: Arc::clone(&memory.vectors), calls_left: Arc::clone(&calls_left) }),
        Arc::new(Failing { inner: Arc::clone(&memory.catalog), calls_left }),
        Models::default(),
    )
}

const CLIENT: VectorSource = VectorSource::Client { dimension: 2 };

/// The state is whole: either both sides know the collection, or nobody can see it and the name is free.
async fn assert_whole(memory: &MemoryStore, documents_if_there: u64) {
    let collections = collections(memory, None);
    let listed = collections.list(&context()).await.unwrap();
    match collections.open(&context(), &name("a")).await {
        Ok(opened) => {
            assert_eq!(listed.len(), 1);
            assert_eq!(opened.count(&context(), None).await.unwrap(), documents_if_there);
        }
        Err(fault) => {
            assert!(matches!(fault, Error::NotFound { .. }), "{fault:?}");
            assert_eq!(listed, []);
            let other = VectorSource::Client { dimension: 5 };
            let made = handle(&collections, "a", other).await;
            assert_eq!(made.count(&context(), None).await.unwrap(), 0);
            assert_eq!(made.spec().fingerprint.dimension, 5);
        }
    }
}

#[tokio::test]
async fn a_create_that_crashes_anywhere_leaves_nothing_half_made() {
    let mut crashes = 0;
    for calls in 0.. {
        let memory = MemoryStore::new();
        let made = crashing_after(&memory, calls).create(&context(), new("a", CLIENT)).await;
        assert_whole(&memory, 0).await;
        match made {
            Ok(_) => break,
            Err(_) => crashes += 1,
        }
    }
    assert_eq!(crashes, 4, "get, swap, create, swap");
}

#[tokio::test]
async fn a_delete_that_crashes_anywhere_can_be_repeated() {
    let mut crashes = 0;
    for calls in 0.. {
        let memory = MemoryStore::new();
        let collections = collections(&memory, None);
        let made = handle(&collections, "a", CLIENT).await;
        made.add(&context(), vec![with_vector(&[1.0, 0.0]), with_vector(&[0.0, 1.0])], None).await.unwrap();
        let deleted = crashing_after(&memory, calls).delete(&context(), &name("a")).await;
        if deleted.is_err() {
            crashes += 1;
            let copy = MemoryStore { ..memory.clone() };
            if collections.get(&context(), &name("a")).await.is_err() {
                // Deleting again finishes the work.
                collections.delete(&context(), &name("a")).await.unwrap();
                assert!(copy.vectors.params(&context(), &name("a")).await.is_err());
            }
        }
        assert_whole(&memory, 2).await;
        if deleted.is_ok() {
            break;
        }
    }
    assert_eq!(crashes, 6, "get, swap, three drops (a generation may have been begun, and records staged), remove");
}

#[tokio::test]
async fn what_waits_to_be_moved_into_a_collection_goes_with_it() {
    let memory = MemoryStore::new();
    let collections = collections(&memory, None);
    for text in ["a", "b"] {
        let made = handle(&collections, text, CLIENT).await;
        memory.vectors.create(&context(), &name(text).staging(), VectorParams::new(2, Metric::Dot)).await.unwrap();
        assert_eq!(made.count(&context(), None).await.unwrap(), 0);
    }
    let listed = collections.list(&context()).await.unwrap();
    assert_eq!(listed.iter().map(|spec| spec.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    collections.delete(&context(), &name("a")).await.unwrap();
    assert!(memory.vectors.params(&context(), &name("a").staging()).await.is_err());
    assert!(memory.vectors.params(&context(), &name("b").staging()).await.is_ok());
    // One that has no such room is deleted as well.
    memory.vectors.drop_collection(&context(), &name("b").staging()).await.unwrap();
    collections.delete(&context(), &name("b")).await.unwrap();
    assert_eq!(collections.list(&context()).await.unwrap(), []);
}

#[tokio::test]
async fn a_create_after_a_crashed_delete_starts_empty() {
    for calls in 2..5 {
        let memory = MemoryStore::new();
        let collections = collections(&memory, None);
        let made = handle(&collections, "a", CLIENT).await;
        made.add(&context(), vec![with_vector(&[1.0, 0.0])], None).await.unwrap();
        crashing_after(&memory, calls).delete(&context(), &name("a")).await.unwrap_err();
        let remade = handle(&collections, "a", CLIENT).await;
        assert_eq!(remade.count(&context(), None).await.unwrap(), 0);
    }
}

#[tokio::test]
async fn a_store_that_disagrees_with_the_catalogue_is_not_used() {
    let memory = MemoryStore::new();
    let collections = collections(&memory, None);
    handle(&collections, "a", CLIENT).await;
    memory.vectors.drop_collection(&context(), &name("a")).await.unwrap();
    assert_eq!(reason(collections.open(&context(), &name("a")).await).0, "COLLECTION_LOST");
    let params = VectorParams::new(2, Metric::Dot);
    memory.vectors.create(&context(), &name("a"), params).await.unwrap();
    let (reason, message) = reason(collections.open(&context(), &name("a")).await);
    assert_eq!(reason, "COLLECTION_MISMATCH");
    assert!(message.contains("cosine") && message.contains("dot"), "{message}");
}

#[tokio::test]
async fn a_store_with_another_keyword_index_than_the_catalogue_says_is_not_used() {
    let memory = MemoryStore::new();
    let collections = collections(&memory, None);
    let params = handle(&collections, "a", CLIENT).await.spec().vector_params();
    memory.vectors.drop_collection(&context(), &name("a")).await.unwrap();
    memory.vectors.create(&context(), &name("a"), VectorParams { keyword: None, ..params }).await.unwrap();
    let (reason, message) = reason(collections.open(&context(), &name("a")).await);
    assert_eq!(reason, "COLLECTION_MISMATCH");
    assert!(message.contains("keywords in english") && message.contains("no keyword index"), "{message}");
}

#[tokio::test]
async fn keywords_find_documents_without_a_model() {
    let memory = MemoryStore::new();
    let collections = collections(&memory, None);
    let docs = handle(&collections, "docs", CLIENT).await;
    assert_eq!(docs.spec().keyword, Some(KeywordParams { language: Language::English }));
    docs.add(&context(), vec![NewDocument { id: Some("a".to_owned()), ..with_vector(&[1.0, 0.0]) }], None)
        .await
        .unwrap();
    let search = KeywordSearch { text: "vectors", filter: None, limit: 4 };
    let hits = docs.keyword_search(&context(), search).await.unwrap();
    let [hit] = hits.as_slice() else { panic!("one hit: {hits:?}") };
    assert_eq!((hit.document.id.as_str(), hit.rank, hit.metric, hit.relevance), ("a", 1, None, None));
    assert_eq!((hit.sources[0].source.as_str(), hit.sources[0].score, hit.sources[0].rank), ("keyword", hit.score, 1));
    assert!(hit.vector.is_some());

    collections.create_with(&context(), new("plain", CLIENT), without_keywords()).await.unwrap();
    let plain = collections.open(&context(), &name("plain")).await.unwrap();
    assert_eq!(reason(plain.keyword_search(&context(), search).await).0, "KEYWORD_NOT_INDEXED");
}

#[tokio::test]
async fn a_record_of_before_keyword_search_is_a_collection_without_it() {
    let memory = MemoryStore::new();
    let collections = collections(&memory, None);
    collections.create_with(&context(), new("old", CLIENT), without_keywords()).await.unwrap();
    let kept = memory.catalog.get(&context(), RecordKind::Collection, "old").await.unwrap().unwrap();
    let written = String::from_utf8(kept.value).unwrap();
    let old = written.replace(r#","keyword":null"#, "");
    assert_ne!(old, written);
    let expected = Expected::Version(kept.version);
    memory.catalog.swap(&context(), RecordKind::Collection, "old", expected, old.into_bytes()).await.unwrap();
    assert_eq!(collections.open(&context(), &name("old")).await.unwrap().spec().keyword, None);
}

#[tokio::test]
async fn everything_is_checked_before_anything_is_embedded() {
    let memory = MemoryStore::new();
    let model = FakeModel::new("m");
    let collections = collections(&memory, Some(&model));
    let docs = handle(&collections, "docs", VectorSource::Model).await;
    let bad_metadata = |value: f64| NewDocument {
        metadata: Metadata::from([("a".to_owned(), Value::from(vec![Value::Null, Value::Double(value)]))]),
        ..text("x")
    };
    let cases = [
        (vec![with_id("", "x"), text("y")], vec!["documents[0].id"]),
        (vec![with_id(&"i".repeat(1025), "x")], vec!["documents[0].id"]),
        (vec![with_id("a", "x"), text("y"), with_id("a", "z")], vec!["documents[2].id"]),
        (vec![text("x"), bad_metadata(f64::NAN)], vec!["documents[1].metadata.a[1]"]),
        (vec![with_vector(&[1.0, 2.0])], vec!["documents[0].vectors.dense"]),
        (vec![with_vector(&[1.0, f32::INFINITY, 0.0])], vec!["documents[0].vectors.dense"]),
        (vec![text("x"), with_vector(&[0.0; 3])], vec!["documents[1].vectors.dense"]),
        (vec![with_vector(&[])], vec!["documents[0].vectors.dense"]),
        (vec![with_id("", "x"), with_vector(&[1.0])], vec!["documents[0].id", "documents[1].vectors.dense"]),
    ];
    for (documents, expected) in cases {
        assert_eq!(fields(docs.add(&context(), documents, None).await), expected);
    }
    let twice = docs.add(&context(), vec![with_id("a", "x"), with_id("a", "z")], None).await.unwrap_err();
    assert!(twice.to_string().contains("documents[0]"), "the earlier one is named: {twice}");
    for request_id in ["", &"r".repeat(129)] {
        assert_eq!(fields(docs.add(&context(), vec![text("x")], Some(request_id)).await), ["request_id"]);
    }
    let all_wrong = (0..1000).map(|_| with_id("", "x")).collect();
    assert_eq!(fields(docs.add(&context(), all_wrong, None).await).len(), 32, "the list of faults is bounded");
    assert_eq!(docs.add(&context(), Vec::new(), None).await.unwrap(), Default::default());
    assert_eq!(model.calls(), 0);
    assert_eq!(docs.count(&context(), None).await.unwrap(), 0);
}

#[tokio::test]
async fn documents_are_embedded_in_their_role_and_answers_are_aligned() {
    let memory = MemoryStore::new();
    let model = FakeModel::new("m");
    let collections = collections(&memory, Some(&model));
    let docs = handle(&collections, "docs", VectorSource::Model).await;
    let documents = vec![text("four"), with_vector(&[9.0, 9.0, 9.0]), with_id("given", ""), text("much longer text")];
    let added = docs.add(&context(), documents, None).await.unwrap();
    assert_eq!(model.calls(), 1, "all texts go in one call");
    assert_eq!(added.ids[2].as_str(), "given");
    let usage = |tokens, truncated| TextUsage { token_count: Some(tokens), truncated };
    assert_eq!(added.usage, [usage(4, false), TextUsage::default(), usage(0, false), usage(16, true)]);
    let found = docs.get(&context(), &added.ids).await.unwrap();
    let vectors: Vec<&[f32]> = found.iter().flatten().map(|record| record.vector.as_slice()).collect();
    assert_eq!(vectors, [[4.0, 0.0, 1.0], [9.0, 9.0, 9.0], [0.0, 0.0, 1.0], [16.0, 0.0, 1.0]]);
    assert_eq!(found[1].as_ref().unwrap().document.page_content, "own vector");
    let made = [&added.ids[0], &added.ids[1], &added.ids[3]];
    for id in made {
        let id = uuid::Uuid::parse_str(id.as_str()).unwrap();
        assert_eq!(id.get_version_num(), 7);
    }
    assert!(made.is_sorted(), "made ids sort by the time of their making");

    let query = docs.query_vector(&context(), &Query::Text("four".to_owned())).await.unwrap();
    assert_eq!(query.as_slice(), [4.0, 1.0, 1.0], "a query is embedded as a query");
    let own = docs.query_vector(&context(), &Query::Vector(vec![1.0, 2.0, 3.0])).await.unwrap();
    assert_eq!(own.as_slice(), [1.0, 2.0, 3.0]);
    for bad in [vec![1.0], vec![0.0; 3], vec![f32::NAN, 1.0, 1.0]] {
        assert_eq!(fields(docs.query_vector(&context(), &Query::Vector(bad)).await), ["query.vector"]);
    }
    let page = docs.scroll(&context(), None, None, 2).await.unwrap();
    assert_eq!(page.records.len(), 2);
    assert_eq!(docs.delete(&context(), &Selector::All).await.unwrap(), 4);
}

#[tokio::test]
async fn a_text_too_long_can_be_refused_before_anything_is_written() {
    let memory = MemoryStore::new();
    let model = FakeModel::new("m");
    let collections = collections(&memory, Some(&model));
    let docs = handle(&collections, "docs", VectorSource::Model).await;
    let options = AddOptions { refuse_truncation: true, ..AddOptions::default() };
    let documents = vec![with_vector(&[1.0; 3]), text("short one"), text("ok")];
    let answer = docs.add_with(&context(), documents, options).await;
    assert!(answer.as_ref().unwrap_err().to_string().contains("8 tokens"));
    assert_eq!(fields(answer), ["documents[1].page_content"]);
    assert_eq!(docs.count(&context(), None).await.unwrap(), 0);
    docs.add_with(&context(), vec![text("ok")], options).await.unwrap();
}

#[tokio::test]
async fn a_repeated_request_makes_no_duplicates_even_after_a_restart() {
    let memory = MemoryStore::new();
    let model = FakeModel::new("m");
    let batch = || vec![text("x"), text("x"), with_id("given", "z"), with_vector(&[1.0, 2.0, 3.0])];
    let docs = handle(&collections(&memory, Some(&model)), "docs", VectorSource::Model).await;
    let first = docs.add(&context(), batch(), Some("r1")).await.unwrap();
    assert_eq!(docs.count(&context(), None).await.unwrap(), 4, "the same text twice is two documents");
    assert_eq!(uuid::Uuid::parse_str(first.ids[0].as_str()).unwrap().get_version_num(), 5);

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("dump");
    memory.dump(&path).unwrap();
    let (restarted, _) = MemoryStore::load(&path).unwrap();
    let docs = collections(&restarted, Some(&model)).open(&context(), &name("docs")).await.unwrap();
    assert_eq!(docs.add(&context(), batch(), Some("r1")).await.unwrap(), first);
    assert_eq!(docs.count(&context(), None).await.unwrap(), 4);

    // The same request id for something else: new ids, nothing overwritten.
    let other = docs.add(&context(), vec![text("other")], Some("r1")).await.unwrap();
    assert!(!first.ids.contains(&other.ids[0]));
    let changed = NewDocument { metadata: Metadata::from([("n".to_owned(), Value::Int(1))]), ..text("x") };
    docs.add(&context(), vec![changed], Some("r1")).await.unwrap();
    assert_eq!(docs.count(&context(), None).await.unwrap(), 6);
    let kept = docs.get(&context(), &first.ids).await.unwrap();
    assert_eq!(kept[0].as_ref().unwrap().document.page_content, "x");
    assert_eq!(kept[0].as_ref().unwrap().document.metadata, Metadata::new());
}

#[tokio::test]
async fn a_broken_model_writes_nothing_and_is_named_with_the_text() {
    let memory = MemoryStore::new();
    let model = FakeModel::new("m");
    let collections = collections(&memory, Some(&model));
    let docs = handle(&collections, "docs", VectorSource::Model).await;
    for bad in ["nan", "zero", "short"] {
        let documents = vec![with_vector(&[1.0; 3]), text("fine"), text(bad)];
        let fault = docs.add(&context(), documents, None).await.unwrap_err();
        assert!(matches!(fault, Error::Internal(_)) && fault.to_string().contains("documents[2]"), "{fault}");
        let fault = docs.query_vector(&context(), &Query::Text(bad.to_owned())).await.unwrap_err();
        assert!(matches!(fault, Error::Internal(_)), "{fault}");
    }
    let fault = docs.add(&context(), vec![text("lost"), text("x")], None).await.unwrap_err();
    assert!(matches!(fault, Error::Internal(_)) && fault.to_string().contains("1 vectors for 2 texts"), "{fault}");
    let fault = docs.query_vector(&context(), &Query::Text("lost".to_owned())).await.unwrap_err();
    assert!(matches!(fault, Error::Internal(_)), "{fault}");
    assert_eq!(docs.count(&context(), None).await.unwrap(), 0);
}

#[tokio::test]
async fn each_collection_is_filled_by_the_model_it_was_made_for() {
    let memory = MemoryStore::new();
    let (usual, other) = (FakeModel::new("usual"), FakeModel::new("other"));
    let mut models = Models::default();
    models.embeddings.add_default("usual", Arc::clone(&usual) as _).unwrap();
    models.embeddings.add("second", Arc::clone(&other) as _).unwrap();
    let both = Collections::new(Arc::clone(&memory.vectors) as _, Arc::clone(&memory.catalog) as _, models);
    let docs = handle(&both, "docs", VectorSource::NamedModel("second".to_owned())).await;
    assert_eq!(docs.spec().fingerprint, other.fingerprint);
    docs.add(&context(), vec![text("x")], None).await.unwrap();
    docs.query_vector(&context(), &Query::Text("x".to_owned())).await.unwrap();
    assert_eq!((usual.calls(), other.calls()), (0, 2));
    let missing = both.create(&context(), new("a", VectorSource::NamedModel("third".to_owned()))).await;
    assert_eq!(missing, Err(Error::NotFound { kind: ResourceKind::Model, name: "third".to_owned() }));

    // A process without the second model names it, and what it has instead.
    let docs = collections(&memory, Some(&usual)).open(&context(), &name("docs")).await.unwrap();
    let (reason, message) = reason(docs.add(&context(), vec![text("x")], None).await);
    assert_eq!(reason, "FINGERPRINT_MISMATCH");
    assert!(message.contains("fake/other") && message.contains("fake/usual"), "{message}");
}

#[tokio::test]
async fn texts_need_the_model_that_filled_the_collection() {
    let memory = MemoryStore::new();
    let (old, new_model) = (FakeModel::new("old"), FakeModel::new("new"));
    let with_old = collections(&memory, Some(&old));
    handle(&with_old, "docs", VectorSource::Model).await;
    handle(&with_old, "own", VectorSource::Client { dimension: DIMENSION }).await;
    let query = Query::Text("x".to_owned());
    let (with_new, without) = (collections(&memory, Some(&new_model)), collections(&memory, None));

    let docs = with_new.open(&context(), &name("docs")).await.unwrap();
    for answer in [
        docs.add(&context(), vec![with_vector(&[1.0; 3]), text("x")], None).await.map(|_| ()),
        docs.query_vector(&context(), &query).await.map(|_| ()),
    ] {
        let (reason, message) = reason(answer);
        assert_eq!(reason, "FINGERPRINT_MISMATCH");
        for part in ["fake/old", "fake/new", "\"docs\"", "toller collections reembed docs"] {
            assert!(message.contains(part), "{message:?} must contain {part:?}");
        }
    }
    // Vectors need no model.
    docs.add(&context(), vec![with_vector(&[1.0; 3])], None).await.unwrap();
    docs.query_vector(&context(), &Query::Vector(vec![1.0; 3])).await.unwrap();

    let docs = without.open(&context(), &name("docs")).await.unwrap();
    assert_eq!(reason(docs.add(&context(), vec![text("x")], None).await).0, "NO_EMBEDDING_MODEL");
    assert_eq!(reason(docs.query_vector(&context(), &query).await).0, "NO_EMBEDDING_MODEL");

    for collections in [&with_old, &without] {
        let own = collections.open(&context(), &name("own")).await.unwrap();
        let (why, message) = reason(own.add(&context(), vec![text("x")], None).await);
        assert_eq!(why, "CLIENT_VECTORS_ONLY");
        assert!(message.contains("vector of dimension 3"), "{message}");
        assert_eq!(reason(own.query_vector(&context(), &query).await).0, "CLIENT_VECTORS_ONLY");
        own.add(&context(), vec![with_vector(&[1.0; 3])], None).await.unwrap();
    }
    assert_eq!((old.calls(), new_model.calls()), (0, 0), "nothing was embedded");
}

#[tokio::test]
async fn nobody_waits_for_an_answer_that_nobody_wants() {
    let memory = MemoryStore::new();
    let collections = collections(&memory, None);
    let docs = handle(&collections, "docs", VectorSource::Client { dimension: DIMENSION }).await;
    docs.add(&context(), vec![with_vector(&[1.0; 3])], None).await.unwrap();
    let gone = context();
    gone.cancellation().cancel();
    let late = context().with_deadline(Some(Instant::now()));
    let vector = docs.query_vector(&context(), &Query::Vector(vec![1.0; 3])).await.unwrap();
    let any = Filter::And(Vec::new());
    for (context, is_right) in [
        (gone, (|fault| matches!(fault, Error::Cancelled)) as fn(&Error) -> bool),
        (late, |fault| matches!(fault, Error::DeadlineExceeded(_))),
    ] {
        let search = VectorSearch { vector: &vector, using: None, filter: None, limit: 1 };
        let faults = [
            docs.store().search(&context, &docs.spec().name, search).await.unwrap_err(),
            docs.count(&context, Some(&any)).await.unwrap_err(),
            docs.scroll(&context, Some(&any), None, 1).await.unwrap_err(),
            docs.delete(&context, &Selector::Filter(any.clone())).await.unwrap_err(),
            docs.add(&context, vec![with_vector(&[1.0; 3])], None).await.unwrap_err(),
        ];
        assert!(faults.iter().all(is_right), "{faults:?}");
    }
    assert_eq!(docs.count(&context(), None).await.unwrap(), 1);
}

#[tokio::test]
async fn embedding_anew_that_crashes_anywhere_is_finished_or_undone_by_the_next_process() {
    let both = || {
        let mut models = Models::default();
        models.embeddings.add_default("old", FakeModel::new("old") as _).unwrap();
        models.embeddings.add("new", FakeModel::new("new") as _).unwrap();
        models
    };
    let mut crashes = 0;
    for calls in 0.. {
        let memory = MemoryStore::new();
        let healthy = || Collections::new(Arc::clone(&memory.vectors) as _, Arc::clone(&memory.catalog) as _, both());
        let docs = handle(&healthy(), "docs", VectorSource::Model).await;
        docs.add(&context(), ["a", "bb", "ccc"].map(|id| with_id(id, id)).to_vec(), None).await.unwrap();

        let calls_left = Arc::new(AtomicUsize::new(calls));
        let crashing = Collections::new(
            Arc::new(Failing { inner: Arc::clone(&memory.vectors), calls_left: Arc::clone(&calls_left) }),
            Arc::new(Failing { inner: Arc::clone(&memory.catalog), calls_left }),
            both(),
        )
        .with_reembed_batch(1);
        let ended = match crashing.reembed(&context(), &name("docs"), Some("new")).await {
            Ok(started) => crashing.operations().wait(&context(), &started.id, None).await,
            Err(fault) => Err(fault),
        };
        drop(crashing);

        let next = healthy();
        next.resume_operations().await.unwrap();
        for operation in next.operations().list(&context()).await.unwrap() {
            let operation = next.operations().wait(&context(), &operation.id, None).await.unwrap();
            assert!(operation.has_ended(), "after {calls} calls: {operation:?}");
        }
        let held = async || -> Vec<u32> {
            let mut held = Vec::new();
            for number in 1..=5 {
                if memory.vectors.params(&context(), &name("docs").generation(number)).await.is_ok() {
                    held.push(number);
                }
            }
            held
        };
        let opened = next.open(&context(), &name("docs")).await.unwrap();
        assert_eq!(opened.count(&context(), None).await.unwrap(), 3, "after {calls} calls");
        let has_new = opened.spec().fingerprint.model == "new";
        assert_eq!(held().await.len(), if has_new { 2 } else { 1 }, "after {calls} calls: {:?}", held().await);
        let again = next.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
        let again = next.operations().wait(&context(), &again.id, None).await.unwrap();
        assert_eq!((again.state, again.done), (toller_core::OperationState::Succeeded, if has_new { 0 } else { 3 }));
        next.delete(&context(), &name("docs")).await.unwrap();
        assert_eq!(held().await, [0_u32; 0], "after {calls} calls");
        if ended.is_ok_and(|operation| operation.state == toller_core::OperationState::Succeeded) {
            break;
        }
        crashes += 1;
    }
    assert!(crashes > 20, "{crashes}");
}
