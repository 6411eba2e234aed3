//! One encoder architecture per file, top to bottom in the order of its forward pass.

pub mod bert;
