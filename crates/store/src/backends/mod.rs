//! Implementations of the store traits, one folder each.

#[cfg(any(feature = "edge", feature = "qdrant"))]
mod best;
mod checks;
#[cfg(feature = "edge")]
pub mod edge;
pub mod memory;
#[cfg(any(feature = "edge", feature = "qdrant"))]
mod proposals;
#[cfg(feature = "qdrant")]
pub mod qdrant;

use toller_core::{CollectionName, Tenant};

/// What every map of a backend is keyed by first: no lookup can leave the tenant out.
type CollectionKey = (Tenant, CollectionName);
