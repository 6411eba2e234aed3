//! The embedder against reference vectors, broken files, and a hub.

// clippy knows the test functions as tests, but not what they call.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod bge;
mod fixtures;
mod flood;
mod folder;
mod hub;
mod hub_server;
mod int8;
mod invariance;
mod parity;
mod reference;
mod rerank;
mod speed;
mod xlm_roberta;
