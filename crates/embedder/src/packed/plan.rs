//! How a pass is cut: into regions between which the checkpoint is asked, and each region into tasks for the threads.

use std::ops::Range;

use super::kernel::TILE_ROWS;
use super::layer::BLOCK;

/// Rows of a region for each thread: on two threads 384 rows of half a layer, some milliseconds.
const REGION_ROWS: usize = 2 * BLOCK;
/// Below so many rows for each thread, the threads share columns instead of rows, so that each reads but a part of the weights.
const LEAST_ROWS: usize = 2 * TILE_ROWS;
/// Rows of attention for each task.
const ATTENTION_ROWS: usize = BLOCK;

/// How rows that do not depend on each other are worked on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowPlan {
    /// All at once; the threads share the columns of each product.
    Columns {
        /// How many do.
        threads: usize,
    },
    /// In regions of `region` rows (the last may be shorter), each of which is shared in blocks of `block` rows.
    Rows {
        /// Rows of a region.
        region: usize,
        /// Rows of a block.
        block: usize,
    },
}

impl RowPlan {
    pub(super) fn new(rows: usize, threads: usize) -> Self {
        if threads > 1 && rows < threads * LEAST_ROWS {
            return Self::Columns { threads };
        }
        let regions = rows.div_ceil(threads * REGION_ROWS).max(1);
        let region = rows.div_ceil(regions).max(1);
        let blocks = region.div_ceil(BLOCK).next_multiple_of(threads);
        Self::Rows { region, block: region.div_ceil(blocks).next_multiple_of(TILE_ROWS) }
    }
}

/// Queries of one sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// The rows of the sequence in the packed matrix.
    pub(super) sequence: Range<usize>,
    /// The queries, as rows of the sequence.
    pub(super) queries: Range<usize>,
}

/// Attention for neighbouring queries, in the order of their rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AttentionTask {
    pub(super) pieces: Vec<Piece>,
    /// Queries of all pieces.
    pub(super) rows: usize,
}

/// Attention of all queries of sequences that have `lengths`; only the first query of each when `first_only`.
pub(super) fn attention_tasks(lengths: &[usize], first_only: bool, threads: usize) -> Vec<AttentionTask> {
    let total: usize = if first_only { lengths.len() } else { lengths.iter().sum() };
    let most = total.div_ceil(threads).next_multiple_of(TILE_ROWS).min(ATTENTION_ROWS);
    let mut tasks = vec![AttentionTask::default()];
    let mut start = 0;
    for length in lengths {
        let queries = if first_only { 1 } else { *length };
        let per_piece = queries.div_ceil(queries.div_ceil(most + most / 2)).next_multiple_of(TILE_ROWS);
        for from in (0..queries).step_by(per_piece) {
            let piece = Piece { sequence: start..start + length, queries: from..queries.min(from + per_piece) };
            let rows = piece.queries.len();
            match tasks.last_mut() {
                Some(task) if task.rows == 0 || task.rows + rows <= most => {
                    task.pieces.push(piece);
                    task.rows += rows;
                }
                _ => tasks.push(AttentionTask { pieces: vec![piece], rows }),
            }
        }
        start += length;
    }
    tasks
}

/// `tasks` in regions of about as many rows as a region of a [`RowPlan`].
pub(super) fn attention_regions(tasks: &[AttentionTask], threads: usize) -> Vec<&[AttentionTask]> {
    let total: usize = tasks.iter().map(|task| task.rows).sum();
    let regions = total.div_ceil(threads * REGION_ROWS).max(1);
    let most = total.div_ceil(regions);
    let mut cut = Vec::with_capacity(regions);
    let mut rest = tasks;
    while !rest.is_empty() {
        let mut rows = 0;
        let fitting = rest.iter().take_while(|task| {
            let fits = rows < most;
            rows += task.rows;
            fits
        });
        let (region, after) = rest.split_at(fitting.count().max(1));
        cut.push(region);
        rest = after;
    }
    cut
}
