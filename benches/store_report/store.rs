//! What is measured on every store, through the trait that the service uses.

use std::collections::BTreeSet;
use std::error::Error;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use toller_core::collection::VectorParams;
use toller_core::filter::KeyPath;
use toller_core::vector_store::{MmrParams, Scoring, VectorSearch};
use toller_core::{CollectionName, Filter, Metric, Principal, RequestContext, Value, VectorStore};

use crate::data::{DIMENSION, query, record};
use crate::report::Report;

/// Rows of one write.
const BATCH: usize = 1000;

/// Queries of a latency.
pub const QUERIES: usize = 400;

/// Queries of the recall.
pub const RECALL_QUERIES: usize = 200;

/// Hits of a search.
pub const K: usize = 10;

/// Candidates of a search by maximal marginal relevance.
const FETCH_K: usize = 100;

/// Who asks for what.
pub struct Place {
    pub context: RequestContext,
    pub collection: CollectionName,
}

impl Place {
    pub fn new() -> Self {
        let collection = CollectionName::new("bench").expect("a name");
        Self { context: RequestContext::new(Principal::anonymous()), collection }
    }
}

/// Makes the collection and writes the rows, made batch by batch outside of the time; rows per second.
pub fn fill(
    runtime: &Runtime,
    store: &dyn VectorStore,
    place: &Place,
    params: VectorParams,
    rows: usize,
) -> Result<f64, Box<dyn Error>> {
    runtime.block_on(store.create(&place.context, &place.collection, params))?;
    let mut spent = Duration::ZERO;
    for first in (0..rows).step_by(BATCH) {
        let records = (first..rows.min(first + BATCH)).map(|number| record(number as u64)).collect();
        let started = Instant::now();
        runtime.block_on(store.upsert(&place.context, &place.collection, records))?;
        spent += started.elapsed();
        if first % (10 * BATCH) == 0 {
            eprint!("\r{first} of {rows} rows written ");
        }
    }
    eprintln!("\r{rows} of {rows} rows written");
    Ok(rows as f64 / spent.as_secs_f64())
}

/// The parameters of every collection here.
pub fn params() -> VectorParams {
    VectorParams::new(DIMENSION as u32, Metric::Cosine)
}

/// The ids of the best for each query of the recall.
pub fn best(
    runtime: &Runtime,
    store: &dyn VectorStore,
    place: &Place,
) -> Result<Vec<BTreeSet<String>>, Box<dyn Error>> {
    (0..RECALL_QUERIES)
        .map(|number| {
            let vector = query(number);
            let search = VectorSearch { vector: &vector, using: None, filter: None, limit: K };
            let hits = runtime.block_on(store.search(&place.context, &place.collection, search))?;
            Ok(hits.into_iter().map(|hit| hit.record.document.id.to_string()).collect())
        })
        .collect()
}

/// The share of `truth` that is in `found`.
pub fn recall(truth: &[BTreeSet<String>], found: &[BTreeSet<String>]) -> f64 {
    let hits: usize = truth.iter().zip(found).map(|(truth, found)| truth.intersection(found).count()).sum();
    hits as f64 / (truth.len() * K) as f64
}

/// Latencies of searches, without a filter and with one that 1 % of the rows pass, and by maximal marginal relevance.
pub fn latencies(
    runtime: &Runtime,
    store: &dyn VectorStore,
    place: &Place,
    report: &mut Report,
    object: &str,
) -> Result<(), Box<dyn Error>> {
    let filter = Filter::Eq(KeyPath::parse("bucket")?, Value::Int(7));
    // The first searches with a filter may have an index built on its field.
    for (name, filter) in [("search", None), ("filtered_search", Some(&filter))] {
        let mut spent = Vec::with_capacity(QUERIES);
        for number in 0..QUERIES + QUERIES / 10 {
            let vector = query(number);
            let search = VectorSearch { vector: &vector, using: None, filter, limit: K };
            let started = Instant::now();
            let hits = runtime.block_on(store.search(&place.context, &place.collection, search))?;
            let elapsed = started.elapsed();
            assert_eq!(hits.len(), K);
            if number >= QUERIES / 10 {
                spent.push(elapsed);
            }
        }
        report.number(object, &format!("{name}_p50_ms"), millis(percentile(&mut spent, 0.5)));
        report.number(object, &format!("{name}_p99_ms"), millis(percentile(&mut spent, 0.99)));
    }
    let params = MmrParams { k: K, fetch_k: FETCH_K, lambda_mult: 0.5 };
    let (mut whole, mut choice) = (Vec::new(), Vec::new());
    for number in 0..QUERIES {
        let vector = query(number);
        let started = Instant::now();
        let found = store.max_marginal_relevance(
            &place.context,
            &place.collection,
            &vector,
            None,
            None,
            params,
            Scoring::default(),
        );
        assert_eq!(runtime.block_on(found)?.len(), K);
        whole.push(started.elapsed());

        let search = VectorSearch { vector: &vector, using: None, filter: None, limit: FETCH_K };
        let hits = runtime.block_on(store.search(&place.context, &place.collection, search))?;
        let pool: Vec<&[f32]> = hits.iter().map(|hit| hit.record.vector.as_slice()).collect();
        let started = Instant::now();
        let picks = toller_core::mmr::maximal_marginal_relevance(vector.as_slice(), &pool, K, 0.5);
        choice.push(started.elapsed());
        assert_eq!(picks.len(), K);
    }
    report.number(object, "mmr_p50_us", micros(percentile(&mut choice, 0.5)));
    report.number(object, "mmr_search_p50_ms", millis(percentile(&mut whole, 0.5)));
    Ok(())
}

/// The median latency of a search without a filter.
pub fn median(runtime: &Runtime, store: &dyn VectorStore, place: &Place) -> Result<f64, Box<dyn Error>> {
    let mut spent = Vec::with_capacity(QUERIES);
    for number in 0..QUERIES {
        let vector = query(number);
        let search = VectorSearch { vector: &vector, using: None, filter: None, limit: K };
        let started = Instant::now();
        runtime.block_on(store.search(&place.context, &place.collection, search))?;
        spent.push(started.elapsed());
    }
    Ok(millis(percentile(&mut spent, 0.5)))
}

/// The value below which that share lies (nearest rank).
pub fn percentile(spent: &mut [Duration], share: f64) -> Duration {
    spent.sort_unstable();
    let rank = (spent.len() as f64 * share).ceil() as usize;
    spent.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

/// Bytes of RAM that this process has.
pub fn resident_bytes() -> f64 {
    let kib = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| {
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    });
    kib.map_or(f64::NAN, |kib| kib * 1024.0)
}
