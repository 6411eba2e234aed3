//! The inner loops for processors with AVX2 and FMA.

use std::arch::x86_64::{
    __m256, _MM_HINT_T0, _mm_prefetch, _mm256_broadcast_ss, _mm256_fmadd_ps, _mm256_load_ps, _mm256_loadu_ps,
    _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::{Norm, Start, elementwise};
use crate::packed::panels::{LINE, Line, Strided};

/// Values of a register.
const LANES: usize = LINE / 2;

/// Rows of a tile: with two registers of eight columns each, 12 of the 16 registers hold sums.
const ROWS: usize = 6;

/// Proof that the processor has AVX2 and FMA: only [`Avx2::detect`] makes one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// Asks the processor (the standard library remembers the answer).
    pub(crate) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
    }

    /// See [`super::Kernel::tile`]; whole lines.
    #[inline]
    pub(super) fn tile(
        self,
        a: Strided<'_>,
        b: &[Line],
        ahead: &[Line],
        c: &mut [&mut [f32]],
        column: usize,
        start: Start<'_>,
    ) {
        let (ahead, after) = ahead.split_at(ahead.len() / 2);
        for ((index, rows), ahead) in c.chunks_mut(ROWS).enumerate().zip([ahead, after]) {
            let a = a.skip(index * ROWS, 0);
            // SAFETY: `self` proves the features.
            unsafe {
                match rows.len() {
                    0 => {}
                    1 => tile::<1>(a, b, ahead, rows, column, start),
                    2 => tile::<2>(a, b, ahead, rows, column, start),
                    3 => tile::<3>(a, b, ahead, rows, column, start),
                    4 => tile::<4>(a, b, ahead, rows, column, start),
                    5 => tile::<5>(a, b, ahead, rows, column, start),
                    _ => tile::<ROWS>(a, b, ahead, rows, column, start),
                }
            }
        }
    }

    elementwise_methods!("avx2,fma");
}

/// `ROWS` × [`LINE`] sums in registers.
///
/// # Panics
/// When `a` or `c` is too short.
#[target_feature(enable = "avx2,fma")]
fn tile<const ROWS: usize>(
    a: Strided<'_>,
    b: &[Line],
    ahead: &[Line],
    c: &mut [&mut [f32]],
    column: usize,
    start: Start<'_>,
) {
    assert!(a.holds(ROWS, b.len()) && c.len() >= ROWS, "a tile's sides are too short");
    assert!(c.iter().all(|row| row.len() >= column + LINE), "a tile's output is too short");
    let mut outputs = [std::ptr::null_mut::<f32>(); ROWS];
    for (output, row) in outputs.iter_mut().zip(c) {
        // SAFETY: the row has at least `column + LINE` values, as asserted above.
        *output = unsafe { row.as_mut_ptr().add(column) };
    }
    let mut sums = [[_mm256_setzero_ps(); 2]; ROWS];
    for (sums, output) in sums.iter_mut().zip(outputs) {
        *sums = match start {
            Start::Zero => *sums,
            Start::Row(line) => halves(line),
            // SAFETY: `LINE` values follow `output`, as asserted above; unaligned loads are allowed.
            Start::Output => unsafe { [_mm256_loadu_ps(output), _mm256_loadu_ps(output.add(LANES))] },
        };
    }
    let (left, stride) = (a.values().as_ptr(), a.stride());
    let (beside_ahead, alone) = b.split_at(ahead.len().min(b.len()));
    for (step, (line, ahead)) in beside_ahead.iter().zip(ahead).enumerate() {
        _mm_prefetch::<_MM_HINT_T0>(ahead.0.as_ptr().cast());
        // SAFETY: `step` < `b.len()`, and `a` holds `ROWS` rows of so many values, as asserted above.
        unsafe { add_step(&mut sums, left.add(step), stride, line) }
    }
    for (step, line) in alone.iter().enumerate() {
        // SAFETY: as above, since `alone` begins at `beside_ahead.len()`.
        unsafe { add_step(&mut sums, left.add(beside_ahead.len() + step), stride, line) }
    }
    for ([low, high], output) in sums.into_iter().zip(outputs) {
        // SAFETY: `LINE` values follow `output`, which comes from a mutable slice of its own; unaligned stores are allowed.
        unsafe {
            _mm256_storeu_ps(output, low);
            _mm256_storeu_ps(output.add(LANES), high);
        }
    }
}

/// Adds the products of one input: `ROWS` values, `stride` apart from `left` on, with a line.
///
/// # Safety
/// All the values must be readable.
#[target_feature(enable = "avx2,fma")]
#[inline]
unsafe fn add_step<const ROWS: usize>(sums: &mut [[__m256; 2]; ROWS], left: *const f32, stride: usize, line: &Line) {
    let [low, high] = halves(line);
    for (row, sums) in sums.iter_mut().enumerate() {
        // SAFETY: the caller promises it.
        let factor = _mm256_broadcast_ss(unsafe { &*left.add(row * stride) });
        let [sum_low, sum_high] = *sums;
        *sums = [_mm256_fmadd_ps(factor, low, sum_low), _mm256_fmadd_ps(factor, high, sum_high)];
    }
}

#[target_feature(enable = "avx2,fma")]
#[inline]
fn halves(line: &Line) -> [__m256; 2] {
    let values = line.0.as_ptr();
    // SAFETY: a line is `LINE` values on a boundary of 64 bytes, so both halves are whole and aligned to 32 bytes.
    unsafe { [_mm256_load_ps(values), _mm256_load_ps(values.add(LANES))] }
}
