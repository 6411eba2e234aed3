//! The memory store: exact, so that it is also the truth of the other one.

use std::collections::BTreeSet;
use std::error::Error;
use std::time::Instant;

use tokio::runtime::Runtime;
use toller_store::MemoryStore;

use crate::bandwidth::bytes_per_second;
use crate::data::{DIMENSION, query};
use crate::store::{self, K, Place};
use crate::{ROWS, SCALING};
use toller_benches::report::{Report, folder, millis};

const OBJECT: &str = "memory";

/// All figures of the memory store, and the truth of the recall.
pub fn measure(runtime: &Runtime, report: &mut Report) -> Result<Vec<BTreeSet<String>>, Box<dyn Error>> {
    let place = Place::new();
    let before = store::resident_bytes();
    let memory = MemoryStore::new();
    let vectors = memory.vectors.as_ref();
    report.number(OBJECT, "upserts_per_s", store::fill(runtime, vectors, &place, store::params(), ROWS)?);
    report.number(OBJECT, "bytes_per_vector", (store::resident_bytes() - before) / ROWS as f64);
    store::latencies(runtime, vectors, &place, report, OBJECT)?;
    let truth = store::best(runtime, vectors, &place)?;
    report.number(OBJECT, "recall_at_10", store::recall(&truth, &truth));

    // In turns, and the best of each: what else runs on the machine only ever makes one slower.
    let bytes = ROWS * DIMENSION * size_of::<f32>();
    let numbers: Vec<f32> = (0..ROWS * DIMENSION).map(|number| number as f32).collect();
    let (mut searched, mut summed) = (0_f64, 0_f64);
    for number in 0..30 {
        summed = summed.max(bytes_per_second(&numbers));
        let vector = query(number);
        let search = toller_core::vector_store::VectorSearch { vector: &vector, using: None, filter: None, limit: K };
        let started = Instant::now();
        runtime.block_on(toller_core::VectorStore::search(vectors, &place.context, &place.collection, search))?;
        searched = searched.max(bytes as f64 / started.elapsed().as_secs_f64());
    }
    report.number(OBJECT, "search_gb_per_s", searched / 1e9);
    report.number(OBJECT, "plain_sum_gb_per_s", summed / 1e9);
    report.number(OBJECT, "share_of_plain_sum", searched / summed);
    drop(numbers);
    report.number(SCALING, &format!("{OBJECT}_p50_ms_{ROWS}"), store::median(runtime, vectors, &place)?);

    let file = folder()?.join("store-memory.dump");
    memory.dump(&file)?;
    drop(memory);
    let started = Instant::now();
    let (memory, counts) = MemoryStore::load(&file)?;
    report.number(OBJECT, "reopen_ms", millis(started.elapsed()));
    assert_eq!(counts.records, ROWS as u64);
    drop(memory);
    std::fs::remove_file(file)?;
    Ok(truth)
}

/// The median of a search at another size.
pub fn scale(runtime: &Runtime, report: &mut Report, rows: usize) -> Result<(), Box<dyn Error>> {
    let place = Place::new();
    let memory = MemoryStore::new();
    store::fill(runtime, memory.vectors.as_ref(), &place, store::params(), rows)?;
    let median = store::median(runtime, memory.vectors.as_ref(), &place)?;
    report.number(SCALING, &format!("{OBJECT}_p50_ms_{rows}"), median);
    Ok(())
}
