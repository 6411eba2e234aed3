//! Rules that hold for any data: search is a plain scan, a loaded dump is what was dumped, and any sequence of operations does what a
//! simple model does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests: they fail by panicking"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use tokio::runtime::Runtime;
use toller_core::collection::VectorParams;
use toller_core::filter::KeyPath;
use toller_core::vector_store::{Selector, VectorSearch};
use toller_core::{
    CollectionName, Document, DocumentId, DocumentStore, Filter, Metadata, Metric, Principal, Record, RequestContext,
    Value, Vector, VectorStore,
};
use toller_store::MemoryStore;
use toller_store::backends::memory::MemoryVectorStore;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().unwrap()
}

fn context() -> RequestContext {
    RequestContext::new(Principal::anonymous())
}

fn name() -> CollectionName {
    CollectionName::new("docs").unwrap()
}

fn key(path: &str) -> KeyPath {
    KeyPath::parse(path).unwrap()
}

fn record(id: &str, vector: Vec<f32>, metadata: Metadata) -> Record {
    let document = Document { id: DocumentId::new(id).unwrap(), page_content: id.to_owned(), metadata };
    Record::new(Arc::new(document), Vector::new(vector, Metric::Dot).unwrap())
}

async fn store_with(metric: Metric, dimension: usize, records: Vec<Record>) -> MemoryVectorStore {
    let store = MemoryVectorStore::new();
    let params = VectorParams::new(dimension as u32, metric);
    store.create(&context(), &name(), params).await.unwrap();
    store.upsert(&context(), &name(), records).await.unwrap();
    store
}

fn metric() -> impl Strategy<Value = Metric> {
    prop_oneof![Just(Metric::Cosine), Just(Metric::Dot), Just(Metric::Euclidean)]
}

/// Never zero as a whole. Small whole numbers make ties; mixed magnitudes make rounding, underflow and overflow.
fn vectors(dimension: usize, count: impl Into<prop::collection::SizeRange>) -> impl Strategy<Value = Vec<Vec<f32>>> {
    let element = prop_oneof![
        6 => (-2_i8..=2).prop_map(f32::from),
        6 => -1.0_f32..1.0,
        1 => (-1.0_f32..1.0).prop_map(|value| value * 1e-22),
        1 => (-1.0_f32..1.0).prop_map(|value| value * 1e22),
    ];
    let vector = prop::collection::vec(element, dimension).prop_map(|mut vector| {
        if vector.iter().all(|value| *value == 0.0) {
            vector[0] = 1.0;
        }
        vector
    });
    prop::collection::vec(vector, count)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        (-2_i64..3).prop_map(Value::Int),
        any::<i64>().prop_map(Value::Int),
        (-4_i8..5).prop_map(|quarters| Value::Double(f64::from(quarters) / 4.0)),
        prop::num::f64::NORMAL.prop_map(Value::Double),
        prop::num::f64::SUBNORMAL.prop_map(Value::Double),
        "[a-c]{0,2}".prop_map(Value::String),
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::List),
            prop::collection::btree_map("[a-c]", inner, 0..3).prop_map(Value::Map),
        ]
    })
}

fn metadata() -> impl Strategy<Value = Metadata> {
    prop::collection::btree_map("[a-c]", value(), 0..4)
}

fn filter() -> impl Strategy<Value = Filter> {
    let path = || prop_oneof![Just("a"), Just("b"), Just("c"), Just("a.a"), Just("a.b.c")].prop_map(key);
    let leaf = prop_oneof![
        (path(), value()).prop_map(|(path, value)| Filter::Eq(path, value)),
        (path(), value()).prop_map(|(path, value)| Filter::Ne(path, value)),
        (path(), prop::collection::vec(value(), 0..3)).prop_map(|(path, values)| Filter::In(path, values)),
        (path(), prop::collection::vec(value(), 0..3)).prop_map(|(path, values)| Filter::Nin(path, values)),
        (path(), -2_i64..3).prop_map(|(path, bound)| Filter::Lt(path, Value::Int(bound))),
        (path(), -2.0_f64..3.0).prop_map(|(path, bound)| Filter::Gte(path, Value::Double(bound))),
        (path(), any::<bool>()).prop_map(|(path, wanted)| Filter::Exists(path, wanted)),
        (path(), value()).prop_map(|(path, value)| Filter::Contains(path, value)),
    ];
    leaf.prop_recursive(2, 6, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::And),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Filter::Or),
            inner.prop_map(|inner| Filter::Not(Box::new(inner))),
        ]
    })
}

/// Filter, score by the definition, sort by score and then by insertion, cut.
fn plain_scan(
    metric: Metric,
    records: &[Record],
    query: &[f32],
    filter: Option<&Filter>,
    limit: usize,
) -> Vec<(String, u64)> {
    let mut hits: Vec<(f64, &Record)> = records
        .iter()
        .filter(|record| filter.is_none_or(|filter| filter.matches(&record.document.metadata)))
        .map(|record| (metric.score(query, record.vector.as_slice()), record))
        .collect();
    hits.sort_by(|left, right| metric.better_first(left.0, right.0));
    hits.truncate(limit);
    hits.into_iter().map(|(score, record)| (record.document.id.to_string(), score.to_bits())).collect()
}

async fn search(
    store: &dyn VectorStore,
    metric: Metric,
    query: &[f32],
    filter: Option<&Filter>,
    limit: usize,
) -> Vec<(String, u64)> {
    let vector = Vector::new(query.to_vec(), metric).unwrap();
    let search = VectorSearch { vector: &vector, using: None, filter, limit };
    let hits = store.search(&context(), &name(), search).await.unwrap();
    hits.into_iter().map(|hit| (hit.record.document.id.to_string(), hit.score.to_bits())).collect()
}

#[derive(Debug, Clone)]
enum Operation {
    Upsert(Vec<(u8, Vec<f32>, Metadata)>),
    DeleteIds(Vec<u8>),
    DeleteFilter(Filter),
    DeleteAll,
    Search(Vec<f32>, Option<Filter>, usize),
    Scroll(Option<u8>, Option<Filter>, usize),
    Get(Vec<u8>),
}

/// Few ids, so that operations meet.
const IDS: u8 = 24;
/// So large that a block holds only 16 rows: sequences cross blocks and compact them.
const MODEL_DIMENSION: usize = 8192;

fn operation() -> impl Strategy<Value = Operation> {
    let id = || 0..IDS;
    let sparse = || {
        prop::collection::vec((-2_i8..=2).prop_map(f32::from), 3).prop_map(|head| {
            let mut vector = vec![0.0; MODEL_DIMENSION];
            vector[..3].copy_from_slice(&head);
            vector[MODEL_DIMENSION - 1] = 1.0;
            vector
        })
    };
    let rows = prop::collection::btree_map(id(), (sparse(), metadata()), 0..12).prop_shuffle_rows();
    prop_oneof![
        6 => rows.prop_map(Operation::Upsert),
        4 => prop::collection::vec(id(), 0..12).prop_map(Operation::DeleteIds),
        1 => filter().prop_map(Operation::DeleteFilter),
        1 => Just(Operation::DeleteAll),
        3 => (sparse(), prop::option::of(filter()), 0_usize..10).prop_map(|(q, f, k)| Operation::Search(q, f, k)),
        3 => (prop::option::of(id()), prop::option::of(filter()), 0_usize..10).prop_map(|(i, f, k)| Operation::Scroll(i, f, k)),
        1 => prop::collection::vec(id(), 0..4).prop_map(Operation::Get),
    ]
}

/// Distinct ids in any order.
trait ShuffleRows: Strategy<Value = BTreeMap<u8, (Vec<f32>, Metadata)>> + Sized {
    fn prop_shuffle_rows(self) -> impl Strategy<Value = Vec<(u8, Vec<f32>, Metadata)>> {
        self.prop_map(|rows| {
            rows.into_iter().map(|(id, (vector, metadata))| (id, vector, metadata)).collect::<Vec<_>>()
        })
        .prop_shuffle()
    }
}
impl<S: Strategy<Value = BTreeMap<u8, (Vec<f32>, Metadata)>>> ShuffleRows for S {}

/// Rows in insertion order; a replaced one keeps its place.
#[derive(Default)]
struct Model(Vec<Record>);

impl Model {
    fn upsert(&mut self, record: Record) {
        match self.0.iter_mut().find(|known| known.document.id == record.document.id) {
            Some(known) => *known = record,
            None => self.0.push(record),
        }
    }

    fn retain(&mut self, keep: impl Fn(&Record) -> bool) -> u64 {
        let before = self.0.len();
        self.0.retain(keep);
        (before - self.0.len()) as u64
    }

    fn by_id(&self) -> BTreeMap<DocumentId, Record> {
        self.0.iter().map(|record| (record.document.id.clone(), record.clone())).collect()
    }
}

fn id_of(number: u8) -> DocumentId {
    DocumentId::new(format!("{number:02}")).unwrap()
}

async fn apply(store: &MemoryVectorStore, model: &mut Model, metric: Metric, operation: Operation) {
    let (context, name) = (context(), name());
    match operation {
        Operation::Upsert(rows) => {
            let records: Vec<Record> =
                rows.into_iter().map(|(id, vector, data)| record(id_of(id).as_str(), vector, data)).collect();
            store.upsert(&context, &name, records.clone()).await.unwrap();
            records.into_iter().for_each(|record| model.upsert(record));
        }
        Operation::DeleteIds(ids) => {
            let ids: Vec<DocumentId> = ids.into_iter().map(id_of).collect();
            let expected = model.retain(|record| !ids.contains(&record.document.id));
            assert_eq!(store.delete(&context, &name, &Selector::Ids(ids)).await.unwrap(), expected);
        }
        Operation::DeleteFilter(filter) => {
            let expected = model.retain(|record| !filter.matches(&record.document.metadata));
            assert_eq!(store.delete(&context, &name, &Selector::Filter(filter)).await.unwrap(), expected);
        }
        Operation::DeleteAll => {
            let expected = model.retain(|_| false);
            assert_eq!(store.delete(&context, &name, &Selector::All).await.unwrap(), expected);
        }
        Operation::Search(query, filter, limit) => {
            let expected = plain_scan(metric, &model.0, &query, filter.as_ref(), limit);
            assert_eq!(search(store, metric, &query, filter.as_ref(), limit).await, expected);
        }
        Operation::Scroll(from, filter, limit) => {
            let from = from.map(id_of);
            let by_id = model.by_id();
            let mut matches = by_id
                .into_iter()
                .filter(|(id, _)| from.as_ref().is_none_or(|from| id >= from))
                .filter(|(_, record)| filter.as_ref().is_none_or(|filter| filter.matches(&record.document.metadata)));
            let page = store.scroll(&context, &name, filter.as_ref(), from.as_ref(), limit).await.unwrap();
            let expected: Vec<Record> = matches.by_ref().take(limit).map(|(_, record)| record).collect();
            assert_eq!(page.records, expected);
            assert_eq!(page.next, matches.next().map(|(id, _)| id));
            let count =
                model.0.iter().filter(|record| filter.as_ref().is_none_or(|f| f.matches(&record.document.metadata)));
            assert_eq!(store.count(&context, &name, filter.as_ref()).await.unwrap(), count.count() as u64);
        }
        Operation::Get(ids) => {
            let ids: Vec<DocumentId> = ids.into_iter().map(id_of).collect();
            let by_id = model.by_id();
            let expected: Vec<Option<Record>> = ids.iter().map(|id| by_id.get(id).cloned()).collect();
            assert_eq!(store.get(&context, &name, &ids).await.unwrap(), expected);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn search_is_a_plain_scan_to_the_last_bit(
        metric in metric(),
        (query, rows) in (1_usize..70).prop_flat_map(|dimension| (vectors(dimension, 1), vectors(dimension, 0..120))),
        data in prop::collection::vec(metadata(), 120),
        filter in prop::option::of(filter()),
        limit in 0_usize..20,
    ) {
        let records: Vec<Record> = rows
            .into_iter()
            .zip(data)
            .enumerate()
            // Ids against the insertion order: they must not decide.
            .map(|(index, (vector, data))| record(&format!("{:03}", 999 - index), vector, data))
            .collect();
        let query = &query[0];
        runtime().block_on(async {
            let store = store_with(metric, query.len(), records.clone()).await;
            let found = search(&store, metric, query, filter.as_ref(), limit).await;
            prop_assert_eq!(found, plain_scan(metric, &records, query, filter.as_ref(), limit));
            Ok(())
        })?;
    }

    #[test]
    fn what_is_dumped_is_loaded(
        rows in vectors(5, 0..12),
        data in prop::collection::vec((any::<String>(), any::<String>(), metadata()), 12),
        metric in metric(),
    ) {
        let records: Vec<Record> = rows
            .into_iter()
            .zip(data)
            .enumerate()
            .map(|(index, (vector, (id, text, metadata)))| {
                let id: String = id.chars().take(100).collect();
                let id = DocumentId::new(format!("{id}{index}")).unwrap();
                let document = Document { id, page_content: text, metadata };
                Record::new(Arc::new(document), Vector::new(vector, metric).unwrap())
            })
            .collect();
        let documents: Vec<Document> = records.iter().map(|record| (*record.document).clone()).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("dump");
        runtime().block_on(async {
            let store = MemoryStore::new();
            let params = VectorParams::new(5, metric);
            store.vectors.create(&context(), &name(), params.clone()).await.unwrap();
            store.vectors.upsert(&context(), &name(), records.clone()).await.unwrap();
            store.documents.put(&context(), &name(), documents).await.unwrap();
            store.dump(&path).unwrap();
            let (loaded, _) = MemoryStore::load(&path).unwrap();

            prop_assert_eq!(loaded.vectors.params(&context(), &name()).await.unwrap(), params);
            let before = store.vectors.scroll(&context(), &name(), None, None, 99).await.unwrap();
            // Debug tells a double from an integer and -0.0 from 0.0; equality alone would not.
            let after = loaded.vectors.scroll(&context(), &name(), None, None, 99).await.unwrap();
            prop_assert_eq!(format!("{after:?}"), format!("{before:?}"));
            let before = store.documents.scroll(&context(), &name(), None, 99).await.unwrap();
            let after = loaded.documents.scroll(&context(), &name(), None, 99).await.unwrap();
            prop_assert_eq!(format!("{after:?}"), format!("{before:?}"));
            let query = vec![1.0; 5];
            prop_assert_eq!(
                search(loaded.vectors.as_ref(), metric, &query, None, 99).await,
                search(store.vectors.as_ref(), metric, &query, None, 99).await
            );
            Ok(())
        })?;
    }

    #[test]
    fn any_sequence_of_operations_does_what_the_model_does(
        metric in metric(),
        operations in prop::collection::vec(operation(), 1..30),
    ) {
        runtime().block_on(async {
            let store = store_with(metric, MODEL_DIMENSION, Vec::new()).await;
            let mut model = Model::default();
            for operation in operations {
                apply(&store, &mut model, metric, operation).await;
            }
        });
    }
}
