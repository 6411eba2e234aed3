//! What every Toller server shares, as tower layers over tonic and a few plain functions.
//!
//! A call passes, from the outside in: [`trace`] (span, metrics, log line), [`panic`] (a panic becomes INTERNAL), [`drain`] (the
//! server stops), [`auth`] (who calls), [`limit`] (how many at a time), [`deadline`] (until when) and [`unreadable`] (malformed
//! messages); then the service's handler, which takes its [`context`] and turns errors into a [`status`]. [`server`] puts them together with health and reflection.

pub mod auth;
pub mod context;
pub mod deadline;
pub mod drain;
mod ending;
mod error;
pub mod limit;
pub mod middleware;
mod open;
pub mod panic;
pub mod server;
pub mod signal;
pub mod status;
pub mod trace;
pub mod unreadable;

pub use error::Error;
