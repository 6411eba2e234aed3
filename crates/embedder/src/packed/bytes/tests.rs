//! Products of bytes against f64, within what quantising may cost; and the same bits however they are cut.

use proptest::prelude::*;

use super::super::Strided;
use super::super::kernel::Kernel;
use super::super::product::{Finish, Linear};
use super::super::tests::noise;
use super::*;

fn product(linear: &Linear, left: &[f32], stride: usize, rows: usize, parts: usize) -> Vec<f32> {
    let width = linear.outputs();
    // One column before and one after, which must stay as they are.
    let mut output = vec![7.0; rows * (width + 2)];
    let mut views: Vec<&mut [f32]> = output.chunks_exact_mut(width + 2).collect();
    linear.forward(Kernel::best(), Strided::new(left, stride), &mut views, 1, Finish::Plain, parts);
    let mut values = Vec::with_capacity(rows * width);
    for row in output.chunks_exact(width + 2) {
        assert_eq!((row[0], row[width + 1]), (7.0, 7.0), "written outside of the columns");
        values.extend_from_slice(&row[1..=width]);
    }
    values
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn products_of_any_shape_are_near_those_of_f64(
        rows in 1_usize..100,
        outputs in 1_usize..70,
        inputs in prop_oneof![1_usize..60, 380_usize..400, 760_usize..800],
        padding in 0_usize..5,
        shift in -3.0_f32..3.0,
        seed in 0_usize..1000,
    ) {
        let weights = noise(seed, outputs * inputs);
        let bias = noise(seed + 1, outputs);
        let stride = inputs + padding;
        let left: Vec<f32> = noise(seed + 2, (rows - 1) * stride + inputs).into_iter().map(|value| value + shift).collect();
        for kernel in ByteKernel::all() {
            let linear = Linear::pack_bytes_for(kernel, &weights, &bias, inputs);
            let got = product(&linear, &left, stride, rows, 1);
            for (index, got) in got.iter().enumerate() {
                let (row, column) = (index / outputs, index % outputs);
                let mut sum = f64::from(bias[column]);
                // Half a step of each factor, with the other one at its largest: 2/255 of inputs' range, 1/64 of weights.
                let mut bound = 1e-4;
                for k in 0..inputs {
                    let (x, w) = (f64::from(left[row * stride + k]), f64::from(weights[column * inputs + k]));
                    sum += x * w;
                    bound += (x.abs() * 0.5 / 64.0) + (w.abs() * 1.0 / 255.0) + 1e-4;
                }
                prop_assert!((sum - f64::from(*got)).abs() < bound, "{kernel:?}: {sum} and {got} at {row}, {column}, {bound}");
            }
            // To the bit: shared by threads, and each row alone.
            prop_assert_eq!(&product(&linear, &left, stride, rows, 3), &got);
            for row in 0..rows {
                let alone = product(&linear, &left[row * stride..], stride, 1, 1);
                prop_assert_eq!(&alone[..], &got[row * outputs..(row + 1) * outputs]);
            }
        }
    }
}

/// Sums of the greatest bytes and weights do not overflow in 16 bits where the processor adds pairs there.
#[test]
fn nothing_is_saturated() {
    let weights = vec![1.0; 16 * 384];
    for sign in [1.0, -1.0] {
        let weights: Vec<f32> = weights.iter().map(|weight| weight * sign).collect();
        // One 0, all others 1: bytes of 255.
        let mut left = vec![1.0; 384];
        left[0] = 0.0;
        for kernel in ByteKernel::all() {
            let linear = Linear::pack_bytes_for(kernel, &weights, &[0.0; 16], 384);
            for got in product(&linear, &left, 384, 1, 1) {
                assert!((got - 383.0 * sign).abs() < 0.01, "{kernel:?}: {got}");
            }
        }
    }
}

#[test]
fn rows_of_equal_values_and_columns_of_zeros_are_exact() {
    let mut weights = noise(1, 3 * 20);
    weights[20..40].fill(0.0);
    for kernel in ByteKernel::all() {
        let linear = Linear::pack_bytes_for(kernel, &weights, &[0.5; 3], 20);
        assert_eq!(product(&linear, &[0.0; 20], 20, 1, 1), [0.5; 3]);
        assert_eq!(product(&linear, &noise(2, 20), 20, 1, 1)[1], 0.5);
    }
}

/// Damaged weights are found by what they make, so no step may hide a number that is none.
#[test]
fn what_is_not_a_number_stays_so() {
    for kernel in ByteKernel::all() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut weights = noise(1, 2 * 20);
            let clean = Linear::pack_bytes_for(kernel, &weights, &[0.0; 2], 20);
            for place in [3, 18] {
                let mut left = noise(2, 20);
                left[place] = bad;
                assert!(product(&clean, &left, 20, 1, 1).iter().all(|value| !value.is_finite()), "{kernel:?} {bad}");
            }
            weights[5] = bad;
            let damaged = Linear::pack_bytes_for(kernel, &weights, &[0.0; 2], 20);
            let got = product(&damaged, &noise(2, 20), 20, 1, 1);
            assert!(!got[0].is_finite() && got[1].is_finite(), "{kernel:?} {bad}: {got:?}");
        }
    }
}
