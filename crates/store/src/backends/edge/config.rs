//! How an edge store is run.

use toller_core::Durability;

/// What may be chosen when a store is opened. None of it is bound to the data: it may change from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgeConfig {
    /// What an acknowledged write survives: [`Durability::Fsync`] or [`Durability::Process`]; [`Durability::None`] is taken
    /// as the latter.
    pub durability: Durability,
    /// Search without approximation also where an index was built.
    pub exact: bool,
    /// Most collections that are open at a time, at least 1; the one that was used least recently is closed.
    pub max_open: usize,
    /// Least size of the vectors of a segment, in KiB, for which an index is built and used, at least 1.
    pub index_from_kib: usize,
}

impl Default for EdgeConfig {
    fn default() -> Self {
        Self { durability: Durability::Fsync, exact: false, max_open: 64, index_from_kib: 10_000 }
    }
}
