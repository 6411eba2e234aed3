//! Index runs on a store in memory.

mod oracle;
mod parents;
mod runs;
mod unbroken;
mod world;
