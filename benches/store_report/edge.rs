//! The edge store: on disk, by an index.

use std::collections::BTreeSet;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::time::Instant;

use tokio::runtime::Runtime;
use toller_core::VectorStore;
use toller_core::vector_store::VectorSearch;
use toller_store::{EdgeConfig, EdgeStore};

use crate::contention;
use crate::data::query;
use crate::store::{self, K, Place};
use crate::{ROWS, SCALING};
use toller_benches::report::{Report, folder, millis};

const OBJECT: &str = "edge";

/// All figures of the edge store.
pub fn measure(runtime: &Runtime, report: &mut Report, truth: &[BTreeSet<String>]) -> Result<(), Box<dyn Error>> {
    let place = Place::new();
    let folder = tempfile::tempdir_in(folder()?)?;
    let before = store::resident_bytes();
    let edge = open(runtime, folder.path())?;
    report.number(OBJECT, "upserts_per_s", store::fill(runtime, edge.vectors.as_ref(), &place, store::params(), ROWS)?);
    contention::measure(runtime, &edge, &place, report)?;
    let indexed = runtime.block_on(edge.vectors.indexed_count(&place.context, &place.collection))?;
    report.number(OBJECT, "indexed_share", indexed as f64 / ROWS as f64);
    store::latencies(runtime, edge.vectors.as_ref(), &place, report, OBJECT)?;
    let found = store::best(runtime, edge.vectors.as_ref(), &place)?;
    report.number(OBJECT, "recall_at_10", store::recall(truth, &found));
    let median = store::median(runtime, edge.vectors.as_ref(), &place)?;
    report.number(SCALING, &format!("{OBJECT}_p50_ms_{ROWS}"), median);
    report.number(OBJECT, "bytes_per_vector", bytes_on_disk(folder.path())? / ROWS as f64);
    report.number(OBJECT, "resident_bytes_per_vector", (store::resident_bytes() - before) / ROWS as f64);

    drop(edge);
    let started = Instant::now();
    let edge = open(runtime, folder.path())?;
    // A collection is opened by its first use.
    let vector = query(0);
    let search = VectorSearch { vector: &vector, using: None, filter: None, limit: K };
    runtime.block_on(edge.vectors.search(&place.context, &place.collection, search))?;
    report.number(OBJECT, "reopen_ms", millis(started.elapsed()));
    Ok(())
}

/// The median of a search at another size.
pub fn scale(runtime: &Runtime, report: &mut Report, rows: usize) -> Result<(), Box<dyn Error>> {
    let place = Place::new();
    let folder = tempfile::tempdir_in(folder()?)?;
    let edge = open(runtime, folder.path())?;
    store::fill(runtime, edge.vectors.as_ref(), &place, store::params(), rows)?;
    let started = Instant::now();
    runtime.block_on(edge.vectors.build_index(&place.context, &place.collection))?;
    report.number(SCALING, &format!("{OBJECT}_index_wait_s_{rows}"), started.elapsed().as_secs_f64());
    let median = store::median(runtime, edge.vectors.as_ref(), &place)?;
    report.number(SCALING, &format!("{OBJECT}_p50_ms_{rows}"), median);
    Ok(())
}

fn open(runtime: &Runtime, folder: &Path) -> Result<EdgeStore, Box<dyn Error>> {
    let _runtime = runtime.enter();
    Ok(EdgeStore::open(&folder.join("edge"), EdgeConfig::default())?)
}

/// What the files of a folder take, holes not counted.
fn bytes_on_disk(folder: &Path) -> Result<f64, Box<dyn Error>> {
    use std::os::unix::fs::MetadataExt;

    let mut bytes = 0.0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        bytes += if metadata.is_dir() { bytes_on_disk(&entry.path())? } else { metadata.blocks() as f64 * 512.0 };
    }
    Ok(bytes)
}
