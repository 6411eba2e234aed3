//! Which version of the inner loops runs.

use std::ops::Range;

use super::rows::{QuantisedRows, Span};
use super::{elementwise, plain};
use crate::packed::kernel::Start;
use crate::packed::panels::{LINE, Line};

/// Inputs of one [`ByteLine`].
pub(super) const GROUP: usize = 4;

/// Most rows of a tile.
pub(super) const TILE_ROWS: usize = 12;

/// Sums of a tile.
pub(super) type Sums = [[i32; LINE]; TILE_ROWS];

/// The weights of [`GROUP`] inputs for each of [`LINE`] outputs, output after output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(64))]
pub(super) struct ByteLine(pub(super) [i8; LINE * GROUP]);

impl Default for ByteLine {
    fn default() -> Self {
        Self([0; LINE * GROUP])
    }
}

/// The weights of some inputs for [`LINE`] outputs.
#[derive(Debug, Clone, Copy)]
pub(super) struct BytePanel<'a> {
    pub(super) lines: &'a [ByteLine],
    /// What a whole step of each output's weights is.
    pub(super) scale: &'a Line,
    /// The sum of each output's weights, scaled.
    pub(super) sum: &'a Line,
}

/// Which version of the inner loops runs. All give the same sums of bytes; with AVX2 weights have a bit less.
#[derive(Debug, Clone, Copy)]
pub(in crate::packed) enum ByteKernel {
    /// Plain loops.
    Plain,
    /// AVX2.
    #[cfg(target_arch = "x86_64")]
    Avx2(super::avx2::Avx2),
    /// AVX-512 with VNNI, which multiplies and adds bytes in one instruction.
    #[cfg(target_arch = "x86_64")]
    Vnni(super::vnni::Vnni),
}

impl ByteKernel {
    /// The fastest version that this processor can run.
    pub(in crate::packed) fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(vnni) = super::vnni::Vnni::detect() {
                return Self::Vnni(vnni);
            }
            if let Some(avx2) = super::avx2::Avx2::detect() {
                return Self::Avx2(avx2);
            }
        }
        Self::Plain
    }

    /// All versions that this processor can run.
    #[cfg(test)]
    pub(in crate::packed) fn all() -> Vec<Self> {
        let mut kernels = vec![Self::Plain];
        #[cfg(target_arch = "x86_64")]
        {
            kernels.extend(super::avx2::Avx2::detect().map(Self::Avx2));
            kernels.extend(super::vnni::Vnni::detect().map(Self::Vnni));
        }
        kernels
    }

    /// The largest weight. With AVX2 the products of two neighbours must fit into 16 bits: 2 · 255 · 64 does, 2 · 255 · 127
    /// does not.
    pub(super) fn largest_weight(self) -> f32 {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => 64.0,
            _ => 127.0,
        }
    }

    /// Quantises `row` into as many of `bytes`.
    #[inline]
    pub(super) fn quantise(self, row: &[f32], bytes: &mut [u8]) -> Span {
        match self {
            Self::Plain => elementwise::quantise(row, bytes),
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.quantise(row, bytes),
            #[cfg(target_arch = "x86_64")]
            Self::Vnni(vnni) => vnni.quantise(row, bytes),
        }
    }

    /// `start` + rows · panel into `columns` (at most [`LINE`]) of each row of `c`, of which there are at most [`TILE_ROWS`],
    /// the first of them being the row `first` of `rows`.
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
        match self {
            Self::Plain => {
                let sums = plain::sums(rows, first, panel.lines, c.len());
                elementwise::scale(&sums, rows.spans(first), panel, c, columns, start);
            }
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => avx2.tile(rows, first, panel, c, columns, start),
            #[cfg(target_arch = "x86_64")]
            Self::Vnni(vnni) => vnni.tile(rows, first, panel, c, columns, start),
        }
    }
}
