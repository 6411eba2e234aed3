//! The keyword index of the memory store: whatever happened to a collection, it answers as one that was filled at once.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests: they fail by panicking"
)]

use std::sync::Arc;

use proptest::prelude::*;
use toller_core::collection::VectorParams;
use toller_core::filter::KeyPath;
use toller_core::vector_store::Selector;
use toller_core::{
    CollectionName, Document, DocumentId, Filter, KeywordParams, KeywordSearch, Language, Metadata, Metric, Principal,
    Record, RequestContext, Value, Vector, VectorStore,
};
use toller_store::MemoryStore;

/// Large, so that a block has 16 rows, and a few deletes move rows about.
const DIMENSION: usize = 8192;

fn params() -> VectorParams {
    let keyword = Some(KeywordParams { language: Language::English });
    VectorParams { keyword, ..VectorParams::new(DIMENSION as u32, Metric::Dot) }
}

fn context() -> RequestContext {
    RequestContext::new(Principal::anonymous())
}

fn name() -> CollectionName {
    CollectionName::new("docs").unwrap()
}

fn id(number: u8) -> DocumentId {
    DocumentId::new(format!("{number:03}")).unwrap()
}

fn group_of(group: i64) -> Filter {
    Filter::Eq(KeyPath::parse("group").unwrap(), Value::Int(group))
}

fn record(number: u8, words: &[&str]) -> Record {
    let metadata = Metadata::from([("group".to_owned(), Value::Int(i64::from(number % 4)))]);
    let document = Document { id: id(number), page_content: words.join(" "), metadata };
    let vector = Vector::new(vec![f32::from(number); DIMENSION], Metric::Dot).unwrap();
    Record::new(Arc::new(document), vector)
}

#[derive(Debug, Clone)]
enum Operation {
    Upsert(Vec<(u8, Vec<&'static str>)>),
    DeleteIds(Vec<u8>),
    DeleteGroup(i64),
    DeleteAll,
    DumpAndLoad,
}

const WORDS: &[&str] = &["toll", "tolls", "bridge", "River", "the", "東京都", "京都", "café", "cafe", "x"];

fn words() -> impl Strategy<Value = Vec<&'static str>> {
    prop::collection::vec(prop::sample::select(WORDS), 0..8)
}

fn operation() -> impl Strategy<Value = Operation> {
    let records = prop::collection::btree_map(0_u8..80, words(), 0..40);
    prop_oneof![
        8 => records.prop_map(|records| Operation::Upsert(records.into_iter().collect())),
        4 => prop::collection::vec(0_u8..80, 0..30).prop_map(Operation::DeleteIds),
        2 => (0_i64..4).prop_map(Operation::DeleteGroup),
        1 => Just(Operation::DeleteAll),
        1 => Just(Operation::DumpAndLoad),
    ]
}

async fn filled(records: Vec<Record>) -> MemoryStore {
    let store = MemoryStore::new();
    store.vectors.create(&context(), &name(), params()).await.unwrap();
    store.vectors.upsert(&context(), &name(), records).await.unwrap();
    store
}

/// Ids with the bits of their scores.
async fn found(store: &MemoryStore, text: &str, filter: Option<&Filter>, limit: usize) -> Vec<(String, u64)> {
    let search = KeywordSearch { text, filter, limit };
    let hits = store.vectors.keyword_search(&context(), &name(), search).await.unwrap();
    hits.into_iter().map(|hit| (hit.record.document.id.to_string(), hit.score.to_bits())).collect()
}

/// Does `operation` to the store, and to the records in the order of their insertion.
async fn apply(store: MemoryStore, records: &mut Vec<Record>, operation: Operation) -> MemoryStore {
    let selector = match operation {
        Operation::Upsert(batch) => {
            let batch: Vec<Record> = batch.iter().map(|(number, words)| record(*number, words)).collect();
            for new in &batch {
                match records.iter_mut().find(|old| old.document.id == new.document.id) {
                    Some(old) => *old = new.clone(),
                    None => records.push(new.clone()),
                }
            }
            store.vectors.upsert(&context(), &name(), batch).await.unwrap();
            return store;
        }
        Operation::DumpAndLoad => {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("dump");
            store.dump(&path).unwrap();
            return MemoryStore::load(&path).unwrap().0;
        }
        Operation::DeleteIds(numbers) => Selector::Ids(numbers.into_iter().map(id).collect()),
        Operation::DeleteGroup(group) => Selector::Filter(group_of(group)),
        Operation::DeleteAll => Selector::All,
    };
    records.retain(|record| match &selector {
        Selector::Ids(ids) => !ids.contains(&record.document.id),
        Selector::Filter(filter) => !filter.matches(&record.document.metadata),
        Selector::All => false,
    });
    store.vectors.delete(&context(), &name(), &selector).await.unwrap();
    store
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn an_index_with_a_history_answers_as_one_from_scratch(
        operations in prop::collection::vec(operation(), 1..12),
        queries in prop::collection::vec(words(), 1..4),
        limit in 0_usize..30,
        group in prop::option::of(0_i64..4),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut store = filled(Vec::new()).await;
            let mut records = Vec::new();
            for operation in operations {
                store = apply(store, &mut records, operation).await;
            }
            let from_scratch = filled(records).await;
            let filter = group.map(group_of);
            for query in queries {
                let query = query.join(" ");
                prop_assert_eq!(
                    found(&store, &query, filter.as_ref(), limit).await,
                    found(&from_scratch, &query, filter.as_ref(), limit).await
                );
            }
            Ok(())
        })?;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_search_and_writes_do_not_disturb_each_other() {
    let store = Arc::new(MemoryStore::new());
    let params = VectorParams { dimension: 1, ..params() };
    store.vectors.create(&context(), &name(), params).await.unwrap();
    // Every record of round r has the word `r` times, and all records are always of one round.
    let batch = |round: usize| -> Vec<Record> {
        let text = "toll ".repeat(round) + "bridge";
        let one = |number: usize| Document {
            id: DocumentId::new(format!("{number:05}")).unwrap(),
            page_content: text.clone(),
            metadata: Metadata::new(),
        };
        let vector = Vector::new(vec![1.0], Metric::Dot).unwrap();
        (0..6000).map(|number| Record::new(Arc::new(one(number)), vector.clone())).collect()
    };
    store.vectors.upsert(&context(), &name(), batch(1)).await.unwrap();
    let reader = {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let mut last_score = 0.0;
            for _ in 0..40 {
                let search =
                    KeywordSearch { text: "toll bridge", filter: Some(&Filter::And(Vec::new())), limit: 10_000 };
                let hits = store.vectors.keyword_search(&context(), &name(), search).await.unwrap();
                assert_eq!(hits.len(), 6000);
                assert!(hits.iter().all(|hit| hit.score == hits[0].score), "one state only");
                let content = &hits[0].record.document.page_content;
                assert!(hits.iter().all(|hit| &hit.record.document.page_content == content), "one state only");
                assert!(hits[0].score >= last_score, "no way back");
                last_score = hits[0].score;
            }
        })
    };
    for round in 2..8 {
        store.vectors.upsert(&context(), &name(), batch(round)).await.unwrap();
    }
    reader.await.unwrap();
}

#[tokio::test]
async fn a_search_that_nobody_waits_for_ends() {
    let store = filled(vec![record(1, &["toll"])]).await;
    let context = context().with_deadline(Some(std::time::Instant::now()));
    let search = KeywordSearch { text: "toll", filter: None, limit: 1 };
    let fault = store.vectors.keyword_search(&context, &name(), search).await.unwrap_err();
    assert!(matches!(fault, toller_core::Error::DeadlineExceeded(_)), "{fault:?}");
}
