//! Spans, metrics and logs: every name once, typed constructors for all that Toller records, and the set-up that exports it.
//!
//! [`names`] is the vocabulary, [`spans`] makes spans of it, [`propagation`] carries trace context from and to headers, and
//! [`content`] decides whether texts may be recorded.

pub mod classes;
pub mod content;
pub mod names;
pub mod propagation;
pub mod spans;

pub use classes::error_class;
pub use content::ContentPolicy;
pub use propagation::current_trace_parent;
