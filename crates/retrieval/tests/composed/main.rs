//! Trees of retrievers over the memory backend, with models that can be reckoned by hand.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests: they fail by panicking"
)]

mod compression;
mod fusion;
mod keyword;
mod oracles;
mod parents;
mod properties;
mod reported;
mod routing;
mod running;
mod specs;
mod time_weighted;
mod trees;
mod world;
