//! The recursive splitter: linear in the text. Prose as it comes, and one long line without a break.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use toller_benches::text;
use toller_ingest::{RecursiveSplitter, Splitter};

fn split(criterion: &mut Criterion) {
    let splitter = RecursiveSplitter::builder().chunk_size(1000).chunk_overlap(150).build().unwrap();
    let mut group = criterion.benchmark_group("split_recursive_1000_150");
    group.sample_size(10);
    for words in [20_000, 200_000] {
        let prose = text(words, 1);
        group.throughput(Throughput::Bytes(prose.len() as u64));
        group.bench_with_input(BenchmarkId::new("prose", prose.len()), &prose, |bencher, prose| {
            bencher.iter(|| splitter.split(black_box(prose)).unwrap().len());
        });
    }
    let line = "x".repeat(1 << 20);
    group.throughput(Throughput::Bytes(line.len() as u64));
    group.bench_with_input(BenchmarkId::new("one_word", line.len()), &line, |bencher, line| {
        bencher.iter(|| splitter.split(black_box(line)).unwrap().len());
    });
    group.finish();
}

criterion_group!(benches, split);
criterion_main!(benches);
