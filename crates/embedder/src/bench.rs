//! What a benchmark needs to say which part of the processor's speed a model reaches.
//!
//! The fraction of the peak is [`crate::folder::bert_config::BertConfig::linear_flops`] of the tokens, divided by the time
//! that the model took for them and by [`product_flops_per_second`] measured in the same minutes.

use std::time::{Duration, Instant};

use rayon::prelude::*;

use crate::packed::product::{Finish, Linear};
use crate::packed::{BLOCK, Kernel, Strided};

/// (rows × inputs) · (inputs × outputs), with weights of `inputs` × `outputs` values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProductShape {
    /// Rows of the left side.
    pub rows: usize,
    /// Values of a row of the left side.
    pub inputs: usize,
    /// Values of a row of the result.
    pub outputs: usize,
}

impl ProductShape {
    /// The first product of the feed-forward part of a model of width 384, over a batch of 2,048 tokens.
    pub const FEED_FORWARD: Self = Self { rows: 2048, inputs: 384, outputs: 1536 };

    /// Floating-point operations: 2 · rows · inputs · outputs.
    pub fn flops(self) -> f64 {
        2.0 * self.rows as f64 * self.inputs as f64 * self.outputs as f64
    }
}

/// Floating-point operations per second of the product that the CPU encoder uses, with weights packed beforehand: the best of
/// at least one run, repeated for `patience`. Runs on the caller's rayon pool.
pub fn product_flops_per_second(shape: ProductShape, patience: Duration) -> f64 {
    let kernel = Kernel::best();
    let ramp = |length: usize| (0..length).map(|index| (index % 61) as f32 / 61.0 - 0.5).collect::<Vec<f32>>();
    let linear = Linear::pack(&ramp(shape.inputs * shape.outputs), &ramp(shape.outputs), shape.inputs);
    let left = ramp(shape.rows * shape.inputs);
    let mut output = vec![0.0; shape.rows * shape.outputs];
    let begun = Instant::now();
    let mut best = Duration::MAX;
    loop {
        let started = Instant::now();
        let blocks = output.par_chunks_mut(BLOCK * shape.outputs).zip(left.par_chunks(BLOCK * shape.inputs));
        blocks.with_max_len(1).for_each(|(output, left)| {
            let mut rows: Vec<&mut [f32]> = output.chunks_exact_mut(shape.outputs).collect();
            linear.forward(kernel, Strided::new(left, shape.inputs), &mut rows, 0, Finish::Plain, 1);
        });
        best = best.min(started.elapsed());
        if begun.elapsed() >= patience {
            return shape.flops() / best.as_secs_f64();
        }
    }
}
