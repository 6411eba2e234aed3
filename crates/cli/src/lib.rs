//! The two programs of Toller: `toller`, the gateway and everything that people do with one from a shell, and
//! `toller-embedder`, the embedding worker.
//!
//! One file for each command. Standard output carries data, standard error carries talk. Both programs are a few lines over this
//! library, since they share how a server is configured, started and stopped.

mod backup;
mod backup_file;
mod client;
mod collections;
mod command;
mod confirm;
mod document_stores;
mod documents;
mod embedder;
mod error;
mod filter;
mod health;
mod ingest;
mod json;
mod key;
mod langchain_import;
mod model;
mod names;
mod operations;
mod output;
mod query;
mod rerank;
mod restore;
mod retriever_file;
mod retrievers;
mod serve;
mod server_process;
mod settings;
mod signals;
mod spans;
mod status;
mod table;
mod terminal;
mod waiting;
mod watch;

use std::process::ExitCode;

use clap::Parser as _;

/// The program `toller`.
pub fn toller() -> ExitCode {
    match command::Toller::parse().run() {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}

/// The program `toller-embedder`.
pub fn toller_embedder() -> ExitCode {
    match embedder::run(embedder::Embedder::parse()) {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}
