//! Implementations of the store traits, one folder each.

mod checks;
#[cfg(feature = "edge")]
pub mod edge;
pub mod memory;

use toller_core::{CollectionName, Tenant};

/// What every map of a backend is keyed by first: no lookup can leave the tenant out.
type CollectionKey = (Tenant, CollectionName);
