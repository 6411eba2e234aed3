//! The Qdrant store among several gateways, with calls that fail: what was acknowledged is there, and nothing is there by half.

#![cfg(feature = "qdrant")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "these are tests: they fail by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use qdrant_client::qdrant::CountPoints;
use qdrant_client::qdrant::points_client::PointsClient;
use tokio::sync::oneshot;
use toller_core::catalog::{Expected, RecordKind};
use toller_core::collection::VectorParams;
use toller_core::error::Error;
use toller_core::filter::KeyPath;
use toller_core::vector_store::{Applied, ChangeSet, RecordSource, Selector, VectorSearch};
use toller_core::{
    Catalog, CollectionName, Document, DocumentId, DocumentStore, Filter, KeywordParams, KeywordSearch, Language,
    Metadata, Metric, Principal, Record, RequestContext, Role, Tenant, Value, Vector, VectorStore,
};
use toller_store::backends::qdrant::{QdrantConfig, QdrantError, QdrantStore};
use toller_test_qdrant::{TestQdrant, TestQdrantConfig};

const PARAMS: VectorParams = VectorParams::new(2, Metric::Dot);

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

fn id(id: &str) -> DocumentId {
    DocumentId::new(id).unwrap()
}

fn record(text: &str, round: i64) -> Record {
    let metadata = Metadata::from([("round".to_owned(), Value::Int(round))]);
    let document = Document { id: id(text), page_content: format!("round {round} of {text}"), metadata };
    Record::new(Arc::new(document), Vector::new(vec![1.0, round as f32], Metric::Dot).unwrap())
}

fn config(server: &TestQdrant, key: &str) -> QdrantConfig {
    QdrantConfig { url: server.url(), api_key: Some(key.to_owned()), exact: true, ..QdrantConfig::default() }
}

async fn gateway(server: &TestQdrant, key: &str) -> QdrantStore {
    QdrantStore::connect(config(server, key)).await.unwrap()
}

/// Every id with its round, as all kinds of reads agree on it.
async fn state(store: &QdrantStore, collection: &str) -> BTreeMap<String, i64> {
    let (context, collection) = (context(), name(collection));
    let page = store.vectors.scroll(&context, &collection, None, None, usize::MAX).await.unwrap();
    let of = |record: &Record| {
        let Value::Int(round) = record.document.metadata["round"] else { panic!("a round is a number") };
        assert_eq!(record.vector.as_slice(), [1.0, round as f32], "document and vector are of one write");
        (record.document.id.to_string(), round)
    };
    let state: BTreeMap<String, i64> = page.records.iter().map(of).collect();
    let vector = Vector::new(vec![1.0, 0.0], Metric::Dot).unwrap();
    let search = VectorSearch { vector: &vector, using: None, filter: None, limit: 1000 };
    let hits = store.vectors.search(&context, &collection, search).await.unwrap();
    assert_eq!(hits.iter().map(|hit| of(&hit.record)).collect::<BTreeMap<_, _>>(), state);
    assert_eq!(store.vectors.count(&context, &collection, None).await.unwrap(), state.len() as u64);
    state
}

fn rounds<const N: usize>(entries: [(&str, i64); N]) -> BTreeMap<String, i64> {
    entries.into_iter().map(|(id, round)| (id.to_owned(), round)).collect()
}

/// How many points a collection of the server has, of all commits and tenants.
async fn points_of(server: &TestQdrant, prefix: &str) -> u64 {
    let mut client = PointsClient::connect(server.url()).await.unwrap();
    let request = CountPoints { collection_name: prefix.to_owned(), exact: Some(true), ..CountPoints::default() };
    client.count(request).await.unwrap().into_inner().result.unwrap().count
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_gateway_writes_is_seen_by_the_others() {
    let server = TestQdrant::start().await.unwrap();
    let (one, other) = (gateway(&server, "one").await, gateway(&server, "other").await);
    let (context, docs) = (context(), name("docs"));
    one.vectors.create(&context, &docs, PARAMS).await.unwrap();
    let twice = other.vectors.create(&context, &docs, PARAMS).await;
    assert!(matches!(twice, Err(Error::AlreadyExists { .. })), "{twice:?}");
    one.vectors.upsert(&context, &docs, vec![record("a", 1), record("b", 1)]).await.unwrap();
    assert_eq!(state(&other, "docs").await, rounds([("a", 1), ("b", 1)]));
    other.vectors.upsert(&context, &docs, vec![record("a", 2)]).await.unwrap();
    assert_eq!(state(&one, "docs").await, rounds([("a", 2), ("b", 1)]));
    one.vectors.delete(&context, &docs, &Selector::Ids(vec![id("b")])).await.unwrap();
    assert_eq!(state(&other, "docs").await, rounds([("a", 2)]));

    let document = Document { id: id("p"), page_content: "parent".to_owned(), metadata: Metadata::new() };
    one.documents.put(&context, &docs, vec![document.clone()]).await.unwrap();
    assert_eq!(other.documents.get(&context, &docs, &[id("p")]).await.unwrap(), [Some(document)]);
    let version = one.catalog.swap(&context, RecordKind::Retriever, "r", Expected::Absent, vec![1]).await.unwrap();
    let seen = other.catalog.get(&context, RecordKind::Retriever, "r").await.unwrap().unwrap();
    assert_eq!((seen.version, seen.value), (version, vec![1]));

    other.vectors.drop_collection(&context, &docs).await.unwrap();
    assert!(matches!(one.vectors.params(&context, &docs).await, Err(Error::NotFound { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_in_several_gateways_lose_nothing() {
    const WRITES: usize = 20;
    let server = TestQdrant::start().await.unwrap();
    let context = context();
    let docs = name("docs");
    gateway(&server, "maker").await.vectors.create(&context, &docs, PARAMS).await.unwrap();
    let mut tasks = Vec::new();
    for gateway_name in ["x", "y", "z"] {
        let store = gateway(&server, gateway_name).await;
        for writer in 0..2 {
            let (store, context, docs) = (store.clone(), context.clone(), docs.clone());
            tasks.push(tokio::spawn(async move {
                for n in 0..WRITES {
                    let text = format!("{gateway_name}{writer}-{n:02}");
                    // All write one id in common as well.
                    let records = vec![record(&text, n as i64), record("common", n as i64)];
                    store.vectors.upsert(&context, &docs, records).await.unwrap();
                    if n % 4 == 3 {
                        let gone = Selector::Ids(vec![id(&text), id("missing")]);
                        assert_eq!(store.vectors.delete(&context, &docs, &gone).await.unwrap(), 1);
                    }
                }
            }));
        }
    }
    for task in tasks {
        task.await.unwrap();
    }
    let mut expected: BTreeSet<String> = BTreeSet::from(["common".to_owned()]);
    for gateway_name in ["x", "y", "z"] {
        for writer in 0..2 {
            expected.extend((0..WRITES).filter(|n| n % 4 != 3).map(|n| format!("{gateway_name}{writer}-{n:02}")));
        }
    }
    let state = state(&gateway(&server, "reader").await, "docs").await;
    assert_eq!(state.keys().cloned().collect::<BTreeSet<_>>(), expected);
}

/// Calls of a write, at most.
const MOST_CALLS: u64 = 24;

/// How something is written.
#[derive(Debug, Clone, Copy)]
enum Way {
    Upsert,
    ChangeSet,
}

/// A gateway makes so many calls of a write, and is gone; what becomes of the write?
async fn after_a_death(
    server: &TestQdrant,
    survivor: &QdrantStore,
    way: Way,
    calls: u64,
    loses_answer: bool,
) -> &'static str {
    let context = context();
    let key = format!("mortal-{way:?}-{calls}-{loses_answer}");
    let docs = name(&format!("docs-{way:?}-{calls}-{loses_answer}"));
    let mortal = QdrantConfig { timeout: Duration::from_secs(4), retries: 0, ..config(server, &key) };
    let mortal = QdrantStore::connect(mortal).await.unwrap();
    survivor.vectors.create(&context, &docs, PARAMS).await.unwrap();
    survivor.vectors.upsert(&context, &docs, vec![record("a", 1), record("b", 1), record("c", 1)]).await.unwrap();

    server.faults().cut_off(&key, calls, loses_answer);
    let old = rounds([("a", 1), ("b", 1), ("c", 1)]);
    let mut new = rounds([("a", 2), ("b", 1), ("c", 1), ("d", 2)]);
    let written = match way {
        Way::Upsert => mortal.vectors.upsert(&context, &docs, vec![record("a", 2), record("d", 2)]).await,
        Way::ChangeSet => {
            new.remove("c");
            let changes = ChangeSet::new(vec![id("c"), id("d")], vec![vec![record("a", 2)], vec![record("d", 2)]]);
            mortal.vectors.apply(&context, &docs, changes).await.map(|applied| {
                assert_eq!(applied, Applied { upserted: 2, deleted: 1 });
            })
        }
    };
    let seen = state(survivor, docs.as_str()).await;
    assert!(seen == old || seen == new, "after {calls} calls: {seen:?}");
    assert!(written.is_err() || seen == new, "what is acknowledged is there");

    // The next writer has to wait for the turn to end, and then the state is still whole.
    survivor.vectors.upsert(&context, &docs, vec![record("e", 3)]).await.unwrap();
    let mut expected = seen.clone();
    expected.insert("e".to_owned(), 3);
    assert_eq!(state(survivor, docs.as_str()).await, expected, "after {calls} calls");
    survivor.vectors.upsert(&context, &docs, vec![record("a", 2), record("d", 2)]).await.unwrap();
    survivor.vectors.delete(&context, &docs, &Selector::Ids(vec![id("c"), id("e")])).await.unwrap();
    let at_last = rounds([("a", 2), ("b", 1), ("d", 2)]);
    assert_eq!(state(survivor, docs.as_str()).await, at_last, "after {calls} calls");
    match written {
        Ok(()) => "acknowledged",
        Err(_) if seen == old => "old",
        Err(_) => "new",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_dies_at_any_call_of_a_write_leaves_nothing_by_half() {
    die_at_every_call(Way::Upsert).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_dies_at_any_call_of_many_changes_leaves_nothing_by_half() {
    die_at_every_call(Way::ChangeSet).await;
}

async fn die_at_every_call(way: Way) {
    let server = Arc::new(TestQdrant::start().await.unwrap());
    // Those who wait for turns to end do so at the same time.
    let survivor = QdrantConfig { timeout: Duration::from_secs(30), ..config(&server, "survivor") };
    let survivor = QdrantStore::connect(survivor).await.unwrap();
    let deaths = [false, true].map(|loses_answer| {
        let death = |calls| {
            let (server, survivor) = (Arc::clone(&server), survivor.clone());
            tokio::spawn(async move { after_a_death(&server, &survivor, way, calls, loses_answer).await })
        };
        (loses_answer, (0..MOST_CALLS).map(death).collect::<Vec<_>>())
    });
    for (loses_answer, deaths) in deaths {
        let mut outcomes = Vec::new();
        for death in deaths {
            outcomes.push(death.await.unwrap());
        }
        println!("loses_answer {loses_answer}: {outcomes:?}");
        assert!(outcomes.iter().filter(|outcome| **outcome == "old").count() > 5, "{outcomes:?}");
        assert_eq!(outcomes.last(), Some(&"acknowledged"), "a write takes fewer than {MOST_CALLS} calls: {outcomes:?}");
        assert!(outcomes.contains(&"new"), "a commit whose answer is lost counts: {outcomes:?}");
    }
}

/// Says when it is asked for the first time, and then takes a while for its first answer.
struct Slow {
    answers: std::vec::IntoIter<Vec<Record>>,
    asked: Option<oneshot::Sender<()>>,
    takes: Duration,
}

#[async_trait::async_trait]
impl RecordSource for Slow {
    async fn next(&mut self) -> Result<Option<Vec<Record>>, Error> {
        if let Some(asked) = self.asked.take() {
            asked.send(()).unwrap();
            tokio::time::sleep(self.takes).await;
        }
        Ok(Iterator::next(&mut self.answers))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_source_that_is_slower_than_a_turn_keeps_its_turn() {
    let server = TestQdrant::start().await.unwrap();
    let config = |key: &str| QdrantConfig { timeout: Duration::from_secs(3), ..config(&server, key) };
    let (one, other) =
        (QdrantStore::connect(config("one")).await.unwrap(), QdrantStore::connect(config("other")).await.unwrap());
    let (context, docs) = (context(), name("docs"));
    one.vectors.create(&context, &docs, PARAMS).await.unwrap();
    one.vectors.upsert(&context, &docs, vec![record("a", 1), record("b", 1)]).await.unwrap();
    let batches = vec![vec![record("a", 2)], vec![record("c", 2)]];
    let (asked, is_asked) = oneshot::channel();
    let commit = {
        let (one, context, docs) = (one.clone(), context.clone(), docs.clone());
        // A turn lasts four times as long as a call may.
        let takes = Duration::from_secs(14);
        let upsert = Box::new(Slow { answers: batches.into_iter(), asked: Some(asked), takes });
        let changes = ChangeSet { delete: vec![id("b")], upsert };
        tokio::spawn(async move { one.vectors.apply(&context, &docs, changes).await })
    };
    is_asked.await.unwrap();
    assert_eq!(state(&other, "docs").await, rounds([("a", 1), ("b", 1)]), "reads do not wait");
    other.vectors.upsert(&context, &docs, vec![record("a", 3)]).await.unwrap();
    assert_eq!(commit.await.unwrap().unwrap(), Applied { upserted: 2, deleted: 1 });
    let expected = rounds([("a", 3), ("c", 2)]);
    assert_eq!(state(&other, "docs").await, expected, "the other writer had to wait for its turn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_that_dies_while_it_drops_a_collection_leaves_room_for_a_new_one() {
    let server = TestQdrant::start().await.unwrap();
    let quick = |key: &str| QdrantConfig { retries: 0, ..config(&server, key) };
    let mortal = QdrantStore::connect(quick("mortal")).await.unwrap();
    let survivor = QdrantStore::connect(quick("survivor")).await.unwrap();
    let (context, docs) = (context(), name("docs"));
    for calls in 0..10 {
        server.faults().cut_off("mortal", u64::MAX, false);
        survivor.vectors.create(&context, &docs, PARAMS).await.unwrap();
        survivor.vectors.upsert(&context, &docs, vec![record("a", 1)]).await.unwrap();
        server.faults().cut_off("mortal", calls, false);
        let dropped = mortal.vectors.drop_collection(&context, &docs).await;
        let there = survivor.vectors.count(&context, &docs, None).await;
        match there {
            Ok(count) => {
                assert!(dropped.is_err() && count == 1, "{count} after {calls} calls");
                survivor.vectors.drop_collection(&context, &docs).await.unwrap();
            }
            Err(Error::NotFound { .. }) => {}
            Err(fault) => panic!("{fault:?}"),
        }
        survivor.vectors.create(&context, &docs, PARAMS).await.unwrap();
        assert_eq!(state(&survivor, "docs").await, rounds([]), "after {calls} calls");
        survivor.vectors.drop_collection(&context, &docs).await.unwrap();
        if dropped.is_ok() {
            return;
        }
    }
    panic!("a drop takes fewer calls than that");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_small_writes_share_commits() {
    const WRITES: usize = 60;
    let server = TestQdrant::start().await.unwrap();
    let store = gateway(&server, "one").await;
    let (context, docs) = (context(), name("docs"));
    store.vectors.create(&context, &docs, PARAMS).await.unwrap();
    let before = server.faults().calls("one");
    store.vectors.upsert(&context, &docs, vec![record("first", 0)]).await.unwrap();
    let alone = server.faults().calls("one") - before;

    let before = server.faults().calls("one");
    let tasks: Vec<_> = (0..WRITES)
        .map(|n| {
            let (store, context, docs) = (store.clone(), context.clone(), docs.clone());
            tokio::spawn(async move {
                store.vectors.upsert(&context, &docs, vec![record(&format!("{n:02}"), 1)]).await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let together = server.faults().calls("one") - before;
    assert!(together < alone * WRITES as u64 / 2, "{together} calls for {WRITES} writes, {alone} for one");
    assert_eq!(state(&store, "docs").await.len(), WRITES + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_rows_are_taken_away_and_tenants_share_a_collection_of_the_server() {
    let server = TestQdrant::start().await.unwrap();
    let config = QdrantConfig { keep_replaced: Duration::from_millis(200), ..config(&server, "one") };
    let store = QdrantStore::connect(config).await.unwrap();
    let (ours, theirs, docs) = (context(), context_of("theirs"), name("docs"));
    for context in [&ours, &theirs] {
        store.vectors.create(context, &docs, PARAMS).await.unwrap();
        for round in 0..5 {
            store.vectors.upsert(context, &docs, vec![record("a", round), record("b", round)]).await.unwrap();
        }
    }
    let physical = server.collections().into_iter().find(|name| name.starts_with("toller_docs_")).unwrap();
    let wait_for = async |expected: u64| {
        let until = Instant::now() + Duration::from_secs(60);
        while points_of(&server, &physical).await != expected {
            assert!(Instant::now() < until, "{} points", points_of(&server, &physical).await);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    wait_for(4).await;
    assert_eq!(state(&store, "docs").await, rounds([("a", 4), ("b", 4)]));
    store.vectors.drop_collection(&theirs, &docs).await.unwrap();
    wait_for(2).await;
    assert_eq!(state(&store, "docs").await, rounds([("a", 4), ("b", 4)]));
    assert_eq!(server.collections().iter().filter(|name| name.starts_with("toller_docs_")).count(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_took_longer_than_replaced_rows_are_kept_is_not_answered_in_part() {
    let server = TestQdrant::start().await.unwrap();
    let config = |key: &str| QdrantConfig { keep_replaced: Duration::from_millis(300), ..config(&server, key) };
    let store = QdrantStore::connect(config("one")).await.unwrap();
    let (context, docs) = (context(), name("docs"));
    store.vectors.create(&context, &docs, PARAMS).await.unwrap();
    store.vectors.upsert(&context, &docs, vec![record("a", 1), record("b", 1)]).await.unwrap();
    // Its first call, which reads the record, is answered at once; its second waits while the rows are replaced and taken away.
    let slower = QdrantConfig { timeout: Duration::from_secs(30), ..config("slower") };
    let slow = QdrantStore::connect(slower).await.unwrap();
    let before = server.faults().calls("slower");
    let search = {
        server.faults().delay_after("slower", 1, Duration::from_secs(6));
        tokio::spawn({
            let (context, docs) = (context.clone(), docs.clone());
            async move { slow.vectors.scroll(&context, &docs, None, None, 10).await.map(|page| page.records.len()) }
        })
    };
    let until = Instant::now() + Duration::from_secs(60);
    while server.faults().calls("slower") < before + 2 {
        assert!(Instant::now() < until, "the second call is not made");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.faults().delay_after("slower", 0, Duration::ZERO);
    store.vectors.upsert(&context, &docs, vec![record("a", 2), record("b", 2)]).await.unwrap();
    let answer = search.await.unwrap();
    assert!(matches!(answer, Err(Error::Unavailable(_))), "{answer:?}");
    assert_eq!(state(&store, "docs").await, rounds([("a", 2), ("b", 2)]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_are_tried_again_while_the_server_cannot_be_reached() {
    let server = TestQdrant::start().await.unwrap();
    let store = gateway(&server, "one").await;
    let (context, docs) = (context(), name("docs"));
    store.vectors.create(&context, &docs, PARAMS).await.unwrap();
    for refused in 1..=3 {
        server.faults().refuse(refused);
        store.vectors.upsert(&context, &docs, vec![record("a", refused.into())]).await.unwrap();
        server.faults().refuse(refused);
        assert_eq!(state(&store, "docs").await, rounds([("a", refused.into())]));
    }
    server.faults().refuse(1000);
    let fault = store.vectors.count(&context, &docs, None).await.unwrap_err();
    assert!(matches!(&fault, Error::Unavailable(text) if text.contains("Qdrant")), "{fault:?}");
    server.faults().refuse(0);
    assert_eq!(store.vectors.count(&context, &docs, None).await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_does_not_wait_beyond_its_deadline() {
    let server = TestQdrant::start().await.unwrap();
    // Nothing but the deadline ends a call so soon.
    let config = QdrantConfig { timeout: Duration::from_secs(120), ..config(&server, "one") };
    let store = QdrantStore::connect(config).await.unwrap();
    let docs = name("docs");
    store.vectors.create(&context(), &docs, PARAMS).await.unwrap();
    server.faults().delay(Duration::from_secs(60));
    let began = Instant::now();
    let hurried = context().with_deadline(Some(began + Duration::from_millis(200)));
    let read = store.vectors.count(&hurried, &docs, None).await;
    assert!(matches!(read, Err(Error::DeadlineExceeded(_))), "{read:?}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    server.faults().delay(Duration::ZERO);
    let late = context().with_deadline(Some(Instant::now()));
    let written = store.vectors.upsert(&late, &docs, vec![record("a", 1)]).await;
    assert!(matches!(written, Err(Error::DeadlineExceeded(_))), "{written:?}");
    let cancelled = context();
    cancelled.cancellation().cancel();
    assert_eq!(store.vectors.count(&cancelled, &docs, None).await, Err(Error::Cancelled));
    assert_eq!(state(&store, "docs").await, rounds([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_cannot_be_used_is_named() {
    let server =
        TestQdrant::start_with(TestQdrantConfig { api_keys: vec!["right".to_owned()], ..TestQdrantConfig::default() })
            .await
            .unwrap();
    gateway(&server, "right").await;
    let fault = QdrantStore::connect(config(&server, "wrong")).await.unwrap_err();
    assert!(matches!(fault, QdrantError::Unusable { .. }) && fault.to_string().contains(&server.url()), "{fault}");
    assert!(fault.to_string().contains("key") && !fault.to_string().contains("wrong"), "{fault}");

    let url = "http://127.0.0.1:9".to_owned();
    let nobody = QdrantConfig { url: url.clone(), retries: 1, ..QdrantConfig::default() };
    let fault = QdrantStore::connect(nobody).await.unwrap_err();
    assert!(fault.to_string().contains(&url), "{fault}");
    let fault = QdrantStore::connect(QdrantConfig { prefix: "a/b".to_owned(), ..QdrantConfig::default() }).await;
    assert!(matches!(fault, Err(QdrantError::Config { .. })));
    let fault = QdrantStore::connect(QdrantConfig { url: "no address".to_owned(), ..QdrantConfig::default() }).await;
    assert!(matches!(fault, Err(QdrantError::Config { .. })));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_ids_with_long_common_beginnings_are_in_order() {
    let server = TestQdrant::start().await.unwrap();
    let store = gateway(&server, "one").await;
    let (context, docs) = (context(), name("docs"));
    store.vectors.create(&context, &docs, PARAMS).await.unwrap();
    let url = "https://example.com/a/very/long/path/that/all/have/in/common";
    let mut expected: Vec<String> = (0..700).map(|n| format!("{url}/{n}")).collect();
    expected.extend((0..300).map(|n| format!("doc-{n:06}")));
    expected.extend((0..300).map(|n| format!("018f3c5e-7b2a-7000-8000-{n:012}")));
    expected.extend(["d", "doc", "doc-", "doc-00", "doc-000", "doc-0000001", "z"].map(str::to_owned));
    store.vectors.upsert(&context, &docs, expected.iter().map(|text| record(text, 1)).collect()).await.unwrap();
    expected.sort_unstable();
    for limit in [60, 5000] {
        let mut seen = Vec::new();
        let mut from: Option<DocumentId> = None;
        loop {
            let page = store.vectors.scroll(&context, &docs, None, from.as_ref(), limit).await.unwrap();
            assert!(page.records.len() == limit || page.next.is_none(), "pages are full");
            seen.extend(page.records.iter().map(|record| record.document.id.to_string()));
            match page.next {
                Some(next) => from = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, expected, "pages of {limit}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_commit_counts_for_neither_keywords_nor_filters() {
    let server = TestQdrant::start().await.unwrap();
    let mortal = QdrantStore::connect(QdrantConfig { retries: 0, ..config(&server, "mortal") }).await.unwrap();
    let other = gateway(&server, "other").await;
    let (context, docs) = (context(), name("docs"));
    let params = VectorParams { keyword: Some(KeywordParams { language: Language::None }), ..PARAMS };
    other.vectors.create(&context, &docs, params).await.unwrap();
    other.vectors.upsert(&context, &docs, vec![record("a", 1), record("b", 1)]).await.unwrap();
    let ask = async || {
        let search = KeywordSearch { text: "round", filter: None, limit: 9 };
        let hits = other.vectors.keyword_search(&context, &docs, search).await.unwrap();
        let hits: Vec<_> = hits.iter().map(|hit| (hit.record.document.id.to_string(), hit.score)).collect();
        let key = KeyPath::parse("round").unwrap();
        let count = other.vectors.count(&context, &docs, Some(&Filter::Gte(key, Value::Int(1)))).await.unwrap();
        (hits, count)
    };
    let before = ask().await;
    assert_eq!(before.0.len(), 2);
    // Late enough that rows were written, too early for the commit.
    server.faults().cut_off("mortal", 7, false);
    mortal.vectors.upsert(&context, &docs, vec![record("a", 2), record("c", 2)]).await.unwrap_err();
    assert_eq!(ask().await, before);
}
