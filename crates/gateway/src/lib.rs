//! The gateway: Toller's gRPC services over one store and one embedding model, their wiring and their configuration.
//!
//! [`serve`] is the whole life of a server: lock the data folder, load what the last run left, load the model, answer until
//! the shutdown signal, drain, and leave the data for the next run. Each service is one file in `services`; none holds
//! rules of its own beyond the limits of requests.

pub mod config;
mod data_folder;
mod error;
mod limits;
mod model;
mod serve;
mod services;
mod watchdog;

pub use error::GatewayError;
pub use serve::{Ready, serve};
