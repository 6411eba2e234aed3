//! How large a declared retriever may be.

use toller_core::filter::FilterLimits;

/// Bounds on a declared retriever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanLimits {
    /// Most hits and most MMR candidates of one node; the setting `limits.max_k`, which errors name.
    pub max_k: u32,
    /// Deepest nesting, and longest chain of references.
    pub max_depth: usize,
    /// Most retrievers of one tree, what references name included. Each may cost a search.
    pub max_nodes: usize,
    /// Most searches that one run may come to: retrievers that ask several queries multiply what is below them.
    pub max_searches: usize,
    /// How large a filter may be.
    pub filter: FilterLimits,
}

impl Default for PlanLimits {
    fn default() -> Self {
        Self { max_k: 1000, max_depth: 16, max_nodes: 64, max_searches: 1024, filter: FilterLimits::default() }
    }
}
