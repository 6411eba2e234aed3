//! The elementwise steps between the matrix products, in place over rows, with the vectorised kernels of rten-vecmath.
//!
//! candle's own elementwise operations run on a pool of the whole process that spins and pins threads; these run on the
//! threads of the calling worker, so that workers × threads stays what the configuration says.

use candle_core::{CpuStorage, InplaceOp1, InplaceOp2, Layout, Result, bail};
use rayon::prelude::*;
use rten_simd::{SimdOp as _, SimdUnaryOp as _};
use rten_vecmath::{Gelu, Normalize, NormalizeOptions, Softmax, Sum, SumSquareSub};

/// Values per task: large enough to be worth a task, small enough to stay in a core's cache.
const TASK_VALUES: usize = 16 * 1024;

/// x + bias, for each row x.
pub(crate) struct AddBias {
    pub(crate) bias: Vec<f32>,
}

impl InplaceOp1 for AddBias {
    fn name(&self) -> &'static str {
        "add-bias"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        for_each_row(values_mut(storage, layout)?, self.bias.len(), |row| add(row, &self.bias))
    }
}

/// GELU(x + bias), for each row x, where GELU(x) = x/2 · (1 + erf(x/√2)) (Hendrycks and Gimpel 2016,
/// <https://arxiv.org/abs/1606.08415>, the exact form).
pub(crate) struct BiasGelu {
    pub(crate) bias: Vec<f32>,
}

impl InplaceOp1 for BiasGelu {
    fn name(&self) -> &'static str {
        "bias-gelu"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        for_each_row(values_mut(storage, layout)?, self.bias.len(), |row| {
            add(row, &self.bias);
            Gelu {}.map_mut(row);
        })
    }
}

/// LayerNorm(x + bias + residual), for each row x (Ba et al. 2016, <https://arxiv.org/abs/1607.06450>).
pub(crate) struct AddNorm {
    /// Bias of the product that made x; empty for none.
    pub(crate) bias: Vec<f32>,
    /// LayerNorm's weight; its length is the row's.
    pub(crate) weight: Vec<f32>,
    /// LayerNorm's own bias.
    pub(crate) shift: Vec<f32>,
    /// Added to the variance.
    pub(crate) eps: f32,
}

impl InplaceOp2 for AddNorm {
    fn name(&self) -> &'static str {
        "add-norm"
    }

    fn cpu_fwd(
        &self,
        x: &mut CpuStorage,
        layout: &Layout,
        residual: &CpuStorage,
        residual_layout: &Layout,
    ) -> Result<()> {
        let width = self.weight.len();
        let residual = values(residual, residual_layout)?;
        let rows = values_mut(x, layout)?;
        if rows.len() != residual.len() || !rows.len().is_multiple_of(width) {
            bail!("add-norm: {} values and a residual of {} in rows of {width}", rows.len(), residual.len());
        }
        let task = task_rows(width) * width;
        rows.par_chunks_mut(task).zip(residual.par_chunks(task)).for_each(|(rows, residual)| {
            for (row, residual) in rows.chunks_exact_mut(width).zip(residual.chunks_exact(width)) {
                add(row, residual);
                if !self.bias.is_empty() {
                    add(row, &self.bias);
                }
                self.normalize(row);
            }
        });
        Ok(())
    }
}

impl AddNorm {
    fn normalize(&self, row: &mut [f32]) {
        let count = row.len() as f32;
        let mean = Sum::new(row).dispatch() / count;
        // The squares of the differences, not the difference of the squares: the latter cancels.
        let variance = SumSquareSub::new(row, mean).dispatch() / count;
        let options = NormalizeOptions {
            pre_scale_bias: mean,
            scale: (variance + self.eps).sqrt().recip(),
            element_scale: Some(&self.weight),
            bias: 0.0,
            element_bias: Some(&self.shift),
        };
        Normalize::new_mut(row, options).dispatch();
    }
}

/// Softmax of each row of `width` values.
pub(crate) struct SoftmaxRows {
    pub(crate) width: usize,
}

impl InplaceOp1 for SoftmaxRows {
    fn name(&self) -> &'static str {
        "softmax-rows"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        for_each_row(values_mut(storage, layout)?, self.width, |row| {
            Softmax::new_mut(row).dispatch();
        })
    }
}

fn for_each_row(values: &mut [f32], width: usize, step: impl Fn(&mut [f32]) + Sync) -> Result<()> {
    if width == 0 || !values.len().is_multiple_of(width) {
        bail!("{} values are not rows of {width}", values.len());
    }
    values.par_chunks_mut(task_rows(width) * width).for_each(|rows| rows.chunks_exact_mut(width).for_each(&step));
    Ok(())
}

fn task_rows(width: usize) -> usize {
    (TASK_VALUES / width).max(1)
}

fn add(row: &mut [f32], other: &[f32]) {
    for (value, other) in row.iter_mut().zip(other) {
        *value += other;
    }
}

fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    let (CpuStorage::F32(all), Some((start, end))) = (storage, layout.contiguous_offsets()) else {
        bail!("needs contiguous f32 values");
    };
    all.get(start..end).ok_or_else(|| candle_core::Error::msg("layout is outside of the storage"))
}

fn values_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [f32]> {
    let (CpuStorage::F32(all), Some((start, end))) = (storage, layout.contiguous_offsets()) else {
        bail!("needs contiguous f32 values");
    };
    all.get_mut(start..end).ok_or_else(|| candle_core::Error::msg("layout is outside of the storage"))
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Tensor};
    use proptest::prelude::*;

    use super::*;

    /// erf by its Maclaurin series, which converges everywhere; in f64 it is exact to 1e-12 for |x| below 4.
    fn erf(x: f64) -> f64 {
        let mut term = x;
        let mut sum = x;
        for n in 1..200 {
            let n = f64::from(n);
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        sum * 2.0 / std::f64::consts::PI.sqrt()
    }

    fn tensor(values: &[f32], width: usize) -> Tensor {
        Tensor::from_slice(values, (values.len() / width, width), &Device::Cpu).unwrap()
    }

    fn rows(tensor: &Tensor) -> Vec<f32> {
        tensor.flatten_all().unwrap().to_vec1().unwrap()
    }

    #[test]
    fn gelu_is_the_exact_one() {
        let values: Vec<f32> = (-500..=500).map(|step| step as f32 / 100.0).collect();
        let x = tensor(&values, values.len());
        x.inplace_op1(&BiasGelu { bias: vec![0.0; values.len()] }).unwrap();
        for (value, gelu) in values.iter().zip(rows(&x)) {
            let exact = f64::from(*value) / 2.0 * (1.0 + erf(f64::from(*value) / 2f64.sqrt()));
            // The approximation by tanh is up to 4.7e-4 off.
            assert!((exact - f64::from(gelu)).abs() < 2e-6, "gelu({value}) is {exact}, got {gelu}");
        }
    }

    proptest! {
        #[test]
        fn layer_norm_matches_f64(
            width in 1_usize..40,
            seed in prop::collection::vec(-3.0_f32..3.0, 120),
            offset in -100.0_f32..100.0,
        ) {
            let take = |from: usize| (0..width).map(|i| seed[(from + i) % seed.len()]).collect::<Vec<_>>();
            let x: Vec<f32> = take(0).into_iter().map(|value| value + offset).collect();
            let (residual, bias, weight, shift) = (take(7), take(31), take(53), take(71));
            let op = AddNorm { bias: bias.clone(), weight: weight.clone(), shift: shift.clone(), eps: 1e-5 };
            let got = tensor(&x, width);
            got.inplace_op2(&tensor(&residual, width), &op).unwrap();

            let sums: Vec<f64> = (0..width).map(|i| f64::from(x[i]) + f64::from(residual[i]) + f64::from(bias[i])).collect();
            let mean = sums.iter().sum::<f64>() / width as f64;
            let variance = sums.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / width as f64;
            // Rounding of the sums in f32, seen through the division by the deviation.
            let deviation = (variance + 1e-5).sqrt();
            for (i, got) in rows(&got).into_iter().enumerate() {
                let exact = (sums[i] - mean) / deviation * f64::from(weight[i]) + f64::from(shift[i]);
                let bound = 1e-5 * (1.0 + (mean.abs() + 9.0) / deviation) * (1.0 + f64::from(weight[i]).abs());
                prop_assert!((exact - f64::from(got)).abs() < bound, "{exact} and {got}");
            }
        }

        #[test]
        fn softmax_rows_sum_to_one_in_the_right_proportions(values in prop::collection::vec(-80.0_f32..80.0, 1..64)) {
            let x = tensor(&values, values.len());
            x.inplace_op1(&SoftmaxRows { width: values.len() }).unwrap();
            let top = f64::from(values.iter().copied().fold(f32::MIN, f32::max));
            let sum: f64 = values.iter().map(|value| (f64::from(*value) - top).exp()).sum();
            for (value, got) in values.iter().zip(rows(&x)) {
                let exact = (f64::from(*value) - top).exp() / sum;
                prop_assert!((exact - f64::from(got)).abs() < 1e-6, "{exact} and {got}");
            }
        }
    }

    #[test]
    fn rows_that_do_not_fit_are_an_error() {
        let x = tensor(&[1.0; 6], 3);
        assert!(x.inplace_op1(&AddBias { bias: vec![0.0; 4] }).is_err());
        assert!(x.inplace_op1(&SoftmaxRows { width: 0 }).is_err());
        assert!(x.t().unwrap().inplace_op1(&AddBias { bias: vec![0.0; 3] }).is_err(), "not contiguous");
    }
}
