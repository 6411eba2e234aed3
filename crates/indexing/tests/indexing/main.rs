//! Index runs on a store in memory.

mod generated;
mod oracle;
mod parents;
mod runs;
mod unbroken;
mod world;
