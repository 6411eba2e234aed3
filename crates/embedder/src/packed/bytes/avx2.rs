//! The sums of bytes for processors with AVX2.

use std::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_load_si256, _mm256_madd_epi16, _mm256_maddubs_epi16, _mm256_set1_epi16,
    _mm256_set1_epi32, _mm256_setzero_si256, _mm256_storeu_si256,
};
use std::ops::Range;

use super::elementwise;
use super::kernel::{ByteLine, BytePanel, GROUP, Sums};
use super::rows::{QuantisedRows, Span};
use crate::packed::kernel::Start;
use crate::packed::panels::LINE;
use crate::packed::product::SLICE;

/// Rows of a tile: with two registers of eight columns each, 12 of the 16 registers hold sums.
const ROWS: usize = 6;

/// Proof that the processor has AVX2: only [`Avx2::detect`] makes one.
#[derive(Debug, Clone, Copy)]
pub(in crate::packed) struct Avx2(());

impl Avx2 {
    /// Asks the processor (the standard library remembers the answer).
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")).then_some(Self(()))
    }

    /// See [`super::ByteKernel::quantise`].
    #[inline]
    pub(super) fn quantise(self, row: &[f32], bytes: &mut [u8]) -> Span {
        #[target_feature(enable = "avx2,fma")]
        fn run(row: &[f32], bytes: &mut [u8]) -> Span {
            elementwise::quantise(row, bytes)
        }
        // SAFETY: `self` proves the features.
        unsafe { run(row, bytes) }
    }

    /// See [`super::ByteKernel::tile`].
    #[inline]
    pub(super) fn tile(
        self,
        rows: &QuantisedRows,
        first: usize,
        panel: BytePanel<'_>,
        c: &mut [&mut [f32]],
        columns: Range<usize>,
        start: Start<'_>,
    ) {
        // SAFETY: `self` proves the features.
        unsafe { tile(rows, first, panel, c, columns, start) }
    }
}

#[target_feature(enable = "avx2,fma")]
fn tile(
    rows: &QuantisedRows,
    first: usize,
    panel: BytePanel<'_>,
    c: &mut [&mut [f32]],
    columns: Range<usize>,
    start: Start<'_>,
) {
    let mut sums = Sums::default();
    // A row more than wanted is sooner computed than the last one alone.
    let wanted = sums.get_mut(..c.len().next_multiple_of(2)).unwrap_or_default();
    for (sums, bytes) in wanted.chunks_mut(ROWS).zip(rows.bytes(first).chunks(ROWS)) {
        match sums.len() {
            2 => add::<2>(bytes, panel.lines, sums),
            4 => add::<4>(bytes, panel.lines, sums),
            _ => add::<ROWS>(bytes, panel.lines, sums),
        }
    }
    elementwise::scale(&sums, rows.spans(first), panel, c, columns, start);
}

/// The sums of `COUNT` rows.
///
/// Two products of a byte with a weight of at most 64 fit into 16 bits, so nothing is saturated.
///
/// # Panics
/// When there are fewer rows, or they are shorter than `lines`.
#[target_feature(enable = "avx2,fma")]
#[inline]
fn add<const COUNT: usize>(rows: &[[u8; SLICE]], lines: &[ByteLine], sums: &mut [[i32; LINE]]) {
    assert!(rows.len() >= COUNT && lines.len() * GROUP <= SLICE, "a tile's sides are too short");
    let left = rows.as_ptr().cast::<u8>();
    let ones = _mm256_set1_epi16(1);
    let mut registers = [[_mm256_setzero_si256(); 2]; COUNT];
    for (step, line) in lines.iter().enumerate() {
        let line = line.0.as_ptr().cast::<__m256i>();
        // SAFETY: a line is 64 bytes on a boundary of 64 bytes: two halves of 32 bytes.
        let halves = unsafe { [_mm256_load_si256(line), _mm256_load_si256(line.add(1))] };
        for (row, registers) in registers.iter_mut().enumerate() {
            // SAFETY: `row` < `COUNT`, and `step` < `lines.len()`, so these four bytes are in the row, as asserted above.
            let inputs = unsafe { left.add(row * SLICE + step * GROUP).cast::<i32>().read_unaligned() };
            let inputs = _mm256_set1_epi32(inputs);
            for (register, half) in registers.iter_mut().zip(halves) {
                let pairs = _mm256_maddubs_epi16(inputs, half);
                *register = _mm256_add_epi32(*register, _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    for (registers, sums) in registers.iter().zip(sums) {
        for (register, sums) in registers.iter().zip(sums.as_chunks_mut::<{ LINE / 2 }>().0) {
            // SAFETY: 8 sums of 32 bits are 32 bytes; unaligned stores are allowed.
            unsafe { _mm256_storeu_si256(sums.as_mut_ptr().cast(), *register) }
        }
    }
}
