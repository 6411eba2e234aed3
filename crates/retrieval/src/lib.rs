//! Every retriever, and the plan that makes a running tree of a declared one.
//!
//! A declaration ([`toller_core::retriever::RetrieverSpec`]) is checked whole and bound to its collections by
//! [`plan::Planner`]; what comes out is a [`plan::Plan`], which runs the tree with one span per node. Each kind of retriever is a file
//! of its own, with its checks, its binding and its running beside each other; what every node has around it is in `node`.
//! Declarations are stored by name in [`stored::StoredRetrievers`].

pub mod access_log;
mod compression;
mod decompose;
mod ensemble;
mod failure;
mod fallback;
pub mod fusion;
mod hybrid;
mod hyde;
mod identity;
mod keyword;
mod language_model;
mod leg_fusion;
mod legs;
mod llm_router;
mod merger;
mod multi_query;
mod multi_vector;
mod node;
mod parent_document;
mod parents;
pub mod plan;
mod query_fusion;
mod query_memo;
mod rephrase;
mod router;
pub mod run;
pub mod selection;
mod self_query;
mod sentences;
pub mod stored;
mod time_weighted;
mod timestamp;
mod vector_store;

pub use access_log::AccessLog;
pub use plan::{Plan, PlanLimits, Planner};
pub use run::{Answer, RunOptions, TraceNode, Warning};
pub use stored::StoredRetrievers;
