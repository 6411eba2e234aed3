//! The sums of bytes for processors with AVX-512 and VNNI.

use std::arch::x86_64::{
    _mm512_dpbusd_epi32, _mm512_load_si512, _mm512_set1_epi32, _mm512_setzero_si512, _mm512_storeu_si512,
};
use std::ops::Range;

use super::elementwise;
use super::kernel::{ByteLine, BytePanel, GROUP, Sums};
use super::rows::{QuantisedRows, Span};
use crate::packed::kernel::Start;
use crate::packed::product::SLICE;

/// Proof that the processor has AVX-512 with VNNI: only [`Vnni::detect`] makes one.
#[derive(Debug, Clone, Copy)]
pub(in crate::packed) struct Vnni(());

impl Vnni {
    /// Asks the processor (the standard library remembers the answer).
    pub(super) fn detect() -> Option<Self> {
        (is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vnni"))
        .then_some(Self(()))
    }

    /// See [`super::ByteKernel::quantise`].
    #[inline]
    pub(super) fn quantise(self, row: &[f32], bytes: &mut [u8]) -> Span {
        #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
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

#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn tile(
    rows: &QuantisedRows,
    first: usize,
    panel: BytePanel<'_>,
    c: &mut [&mut [f32]],
    columns: Range<usize>,
    start: Start<'_>,
) {
    let bytes = rows.bytes(first);
    let mut sums = Sums::default();
    // A few more rows than wanted are sooner computed than one by one.
    match c.len() {
        0 => return,
        1 => add::<1>(bytes, panel.lines, &mut sums),
        2 => add::<2>(bytes, panel.lines, &mut sums),
        3 | 4 => add::<4>(bytes, panel.lines, &mut sums),
        5 | 6 => add::<6>(bytes, panel.lines, &mut sums),
        7 | 8 => add::<8>(bytes, panel.lines, &mut sums),
        _ => add::<12>(bytes, panel.lines, &mut sums),
    }
    elementwise::scale(&sums, rows.spans(first), panel, c, columns, start);
}

/// The sums of `ROWS` rows, at most 12.
///
/// # Panics
/// When there are fewer rows, or they are shorter than `lines`.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
#[inline]
fn add<const ROWS: usize>(rows: &[[u8; SLICE]], lines: &[ByteLine], sums: &mut Sums) {
    assert!(rows.len() >= ROWS && lines.len() * GROUP <= SLICE, "a tile's sides are too short");
    let left = rows.as_ptr().cast::<u8>();
    let mut registers = [_mm512_setzero_si512(); ROWS];
    for (step, line) in lines.iter().enumerate() {
        // SAFETY: a line is 64 bytes on a boundary of 64 bytes.
        let line = unsafe { _mm512_load_si512(line.0.as_ptr().cast()) };
        for (row, register) in registers.iter_mut().enumerate() {
            // SAFETY: `row` < `ROWS`, and `step` < `lines.len()`, so these four bytes are in the row, as asserted above.
            let inputs = unsafe { left.add(row * SLICE + step * GROUP).cast::<i32>().read_unaligned() };
            *register = _mm512_dpbusd_epi32(*register, _mm512_set1_epi32(inputs), line);
        }
    }
    for (register, sums) in registers.iter().zip(sums) {
        // SAFETY: 16 sums of 32 bits are 64 bytes; unaligned stores are allowed.
        unsafe { _mm512_storeu_si512(sums.as_mut_ptr().cast(), *register) }
    }
}
