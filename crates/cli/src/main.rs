//! The `toller` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    toller_cli::toller()
}
