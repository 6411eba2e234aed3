//! Matrices in the order in which the tile reads them.

use std::ops::Range;

/// Values of a line.
pub(crate) const LINE: usize = 16;

/// 16 values that fill a cache line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [f32; LINE]);

impl Line {
    /// The first values, filled up with zeros.
    pub(crate) fn padded(values: &[f32]) -> Self {
        let mut line = Self::default();
        line.0.iter_mut().zip(values).for_each(|(value, stored)| *value = *stored);
        line
    }
}

/// Rows of a matrix that lie `stride` values apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strided<'a> {
    values: &'a [f32],
    stride: usize,
}

impl<'a> Strided<'a> {
    /// Rows that begin at the start of `values` and every `stride` values after it.
    pub(crate) fn new(values: &'a [f32], stride: usize) -> Self {
        Self { values, stride }
    }

    /// The same rows without the first `rows`, and without the first `columns` of each; empty beyond the end.
    pub(crate) fn skip(self, rows: usize, columns: usize) -> Self {
        Self { values: self.values.get(rows * self.stride + columns..).unwrap_or_default(), stride: self.stride }
    }

    /// From the first row's start on.
    pub(crate) fn values(self) -> &'a [f32] {
        self.values
    }

    /// Values between the starts of two rows.
    pub(crate) fn stride(self) -> usize {
        self.stride
    }

    /// Are there `rows` rows of at least `columns` values?
    pub(crate) fn holds(self, rows: usize, columns: usize) -> bool {
        rows == 0 || self.values.len() >= (rows - 1) * self.stride + columns
    }

    /// One value; 0 outside.
    pub(crate) fn value(self, row: usize, column: usize) -> f32 {
        self.values.get(row * self.stride + column).copied().unwrap_or_default()
    }

    /// The first `columns` values of a row; empty outside.
    pub(crate) fn row(self, row: usize, columns: usize) -> &'a [f32] {
        let start = row * self.stride;
        self.values.get(start..start + columns).unwrap_or_default()
    }
}

/// The right side of a product, (inputs × outputs): cut into slices of inputs, each slice into panels of 16 outputs. A panel has
/// one line for each input of its slice; the last panel is filled up with zeros. A product that goes through the slices and
/// through the panels of each reads the lines in the order in which they lie.
#[derive(Debug, Clone, Default)]
pub(crate) struct Panels {
    lines: Vec<Line>,
    inputs: usize,
    outputs: usize,
}

impl Panels {
    /// Takes over the transpose of `rows`, `outputs` rows of `inputs` values: weights as they are stored, or keys. `slices` cut
    /// the inputs. Reuses the memory of `self`.
    pub(crate) fn fill_transposed(
        &mut self,
        rows: Strided<'_>,
        outputs: usize,
        inputs: usize,
        slices: impl Iterator<Item = Range<usize>>,
    ) {
        self.resize(inputs, outputs);
        let mut rest = self.lines.as_mut_slice();
        for slice in slices {
            for first in (0..outputs).step_by(LINE) {
                let Some((panel, after)) = rest.split_at_mut_checked(slice.len()) else { return };
                rest = after;
                for column in 0..LINE {
                    let output = first + column;
                    let row = if output < outputs { rows.row(output, inputs) } else { &[] };
                    match row.get(slice.clone()) {
                        Some(row) => set_column(panel, column, row.iter().copied()),
                        None => set_column(panel, column, std::iter::repeat(0.0)),
                    }
                }
            }
        }
    }

    /// Takes over `rows`, `inputs` rows of `outputs` values: the values of attention. Reuses the memory of `self`.
    pub(crate) fn fill(&mut self, rows: Strided<'_>, inputs: usize, outputs: usize) {
        self.resize(inputs, outputs);
        for (index, panel) in self.lines.chunks_exact_mut(inputs.max(1)).enumerate() {
            let from = index * LINE;
            for (step, line) in panel.iter_mut().enumerate() {
                let row = rows.row(step, outputs).get(from..).unwrap_or_default();
                match row.first_chunk::<LINE>() {
                    Some(whole) => line.0 = *whole,
                    None => *line = Line::padded(row),
                }
            }
        }
    }

    fn resize(&mut self, inputs: usize, outputs: usize) {
        self.inputs = inputs;
        self.outputs = outputs;
        self.lines.resize(inputs * outputs.div_ceil(LINE), Line::default());
    }

    /// Rows of the matrix.
    pub(crate) fn inputs(&self) -> usize {
        self.inputs
    }

    /// Columns of the matrix.
    pub(crate) fn outputs(&self) -> usize {
        self.outputs
    }

    /// Panels of a slice.
    pub(crate) fn count(&self) -> usize {
        self.outputs.div_ceil(LINE)
    }

    /// The panel `index` of the slice `inputs`; empty outside.
    pub(crate) fn panel(&self, index: usize, inputs: &Range<usize>) -> &[Line] {
        let start = inputs.start * self.count() + index * inputs.len();
        self.lines.get(start..start + inputs.len()).unwrap_or_default()
    }

    /// What lies after the panel `index` of the slice `inputs`, as much as the panel has; less at the end.
    pub(crate) fn after(&self, index: usize, inputs: &Range<usize>) -> &[Line] {
        let start = inputs.start * self.count() + (index + 1) * inputs.len();
        let rest = self.lines.get(start..).unwrap_or_default();
        rest.get(..inputs.len()).unwrap_or(rest)
    }
}

#[inline]
fn set_column(panel: &mut [Line], column: usize, values: impl Iterator<Item = f32>) {
    for (line, value) in panel.iter_mut().zip(values) {
        if let Some(stored) = line.0.get_mut(column) {
            *stored = value;
        }
    }
}
