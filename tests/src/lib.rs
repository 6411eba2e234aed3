//! What the end-to-end tests share: `toller` processes on free ports, a client with one method for each service, short ways
//! to write requests, and a collector of spans. The tests themselves are in the folder `end_to_end`.

pub mod client;
pub mod collector;
pub mod command;
pub mod metrics;
pub mod request;
pub mod scene;
pub mod server;

/// The folder of a tiny BGE model: random weights, real tokenizer, loads in milliseconds.
pub const TINY_MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tiny-bge");

/// The folder of a tiny reranker: random weights, real tokenizer, reference scores.
pub const TINY_RERANKER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/tiny-reranker-bert");

/// Longest wait for anything that should take a moment. Reaching it is a failure, never a way to synchronise.
pub const PATIENCE: std::time::Duration = std::time::Duration::from_secs(120);
