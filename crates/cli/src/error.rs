//! What can go wrong in a command, and which exit code says so.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::terminal::say;

/// What a command ends with: its exit code, or why it failed.
pub(crate) type Outcome = Result<ExitCode, Error>;

/// Why a command failed. The text is for people: it names the thing at fault and says what to do next.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The command line asks for something that cannot be.
    #[error("{0}")]
    Usage(String),
    /// The configuration of the server is wrong.
    #[error("{0}")]
    Configuration(String),
    /// No connection to the server.
    #[error(
        "cannot connect to {server}: {fault}\n  is `toller serve` running there? name another server with --server or TOLLER_SERVER"
    )]
    Connect {
        /// Its URL.
        server: String,
        /// The innermost cause.
        fault: String,
    },
    /// The server answered with an error.
    #[error("{}", crate::status::describe(.0))]
    Call(Box<tonic::Status>),
    /// A file could not be read.
    #[error("cannot read {}: {source}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Standard output could not be written.
    #[error("cannot write to standard output: {0}")]
    Output(io::Error),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

impl Error {
    /// Says it on stderr and gives the exit code: 2 for what the user typed or configured, else 1.
    ///
    /// A reader that closed our standard output (`toller query … | head`) has what it wanted: silence, and 0.
    pub(crate) fn report(&self) -> ExitCode {
        match self {
            Self::Output(source) if source.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            _ => say(format_args!("error: {self}")),
        }
        match self {
            Self::Usage(_) | Self::Configuration(_) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }
}

impl From<tonic::Status> for Error {
    fn from(status: tonic::Status) -> Self {
        Self::Call(Box::new(status))
    }
}
