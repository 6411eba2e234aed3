//! `toller-embedder`: the embedding worker.

use std::path::PathBuf;

use clap::Parser;

use crate::error::Outcome;
use crate::server_process;
use crate::settings::{SettingFlags, Worker};

/// The configuration file that is read where none is named, when it exists. Not the gateway's, since each refuses settings that
/// only the other reads.
const DEFAULT_FILE: &str = "toller-embedder.toml";

/// The embedding worker of Toller, a retrieval service: serves the Embedder service alone, until SIGTERM or Ctrl-C
#[derive(Debug, Parser)]
#[command(
    name = "toller-embedder",
    version,
    after_help = "\
Gateways reach workers with embedding.provider = \"toller\". Settings are those of `toller serve`, without the ones of data,
documents and filters. Flags beat environment variables, those beat the file, and that beats the defaults.

Examples:
  toller-embedder
  toller-embedder --server-listen 0.0.0.0:7700 --embedding-model BAAI/bge-base-en-v1.5 --embedding-threads 4
  toller-embedder --rerank-model BAAI/bge-reranker-base

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong configuration."
)]
pub(crate) struct Embedder {
    /// Configuration file; default ./toller-embedder.toml when it exists
    #[arg(long, value_name = "FILE", env = "TOLLER_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags<Worker>,
}

/// Runs the program.
pub(crate) fn run(args: Embedder) -> Outcome {
    server_process::run(args.config, DEFAULT_FILE, &args.settings)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Embedder::command().debug_assert();
        for argument in Embedder::command().get_arguments() {
            assert!(argument.get_help().is_some(), "{} has no help text", argument.get_id());
        }
    }
}
