//! Retrievers that ask a language model, through the real client and over real HTTP.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod compressors;
mod configured;
mod llm_router;
mod queries;
mod self_query;
mod service;
mod world;
