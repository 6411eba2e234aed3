//! Why a server cannot start, or ended.

use std::io;
use std::net::SocketAddr;

/// The error of this crate. What a single call meets is a [`tonic::Status`] instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; {}", listen_hint(.source))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
    /// A configured API key is wrong.
    #[error("{field} {fault}")]
    ApiKey {
        /// Which part of it.
        field: &'static str,
        /// What is wrong and what would be right.
        fault: String,
    },
    /// The descriptors for reflection cannot be read.
    #[error("cannot read the descriptors for reflection: {0}")]
    Descriptors(String),
    /// A method that is to be treated apart, as bulk or unhurried, is not one of the server's.
    #[error("no descriptor has the method {0}; name it as package.Service/Method")]
    UnknownMethod(String),
    /// The server failed while it ran.
    #[error("the server failed: {0}")]
    Serve(#[from] tonic::transport::Error),
}

fn listen_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::AddrInUse => "stop the process that has the port, or choose another one (0 takes a free one)",
        io::ErrorKind::PermissionDenied => "choose a port of 1024 or above, or run with the right to take it",
        io::ErrorKind::AddrNotAvailable => "choose an address of this machine, or 0.0.0.0 for all of them",
        _ => "choose another address",
    }
}
