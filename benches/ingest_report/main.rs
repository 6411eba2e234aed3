//! `make bench-ingest`: how fast documents become an index, over gRPC and on disk. Writes bench/ingest.json into the target folder.
//!
//! The server is a real one ($TOLLER_BIN) on the edge store, with the model of the folder in TOLLER_TEST_MODEL (MiniLM) and its
//! vector cache off. `long_chunks` are chunks of a usual length; their tokens per second are compared with those of
//! `EmbedDocuments` for the same texts, asked for before and after. `short_chunks` are 50,000 of a tenth of it, so that they
//! are embedded in minutes; memory and the run with nothing changed are measured with them.

mod documents;
mod served;

use std::error::Error;

use toller_benches::report::Report;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` and `cargo bench -- --list` also come here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let model = std::env::var("TOLLER_TEST_MODEL").map_err(|_| "TOLLER_TEST_MODEL: set it to a model's folder")?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let mut report = Report::new();
    runtime.block_on(served::measure(&model, &mut report))?;
    report.write("ingest")
}
