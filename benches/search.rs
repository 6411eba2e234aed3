//! Exact search of the memory backend: O(n·d + n·log k), here k = 10 and dimension 384, without and with a filter.

use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use toller_benches::vectors;
use toller_core::collection::VectorParams;
use toller_core::filter::KeyPath;
use toller_core::vector_store::VectorSearch;
use toller_core::{
    CollectionName, Document, DocumentId, Filter, Metadata, Metric, Principal, Record, RequestContext, Value, Vector,
    VectorStore,
};
use toller_store::MemoryStore;

const DIMENSION: u32 = 384;

fn search(criterion: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build().unwrap();
    let context = RequestContext::new(Principal::anonymous());
    let collection = CollectionName::new("bench").unwrap();
    let one_percent = Filter::Eq(KeyPath::parse("bucket").unwrap(), Value::Int(7));

    let mut group = criterion.benchmark_group("memory_search_k10_d384");
    group.sample_size(30);
    for rows in [10_000, 100_000] {
        let store = MemoryStore::new();
        let params = VectorParams::new(DIMENSION, Metric::Cosine);
        runtime.block_on(store.vectors.create(&context, &collection, params)).unwrap();
        let records = vectors(rows, DIMENSION as usize, 1).into_iter().enumerate().map(record).collect();
        runtime.block_on(store.vectors.upsert(&context, &collection, records)).unwrap();
        let query = Vector::new(vectors(1, DIMENSION as usize, 2).remove(0), Metric::Cosine).unwrap();

        group.throughput(Throughput::Elements(rows as u64));
        for (name, filter) in [("all", None), ("filter_1_percent", Some(&one_percent))] {
            group.bench_function(BenchmarkId::new(name, rows), |bencher| {
                bencher.iter(|| {
                    let search = VectorSearch { vector: &query, using: None, filter, limit: 10 };
                    let hits = runtime.block_on(store.vectors.search(&context, &collection, search)).unwrap();
                    assert_eq!(hits.len(), 10);
                });
            });
        }
    }
    group.finish();
}

fn record((index, values): (usize, Vec<f32>)) -> Record {
    let document = Document {
        id: DocumentId::new(format!("document-{index}")).unwrap(),
        page_content: String::new(),
        metadata: Metadata::from([("bucket".to_owned(), Value::Int(index as i64 % 100))]),
    };
    Record::new(Arc::new(document), Vector::new(values, Metric::Cosine).unwrap())
}

criterion_group!(benches, search);
criterion_main!(benches);
