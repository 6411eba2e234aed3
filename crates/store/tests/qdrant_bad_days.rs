//! The Qdrant store on bad days: calls whose answer is lost, attempts that come to no end, and changes that are about more rows than a
//! call manages.

#![cfg(feature = "qdrant")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests: they fail by panicking"
)]

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use qdrant_client::qdrant::CountPoints;
use qdrant_client::qdrant::points_client::PointsClient;
use tokio::sync::mpsc;
use toller_core::collection::VectorParams;
use toller_core::error::Error;
use toller_core::filter::KeyPath;
use toller_core::vector_store::{ChangeSet, RecordSource, Selector};
use toller_core::{
    CollectionName, Document, DocumentId, Filter, Metadata, Metric, Principal, Record, RequestContext, Role, Tenant,
    Value, Vector, VectorStore,
};
use toller_store::backends::qdrant::{QdrantConfig, QdrantStore};
use toller_test_qdrant::TestQdrant;

const PARAMS: VectorParams = VectorParams::new(2, Metric::Dot);

/// More calls than a write of one record takes.
const MOST_CALLS: u64 = 20;

fn context() -> RequestContext {
    let tenant = Tenant::new("ours").unwrap();
    RequestContext::new(Principal { name: "test".into(), tenant, role: Role::Admin })
}

fn name(name: &str) -> CollectionName {
    CollectionName::new(name).unwrap()
}

fn id(id: &str) -> DocumentId {
    DocumentId::new(id).unwrap()
}

fn record(text: &str) -> Record {
    let metadata = Metadata::from([("old".to_owned(), Value::Bool(text.starts_with("old")))]);
    let document = Document { id: id(text), page_content: format!("about {text}"), metadata };
    Record::new(Arc::new(document), Vector::new(vec![1.0, 2.0], Metric::Dot).unwrap())
}

fn config(server: &TestQdrant, key: &str) -> QdrantConfig {
    QdrantConfig {
        url: server.url(),
        api_key: Some(key.to_owned()),
        exact: true,
        retries: 0,
        ..QdrantConfig::default()
    }
}

async fn gateway(server: &TestQdrant, key: &str) -> QdrantStore {
    QdrantStore::connect(config(server, key)).await.unwrap()
}

/// Points of the rows of a collection, of all its instances and commits.
async fn points_of(server: &TestQdrant, collection: &str) -> u64 {
    let mut client = PointsClient::connect(server.url()).await.unwrap();
    let mut points = 0;
    for physical in server.collections().into_iter().filter(|of| of.starts_with(&format!("toller_{collection}_"))) {
        let request = CountPoints { collection_name: physical, exact: Some(true), ..CountPoints::default() };
        points += client.count(request).await.unwrap().into_inner().result.unwrap().count;
    }
    points
}

async fn put(store: &QdrantStore, collection: &str, ids: &[String]) {
    for some in ids.chunks(1000) {
        let records = some.iter().map(|id| record(id)).collect();
        store.vectors.upsert(&context(), &name(collection), records).await.unwrap();
    }
}

fn ids(kind: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{kind}-{n:05}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drop_that_came_to_no_end_is_ended_by_the_next_one() {
    let server = TestQdrant::start().await.unwrap();
    let mortal = gateway(&server, "mortal").await;
    let docs = name("docs");
    let mut cut_off = 0;
    for loses_answer in [false, true] {
        for calls in 0.. {
            server.faults().cut_off("mortal", u64::MAX, false);
            mortal.vectors.create(&context(), &docs, PARAMS).await.unwrap();
            put(&mortal, "docs", &ids("old", 3)).await;
            server.faults().cut_off("mortal", calls, loses_answer);
            let dropped = mortal.vectors.drop_collection(&context(), &docs).await;
            server.faults().cut_off("mortal", u64::MAX, false);
            match mortal.vectors.drop_collection(&context(), &docs).await {
                Ok(()) => {
                    assert!(dropped.is_err(), "there is nothing to drop a second time");
                    cut_off += 1;
                }
                Err(Error::NotFound { .. }) => {}
                Err(fault) => panic!("{fault:?}"),
            }
            assert_eq!(points_of(&server, "docs").await, 0, "after {calls} calls");
            let again = mortal.vectors.drop_collection(&context(), &docs).await;
            assert!(matches!(again, Err(Error::NotFound { .. })), "{again:?}");
            if dropped.is_ok() {
                break;
            }
        }
    }
    assert!(cut_off >= 6, "{cut_off}");
}

/// Hands out what it is sent.
struct Sent(mpsc::Receiver<Vec<Record>>);

#[async_trait]
impl RecordSource for Sent {
    async fn next(&mut self) -> Result<Option<Vec<Record>>, Error> {
        Ok(self.0.recv().await)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_written_while_their_collection_is_dropped_go_too() {
    let server = TestQdrant::start().await.unwrap();
    let (writer, other) = (gateway(&server, "writer").await, gateway(&server, "other").await);
    let docs = name("docs");
    for is_made_anew in [false, true] {
        writer.vectors.create(&context(), &docs, PARAMS).await.unwrap();
        let (send, sent) = mpsc::channel(1);
        let commit = {
            let (writer, docs) = (writer.clone(), docs.clone());
            let changes = ChangeSet { delete: Vec::new(), upsert: Box::new(Sent(sent)) };
            tokio::spawn(async move { writer.vectors.apply(&context(), &docs, changes).await })
        };
        send.send(vec![record("early")]).await.unwrap();
        while points_of(&server, "docs").await == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        other.vectors.drop_collection(&context(), &docs).await.unwrap();
        assert_eq!(points_of(&server, "docs").await, 0);
        if is_made_anew {
            other.vectors.create(&context(), &docs, PARAMS).await.unwrap();
            put(&other, "docs", &ids("new", 2)).await;
        }
        send.send(vec![record("late")]).await.unwrap();
        drop(send);
        commit.await.unwrap().unwrap_err();
        assert_eq!(points_of(&server, "docs").await, if is_made_anew { 2 } else { 0 });
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_lost_answer_keeps_nobody_else_from_writing() {
    let server = TestQdrant::start().await.unwrap();
    // A turn that nobody ended would be waited for for two minutes.
    let patient = |key: &str| QdrantConfig { timeout: Duration::from_secs(30), ..config(&server, key) };
    let (unlucky, other) = (
        QdrantStore::connect(patient("unlucky")).await.unwrap(),
        QdrantStore::connect(patient("other")).await.unwrap(),
    );
    let docs = name("docs");
    unlucky.vectors.create(&context(), &docs, PARAMS).await.unwrap();
    let (mut acknowledged, mut expected) = (0, 0);
    for after in 0..MOST_CALLS {
        put(&other, "docs", &[format!("common-{after}")]).await;
        server.faults().lose_answer("unlucky", after);
        let started = Instant::now();
        let records = vec![record(&format!("common-{after}")), record(&format!("unlucky-{after}"))];
        let written = unlucky.vectors.upsert(&context(), &docs, records).await;
        let took = started.elapsed();
        assert!(took < Duration::from_secs(60), "the answer of call {after} was lost: {took:?}");
        server.faults().lose_answer("unlucky", u64::MAX / 2);
        let started = Instant::now();
        put(&other, "docs", &[format!("other-{after}")]).await;
        let took = started.elapsed();
        assert!(took < Duration::from_secs(60), "the answer of call {after} was lost: {took:?}");
        expected += if written.is_ok() { 3 } else { 2 };
        let count = other.vectors.count(&context(), &docs, None).await.unwrap();
        assert_eq!(count, expected, "the answer of call {after} was lost: {written:?}");
        acknowledged += u64::from(written.is_ok());
    }
    // The swaps that take a turn and name a commit are looked up, and what was not cut off comes through.
    assert!((3..MOST_CALLS).contains(&acknowledged), "{acknowledged}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_is_about_any_number_of_rows_and_a_call_about_some() {
    const ROWS: usize = 2500;
    const AT_ONCE: usize = 1024;
    let server = TestQdrant::start().await.unwrap();
    let store = gateway(&server, "one").await;
    let docs = name("docs");
    store.vectors.create(&context(), &docs, PARAMS).await.unwrap();
    put(&store, "docs", &ids("old", ROWS)).await;
    put(&store, "docs", &ids("new", 3)).await;
    server.faults().change_at_most(AT_ONCE);
    let old = Selector::Filter(Filter::Eq(KeyPath::parse("old").unwrap(), Value::Bool(true)));
    assert_eq!(store.vectors.delete(&context(), &docs, &old).await.unwrap(), ROWS as u64);
    assert_eq!(store.vectors.count(&context(), &docs, None).await.unwrap(), 3);
    put(&store, "docs", &ids("old", ROWS)).await;
    assert_eq!(store.vectors.delete(&context(), &docs, &Selector::All).await.unwrap(), ROWS as u64 + 3);
    assert_eq!(store.vectors.count(&context(), &docs, None).await.unwrap(), 0);

    // What a large commit left that failed is cleared away by the next writer, however small its own change is.
    put(&store, "docs", &ids("old", ROWS)).await;
    let before = points_of(&server, "docs").await;
    let failing = gateway(&server, "failing").await;
    let (send, sent) = mpsc::channel(8);
    for some in ids("left", ROWS).chunks(500) {
        send.send(some.iter().map(|id| record(id)).collect()).await.unwrap();
    }
    drop(send);
    let changes =
        ChangeSet { delete: ids("old", ROWS).iter().map(|old| id(old)).collect(), upsert: Box::new(Sent(sent)) };
    // Everything is written, and half of the old rows have their end.
    let upserts = ROWS.div_ceil(500) * 2;
    let looks = (2 * ROWS).div_ceil(256);
    server.faults().cut_off("failing", (3 + upserts + looks + 5) as u64, false);
    failing.vectors.apply(&context(), &docs, changes).await.unwrap_err();
    assert_eq!(points_of(&server, "docs").await, before + ROWS as u64);
    put(&store, "docs", &ids("new", 1)).await;
    assert_eq!(points_of(&server, "docs").await, before + 1);
    assert_eq!(store.vectors.count(&context(), &docs, None).await.unwrap(), ROWS as u64 + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delete_may_take_longer_than_a_turn() {
    const ROWS: usize = 4000;
    let server = TestQdrant::start().await.unwrap();
    // One call may take several times the delay, and all of them take longer than a turn.
    let slow = QdrantConfig { timeout: Duration::from_secs(4), ..config(&server, "slow") };
    let lease = slow.timeout * 4;
    let slow = QdrantStore::connect(slow).await.unwrap();
    let docs = name("docs");
    slow.vectors.create(&context(), &docs, PARAMS).await.unwrap();
    put(&gateway(&server, "quick").await, "docs", &ids("old", ROWS)).await;
    server.faults().delay_after("slow", 0, Duration::from_millis(600));
    let old = Selector::Filter(Filter::Eq(KeyPath::parse("old").unwrap(), Value::Bool(true)));
    let asked = Instant::now();
    let deleted = {
        let (slow, docs) = (slow.clone(), docs.clone());
        tokio::spawn(async move { slow.vectors.delete(&context(), &docs, &old).await })
    };
    // It joins the same commit, or comes after it.
    tokio::time::sleep(Duration::from_millis(20)).await;
    slow.vectors.upsert(&context(), &docs, vec![record("new")]).await.unwrap();
    assert_eq!(deleted.await.unwrap().unwrap(), ROWS as u64);
    assert!(asked.elapsed() > lease, "{:?}", asked.elapsed());
    assert_eq!(slow.vectors.count(&context(), &docs, None).await.unwrap(), 1);
}
