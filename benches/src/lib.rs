//! Benchmarks of Toller; see benches/*.rs.
