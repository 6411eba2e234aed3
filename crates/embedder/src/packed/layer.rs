//! One layer of the encoder (`BertLayer` in `transformers/models/bert/modeling_bert.py`) over a block of rows.

use super::kernel::{Kernel, Norm, TILE_ROWS};
use super::panels::{LINE, Strided};
use super::product::{Finish, Linear, slices};
use crate::error;
use crate::folder::bert_config::BertConfig;
use crate::precision::Precision;
use crate::weights::Weights;

/// The weights of a layer.
#[derive(Debug)]
pub(super) struct Layer {
    /// Carries the factor 1/√d of attention.
    query: Linear,
    /// Keys and values in one product.
    key_value: Linear,
    attention_output: Linear,
    attention_norm: Norm,
    up: Linear,
    down: Linear,
    norm: Norm,
}

/// Which projections of a row attention will ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Projection {
    /// Query, key and value.
    All,
    /// Key and value only.
    KeyValue,
}

/// Memory for a block of rows between attention and the end of the layer.
#[derive(Debug, Default)]
pub(super) struct LayerScratch {
    attended: Vec<f32>,
    wide: Vec<f32>,
}

/// How a block is computed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means {
    pub(super) kernel: Kernel,
    /// Threads that share the columns of each product; 1 where the rows are shared instead.
    pub(super) parts: usize,
}

impl Layer {
    pub(super) fn load(
        config: &BertConfig,
        weights: &Weights<'_>,
        precision: Precision,
        at: &str,
    ) -> error::Result<Self> {
        let pack = match precision {
            Precision::F32 => Linear::pack,
            Precision::Int8 => Linear::pack_bytes,
        };
        let (hidden, intermediate) = (config.hidden, config.intermediate);
        let matrix =
            |name: &str, outputs, inputs| weights.matrix_values(&format!("{at}.{name}.weight"), outputs, inputs);
        let vector = |name: &str, length| weights.vector(&format!("{at}.{name}"), length);
        let linear = |name: &str, outputs, inputs| -> error::Result<Linear> {
            Ok(pack(&matrix(name, outputs, inputs)?, &vector(&format!("{name}.bias"), outputs)?, inputs))
        };
        let norm = |name: &str| -> error::Result<Norm> {
            Ok(Norm {
                weight: vector(&format!("{name}.weight"), hidden)?,
                shift: vector(&format!("{name}.bias"), hidden)?,
                eps: config.layer_norm_eps,
            })
        };
        let scale = ((hidden / config.heads.max(1)) as f32).sqrt().recip();
        let scaled = |values: Vec<f32>| values.into_iter().map(|value| value * scale).collect::<Vec<_>>();
        let query = scaled(matrix("attention.self.query", hidden, hidden)?);
        let query_bias = scaled(vector("attention.self.query.bias", hidden)?);
        let mut key_value = matrix("attention.self.key", hidden, hidden)?;
        key_value.extend(matrix("attention.self.value", hidden, hidden)?);
        let mut key_value_bias = vector("attention.self.key.bias", hidden)?;
        key_value_bias.extend(vector("attention.self.value.bias", hidden)?);
        Ok(Self {
            query: pack(&query, &query_bias, hidden),
            key_value: pack(&key_value, &key_value_bias, hidden),
            attention_output: linear("attention.output.dense", hidden, hidden)?,
            attention_norm: norm("attention.output.LayerNorm")?,
            up: linear("intermediate.dense", intermediate, hidden)?,
            down: linear("output.dense", hidden, intermediate)?,
            norm: norm("output.LayerNorm")?,
        })
    }

    /// Query, key and value of each row of `x`, side by side (3 × hidden) in `projected`.
    pub(super) fn project(&self, means: Means, x: &[f32], projected: &mut [f32], projection: Projection) {
        let hidden = self.query.inputs();
        let x = Strided::new(x, hidden);
        let mut rows: Vec<&mut [f32]> = projected.chunks_exact_mut(3 * hidden).collect();
        if projection == Projection::All {
            self.query.forward(means.kernel, x, &mut rows, 0, Finish::Plain, means.parts);
        }
        self.key_value.forward(means.kernel, x, &mut rows, hidden, Finish::Plain, means.parts);
    }

    /// The query of each row of `x`.
    pub(super) fn queries(&self, means: Means, x: &[f32], queries: &mut [f32]) {
        let hidden = self.query.inputs();
        let mut rows: Vec<&mut [f32]> = queries.chunks_exact_mut(hidden).collect();
        self.query.forward(means.kernel, Strided::new(x, hidden), &mut rows, 0, Finish::Plain, means.parts);
    }

    /// From attention's `context` to the layer's output, in place of its input `x`.
    pub(super) fn finish(&self, means: Means, context: &[f32], x: &mut [f32], scratch: &mut LayerScratch) {
        let Means { kernel, parts } = means;
        let hidden = self.query.inputs();
        let LayerScratch { attended, wide } = scratch;
        attended.resize(x.len(), 0.0);
        let mut rows: Vec<&mut [f32]> = attended.chunks_exact_mut(hidden).collect();
        // `BertSelfOutput`
        self.attention_output.forward(kernel, Strided::new(context, hidden), &mut rows, 0, Finish::Plain, parts);
        for (row, residual) in rows.iter_mut().zip(x.chunks_exact(hidden)) {
            kernel.add_norm(row, residual, &self.attention_norm);
        }
        // `BertIntermediate` and the product of `BertOutput`
        let mut rows: Vec<&mut [f32]> = x.chunks_exact_mut(hidden).collect();
        if parts > 1 {
            self.feed_wide(means, Strided::new(attended, hidden), &mut rows, wide);
        } else {
            self.feed_in_slices(kernel, Strided::new(attended, hidden), &mut rows, wide);
        }
        // `BertOutput`
        for (row, residual) in rows.iter_mut().zip(attended.chunks_exact(hidden)) {
            kernel.add_norm(row, residual, &self.norm);
        }
    }

    /// Both products one after the other, each shared by threads.
    fn feed_wide(&self, means: Means, x: Strided<'_>, output: &mut [&mut [f32]], wide: &mut Vec<f32>) {
        let stride = self.up.outputs();
        wide.resize(output.len() * stride, 0.0);
        let mut rows: Vec<&mut [f32]> = wide.chunks_exact_mut(stride).collect();
        self.up.forward(means.kernel, x, &mut rows, 0, Finish::Gelu, means.parts);
        self.down.forward(means.kernel, Strided::new(wide, stride), output, 0, Finish::Plain, means.parts);
    }

    /// A slice of the intermediate values at a time: what the first product makes is still in cache when the second wants it.
    fn feed_in_slices(&self, kernel: Kernel, x: Strided<'_>, output: &mut [&mut [f32]], wide: &mut Vec<f32>) {
        for slice in slices(self.up.outputs()) {
            let stride = slice.len();
            wide.resize(output.len() * stride, 0.0);
            let mut rows: Vec<&mut [f32]> = wide.chunks_exact_mut(stride).collect();
            let panels = slice.start / LINE..slice.end.div_ceil(LINE);
            self.up.slices(kernel, x, &mut rows, 0, panels, Finish::Gelu);
            let all = 0..self.down.outputs().div_ceil(LINE);
            self.down.run(kernel, Strided::new(wide, stride), slice, output, 0, all, Finish::Plain);
        }
    }
}

/// Rows that a thread works on at a time.
pub(crate) const BLOCK: usize = 8 * TILE_ROWS;
