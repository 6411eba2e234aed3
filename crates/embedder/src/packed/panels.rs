//! Matrices in the order in which the tile reads them.

/// Values of a line.
pub(crate) const LINE: usize = 16;

/// 16 values that fill a cache line.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Line(pub(crate) [f32; LINE]);

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

/// The right side of a product, (inputs × outputs), as panels of 16 outputs: a panel has one line per input. The last panel is
/// filled up with zeros.
#[derive(Debug, Clone, Default)]
pub(crate) struct Panels {
    lines: Vec<Line>,
    inputs: usize,
    outputs: usize,
}

impl Panels {
    /// Takes over the transpose of `rows`, `outputs` rows of `inputs` values: weights as they are stored, or keys. Reuses the
    /// memory of `self`.
    pub(crate) fn fill_transposed(&mut self, rows: Strided<'_>, outputs: usize, inputs: usize) {
        self.resize(inputs, outputs);
        for (index, panel) in self.lines.chunks_exact_mut(inputs.max(1)).enumerate() {
            for column in 0..LINE {
                let output = index * LINE + column;
                let row = if output < outputs { rows.row(output, inputs) } else { &[] };
                for (step, line) in panel.iter_mut().enumerate() {
                    if let Some(value) = line.0.get_mut(column) {
                        *value = row.get(step).copied().unwrap_or_default();
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
                    None => {
                        line.0 = [0.0; LINE];
                        line.0.iter_mut().zip(row).for_each(|(value, stored)| *value = *stored);
                    }
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

    /// Panels.
    pub(crate) fn count(&self) -> usize {
        self.outputs.div_ceil(LINE)
    }

    /// The lines of `inputs` in the panel `index`; empty outside.
    pub(crate) fn panel(&self, index: usize, inputs: std::ops::Range<usize>) -> &[Line] {
        let start = index * self.inputs;
        self.lines.get(start + inputs.start..start + inputs.end).unwrap_or_default()
    }
}
