//! Every retriever, and the plan that makes a running tree of a declared one.
//!
//! A declaration ([`toller_core::retriever::RetrieverSpec`]) is checked whole and bound to its collections by
//! [`plan::Planner`]; what comes out is a [`toller_core::Retriever`] that makes one span per node. Declarations are stored
//! by name in [`stored::StoredRetrievers`].

pub mod plan;
pub mod stored;
pub mod vector_store;

pub use plan::{PlanLimits, Planner};
pub use stored::StoredRetrievers;
