//! What every Toller server shares, as tower layers over tonic and a few plain functions.
//!
//! A call passes, from the outside in: [`trace`] (span, metrics, log line), [`mod@panic`] (a panic becomes INTERNAL), [`drain`] (the
//! server stops), [`auth`] (who calls), [`limit`] (how many at a time), [`deadline`] (until when), [`request_body`] (how long a
//! request may take to arrive), [`unreadable`] (malformed messages) and [`unknown_method`]; then the service's handler, which
//! takes its [`context`] and turns errors into a [`status`]. [`server`] puts them together with health and reflection.

pub mod auth;
mod connections;
pub mod context;
pub mod deadline;
pub mod drain;
mod ending;
mod error;
pub mod limit;
pub mod middleware;
mod open;
pub mod panic;
pub mod read_ahead;
pub mod request_body;
pub mod server;
pub mod signal;
pub mod status;
pub mod trace;
pub mod unknown_method;
mod unread;
pub mod unreadable;

pub use error::Error;
