//! Index runs on a store in memory.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests: they fail by panicking"
)]

mod generated;
mod oracle;
mod parents;
mod runs;
mod unbroken;
mod world;
