//! Metrics: how two vectors are compared, and which of two values is the better one.
//!
//! Sums are accumulated in `f64`, so that the cosine of a vector with itself is exactly 1 and ties are true ties.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// How the vectors of a collection are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Cosine similarity in [-1, 1]; more is better. Zero vectors are refused.
    Cosine,
    /// Inner product; more is better.
    Dot,
    /// Euclidean distance, not squared, at least 0; less is better.
    Euclidean,
}

impl Metric {
    /// The metric's value for two vectors of the same dimension (elements past the shorter one are ignored). O(d).
    pub fn score(self, left: &[f32], right: &[f32]) -> f64 {
        match self {
            Self::Cosine => cosine(left, right),
            Self::Dot => dot(left, right),
            Self::Euclidean => squared_distance(left, right).sqrt(),
        }
    }

    /// Orders two values of this metric: `Less` means that `left` is the better one and comes first.
    pub fn better_first(self, left: f64, right: f64) -> Ordering {
        if self.more_is_better() { right.total_cmp(&left) } else { left.total_cmp(&right) }
    }

    /// Is `value` at least as good as `threshold`? Inclusive.
    pub fn reaches(self, value: f64, threshold: f64) -> bool {
        if self.more_is_better() { value >= threshold } else { value <= threshold }
    }

    /// True for cosine and dot, false for Euclidean.
    pub fn more_is_better(self) -> bool {
        !matches!(self, Self::Euclidean)
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cosine => "cosine",
            Self::Dot => "dot",
            Self::Euclidean => "euclidean",
        })
    }
}

/// Cosine similarity, clamped to [-1, 1] against rounding; 0 when either vector is zero. O(d).
///
/// √(‖x‖²·‖x‖²) is exactly ‖x‖² in IEEE arithmetic, so a vector's cosine with itself is exactly 1.
pub fn cosine(left: &[f32], right: &[f32]) -> f64 {
    cosine_from_parts(dot(left, right), squared_norm(left), squared_norm(right))
}

/// Cosine similarity from an inner product and the two squared lengths; see [`cosine`].
pub fn cosine_from_parts(dot: f64, left_squared_norm: f64, right_squared_norm: f64) -> f64 {
    let product = left_squared_norm * right_squared_norm;
    if product == 0.0 { 0.0 } else { (dot / product.sqrt()).clamp(-1.0, 1.0) }
}

/// Squared Euclidean length. O(d).
pub fn squared_norm(vector: &[f32]) -> f64 {
    dot(vector, vector)
}

/// Inner product. O(d).
pub fn dot(left: &[f32], right: &[f32]) -> f64 {
    sum_over_pairs(left, right, |l, r| l * r)
}

fn squared_distance(left: &[f32], right: &[f32]) -> f64 {
    sum_over_pairs(left, right, |l, r| (l - r) * (l - r))
}

/// Eight independent sums, so that the compiler can keep them in vector registers.
#[inline(always)]
fn sum_over_pairs(left: &[f32], right: &[f32], term: impl Fn(f64, f64) -> f64) -> f64 {
    const LANES: usize = 8;
    let (left_chunks, left_rest) = left.as_chunks::<LANES>();
    let (right_chunks, right_rest) = right.as_chunks::<LANES>();
    let mut sums = [0.0_f64; LANES];
    for (l, r) in left_chunks.iter().zip(right_chunks) {
        for ((sum, l), r) in sums.iter_mut().zip(l).zip(r) {
            *sum += term(f64::from(*l), f64::from(*r));
        }
    }
    let rest: f64 = left_rest.iter().zip(right_rest).map(|(l, r)| term(f64::from(*l), f64::from(*r))).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_by_hand() {
        assert_eq!(Metric::Cosine.score(&[1.0, 0.0], &[0.0, 2.0]), 0.0);
        assert_eq!(Metric::Dot.score(&[1.0, 2.0], &[3.0, 4.0]), 11.0);
        assert_eq!(Metric::Euclidean.score(&[0.0, 0.0], &[3.0, 4.0]), 5.0);
    }

    #[test]
    fn better_first_follows_the_direction_of_the_metric() {
        assert_eq!(Metric::Cosine.better_first(0.9, 0.1), Ordering::Less);
        assert_eq!(Metric::Euclidean.better_first(0.9, 0.1), Ordering::Greater);
        assert!(Metric::Euclidean.reaches(0.5, 0.5) && Metric::Dot.reaches(0.5, 0.5));
    }

    proptest! {
        #[test]
        fn cosine_with_itself_is_exactly_one(vector in prop::collection::vec(-1e3_f32..1e3, 1..70)) {
            prop_assume!(vector.iter().any(|value| *value != 0.0));
            prop_assert_eq!(cosine(&vector, &vector), 1.0);
        }

        #[test]
        fn lanes_agree_with_a_plain_sum(pairs in prop::collection::vec((-10_f32..10.0, -10_f32..10.0), 0..40)) {
            let (left, right): (Vec<f32>, Vec<f32>) = pairs.iter().copied().unzip();
            let plain: f64 = pairs.iter().map(|(l, r)| f64::from(*l) * f64::from(*r)).sum();
            prop_assert!((dot(&left, &right) - plain).abs() < 1e-9);
        }
    }
}
