//! `make bench-retrieval`: what retrievers cost over gRPC at 100,000 chunks, beyond the embedding of the query, and what the
//! retriever layer itself costs. Writes bench/retrieval.json into the target folder.
//!
//! The server is a real one ($TOLLER_BIN) on the edge store, with the model of the folder in TOLLER_TEST_MODEL (MiniLM) and
//! its vector cache off. The chunks bring clustered vectors of their own, so that filling takes seconds; the queries are
//! texts, each asked once. Latencies beyond the embedding are medians less the median of `EmbedQuery`.

mod chunks;
mod layer;
mod served;
mod trees;

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
    runtime.block_on(layer::measure(&mut report))?;
    runtime.block_on(served::measure(&model, &mut report))?;
    report.write("retrieval")
}
