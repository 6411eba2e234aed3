//! Inner products of many rows in `f32`, as wide as the processor allows, and how far off they can be.
//!
//! Scores are defined in `f64` (`toller_core::metric`). A scan computes `f32` products first, at the speed of memory, and
//! computes the defined score only where the bound on the error of the quick one leaves open whether the row is among the
//! best. The result is the same as that of a scan in `f64`, to the last bit.

use pulp::{Arch, Simd, WithSimd};
use toller_core::Metric;
use toller_core::metric::squared_norm;

/// Vectors that are summed independently, so that one addition need not wait for the other.
const ACCUMULATORS: usize = 4;

/// Inner products of `query` with the rows `slots` of `rows` (contiguous, each as long as the query), appended to `products`.
///
/// The widest instructions of this processor are chosen at run time. O(slots · d).
pub(super) fn quick_products(query: &[f32], rows: &[f32], slots: &[usize], products: &mut Vec<f32>) {
    Arch::new().dispatch(QuickProducts { query, rows, slots, products });
}

struct QuickProducts<'a> {
    query: &'a [f32],
    rows: &'a [f32],
    slots: &'a [usize],
    products: &'a mut Vec<f32>,
}

impl WithSimd for QuickProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let dimension = self.query.len();
        let (query_body, query_tail) = S::as_simd_f32s(self.query);
        let (query_fours, query_rest) = query_body.as_chunks::<ACCUMULATORS>();
        for slot in self.slots {
            let start = slot * dimension;
            let Some(row) = self.rows.get(start..start + dimension) else {
                // Cannot happen; NaN sends the row to the exact computation, which reports it.
                self.products.push(f32::NAN);
                continue;
            };
            let (row_body, row_tail) = S::as_simd_f32s(row);
            let (row_fours, row_rest) = row_body.as_chunks::<ACCUMULATORS>();
            let mut sums = [simd.splat_f32s(0.0); ACCUMULATORS];
            for (query, row) in query_fours.iter().zip(row_fours) {
                for ((sum, query), row) in sums.iter_mut().zip(query).zip(row) {
                    *sum = simd.mul_add_e_f32s(*query, *row, *sum);
                }
            }
            let [mut first, second, third, fourth] = sums;
            for (query, row) in query_rest.iter().zip(row_rest) {
                first = simd.mul_add_e_f32s(*query, *row, first);
            }
            let sum = simd.add_f32s(simd.add_f32s(first, second), simd.add_f32s(third, fourth));
            let tail: f32 = query_tail.iter().zip(row_tail).map(|(query, row)| query * row).sum();
            self.products.push(simd.reduce_sum_f32s(sum) + tail);
        }
    }
}

/// Decides from a quick product whether a row can be better than a given score.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gate {
    metric: Metric,
    query_squared_norm: f64,
    /// Error of a quick product as a part of ‖query‖·‖row‖.
    relative_error: f64,
    /// Error of a quick product through underflow.
    absolute_error: f64,
}

impl Gate {
    /// A gate for [`quick_products`] of `query`.
    ///
    /// The bound is the classical one for inner products (Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed.,
    /// section 3.1): |error| ≤ γ·Σ|xᵢyᵢ| ≤ γ·‖x‖·‖y‖, with γ = m·u/(1 − m·u), u = 2⁻²⁴ and m the number of roundings that one term
    /// goes through: at most d/4 in its accumulator (one lane), and fewer than 64 in the product, the rest, the
    /// reduction of up to 16 lanes and the tail. Each product that underflows adds at most 2⁻¹⁴⁹.
    pub(super) fn new(metric: Metric, query: &[f32]) -> Self {
        const UNIT_ROUNDOFF: f64 = 1.0 / (1_u64 << 24) as f64;
        const SMALLEST: f64 = f32::from_bits(1) as f64;
        let dimension = query.len() as f64;
        let roundings = dimension / ACCUMULATORS as f64 + 64.0;
        let relative_error = roundings * UNIT_ROUNDOFF / (1.0 - roundings * UNIT_ROUNDOFF);
        Self {
            metric,
            query_squared_norm: squared_norm(query),
            relative_error,
            absolute_error: 2.0 * dimension * SMALLEST,
        }
    }

    /// Squared length of the query.
    pub(super) fn query_squared_norm(&self) -> f64 {
        self.query_squared_norm
    }

    /// False only when the row's exact score is certainly not better than `score_to_beat`. O(1).
    pub(super) fn may_beat(&self, quick_product: f32, row_squared_norm: f64, score_to_beat: f64) -> bool {
        /// The `f64` steps here and in the exact score err by less than this part of their terms: 2⁻⁵³ times the 8192 roundings
        /// of the largest dimension.
        const F64_ERROR: f64 = 1e-12;
        if !quick_product.is_finite() {
            return true;
        }
        let product = f64::from(quick_product);
        let scale = (self.query_squared_norm * row_squared_norm).sqrt();
        let slack = (self.relative_error + F64_ERROR) * scale + self.absolute_error;
        match self.metric {
            Metric::Dot => product + slack >= score_to_beat,
            Metric::Cosine => product + slack >= score_to_beat * scale,
            Metric::Euclidean => {
                let squared_norms = self.query_squared_norm + row_squared_norm;
                let least_squared_distance = squared_norms - 2.0 * (product + slack) - F64_ERROR * squared_norms;
                least_squared_distance <= score_to_beat * score_to_beat * (1.0 + F64_ERROR)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use toller_core::metric::dot;

    /// Ordinary, tiny, huge and mixed magnitudes: cancellation, underflow and overflow in `f32`.
    fn element() -> impl Strategy<Value = f32> {
        prop_oneof![
            4 => -1.0_f32..1.0,
            1 => (-1.0_f32..1.0).prop_map(|value| value * 1e-25),
            1 => (-1.0_f32..1.0).prop_map(|value| value * 1e25),
            1 => Just(0.0_f32),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn the_error_of_a_quick_product_is_within_the_bound(
            pairs in prop::collection::vec((element(), element()), 1..300),
        ) {
            let (query, row): (Vec<f32>, Vec<f32>) = pairs.into_iter().unzip();
            let mut products = Vec::new();
            quick_products(&query, &row, &[0], &mut products);
            let quick = products[0];
            let exact = dot(&query, &row);
            let gate = Gate::new(Metric::Dot, &query);
            if quick.is_finite() {
                let bound = gate.relative_error * (squared_norm(&query) * squared_norm(&row)).sqrt() + gate.absolute_error;
                prop_assert!((f64::from(quick) - exact).abs() <= bound, "{quick} {exact} {bound}");
            }
            for metric in [Metric::Dot, Metric::Cosine, Metric::Euclidean] {
                let exact = metric.score(&query, &row);
                // One representable step worse than the row: the row is better, so the gate must let it pass.
                let beaten = if metric.more_is_better() { exact.next_down() } else { exact.next_up() };
                prop_assert!(Gate::new(metric, &query).may_beat(quick, squared_norm(&row), beaten));
            }
        }
    }

    #[test]
    fn products_by_hand_for_every_tail() {
        for dimension in 1..80_usize {
            let query: Vec<f32> = (1..=dimension).map(|value| value as f32).collect();
            let rows: Vec<f32> = query.iter().map(|_| 1.0).chain(query.iter().map(|_| -2.0)).collect();
            let mut products = Vec::new();
            quick_products(&query, &rows, &[1, 0], &mut products);
            let sum = (dimension * (dimension + 1) / 2) as f32;
            assert_eq!(products, [-2.0 * sum, sum]);
        }
    }

    #[test]
    fn the_gate_shuts_out_what_is_clearly_worse() {
        let query = [1.0_f32; 16];
        assert!(!Gate::new(Metric::Dot, &query).may_beat(1.0, 16.0, 2.0));
        assert!(!Gate::new(Metric::Cosine, &query).may_beat(1.0, 16.0, 0.5));
        assert!(!Gate::new(Metric::Euclidean, &query).may_beat(0.0, 16.0, 1.0));
        assert!(Gate::new(Metric::Dot, &query).may_beat(f32::NEG_INFINITY, 16.0, 2.0), "an overflow says nothing");
    }
}
