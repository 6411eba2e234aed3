//! The inner loops for processors with AVX-512: a line is one register, and 12 of the 32 registers hold sums.

use std::arch::x86_64::{
    __m512, _MM_HINT_T0, _mm_prefetch, _mm512_fmadd_ps, _mm512_load_ps, _mm512_loadu_ps, _mm512_set1_ps,
    _mm512_setzero_ps, _mm512_storeu_ps,
};

use super::{Norm, Start, TILE_ROWS, elementwise};
use crate::packed::panels::{LINE, Line, Strided};

/// Proof that the processor has AVX-512: only [`Avx512::detect`] makes one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// Asks the processor (the standard library remembers the answer).
    pub(crate) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx512f").then_some(Self(()))
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
        // SAFETY: `self` proves the features.
        unsafe {
            match c.len() {
                0 => {}
                1 => tile::<1>(a, b, ahead, c, column, start),
                2 => tile::<2>(a, b, ahead, c, column, start),
                3 => tile::<3>(a, b, ahead, c, column, start),
                4 => tile::<4>(a, b, ahead, c, column, start),
                5 => tile::<5>(a, b, ahead, c, column, start),
                6 => tile::<6>(a, b, ahead, c, column, start),
                7 => tile::<7>(a, b, ahead, c, column, start),
                8 => tile::<8>(a, b, ahead, c, column, start),
                9 => tile::<9>(a, b, ahead, c, column, start),
                10 => tile::<10>(a, b, ahead, c, column, start),
                11 => tile::<11>(a, b, ahead, c, column, start),
                _ => tile::<TILE_ROWS>(a, b, ahead, c, column, start),
            }
        }
    }

    elementwise_methods!("avx512f");
}

/// `ROWS` × [`LINE`] sums in registers.
///
/// # Panics
/// When `a` or `c` is too short.
#[target_feature(enable = "avx512f")]
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
    let mut sums = [_mm512_setzero_ps(); ROWS];
    for (sums, output) in sums.iter_mut().zip(outputs) {
        *sums = match start {
            Start::Zero => *sums,
            Start::Row(line) => load(line),
            // SAFETY: `LINE` values follow `output`, as asserted above; unaligned loads are allowed.
            Start::Output => unsafe { _mm512_loadu_ps(output) },
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
    for (sums, output) in sums.into_iter().zip(outputs) {
        // SAFETY: `LINE` values follow `output`, which comes from a mutable slice of its own; unaligned stores are allowed.
        unsafe { _mm512_storeu_ps(output, sums) }
    }
}

/// Adds the products of one input: `ROWS` values, `stride` apart from `left` on, with a line.
///
/// # Safety
/// All the values must be readable.
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn add_step<const ROWS: usize>(sums: &mut [__m512; ROWS], left: *const f32, stride: usize, line: &Line) {
    let line = load(line);
    for (row, sums) in sums.iter_mut().enumerate() {
        // SAFETY: the caller promises it.
        let factor = _mm512_set1_ps(unsafe { *left.add(row * stride) });
        *sums = _mm512_fmadd_ps(factor, line, *sums);
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load(line: &Line) -> __m512 {
    // SAFETY: a line is `LINE` values on a boundary of 64 bytes.
    unsafe { _mm512_load_ps(line.0.as_ptr()) }
}
