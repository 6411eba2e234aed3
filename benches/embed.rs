//! The embedder end to end, tokenising included: one query alone, and documents by the batch.
//!
//! The model is the folder in TOLLER_TEST_MODEL (`make bench` sets it to MiniLM); without it, the tiny test model, whose
//! figures say nothing about real ones.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use toller_benches::text;
use toller_core::{EmbeddingRole, Embeddings, Principal, RequestContext};
use toller_embedder::{EmbedderConfig, LocalEmbeddings, Model, Overrides, Source};

fn embed(criterion: &mut Criterion) {
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/tiny-bge");
    let folder = std::env::var("TOLLER_TEST_MODEL").unwrap_or_else(|_| {
        eprintln!("TOLLER_TEST_MODEL is not set: measuring the tiny test model");
        tiny.to_owned()
    });
    let model = Model::load(&Source::Folder(folder.into()), &Overrides::default()).unwrap();
    let embeddings = LocalEmbeddings::start(model, EmbedderConfig::builder().build().unwrap()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let context = RequestContext::new(Principal::anonymous());
    let embed = |role, texts: Vec<String>| runtime.block_on(embeddings.embed(&context, role, texts)).unwrap();

    let mut group = criterion.benchmark_group("embed");
    group.sample_size(20);
    let query = vec!["how does a retriever find documents by vector?".to_owned()];
    group.bench_function("query", |bencher| bencher.iter(|| embed(EmbeddingRole::Query, query.clone())));

    // Documents of mixed lengths, 20 to 200 words, as text arrives.
    let documents: Vec<String> = (0..64).map(|index| text(20 + index * 37 % 181, index as u64)).collect();
    let tokens: u64 = embed(EmbeddingRole::Document, documents.clone())
        .iter()
        .map(|embedding| u64::from(embedding.token_count.unwrap()))
        .sum();
    group.sample_size(10);
    group.throughput(Throughput::Elements(tokens));
    group.bench_function("documents_tokens", |bencher| {
        bencher.iter(|| embed(EmbeddingRole::Document, documents.clone()));
    });
    group.finish();
}

criterion_group!(benches, embed);
criterion_main!(benches);
