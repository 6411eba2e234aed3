//! The inner loops: one register tile of the matrix product, and the elementwise steps between the products.
//!
//! Each has a plain version (`plain`) that every processor runs, and versions for processors with AVX2 and FMA (`avx2`) and with
//! AVX-512 (`avx512`). [`Kernel::best`] finds out once which one this processor can run. All versions add up in the same order for every
//! height of a tile and every slice of a product, so that a row's result does not depend on what is computed beside it.

/// The steps of [`elementwise`], compiled for `$features`, as methods of a type that proves them.
#[cfg(target_arch = "x86_64")]
macro_rules! elementwise_methods {
    ($features:literal) => {
        /// See [`super::Kernel::gelu`].
        #[inline]
        pub(super) fn gelu(self, values: &mut [f32]) {
            #[target_feature(enable = $features)]
            fn run(values: &mut [f32]) {
                elementwise::gelu::<true>(values);
            }
            // SAFETY: `self` proves the features.
            unsafe { run(values) }
        }

        /// See [`super::Kernel::exp_row`].
        #[inline]
        pub(super) fn exp_row(self, row: &mut [f32], length: usize) -> f32 {
            #[target_feature(enable = $features)]
            fn run(row: &mut [f32], length: usize) -> f32 {
                elementwise::exp_row::<true>(row, length)
            }
            // SAFETY: `self` proves the features.
            unsafe { run(row, length) }
        }

        /// See [`super::Kernel::add_norm`].
        #[inline]
        pub(super) fn add_norm(self, row: &mut [f32], residual: &[f32], norm: &Norm) {
            #[target_feature(enable = $features)]
            fn run(row: &mut [f32], residual: &[f32], norm: &Norm) {
                elementwise::add_norm::<true>(row, residual, norm);
            }
            // SAFETY: `self` proves the features.
            unsafe { run(row, residual, norm) }
        }
    };
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx2;
#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code)]
mod avx512;
#[allow(clippy::indexing_slicing, reason = "fixed-size arrays under constant bounds, which the compiler must see")]
mod elementwise;
mod plain;

use super::panels::{LINE, Line, Strided};

/// Most rows of a tile: as many registers hold sums. (With AVX2 it is worked on in two halves.)
pub(crate) const TILE_ROWS: usize = 12;

/// What a tile's sums begin with.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Start<'a> {
    /// Zero.
    Zero,
    /// The same line in each row: a bias.
    Row(&'a Line),
    /// What the output holds: the product continues over the next slice of its inputs.
    Output,
}

/// LayerNorm (Ba et al. 2016, <https://arxiv.org/abs/1607.06450>).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Norm {
    /// Multiplies the normalised values; its length is the row's.
    pub(crate) weight: Vec<f32>,
    /// Added at last; as long.
    pub(crate) shift: Vec<f32>,
    /// Added to the variance.
    pub(crate) eps: f32,
}

/// Which version of the inner loops runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Kernel {
    /// Plain loops.
    Plain,
    /// AVX2 and FMA.
    #[cfg(target_arch = "x86_64")]
    Avx2(avx2::Avx2),
    /// AVX-512.
    #[cfg(target_arch = "x86_64")]
    Avx512(avx512::Avx512),
}

impl Kernel {
    /// The fastest version that this processor can run.
    pub(crate) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(avx512) = avx512::Avx512::detect() {
                return Self::Avx512(avx512);
            }
            if let Some(avx2) = avx2::Avx2::detect() {
                return Self::Avx2(avx2);
            }
        }
        Self::Plain
    }

    /// All versions that this processor can run.
    #[cfg(test)]
    pub(crate) fn all() -> Vec<Self> {
        let mut kernels = vec![Self::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            kernels.extend(avx2::Avx2::detect().map(Self::Avx2));
            kernels.extend(avx512::Avx512::detect().map(Self::Avx512));
        }
        kernels
    }

    /// `start` + a·b into `columns` (at most [`LINE`]) of each row of `c`; at most [`TILE_ROWS`] rows, and `b.len()` inputs.
    /// Meanwhile `ahead`, which later tiles will need and which has at most as many lines as `b`, comes into cache.
    ///
    /// # Panics
    /// When `a` or a row of `c` is too short: a fault of the caller.
    #[inline]
    pub(crate) fn tile(
        self,
        a: Strided<'_>,
        b: &[Line],
        ahead: &[Line],
        c: &mut [&mut [f32]],
        columns: std::ops::Range<usize>,
        start: Start<'_>,
    ) {
        if columns.len() == LINE {
            self.whole_tile(a, b, ahead, c, columns.start, start);
            return;
        }
        let mut lines = [[0.0; LINE]; TILE_ROWS];
        if matches!(start, Start::Output) {
            for (line, row) in lines.iter_mut().zip(c.iter()) {
                for (value, stored) in line.iter_mut().zip(row.get(columns.clone()).unwrap_or_default()) {
                    *value = *stored;
                }
            }
        }
        let mut rows = lines.each_mut().map(<[f32; LINE]>::as_mut_slice);
        let rows = rows.get_mut(..c.len()).unwrap_or_default();
        self.whole_tile(a, b, ahead, rows, 0, start);
        for (line, row) in lines.iter().zip(c) {
            for (value, stored) in line.iter().zip(row.get_mut(columns.clone()).unwrap_or_default()) {
                *stored = *value;
            }
        }
    }

    #[inline]
    fn whole_tile(
        self,
        a: Strided<'_>,
        b: &[Line],
        ahead: &[Line],
        c: &mut [&mut [f32]],
        column: usize,
        start: Start<'_>,
    ) {
        assert!(a.holds(c.len(), b.len()), "a tile's left side is too short");
        assert!(c.iter().all(|row| row.len() >= column + LINE), "a tile's output is too short");
        match self {
            Self::Plain => plain::tile(a, b, c, column, start),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.tile(a, b, ahead, c, column, start),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.tile(a, b, ahead, c, column, start),
        }
    }

    /// GELU(x) = x/2 · (1 + erf(x/√2)) (Hendrycks and Gimpel 2016, <https://arxiv.org/abs/1606.08415>, the exact form), to
    /// 1e-6.
    #[inline]
    pub(crate) fn gelu(self, values: &mut [f32]) {
        match self {
            Self::Plain => elementwise::gelu::<false>(values),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.gelu(values),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.gelu(values),
        }
    }

    /// exp(x − max) in place of each of the first `length` values of a row, and whole lines of zeros after them: a softmax
    /// that is yet to be divided by the sum, whose reciprocal comes back.
    #[inline]
    pub(crate) fn exp_row(self, row: &mut [f32], length: usize) -> f32 {
        match self {
            Self::Plain => elementwise::exp_row::<false>(row, length),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.exp_row(row, length),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.exp_row(row, length),
        }
    }

    /// LayerNorm(row + residual) in place of the row.
    #[inline]
    pub(crate) fn add_norm(self, row: &mut [f32], residual: &[f32], norm: &Norm) {
        match self {
            Self::Plain => elementwise::add_norm::<false>(row, residual, norm),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.add_norm(row, residual, norm),
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(avx512) => avx512.add_norm(row, residual, norm),
        }
    }
}
