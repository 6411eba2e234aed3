//! Maximal marginal relevance among many, and the same candidates for those who measure others.

use std::error::Error;
use std::time::Instant;

use toller_core::mmr::maximal_marginal_relevance;

use crate::data::{DIMENSION, query, record};
use toller_benches::report::{Report, folder, micros, percentile};

/// Candidates and picks.
const FETCH_K: usize = 1000;
const K: usize = 50;
const ROUNDS: usize = 50;

/// The median of the choice, and a file of the query and its candidates: little-endian `f32`, the query first.
pub fn measure(report: &mut Report) -> Result<(), Box<dyn Error>> {
    let query = query(0);
    let pool: Vec<_> = (0..FETCH_K as u64).map(|number| record(number).vector).collect();
    let slices: Vec<&[f32]> = pool.iter().map(|vector| vector.as_slice()).collect();
    let mut spent: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            assert_eq!(maximal_marginal_relevance(query.as_slice(), &slices, K, 0.5).len(), K);
            started.elapsed()
        })
        .collect();
    report.number("mmr", "fetch_k", FETCH_K as f64);
    report.number("mmr", "k", K as f64);
    report.number("mmr", "dimension", DIMENSION as f64);
    report.number("mmr", "p50_us", micros(percentile(&mut spent, 0.5)));
    let all = std::iter::once(query.as_slice()).chain(slices);
    let bytes: Vec<u8> = all.flatten().flat_map(|element| element.to_le_bytes()).collect();
    std::fs::write(folder()?.join("mmr_vectors.f32"), bytes)?;
    Ok(())
}
