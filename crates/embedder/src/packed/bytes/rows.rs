//! Input rows as bytes.

use super::kernel::{ByteKernel, TILE_ROWS};
use crate::packed::panels::Strided;
use crate::packed::product::SLICE;

/// Rows that are quantised together (18 kB of bytes): a panel is used for all of them while it is in the first-level cache.
pub(super) const MOST_ROWS: usize = 4 * TILE_ROWS;

/// A value is `least` + byte · `step`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Span {
    pub(super) least: f32,
    pub(super) step: f32,
}

/// Up to [`MOST_ROWS`] rows of a slice of inputs. Rows and inputs that are not there are 0.
pub(super) struct QuantisedRows {
    values: [[u8; SLICE]; MOST_ROWS],
    spans: [Span; MOST_ROWS],
}

impl QuantisedRows {
    /// Quantises `count` rows of `inputs` values, at most [`MOST_ROWS`] and [`SLICE`].
    pub(super) fn new(kernel: ByteKernel, rows: Strided<'_>, count: usize, inputs: usize) -> Self {
        let mut quantised = Self { values: [[0; SLICE]; MOST_ROWS], spans: [Span::default(); MOST_ROWS] };
        for (index, (bytes, span)) in quantised.values.iter_mut().zip(&mut quantised.spans).take(count).enumerate() {
            *span = kernel.quantise(rows.row(index, inputs), bytes);
        }
        quantised
    }

    /// The bytes of [`TILE_ROWS`] rows from `first` on; fewer at the end.
    pub(super) fn bytes(&self, first: usize) -> &[[u8; SLICE]] {
        let rows = self.values.get(first..).unwrap_or_default();
        rows.get(..TILE_ROWS).unwrap_or(rows)
    }

    /// The spans of the rows from `first` on.
    pub(super) fn spans(&self, first: usize) -> &[Span] {
        self.spans.get(first..).unwrap_or_default()
    }
}
