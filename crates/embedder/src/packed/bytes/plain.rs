//! The sums of bytes in plain loops.

use super::kernel::{ByteLine, GROUP, Sums};
use super::rows::QuantisedRows;

/// The sums of `count` rows from `first` on.
pub(super) fn sums(rows: &QuantisedRows, first: usize, lines: &[ByteLine], count: usize) -> Sums {
    let mut sums = Sums::default();
    for (sums, row) in sums.iter_mut().zip(rows.bytes(first)).take(count) {
        for (inputs, line) in row.as_chunks::<GROUP>().0.iter().zip(lines) {
            for (sum, weights) in sums.iter_mut().zip(line.0.as_chunks::<GROUP>().0) {
                let products = inputs.iter().zip(weights).map(|(input, weight)| i32::from(*input) * i32::from(*weight));
                *sum += products.sum::<i32>();
            }
        }
    }
    sums
}
