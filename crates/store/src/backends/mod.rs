//! Implementations of the store traits, one folder each.

pub mod memory;
