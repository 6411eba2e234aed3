//! Weights as bytes, in the order in which the tile reads them.

use std::ops::Range;

use super::kernel::{ByteKernel, ByteLine, BytePanel, GROUP, TILE_ROWS};
use super::rows::{MOST_ROWS, QuantisedRows};
use crate::packed::kernel::Start;
use crate::packed::panels::{LINE, Line, Strided};

/// The right side of a product, (inputs × outputs): cut into slices of inputs, each slice into panels of 16 outputs. A panel has
/// one line for each four inputs of its slice; what is not there is 0.
#[derive(Debug, Clone)]
pub(in crate::packed) struct BytePanels {
    kernel: ByteKernel,
    inputs: usize,
    outputs: usize,
    slices: Vec<Slice>,
}

/// The panels of a slice of inputs.
#[derive(Debug, Clone)]
struct Slice {
    inputs: Range<usize>,
    /// All of the same number of lines.
    lines: Vec<ByteLine>,
    /// For each panel.
    scales: Vec<Line>,
    sums: Vec<Line>,
}

impl BytePanels {
    /// Quantises `weights`, `outputs` rows of `inputs` values, for `kernel`. `slices` cut the inputs.
    pub(in crate::packed) fn pack(
        kernel: ByteKernel,
        weights: &[f32],
        outputs: usize,
        inputs: usize,
        slices: impl Iterator<Item = Range<usize>>,
    ) -> Self {
        let weights = Strided::new(weights, inputs);
        let slices = slices.map(|slice| Slice::pack(kernel, weights, outputs, inputs, slice)).collect();
        Self { kernel, inputs, outputs, slices }
    }

    /// Rows of the matrix.
    pub(in crate::packed) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Columns of the matrix.
    pub(in crate::packed) fn outputs(&self) -> usize {
        self.outputs
    }

    /// The panels `panels` of the slice that begins at `first_input`, times the rows `a`, into the columns of `c` from `column`
    /// on, added to what `start` says for each panel.
    pub(in crate::packed) fn run<'a>(
        &self,
        a: Strided<'_>,
        first_input: usize,
        c: &mut [&mut [f32]],
        column: usize,
        panels: Range<usize>,
        start: impl Fn(usize) -> Start<'a>,
    ) {
        let Some(slice) = self.slices.iter().find(|slice| slice.inputs.start == first_input) else { return };
        for (block, c) in c.chunks_mut(MOST_ROWS).enumerate() {
            let rows = a.skip(block * MOST_ROWS, 0);
            let quantised = QuantisedRows::new(self.kernel, rows, c.len(), slice.inputs.len());
            for panel in panels.clone() {
                let Some(weights) = slice.panel(panel) else { return };
                let from = column + (panel - panels.start) * LINE;
                let columns = from..from + LINE.min(self.outputs - panel * LINE);
                for (strip, c) in c.chunks_mut(TILE_ROWS).enumerate() {
                    self.kernel.tile(&quantised, strip * TILE_ROWS, weights, c, columns.clone(), start(panel));
                }
            }
        }
    }
}

impl Slice {
    fn pack(kernel: ByteKernel, weights: Strided<'_>, outputs: usize, inputs: usize, slice: Range<usize>) -> Self {
        let panels = outputs.div_ceil(LINE);
        let height = slice.len().div_ceil(GROUP);
        let mut packed = Self {
            inputs: slice.clone(),
            lines: vec![ByteLine::default(); panels * height],
            scales: vec![Line::default(); panels],
            sums: vec![Line::default(); panels],
        };
        let panels = packed.lines.chunks_mut(height.max(1)).zip(packed.scales.iter_mut().zip(&mut packed.sums));
        for (panel, (lines, (scales, sums))) in panels.enumerate() {
            for (lane, (scale, sum)) in scales.0.iter_mut().zip(&mut sums.0).enumerate() {
                let output = panel * LINE + lane;
                if output >= outputs {
                    continue;
                }
                let column = weights.row(output, inputs).get(slice.clone()).unwrap_or_default();
                let largest = column.iter().fold(0.0_f32, |largest, weight| largest.max(weight.abs()));
                // Damage must not hide: what is not a number makes the whole column none.
                let poison: f32 = column.iter().map(|weight| weight * 0.0).sum();
                *scale = largest / kernel.largest_weight() + poison;
                let mut total = 0_i32;
                for (weights, line) in column.chunks(GROUP).zip(lines.iter_mut()) {
                    let places = line.0.iter_mut().skip(lane * GROUP);
                    for (weight, place) in weights.iter().zip(places) {
                        let whole = if largest > 0.0 { (weight / *scale).round() } else { 0.0 };
                        *place = whole as i8;
                        total += i32::from(*place);
                    }
                }
                *sum = total as f32 * *scale;
            }
        }
        packed
    }

    fn panel(&self, index: usize) -> Option<BytePanel<'_>> {
        let height = self.inputs.len().div_ceil(GROUP);
        Some(BytePanel {
            lines: self.lines.get(index * height..(index + 1) * height)?,
            scale: self.scales.get(index)?,
            sum: self.sums.get(index)?,
        })
    }
}
