//! softmax(Q·Kᵀ)·V for each sequence and head (Vaswani et al. 2017, <https://arxiv.org/abs/1706.03762>); Q carries the factor
//! 1/√d already.

use super::kernel::{Kernel, Start, TILE_ROWS};
use super::panels::{LINE, Panels, Strided};

/// Queries whose scores are computed together: two strips, so that a panel of keys is used twice while it is in the
/// first-level cache, and the scores of 192 keys (18 kB) stay there until they have met the values.
const QUERIES: usize = 2 * TILE_ROWS;

/// The shape of multi-head attention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Heads {
    /// Heads.
    pub(super) count: usize,
    /// Width of a head.
    pub(super) width: usize,
}

/// Some queries of a sequence, and all its keys and values: strided views with the heads side by side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Views<'a> {
    /// From the first of the queries on.
    pub(super) queries: Strided<'a>,
    /// From the sequence's first key on.
    pub(super) keys: Strided<'a>,
    /// From the sequence's first value on.
    pub(super) values: Strided<'a>,
    /// The sequence's tokens.
    pub(super) length: usize,
}

/// Memory for one head of one sequence.
#[derive(Debug, Default)]
pub(super) struct AttentionScratch {
    keys: Panels,
    values: Panels,
    scores: Vec<f32>,
    sums: Vec<f32>,
}

impl Heads {
    /// The attention of the queries that belong to the rows of `context`.
    pub(super) fn attend(
        self,
        kernel: Kernel,
        views: Views<'_>,
        context: &mut [&mut [f32]],
        scratch: &mut AttentionScratch,
    ) {
        let AttentionScratch { keys, values, scores, sums } = scratch;
        // One line more than needed: rows a power of two apart would fall on the same places in the cache.
        let stride = views.length.next_multiple_of(LINE) + LINE;
        scores.resize(QUERIES * stride, 0.0);
        for head in 0..self.count {
            let column = head * self.width;
            keys.fill_transposed(views.keys.skip(0, column), views.length, self.width, std::iter::once(0..self.width));
            values.fill(views.values.skip(0, column), views.length, self.width);
            for (block, rows) in context.chunks_mut(QUERIES).enumerate() {
                let queries = views.queries.skip(block * QUERIES, column);
                let mut score_rows: Vec<&mut [f32]> = scores.chunks_exact_mut(stride).take(rows.len()).collect();
                for panel in 0..keys.count() {
                    let lines = keys.panel(panel, &(0..self.width));
                    let columns = panel * LINE..(panel + 1) * LINE;
                    for (strip, tile) in score_rows.chunks_mut(TILE_ROWS).enumerate() {
                        kernel.tile(queries.skip(strip * TILE_ROWS, 0), lines, &[], tile, columns.clone(), Start::Zero);
                    }
                }
                sums.clear();
                sums.extend(score_rows.iter_mut().map(|row| kernel.exp_row(row, views.length)));
                for panel in 0..values.count() {
                    let lines = values.panel(panel, &(0..views.length));
                    let from = panel * LINE;
                    let columns = column + from..column + self.width.min(from + LINE);
                    for (strip, tile) in rows.chunks_mut(TILE_ROWS).enumerate() {
                        let weights = Strided::new(scores, stride).skip(strip * TILE_ROWS, 0);
                        kernel.tile(weights, lines, &[], tile, columns.clone(), Start::Zero);
                    }
                }
                for (row, factor) in rows.iter_mut().zip(sums.iter()) {
                    for value in row.get_mut(column..column + self.width).unwrap_or_default() {
                        *value *= factor;
                    }
                }
            }
        }
    }
}
