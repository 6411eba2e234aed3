//! What building an index does to those who search and write meanwhile.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use toller_core::VectorStore;
use toller_core::vector_store::VectorSearch;
use toller_store::EdgeStore;

use crate::data::{query, record};
use crate::store::{K, Place};
use toller_benches::report::{Report, millis, percentile};

const OBJECT: &str = "edge_indexing";

/// Rows of one write beside the building: rows that are there already, so that their number stays.
const WRITE: u64 = 10;

/// How long both go on beside the building, which stands back for them and is then left alone.
const CONTENTION: Duration = Duration::from_secs(60);

/// Between two writes, and between two searches: without it, searches would take every core from the builder, which stands back.
const PAUSE: Duration = Duration::from_millis(20);

/// Builds the index of all that was written while one client searches and one writes.
pub fn measure(runtime: &Runtime, edge: &EdgeStore, place: &Place, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let is_done = Arc::new(AtomicBool::new(false));
    let started = Instant::now();
    let builder = {
        let (edge, context, collection) = (edge.clone(), place.context.clone(), place.collection.clone());
        let is_done = Arc::clone(&is_done);
        runtime.spawn(async move {
            let outcome = edge.vectors.build_index(&context, &collection).await;
            is_done.store(true, Ordering::Release);
            outcome
        })
    };
    let writer = {
        let (edge, context, collection) = (edge.clone(), place.context.clone(), place.collection.clone());
        let is_done = Arc::clone(&is_done);
        runtime.spawn(async move {
            let mut spent = Vec::new();
            let mut first = 0;
            while !is_done.load(Ordering::Acquire) && started.elapsed() < CONTENTION {
                let records = (first..first + WRITE).map(record).collect();
                first += WRITE;
                let begun = Instant::now();
                edge.vectors.upsert(&context, &collection, records).await?;
                spent.push(begun.elapsed());
                tokio::time::sleep(PAUSE).await;
            }
            Ok::<_, toller_core::Error>(spent)
        })
    };
    let mut searches = Vec::new();
    while !is_done.load(Ordering::Acquire) && started.elapsed() < CONTENTION {
        let vector = query(searches.len());
        let search = VectorSearch { vector: &vector, using: None, filter: None, limit: K };
        let begun = Instant::now();
        runtime.block_on(edge.vectors.search(&place.context, &place.collection, search))?;
        searches.push(begun.elapsed());
        std::thread::sleep(PAUSE);
    }
    runtime.block_on(builder)??;
    report.number(OBJECT, "build_s", started.elapsed().as_secs_f64());
    let mut writes = runtime.block_on(writer)??;
    for (name, spent) in [("search", &mut searches), ("write", &mut writes)] {
        report.number(OBJECT, &format!("{name}_count"), spent.len() as f64);
        report.number(OBJECT, &format!("{name}_p50_ms"), millis(percentile(spent, 0.5)));
        report.number(OBJECT, &format!("{name}_p99_ms"), millis(percentile(spent, 0.99)));
        report.number(OBJECT, &format!("{name}_max_ms"), millis(percentile(spent, 1.0)));
    }
    // What was written meanwhile may have left something to build.
    runtime.block_on(edge.vectors.build_index(&place.context, &place.collection))?;
    Ok(())
}
