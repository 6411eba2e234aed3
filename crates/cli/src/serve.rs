//! `toller serve`: the server.

use std::path::PathBuf;

use crate::error::Outcome;
use crate::server_process;
use crate::settings::{Gateway, SettingFlags};

/// The configuration file that is read where none is named, when it exists.
const DEFAULT_FILE: &str = "toller.toml";

/// Run the server until SIGTERM or Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Flags beat environment variables, those beat the file, and that beats the defaults. In the file, server-listen is key
`listen` in section [server], and so on; API keys (`toller key new` makes them) and named models
stand in the file only. Traces follow the
standard variables, such as OTEL_EXPORTER_OTLP_ENDPOINT.

Examples:
  toller serve
  toller serve --embedding-model ./models/bge-small --data-dir /var/lib/toller
  toller serve --config /etc/toller.toml --server-listen 0.0.0.0:7700
  toller serve --embedding-provider none

Exit codes: 0 stopped by a signal, 1 failed, 2 wrong configuration.")]
pub(crate) struct Args {
    /// Configuration file; default ./toller.toml when it exists
    #[arg(long, value_name = "FILE", env = "TOLLER_CONFIG")]
    config: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingFlags<Gateway>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    server_process::run(args.config, DEFAULT_FILE, &args.settings)
}
