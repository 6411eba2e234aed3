//! Why telemetry could not start.

use std::net::SocketAddr;

/// The error of this crate. Nothing that happens after the start is an error: telemetry never fails a request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An environment variable has a value that cannot be used.
    #[error("{variable}={value:?} cannot be used: {reason}")]
    Variable {
        /// Its name.
        variable: &'static str,
        /// Its value.
        value: String,
        /// What is wrong and what would be right.
        reason: String,
    },
    /// The log level or filter cannot be read.
    #[error("log level {filter:?} cannot be read, use error, warn, info, debug, trace or target=level pairs: {reason}")]
    LogFilter {
        /// What was given.
        filter: String,
        /// What is wrong.
        reason: String,
    },
    /// The address for metrics cannot be listened on.
    #[error("cannot listen for metrics on {address}: {source}; free the port or choose another address")]
    MetricsListen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: std::io::Error,
    },
    /// The trace exporter cannot be made.
    #[error("cannot export traces to {endpoint}: {reason}")]
    Exporter {
        /// Where traces should go.
        endpoint: String,
        /// The reason.
        reason: String,
    },
    /// The threads of telemetry cannot be started.
    #[error("cannot start the threads of telemetry: {0}")]
    Threads(std::io::Error),
    /// A histogram's buckets are wrong.
    #[error("cannot set up metrics: {0}")]
    Metrics(String),
    /// Telemetry is set up once per process.
    #[error("telemetry is set up already: another {0} is installed in this process")]
    AlreadyStarted(&'static str),
    /// The last spans could not be delivered in time.
    #[error("the last spans could not be delivered: {0}")]
    Flush(String),
}
