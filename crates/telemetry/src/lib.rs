//! Spans, metrics and logs: every name once, typed constructors for all that Toller records, and the set-up that exports it.
//!
//! [`names`] is the vocabulary, [`spans`] and [`metrics`] speak it, and [`traced`] wraps the core traits in both.
//! [`Telemetry::start`] begins it all: [`traces`] go out over OTLP, metrics are scraped, [`logs`] go to standard error.
//! [`propagation`] carries trace context from and to headers; [`content`] decides whether texts may be recorded.

pub mod classes;
pub mod content;
mod error;
pub mod logs;
pub mod metrics;
mod metrics_listener;
pub mod names;
pub mod propagation;
pub mod setup;
pub mod spans;
pub mod traced;
pub mod traces;

pub use classes::error_class;
pub use content::ContentPolicy;
pub use error::Error;
pub use logs::LogFormat;
pub use propagation::current_trace_parent;
pub use setup::{Telemetry, TelemetryConfig, TelemetryGuard};
pub use traced::{TracedEmbeddings, TracedReranker, TracedVectorStore};
