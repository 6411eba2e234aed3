//! The register tile in plain loops.

use super::{Start, TILE_ROWS};
use crate::packed::panels::{LINE, Line, Strided};

/// `start` + a·b into [`LINE`] columns of each row of `c`, from `column`.
pub(super) fn tile(a: Strided<'_>, b: &[Line], c: &mut [&mut [f32]], column: usize, start: Start<'_>) {
    let mut sums = [[0.0_f32; LINE]; TILE_ROWS];
    for (sums, row) in sums.iter_mut().zip(c.iter()) {
        match start {
            Start::Zero => {}
            Start::Row(line) => *sums = line.0,
            Start::Output => {
                if let Some(stored) = row.get(column..).and_then(<[f32]>::first_chunk) {
                    *sums = *stored;
                }
            }
        }
    }
    for (step, line) in b.iter().enumerate() {
        for (row, sums) in sums.iter_mut().enumerate().take(c.len()) {
            let factor = a.value(row, step);
            for (sum, value) in sums.iter_mut().zip(&line.0) {
                // Fused where the processor always has it; elsewhere a fused step would be a call into the system's library.
                *sum = if cfg!(target_arch = "aarch64") { factor.mul_add(*value, *sum) } else { factor * value + *sum };
            }
        }
    }
    for (sums, row) in sums.iter().zip(c) {
        if let Some(stored) = row.get_mut(column..).and_then(<[f32]>::first_chunk_mut) {
            *stored = *sums;
        }
    }
}
