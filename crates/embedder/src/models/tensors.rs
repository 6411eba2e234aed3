//! The encoder in candle's own tensor operations, which every device has: padded batches with a mask, as in
//! `transformers/models/bert/modeling_bert.py`, whose classes are named beside each part. What is fast on the CPU is checked
//! against it.

use candle_core::{D, Device, Tensor};

use super::{Rows, TokenVectors, Transformer};
use crate::encoder::{Checkpoint, EncodeError, Sequence};
use crate::error;
use crate::folder::bert_config::BertConfig;
use crate::weights::Weights;

/// Sequences are padded together when the shortest has at least this share of the longest one's tokens: at most half of a
/// matrix is padding.
const LEAST_SHARE: usize = 2;

/// A BERT or XLM-RoBERTa encoder with its weights, in f32 on any device.
pub(crate) struct TensorBert {
    embeddings: Embeddings,
    layers: Vec<Layer>,
    hidden: usize,
    positions: usize,
    device: Device,
}

impl TensorBert {
    /// Takes the weights that `config` describes to `device`.
    pub(crate) fn load(config: &BertConfig, weights: &Weights<'_>, device: &Device) -> error::Result<Self> {
        let loader = Loader { config, weights, device };
        Ok(Self {
            embeddings: Embeddings::load(&loader)?,
            layers: (0..config.layers)
                .map(|index| Layer::load(&loader, &format!("encoder.layer.{index}")))
                .collect::<error::Result<_>>()?,
            hidden: config.hidden,
            positions: config.positions,
            device: device.clone(),
        })
    }

    /// The wanted rows of each of `sequences`, which are padded to the longest of them.
    fn forward_padded(
        &self,
        sequences: &[Sequence<'_>],
        rows: Rows,
        checkpoint: Checkpoint<'_>,
    ) -> Result<Vec<Vec<f32>>, EncodeError> {
        let failed = |error: candle_core::Error| EncodeError::Failed(error.to_string());
        let length = sequences.iter().map(|sequence| sequence.ids.len()).max().unwrap_or_default();
        let mask = self.mask(sequences, length).map_err(failed)?;
        let mut x = self.embeddings.forward(sequences, length, &self.device).map_err(failed)?;
        for layer in &self.layers {
            if checkpoint().is_break() {
                return Err(EncodeError::Stopped);
            }
            x = layer.forward(&x, &mask).map_err(failed)?;
        }
        let wanted = |(index, sequence): (usize, &Sequence<'_>)| {
            let count = match rows {
                Rows::All => sequence.ids.len(),
                Rows::First => 1,
            };
            x.get(index)?.narrow(0, 0, count)?.flatten_all()?.to_vec1()
        };
        sequences.iter().enumerate().map(wanted).collect::<candle_core::Result<_>>().map_err(failed)
    }

    /// (sequences × 1 × 1 × length): 0 for a token, −∞ for padding, so that padding has weight 0 after the softmax.
    fn mask(&self, sequences: &[Sequence<'_>], length: usize) -> candle_core::Result<Tensor> {
        let row = |sequence: &Sequence<'_>| {
            let tokens = sequence.ids.len();
            (0..length).map(move |index| if index < tokens { 0.0 } else { f32::NEG_INFINITY })
        };
        let values: Vec<f32> = sequences.iter().flat_map(row).collect();
        Tensor::from_vec(values, (sequences.len(), 1, 1, length), &self.device)
    }
}

impl Transformer for TensorBert {
    fn hidden(&self) -> usize {
        self.hidden
    }

    /// (`BertModel`)
    fn forward(
        &self,
        sequences: &[Sequence<'_>],
        rows: Rows,
        checkpoint: Checkpoint<'_>,
    ) -> Result<TokenVectors, EncodeError> {
        super::check_lengths(sequences, self.positions)?;
        let mut order: Vec<(usize, Sequence<'_>)> = sequences.iter().copied().enumerate().collect();
        order.sort_by_key(|(_, sequence)| std::cmp::Reverse(sequence.ids.len()));
        let mut found: Vec<(usize, Vec<f32>)> = Vec::with_capacity(order.len());
        let mut rest = order.as_slice();
        while let Some((_, longest)) = rest.first() {
            let least = longest.ids.len().div_ceil(LEAST_SHARE);
            let (group, after) = rest.split_at(rest.partition_point(|(_, sequence)| sequence.ids.len() >= least));
            let padded: Vec<Sequence<'_>> = group.iter().map(|(_, sequence)| *sequence).collect();
            let vectors = self.forward_padded(&padded, rows, checkpoint)?;
            found.extend(group.iter().map(|(index, _)| *index).zip(vectors));
            rest = after;
        }
        found.sort_by_key(|(index, _)| *index);
        Ok(TokenVectors {
            lengths: found.iter().map(|(_, values)| values.len() / self.hidden).collect(),
            values: found.into_iter().flat_map(|(_, values)| values).collect(),
            width: self.hidden,
        })
    }
}

/// Reads tensors onto a device.
struct Loader<'a> {
    config: &'a BertConfig,
    weights: &'a Weights<'a>,
    device: &'a Device,
}

impl Loader<'_> {
    fn matrix(&self, name: &str, rows: usize, columns: usize) -> error::Result<Tensor> {
        self.weights.matrix_on(name, rows, columns, self.device)
    }

    fn vector(&self, name: &str, length: usize) -> error::Result<Tensor> {
        self.weights.vector_on(name, length, self.device)
    }
}

/// `BertEmbeddings`: word + position + token type, then LayerNorm.
struct Embeddings {
    words: Tensor,
    positions: Tensor,
    types: Tensor,
    first_position: usize,
    type_count: usize,
    norm: LayerNorm,
}

impl Embeddings {
    fn load(loader: &Loader<'_>) -> error::Result<Self> {
        let config = loader.config;
        let table = |name: &str, rows: usize| {
            loader.matrix(&format!("embeddings.{name}_embeddings.weight"), rows, config.hidden)
        };
        Ok(Self {
            words: table("word", config.vocabulary)?,
            positions: table("position", config.first_position + config.positions)?,
            types: table("token_type", config.token_types)?,
            first_position: config.first_position,
            type_count: config.token_types,
            norm: LayerNorm::load(loader, "embeddings.LayerNorm")?,
        })
    }

    /// (sequences × length × hidden). Padding is token 0 at the place where it stands: no token looks at it.
    fn forward(&self, sequences: &[Sequence<'_>], length: usize, device: &Device) -> candle_core::Result<Tensor> {
        let rows = sequences.len() * length;
        let select = |table: &Tensor, index: &dyn Fn(&Sequence<'_>, usize) -> u32| {
            let indices = sequences.iter().flat_map(|sequence| (0..length).map(move |place| index(sequence, place)));
            table.index_select(&Tensor::from_vec(indices.collect::<Vec<u32>>(), rows, device)?, 0)
        };
        let words = select(&self.words, &|sequence, place| sequence.ids.get(place).copied().unwrap_or_default())?;
        let positions = select(&self.positions, &|_, place| (self.first_position + place) as u32)?;
        let second = |sequence: &Sequence<'_>, place: usize| self.type_count > 1 && place >= sequence.second;
        let types = select(&self.types, &|sequence, place| u32::from(second(sequence, place)))?;
        let sum = words.add(&types)?.add(&positions)?;
        self.norm.forward(&sum.reshape((sequences.len(), length, sum.dim(1)?))?)
    }
}

/// `BertLayer`: attention, then the feed-forward part, each with a residual and a LayerNorm after it.
struct Layer {
    query: Linear,
    key: Linear,
    value: Linear,
    attention_output: Linear,
    attention_norm: LayerNorm,
    up: Linear,
    down: Linear,
    down_norm: LayerNorm,
    heads: usize,
}

impl Layer {
    fn load(loader: &Loader<'_>, at: &str) -> error::Result<Self> {
        let (hidden, intermediate) = (loader.config.hidden, loader.config.intermediate);
        let linear =
            |name: &str, outputs: usize, inputs: usize| Linear::load(loader, &format!("{at}.{name}"), outputs, inputs);
        Ok(Self {
            query: linear("attention.self.query", hidden, hidden)?,
            key: linear("attention.self.key", hidden, hidden)?,
            value: linear("attention.self.value", hidden, hidden)?,
            attention_output: linear("attention.output.dense", hidden, hidden)?,
            attention_norm: LayerNorm::load(loader, &format!("{at}.attention.output.LayerNorm"))?,
            up: linear("intermediate.dense", intermediate, hidden)?,
            down: linear("output.dense", hidden, intermediate)?,
            down_norm: LayerNorm::load(loader, &format!("{at}.output.LayerNorm"))?,
            heads: loader.config.heads,
        })
    }

    fn forward(&self, x: &Tensor, mask: &Tensor) -> candle_core::Result<Tensor> {
        // `BertSelfOutput`
        let attended = self.attention_output.forward(&self.attend(x, mask)?)?;
        let attended = self.attention_norm.forward(&attended.add(x)?)?;
        // `BertIntermediate`: GELU(x) = x/2 · (1 + erf(x/√2)), the exact form.
        let wide = self.up.forward(&attended)?.gelu_erf()?;
        // `BertOutput`
        self.down_norm.forward(&self.down.forward(&wide)?.add(&attended)?)
    }

    /// `BertSelfAttention`: softmax(Q·Kᵀ/√d + mask)·V for each head.
    fn attend(&self, x: &Tensor, mask: &Tensor) -> candle_core::Result<Tensor> {
        let (sequences, length, hidden) = x.dims3()?;
        let width = hidden / self.heads;
        let by_head = |linear: &Linear| {
            linear.forward(x)?.reshape((sequences, length, self.heads, width))?.transpose(1, 2)?.contiguous()
        };
        let (query, key, value) = (by_head(&self.query)?, by_head(&self.key)?, by_head(&self.value)?);
        let scores = query.matmul(&key.t()?)?.affine((width as f64).sqrt().recip(), 0.0)?.broadcast_add(mask)?;
        softmax(&scores)?.matmul(&value)?.transpose(1, 2)?.reshape((sequences, length, hidden))
    }
}

/// x·Wᵀ + b.
struct Linear {
    /// (outputs × inputs), as stored.
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    fn load(loader: &Loader<'_>, at: &str, outputs: usize, inputs: usize) -> error::Result<Self> {
        Ok(Self {
            weight: loader.matrix(&format!("{at}.weight"), outputs, inputs)?,
            bias: loader.vector(&format!("{at}.bias"), outputs)?,
        })
    }

    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        x.broadcast_matmul(&self.weight.t()?)?.broadcast_add(&self.bias)
    }
}

/// LayerNorm (Ba et al. 2016, <https://arxiv.org/abs/1607.06450>) over the last dimension.
struct LayerNorm {
    weight: Tensor,
    bias: Tensor,
    eps: f64,
}

impl LayerNorm {
    fn load(loader: &Loader<'_>, at: &str) -> error::Result<Self> {
        let hidden = loader.config.hidden;
        Ok(Self {
            weight: loader.vector(&format!("{at}.weight"), hidden)?,
            bias: loader.vector(&format!("{at}.bias"), hidden)?,
            eps: f64::from(loader.config.layer_norm_eps),
        })
    }

    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        let centred = x.broadcast_sub(&x.mean_keepdim(D::Minus1)?)?;
        let variance = centred.sqr()?.mean_keepdim(D::Minus1)?;
        let scaled = centred.broadcast_div(&variance.affine(1.0, self.eps)?.sqrt()?)?;
        scaled.broadcast_mul(&self.weight)?.broadcast_add(&self.bias)
    }
}

/// Over the last dimension. The greatest value is taken off first, so that no exponential overflows.
fn softmax(x: &Tensor) -> candle_core::Result<Tensor> {
    let exponentials = x.broadcast_sub(&x.max_keepdim(D::Minus1)?)?.exp()?;
    exponentials.broadcast_div(&exponentials.sum_keepdim(D::Minus1)?)
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::path::Path;

    use super::*;
    use crate::device;
    use crate::folder::{ModelFolder, Overrides, RerankOverrides, RerankerFolder};
    use crate::models;
    use crate::weights::WeightsFile;

    const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");

    /// The fast encoder of the CPU and the tensors give the same rows, for lengths that fall into several groups, pairs among
    /// them.
    fn compare(path: &Path, config: &BertConfig) {
        let file = WeightsFile::read_verified(&path.join("model.safetensors")).unwrap();
        let weights = file.tensors().unwrap();
        let fast = models::load(config, &weights, device::Device::Cpu, crate::Precision::F32).unwrap();
        let plain = TensorBert::load(config, &weights, &Device::Cpu).unwrap();
        let ids = |length: usize| (0..length).map(|i| (100 + i * i * 7 % 5_000) as u32).collect::<Vec<_>>();
        let texts: Vec<Vec<u32>> = [1, 40, 7, 512, 33, 2, 511, 20].map(ids).into();
        let sequences: Vec<Sequence<'_>> = texts
            .iter()
            .enumerate()
            .map(|(index, ids)| Sequence { ids, second: if index % 2 == 0 { ids.len() } else { ids.len() / 3 } })
            .collect();
        for rows in [Rows::All, Rows::First] {
            let go_on = || ControlFlow::Continue(());
            let fast = fast.forward(&sequences, rows, &go_on).unwrap();
            let plain = plain.forward(&sequences, rows, &go_on).unwrap();
            assert_eq!((fast.width, &fast.lengths), (plain.width, &plain.lengths));
            assert_eq!(fast.values.len(), plain.values.len());
            let difference = fast.values.iter().zip(&plain.values).map(|(a, b)| (a - b).abs()).fold(0.0_f32, f32::max);
            assert!(difference < 2e-5, "{rows:?} of {}: off by {difference}", path.display());
        }
    }

    #[test]
    fn the_tensors_agree_with_the_fast_encoder() {
        let path = Path::new(FIXTURES).join("tiny-bge");
        compare(&path, &ModelFolder::read(&path, &Overrides::default()).unwrap().config);
        for name in ["tiny-reranker-bert", "tiny-reranker-xlmr"] {
            let path = Path::new(FIXTURES).join(name);
            compare(&path, &RerankerFolder::read(&path, &RerankOverrides::default()).unwrap().config);
        }
    }

    #[test]
    fn a_pass_can_be_stopped() {
        let path = Path::new(FIXTURES).join("tiny-bge");
        let config = ModelFolder::read(&path, &Overrides::default()).unwrap().config;
        let file = WeightsFile::read_verified(&path.join("model.safetensors")).unwrap();
        let bert = TensorBert::load(&config, &file.tensors().unwrap(), &Device::Cpu).unwrap();
        let sequences = [Sequence::single(&[101, 102])];
        assert_eq!(bert.forward(&sequences, Rows::First, &|| ControlFlow::Break(())), Err(EncodeError::Stopped));
        let empty = bert.forward(&[Sequence::single(&[])], Rows::First, &|| ControlFlow::Continue(()));
        assert!(matches!(empty, Err(EncodeError::Failed(_))), "{empty:?}");
    }
}
