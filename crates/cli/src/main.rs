//! The `toller` command: the server, and everything that people do with one from a shell.
//!
//! One file for each command. Standard output carries data, standard error carries talk.

mod client;
mod collections;
mod command;
mod confirm;
mod documents;
mod error;
mod filter;
mod health;
mod ingest;
mod json;
mod key;
mod langchain_import;
mod model;
mod names;
mod output;
mod query;
mod retriever_file;
mod retrievers;
mod serve;
mod signals;
mod spans;
mod status;
mod table;
mod terminal;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match command::Toller::parse().run() {
        Ok(code) => code,
        Err(error) => error.report(),
    }
}
