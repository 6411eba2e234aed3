//! Deletes of much from an edge store: whole for readers, who do not wait for them, and exact in what is counted afterwards.

#![cfg(feature = "edge")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests: they fail by panicking"
)]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use toller_core::collection::VectorParams;
use toller_core::filter::KeyPath;
use toller_core::keyword::KeywordSearch;
use toller_core::vector_store::{Selector, VectorSearch};
use toller_core::{
    CollectionName, Document, DocumentId, Durability, Filter, KeywordParams, Metadata, Metric, Principal, Record,
    RequestContext, Value, Vector, VectorStore,
};
use toller_store::MemoryStore;
use toller_store::backends::edge::{EdgeConfig, EdgeError, EdgeStore};

/// More than are removed in one piece, so that readers see how it is done.
const ROWS: usize = 4000;

fn context() -> RequestContext {
    RequestContext::new(Principal::anonymous())
}

fn docs() -> CollectionName {
    CollectionName::new("docs").unwrap()
}

fn record(row: usize) -> Record {
    let words = ["red", "green", "blue", "white", "black"];
    let text: Vec<String> = (0..6).map(|n| format!("{} {}", words[(row * 7 + n) % 5], row % (n + 2))).collect();
    let metadata = Metadata::from([("part".to_owned(), Value::Int((row % 4) as i64))]);
    let id = DocumentId::new(format!("{row:05}")).unwrap();
    let document = Document { id, page_content: text.join(" "), metadata };
    Record::new(Arc::new(document), Vector::new(vec![1.0, row as f32], Metric::Dot).unwrap())
}

fn part(part: i64) -> Filter {
    Filter::Eq(KeyPath::parse("part").unwrap(), Value::Int(part))
}

fn all_but(part: i64) -> Filter {
    Filter::Ne(KeyPath::parse("part").unwrap(), Value::Int(part))
}

/// Waits for who builds an index, and has the folder as long.
async fn open(folder: &Path) -> EdgeStore {
    let config = EdgeConfig { durability: Durability::Process, exact: true, ..EdgeConfig::default() };
    loop {
        let folder = folder.to_owned();
        match tokio::task::spawn_blocking(move || EdgeStore::open(&folder, config)).await.unwrap() {
            Err(EdgeError::InUse { .. }) => tokio::time::sleep(Duration::from_millis(20)).await,
            opened => return opened.unwrap(),
        }
    }
}

async fn fill(store: &dyn VectorStore) {
    let params = VectorParams { keyword: Some(KeywordParams::default()), ..VectorParams::new(2, Metric::Dot) };
    let _ = store.create(&context(), &docs(), params).await;
    let records: Vec<Record> = (0..ROWS).map(record).collect();
    for some in records.chunks(500) {
        store.upsert(&context(), &docs(), some.to_vec()).await.unwrap();
    }
}

/// Hits with their scores, which show whether the statistics are right.
async fn keywords(store: &dyn VectorStore) -> Vec<(String, f64)> {
    let search = KeywordSearch { text: "red 3 white 5", filter: None, limit: 50 };
    let hits = store.keyword_search(&context(), &docs(), search).await.unwrap();
    hits.into_iter().map(|hit| (hit.record.document.id.to_string(), hit.score)).collect()
}

async fn ids(store: &dyn VectorStore) -> Vec<DocumentId> {
    store.ids(&context(), &docs(), None, usize::MAX).await.unwrap()
}

async fn same(edge: &dyn VectorStore, memory: &dyn VectorStore) {
    assert_eq!(ids(edge).await, ids(memory).await);
    let (found, expected) = (keywords(edge).await, keywords(memory).await);
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found.1 - expected.1).abs() < 1e-6, "{found:?} for {expected:?}");
    }
}

/// What readers may see while everything but one part goes, and then that too.
const STATES: [usize; 3] = [ROWS, ROWS / 4, 0];

/// Looks in every way until it is told that it is over; no look sees a delete in part.
async fn look(store: Arc<dyn VectorStore>, is_over: Arc<AtomicBool>) -> usize {
    let (context, docs) = (context(), docs());
    let mut looks = 0;
    while !is_over.load(Ordering::Relaxed) {
        let count = store.count(&context, &docs, None).await.unwrap() as usize;
        assert!(STATES.contains(&count), "{count}");
        let page = store.ids(&context, &docs, None, usize::MAX).await.unwrap();
        assert!(STATES.contains(&page.len()), "{}", page.len());
        // The part that stays longest comes whole or not at all.
        let filter = part(1);
        let left = store.scroll(&context, &docs, Some(&filter), None, 5).await.unwrap().records;
        assert!(
            left.is_empty()
                || left
                    .iter()
                    .map(|record| record.document.id.as_str())
                    .eq(["00001", "00005", "00009", "00013", "00017"])
        );
        let vector = Vector::new(vec![0.0, 1.0], Metric::Dot).unwrap();
        let search = VectorSearch { vector: &vector, using: None, filter: None, limit: 1 };
        let best = store.search(&context, &docs, search).await.unwrap();
        let best: Option<f64> = best.first().map(|hit| hit.score);
        // The last row before, the last one of its part after.
        assert!([None, Some((ROWS - 1) as f64), Some((ROWS - 3) as f64)].contains(&best), "{best:?}");
        looks += 1;
    }
    looks
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_see_much_go_at_once_and_what_is_left_counts() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    let memory = MemoryStore::new();
    fill(&*store.vectors).await;
    fill(&*memory.vectors).await;
    same(&*store.vectors, &*memory.vectors).await;

    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| tokio::spawn(look(Arc::clone(&store.vectors) as Arc<dyn VectorStore>, Arc::clone(&is_over))))
        .collect();
    let most = Selector::Filter(all_but(1));
    for each in [&*store.vectors as &dyn VectorStore, &*memory.vectors] {
        assert_eq!(each.delete(&context(), &docs(), &most).await.unwrap(), (ROWS - ROWS / 4) as u64);
    }
    same(&*store.vectors, &*memory.vectors).await;
    for each in [&*store.vectors as &dyn VectorStore, &*memory.vectors] {
        assert_eq!(each.delete(&context(), &docs(), &Selector::All).await.unwrap(), (ROWS / 4) as u64);
        assert_eq!(each.delete(&context(), &docs(), &Selector::All).await.unwrap(), 0);
    }
    is_over.store(true, Ordering::Relaxed);
    for reader in readers {
        assert!(reader.await.unwrap() > 0);
    }
    assert_eq!(keywords(&*store.vectors).await, []);

    // It is a collection like any other, with statistics of its own, also for the next process.
    fill(&*store.vectors).await;
    fill(&*memory.vectors).await;
    same(&*store.vectors, &*memory.vectors).await;
    store.vectors.delete(&context(), &docs(), &Selector::All).await.unwrap();
    store.vectors.upsert(&context(), &docs(), vec![record(1), record(2)]).await.unwrap();
    tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
    let store = open(folder.path()).await;
    memory.vectors.delete(&context(), &docs(), &Selector::All).await.unwrap();
    memory.vectors.upsert(&context(), &docs(), vec![record(1), record(2)]).await.unwrap();
    same(&*store.vectors, &*memory.vectors).await;
}

/// What a filter leaves out has no part in the answer, whatever is read of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn filtered_pages_hold_whole_records_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path()).await;
    fill(&*store.vectors).await;
    let (context, docs, filter) = (context(), docs(), part(3));
    let (mut from, mut found) = (None, Vec::new());
    loop {
        let page = store.vectors.scroll(&context, &docs, Some(&filter), from.as_ref(), 300).await.unwrap();
        found.extend(page.records);
        let Some(next) = page.next else { break };
        from = Some(next);
    }
    let expected: Vec<Record> = (0..ROWS).filter(|row| row % 4 == 3).map(record).collect();
    assert_eq!(found, expected);
    assert_eq!(store.vectors.count(&context, &docs, Some(&filter)).await.unwrap(), expected.len() as u64);
}
