//! `make bench-store`: how fast the stores are that need no server. Writes bench/store.json into the target folder.
//!
//! 100,000 clustered vectors of dimension 384, each with a short text and one metadata field, without keyword index, written
//! in batches of 1,000 and searched one query after another. Recall is against the exact search of the memory store. The
//! edge store runs with durability `fsync`, in a folder beside the target folder's other files, so that its disk is the
//! one of the build. Everything runs in one process, so that ratios can be trusted more than figures of two runs.

mod bandwidth;
mod contention;
mod data;
mod diversity;
mod edge;
mod memory;
mod store;

use std::error::Error;

use toller_benches::report::Report;

/// Rows of the main figures.
const ROWS: usize = 100_000;

/// The report's object on how latency grows with the rows.
const SCALING: &str = "scaling";

/// Rows of its other points.
const SMALL: usize = 10_000;
const LARGE: usize = 300_000;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` and `cargo bench -- --list` also come here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::new();
    let truth = memory::measure(&runtime, &mut report)?;
    edge::measure(&runtime, &mut report, &truth)?;
    diversity::measure(&mut report)?;
    for rows in [SMALL, LARGE] {
        memory::scale(&runtime, &mut report, rows)?;
        edge::scale(&runtime, &mut report, rows)?;
    }
    report.write("store")
}
