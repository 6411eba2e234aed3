//! Linear layers with weights of 8 bits (Jacob et al. 2018, <https://arxiv.org/abs/1712.05877>).
//!
//! Weights are quantised once, at load: symmetrically, with a scale for each output and each slice of at most 384 inputs.
//! Inputs are quantised when they are used, with a least value and a step for each row and slice, which costs little beside
//! the product. A product of bytes is added up in 32 bits, exactly, and scaled back: everything between the products stays in
//! f32. Every row is computed on its own, so that its result does not depend on what is computed beside it.

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2;
#[allow(clippy::indexing_slicing, reason = "fixed-size arrays under constant bounds, which the compiler must see")]
mod elementwise;
mod kernel;
mod panels;
mod plain;
mod rows;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod vnni;

pub(super) use kernel::ByteKernel;
pub(super) use panels::BytePanels;
