//! What is done before and after the sums of bytes, written so that the compiler turns it into vector instructions of
//! whatever processor the caller is compiled for.

use std::ops::Range;

use super::kernel::{BytePanel, Sums};
use super::rows::Span;
use crate::packed::kernel::Start;
use crate::packed::panels::LINE;

/// Adding it rounds a small number to a whole one, which is then in its low bits: 1.5 · 2^23.
const ROUND: f32 = 12_582_912.0;

/// The largest byte.
const TOP: f32 = 255.0;

/// Quantises a row: its least value becomes 0, its greatest 255. A row with a value that is not finite becomes one that gives
/// no number, so that damage does not hide.
#[inline(always)]
pub(super) fn quantise(row: &[f32], bytes: &mut [u8]) -> Span {
    let (lines, rest) = row.as_chunks::<LINE>();
    let mut least = [f32::MAX; LINE];
    let mut greatest = [f32::MIN; LINE];
    // 0 times what is finite is 0, and no number otherwise.
    let mut poison = [0.0_f32; LINE];
    for line in lines {
        for lane in 0..LINE {
            let value = line[lane];
            least[lane] = if value < least[lane] { value } else { least[lane] };
            greatest[lane] = if value > greatest[lane] { value } else { greatest[lane] };
            poison[lane] += value * 0.0;
        }
    }
    for (lane, value) in rest.iter().enumerate() {
        least[lane] = least[lane].min(*value);
        greatest[lane] = greatest[lane].max(*value);
        poison[lane] += value * 0.0;
    }
    let least = least.into_iter().fold(f32::MAX, f32::min);
    let greatest = greatest.into_iter().fold(f32::MIN, f32::max);
    let poison: f32 = poison.into_iter().sum();
    let range = greatest - least;
    // Of a row of equal values, or of one whose range is no number, nothing but the least value is left.
    let steps = if range > 0.0 && range.is_finite() { TOP / range } else { 0.0 };
    for (byte, value) in bytes.iter_mut().zip(row) {
        let rounded = (value - least) * steps + ROUND;
        *byte = rounded.to_bits() as u8;
    }
    Span { least: least + poison, step: if steps > 0.0 { range / TOP } else { 0.0 } }
}

/// Scales the sums of the rows of `c` back, and writes them.
#[inline(always)]
pub(super) fn scale(
    sums: &Sums,
    spans: &[Span],
    panel: BytePanel<'_>,
    c: &mut [&mut [f32]],
    columns: Range<usize>,
    start: Start<'_>,
) {
    for ((sums, span), row) in sums.iter().zip(spans).zip(c) {
        let Some(stored) = row.get_mut(columns.clone()) else { continue };
        let mut line = match start {
            Start::Zero => [0.0; LINE],
            Start::Row(line) => line.0,
            Start::Output => {
                let mut line = [0.0; LINE];
                line.iter_mut().zip(stored.iter()).for_each(|(value, stored)| *value = *stored);
                line
            }
        };
        for lane in 0..LINE {
            line[lane] += sums[lane] as f32 * (span.step * panel.scale.0[lane]) + span.least * panel.sum.0[lane];
        }
        match stored.first_chunk_mut::<LINE>() {
            Some(whole) => *whole = line,
            None => stored.iter_mut().zip(line).for_each(|(stored, value)| *stored = value),
        }
    }
}
