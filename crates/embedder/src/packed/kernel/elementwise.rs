//! The steps between the products, written so that the compiler turns them into vector instructions of whatever processor
//! the caller is compiled for. `FUSED` says whether that processor multiplies and adds in one instruction.

use super::Norm;
use crate::packed::panels::LINE;

/// Values that are worked on side by side: two registers of AVX2.
type Lanes = [f32; LINE];

/// GELU of each value.
#[inline(always)]
pub(super) fn gelu<const FUSED: bool>(values: &mut [f32]) {
    let (lines, rest) = values.as_chunks_mut::<LINE>();
    for line in lines {
        for value in line.iter_mut() {
            *value = gelu_of::<FUSED>(*value);
        }
    }
    for value in rest {
        *value = gelu_of::<FUSED>(*value);
    }
}

/// Beyond ±5.4 the normal distribution is 0 or 1 to the precision of f32.
const GELU_LIMIT: f32 = 5.4;
/// (Φ(x) − 1/2)/x as a polynomial in u = 2x²/5.4² − 1, lowest power first: the Chebyshev interpolation of degree 14, made with
/// 40 digits and rounded. Φ is within 1.3e-7, x·Φ(x) within 7e-7.
const NORMAL: [f32; 15] = [
    0.130_928_12,
    -0.065_328_12,
    0.048_499_927,
    -0.039_204_69,
    0.032_110_106,
    -0.025_765_708,
    0.019_690_823,
    -0.013_889_49,
    0.009_501_341,
    -0.006_851_442,
    0.003_907_151_5,
    -0.001_067_080_5,
    0.000_673_679_4,
    -0.001_068_300_9,
    0.000_456_29,
];

#[inline(always)]
fn gelu_of<const FUSED: bool>(x: f32) -> f32 {
    // Written so that NaN stays NaN.
    let inner = if x < -GELU_LIMIT { -GELU_LIMIT } else { x };
    let inner = if inner > GELU_LIMIT { GELU_LIMIT } else { inner };
    let u = fma::<FUSED>(inner * (2.0 / (GELU_LIMIT * GELU_LIMIT)), inner, -1.0);
    let half = inner * polynomial::<FUSED, 15>(&NORMAL, u);
    // At the limit the polynomial is a rounding above a half.
    let half = if half > 0.5 { 0.5 } else { half };
    let half = if half < -0.5 { -0.5 } else { half };
    fma::<FUSED>(x, half, 0.5 * x)
}

/// See [`super::Kernel::exp_row`].
#[inline(always)]
pub(super) fn exp_row<const FUSED: bool>(row: &mut [f32], length: usize) -> f32 {
    let whole = length.next_multiple_of(LINE).min(row.len());
    if let Some(after) = row.get_mut(length..whole) {
        after.fill(f32::MIN);
    }
    let (lines, _) = row.split_at_mut(whole).0.as_chunks_mut::<LINE>();
    let mut tops: Lanes = [f32::MIN; LINE];
    for line in lines.iter() {
        for (top, value) in tops.iter_mut().zip(line) {
            *top = if *value > *top { *value } else { *top };
        }
    }
    let top = tops.into_iter().fold(f32::MIN, |top, value| if value > top { value } else { top });
    let mut sums: Lanes = [0.0; LINE];
    for line in lines.iter_mut() {
        for (sum, value) in sums.iter_mut().zip(line) {
            *value = exp_of::<FUSED>(*value - top);
            *sum += *value;
        }
    }
    if let Some(after) = row.get_mut(length..whole) {
        after.fill(0.0);
    }
    total(&sums).recip()
}

/// e^r for |r| ≤ ln 2 / 2, lowest power first: the Chebyshev fit of degree 6, within 8e-8 of itself.
const EXP: [f32; 7] = [1.0, 1.0, 0.5, 0.166_664_15, 0.041_666_35, 0.008_375_134, 0.001_394_111_9];
/// Adding it rounds a small number to a whole one, which is then in its low bits: 1.5 · 2^23.
const ROUND: f32 = 12_582_912.0;
/// ln 2 as a sum: the first part has so few digits that its product with a whole number up to 127 is exact.
const LN_2: (f32, f32) = (0.693_359_4, -2.121_944_4e-4);
/// Below it, e^x is not a normal number: 1.6e-38 is 0 enough.
const EXP_LEAST: f32 = -87.0;

/// e^x for x ≤ 0 (Cody and Waite's reduction: e^x = 2^n · e^r).
#[inline(always)]
fn exp_of<const FUSED: bool>(x: f32) -> f32 {
    let x = if x < EXP_LEAST { EXP_LEAST } else { x };
    let shifted = fma::<FUSED>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = fma::<FUSED>(n, -LN_2.1, fma::<FUSED>(n, -LN_2.0, x));
    // The low bits of `shifted` are n; the shift drops all others.
    let power = f32::from_bits(shifted.to_bits().wrapping_add(127) << 23);
    polynomial::<FUSED, 7>(&EXP, r) * power
}

/// See [`super::Kernel::add_norm`].
#[inline(always)]
pub(super) fn add_norm<const FUSED: bool>(row: &mut [f32], residual: &[f32], norm: &Norm) {
    let count = row.len() as f32;
    let (lines, rest) = row.as_chunks_mut::<LINE>();
    let (residual_lines, residual_rest) = residual.as_chunks::<LINE>();
    let mut sums: Lanes = [0.0; LINE];
    for (line, residual) in lines.iter_mut().zip(residual_lines) {
        for ((sum, value), residual) in sums.iter_mut().zip(line).zip(residual) {
            *value += residual;
            *sum += *value;
        }
    }
    for ((sum, value), residual) in sums.iter_mut().zip(rest.iter_mut()).zip(residual_rest) {
        *value += residual;
        *sum += *value;
    }
    let mean = total(&sums) / count;
    // The squares of the differences, not the difference of the squares: the latter cancels.
    let mut squares: Lanes = [0.0; LINE];
    for line in lines.iter() {
        for (square, value) in squares.iter_mut().zip(line) {
            *square = fma::<FUSED>(*value - mean, *value - mean, *square);
        }
    }
    for (square, value) in squares.iter_mut().zip(rest.iter()) {
        *square = fma::<FUSED>(*value - mean, *value - mean, *square);
    }
    let scale = (total(&squares) / count + norm.eps).sqrt().recip();
    for ((value, weight), shift) in row.iter_mut().zip(&norm.weight).zip(&norm.shift) {
        *value = fma::<FUSED>((*value - mean) * scale, *weight, *shift);
    }
}

/// The sum, pairwise.
#[inline(always)]
fn total(lanes: &Lanes) -> f32 {
    let mut lanes = *lanes;
    let mut half = LINE / 2;
    while half > 0 {
        for index in 0..half {
            lanes[index] += lanes[index + half];
        }
        half /= 2;
    }
    lanes[0]
}

/// Horner's scheme; lowest power first.
#[inline(always)]
fn polynomial<const FUSED: bool, const TERMS: usize>(terms: &[f32; TERMS], x: f32) -> f32 {
    let mut sum = terms[TERMS - 1];
    for index in (0..TERMS - 1).rev() {
        sum = fma::<FUSED>(sum, x, terms[index]);
    }
    sum
}

/// a·b + c.
#[inline(always)]
fn fma<const FUSED: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FUSED || cfg!(target_arch = "aarch64") { a.mul_add(b, c) } else { a * b + c }
}
