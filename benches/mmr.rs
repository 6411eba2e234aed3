//! Maximal marginal relevance: O(k·n·d), here n candidates of dimension 384.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use toller_benches::vectors;
use toller_core::mmr::maximal_marginal_relevance;

fn mmr(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mmr_k10_d384");
    for candidates in [20, 100, 1000] {
        let pool = vectors(candidates, 384, 1);
        let query = vectors(1, 384, 2).remove(0);
        group.throughput(Throughput::Elements(candidates as u64));
        group.bench_with_input(BenchmarkId::from_parameter(candidates), &pool, |bencher, pool| {
            bencher.iter(|| maximal_marginal_relevance(black_box(&query), pool, 10, 0.5));
        });
    }
    group.finish();
}

criterion_group!(benches, mmr);
criterion_main!(benches);
