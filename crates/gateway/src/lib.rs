//! The servers: Toller's gRPC services over a store and models, their wiring and their configuration.
//!
//! [`serve`] is the whole life of a gateway: lock the data folder, load what the last run left, load the models, answer until
//! the shutdown signal, drain, and leave the data for the next run. [`serve_embedder`] is that of an embedding worker, which
//! has the Embedder service alone and no data. Each service is one file in `services`; none holds rules of its own beyond the
//! limits of requests.

pub mod config;
mod data;
mod data_folder;
mod door;
mod error;
mod limits;
mod model;
mod queue_report;
mod serve;
mod serve_embedder;
mod services;
mod watchdog;

pub use error::GatewayError;
pub use serve::{Ready, ReadyData, ReadyModels, serve};
pub use serve_embedder::serve_embedder;
