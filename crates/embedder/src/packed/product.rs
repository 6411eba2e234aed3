//! A linear layer over a block of rows: every panel of the weights passes over the block while both are in cache.

use std::ops::Range;

use rayon::prelude::*;

use super::bytes::{ByteKernel, BytePanels};
use super::kernel::{Kernel, Start, TILE_ROWS};
use super::panels::{LINE, Line, Panels, Strided};

/// Inputs of one slice of a product: a panel of so many lines (24 kB) stays in the first-level cache while the rows pass.
pub(super) const SLICE: usize = 384;

/// A linear layer, x·Wᵀ + b.
#[derive(Debug, Clone)]
pub(crate) struct Linear {
    weights: Stored,
    bias: Vec<Line>,
}

/// How weights are stored.
#[derive(Debug, Clone)]
enum Stored {
    /// As they are.
    Full(Panels),
    /// In 8 bits.
    Bytes(BytePanels),
}

/// What happens to a panel's outputs while they are in cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finish {
    /// Nothing.
    Plain,
    /// GELU.
    Gelu,
}

impl Linear {
    /// Packs `weights`, `bias.len()` rows of `inputs` values.
    pub(crate) fn pack(weights: &[f32], bias: &[f32], inputs: usize) -> Self {
        let mut panels = Panels::default();
        panels.fill_transposed(Strided::new(weights, inputs), bias.len(), inputs, slices(inputs));
        Self { weights: Stored::Full(panels), bias: bias.chunks(LINE).map(Line::padded).collect() }
    }

    /// As [`Linear::pack`], with weights in 8 bits.
    pub(crate) fn pack_bytes(weights: &[f32], bias: &[f32], inputs: usize) -> Self {
        Self::pack_bytes_for(ByteKernel::best(), weights, bias, inputs)
    }

    pub(super) fn pack_bytes_for(kernel: ByteKernel, weights: &[f32], bias: &[f32], inputs: usize) -> Self {
        let panels = BytePanels::pack(kernel, weights, bias.len(), inputs, slices(inputs));
        Self { weights: Stored::Bytes(panels), bias: bias.chunks(LINE).map(Line::padded).collect() }
    }

    /// Length of an input row.
    pub(super) fn inputs(&self) -> usize {
        match &self.weights {
            Stored::Full(panels) => panels.inputs(),
            Stored::Bytes(panels) => panels.inputs(),
        }
    }

    /// Length of an output row.
    pub(super) fn outputs(&self) -> usize {
        match &self.weights {
            Stored::Full(panels) => panels.outputs(),
            Stored::Bytes(panels) => panels.outputs(),
        }
    }

    /// All outputs of the rows `a` into the rows `c`, from `column`; by `parts` threads, each with columns of its own.
    pub(crate) fn forward(
        &self,
        kernel: Kernel,
        a: Strided<'_>,
        c: &mut [&mut [f32]],
        column: usize,
        finish: Finish,
        parts: usize,
    ) {
        let panels = self.bias.len();
        let parts = parts.min(panels);
        if parts <= 1 {
            self.slices(kernel, a, c, column, 0..panels, finish);
            return;
        }
        let per_part = panels.div_ceil(parts);
        let width = per_part * LINE;
        let mut pieces: Vec<(usize, Vec<&mut [f32]>)> =
            (0..panels).step_by(per_part).map(|first| (first, Vec::with_capacity(c.len()))).collect();
        for row in c {
            let mut rest = row.get_mut(column..column + self.outputs()).unwrap_or_default();
            for (_, rows) in &mut pieces {
                let (piece, after) = rest.split_at_mut(width.min(rest.len()));
                rows.push(piece);
                rest = after;
            }
        }
        pieces.into_par_iter().with_max_len(1).for_each(|(first, mut rows)| {
            self.slices(kernel, a, &mut rows, 0, first..panels.min(first + per_part), finish);
        });
    }

    pub(super) fn slices(
        &self,
        kernel: Kernel,
        a: Strided<'_>,
        c: &mut [&mut [f32]],
        column: usize,
        panels: Range<usize>,
        finish: Finish,
    ) {
        for inputs in slices(self.inputs()) {
            let last = inputs.end == self.inputs();
            let finish = if last { finish } else { Finish::Plain };
            self.run(kernel, a.skip(0, inputs.start), inputs, c, column, panels.clone(), finish);
        }
    }

    /// The part of the product that one of the [`slices`] of inputs and some panels make. The first slice begins with the bias,
    /// the following ones with what `c` holds. `a` begins at the first of the inputs, `column` is where the first panel goes.
    #[expect(clippy::too_many_arguments, reason = "each is one side of the product")]
    pub(super) fn run(
        &self,
        kernel: Kernel,
        a: Strided<'_>,
        inputs: Range<usize>,
        c: &mut [&mut [f32]],
        column: usize,
        panels: Range<usize>,
        finish: Finish,
    ) {
        let first = panels.start;
        let start = |panel: usize| match self.bias.get(panel) {
            Some(bias) if inputs.start == 0 => Start::Row(bias),
            _ => Start::Output,
        };
        let columns = |panel: usize| {
            let from = column + (panel - first) * LINE;
            from..from + LINE.min(self.outputs() - panel * LINE)
        };
        match &self.weights {
            Stored::Full(weights) => {
                // The next panel comes into cache while this one is used, a part with each tile.
                let strips = c.len().div_ceil(TILE_ROWS).max(1);
                let ahead_lines = inputs.len().div_ceil(strips).max(1);
                for panel in panels {
                    let lines = weights.panel(panel, &inputs);
                    let mut ahead = weights.after(panel, &inputs).chunks(ahead_lines);
                    for (strip, rows) in c.chunks_mut(TILE_ROWS).enumerate() {
                        let ahead = ahead.next().unwrap_or_default();
                        kernel.tile(a.skip(strip * TILE_ROWS, 0), lines, ahead, rows, columns(panel), start(panel));
                    }
                    finish.apply(kernel, c, columns(panel));
                }
            }
            Stored::Bytes(weights) => {
                weights.run(a, inputs.start, c, column, panels.clone(), start);
                for panel in panels {
                    finish.apply(kernel, c, columns(panel));
                }
            }
        }
    }
}

impl Finish {
    fn apply(self, kernel: Kernel, c: &mut [&mut [f32]], columns: Range<usize>) {
        if self == Self::Gelu {
            for row in c.iter_mut() {
                kernel.gelu(row.get_mut(columns.clone()).unwrap_or_default());
            }
        }
    }
}

/// `inputs` in slices of nearly equal length, at most [`SLICE`] and a multiple of [`LINE`].
pub(super) fn slices(inputs: usize) -> impl Iterator<Item = Range<usize>> {
    let count = inputs.div_ceil(SLICE).max(1);
    let length = inputs.div_ceil(count).next_multiple_of(LINE);
    (0..inputs).step_by(length).map(move |start| start..inputs.min(start + length))
}
