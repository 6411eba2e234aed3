//! BERT (Devlin et al. 2018, <https://arxiv.org/abs/1810.04805>) and XLM-RoBERTa, which computes the same, over packed batches.
//!
//! All sequences of a batch lie one after another in one (tokens × hidden) matrix: no padding, no mask, and one matrix
//! product per linear layer. Only attention looks at one sequence at a time. The steps are those of
//! `transformers/models/bert/modeling_bert.py`, named beside each part.

use candle_core::{Device, Tensor};
use rayon::prelude::*;

use super::{Rows, TokenVectors, Transformer};
use crate::encoder::{Checkpoint, EncodeError, Sequence};
use crate::error;
use crate::folder::bert_config::BertConfig;
use crate::ops::{AddBias, AddNorm, BiasGelu, SoftmaxRows};
use crate::weights::Weights;

/// A BERT or XLM-RoBERTa encoder with its weights, in f32 on the CPU.
pub struct Bert {
    embeddings: BertEmbeddings,
    layers: Vec<BertLayer>,
    hidden: usize,
    positions: usize,
}

impl Bert {
    /// Takes the weights that `config` describes.
    pub(crate) fn load(config: &BertConfig, weights: &Weights<'_>) -> error::Result<Self> {
        Ok(Self {
            embeddings: BertEmbeddings::load(config, weights)?,
            layers: (0..config.layers)
                .map(|index| BertLayer::load(config, weights, &format!("encoder.layer.{index}")))
                .collect::<error::Result<_>>()?,
            hidden: config.hidden,
            positions: config.positions,
        })
    }
}

impl Transformer for Bert {
    fn hidden(&self) -> usize {
        self.hidden
    }

    /// (`BertModel`) Linear in the tokens, apart from attention, which is quadratic in each sequence.
    fn forward(
        &self,
        sequences: &[Sequence<'_>],
        rows: Rows,
        checkpoint: Checkpoint<'_>,
    ) -> Result<TokenVectors, EncodeError> {
        super::check_lengths(sequences, self.positions)?;
        let failed = |error: candle_core::Error| EncodeError::Failed(error.to_string());
        let lengths: Vec<usize> = sequences.iter().map(|sequence| sequence.ids.len()).collect();
        let mut matrix = self.embeddings.forward(sequences).map_err(failed)?;
        for layer in &self.layers {
            if checkpoint().is_break() {
                return Err(EncodeError::Stopped);
            }
            matrix = layer.forward(&matrix, &lengths).map_err(failed)?;
        }
        let values: Vec<f32> = matrix.flatten_all().and_then(|flat| flat.to_vec1()).map_err(failed)?;
        let all = TokenVectors { values, width: self.hidden, lengths };
        Ok(match rows {
            Rows::All => all,
            Rows::First => all.first_rows(),
        })
    }
}

/// `BertEmbeddings`: word + position + token type, then LayerNorm.
struct BertEmbeddings {
    words: Tensor,
    /// The sum of position and token type: for each type, a row for each position.
    places: Tensor,
    positions: usize,
    types: usize,
    norm: AddNorm,
}

impl BertEmbeddings {
    fn load(config: &BertConfig, weights: &Weights<'_>) -> error::Result<Self> {
        const POSITIONS: &str = "embeddings.position_embeddings.weight";
        let hidden = config.hidden;
        let rows = config.first_position + config.positions;
        let positions = weights.matrix_values(POSITIONS, rows, hidden)?;
        let types = weights.matrix_values("embeddings.token_type_embeddings.weight", config.token_types, hidden)?;
        // A pair has two segments; a model with a third type never sees it.
        let type_count = config.token_types.min(2);
        let mut places = Vec::with_capacity(type_count * config.positions * hidden);
        for token_type in types.chunks_exact(hidden).take(type_count) {
            for position in positions.chunks_exact(hidden).skip(config.first_position) {
                places.extend(position.iter().zip(token_type).map(|(position, token_type)| position + token_type));
            }
        }
        Ok(Self {
            words: weights.matrix("embeddings.word_embeddings.weight", config.vocabulary, hidden)?,
            places: weights.tensor(POSITIONS, places, type_count * config.positions, hidden)?,
            positions: config.positions,
            types: type_count,
            norm: layer_norm(config, weights, "embeddings.LayerNorm", Vec::new())?,
        })
    }

    fn forward(&self, sequences: &[Sequence<'_>]) -> candle_core::Result<Tensor> {
        let ids: Vec<u32> = sequences.iter().flat_map(|sequence| sequence.ids.iter().copied()).collect();
        let place = |sequence: &Sequence<'_>, index: usize| {
            let second = index >= sequence.second && self.types > 1;
            (index + usize::from(second) * self.positions) as u32
        };
        let places: Vec<u32> = sequences
            .iter()
            .flat_map(|sequence| (0..sequence.ids.len()).map(move |index| place(sequence, index)))
            .collect();
        let count = ids.len();
        let matrix = self.words.index_select(&Tensor::from_vec(ids, count, &Device::Cpu)?, 0)?;
        let places = self.places.index_select(&Tensor::from_vec(places, count, &Device::Cpu)?, 0)?;
        matrix.inplace_op2(&places, &self.norm)?;
        Ok(matrix)
    }
}

/// `BertLayer`: attention, then the feed-forward part, each with a residual and a LayerNorm after it.
struct BertLayer {
    attention: BertSelfAttention,
    attention_output: Linear,
    attention_norm: AddNorm,
    up: Linear,
    gelu: BiasGelu,
    down: Linear,
    down_norm: AddNorm,
}

impl BertLayer {
    fn load(config: &BertConfig, weights: &Weights<'_>, at: &str) -> error::Result<Self> {
        let (hidden, intermediate) = (config.hidden, config.intermediate);
        let bias = |name: &str, width: usize| weights.vector(&format!("{at}.{name}.dense.bias"), width);
        let linear = |name: &str, outputs: usize, inputs: usize| {
            Linear::load(weights, &format!("{at}.{name}.dense.weight"), outputs, inputs)
        };
        let norm = |name: &str| layer_norm(config, weights, &format!("{at}.{name}.LayerNorm"), bias(name, hidden)?);
        Ok(Self {
            attention: BertSelfAttention::load(config, weights, &format!("{at}.attention.self"))?,
            attention_output: linear("attention.output", hidden, hidden)?,
            attention_norm: norm("attention.output")?,
            up: linear("intermediate", intermediate, hidden)?,
            gelu: BiasGelu { bias: bias("intermediate", intermediate)? },
            down: linear("output", hidden, intermediate)?,
            down_norm: norm("output")?,
        })
    }

    fn forward(&self, x: &Tensor, lengths: &[usize]) -> candle_core::Result<Tensor> {
        // `BertSelfOutput`
        let attended = self.attention_output.forward(&self.attention.forward(x, lengths)?)?;
        attended.inplace_op2(x, &self.attention_norm)?;
        // `BertIntermediate`
        let wide = self.up.forward(&attended)?;
        wide.inplace_op1(&self.gelu)?;
        // `BertOutput`
        let narrow = self.down.forward(&wide)?;
        narrow.inplace_op2(&attended, &self.down_norm)?;
        Ok(narrow)
    }
}

/// `BertSelfAttention`: softmax(Q·Kᵀ/√d)·V for each sequence and head (Vaswani et al. 2017, <https://arxiv.org/abs/1706.03762>).
struct BertSelfAttention {
    /// Q, K and V in one product; Q's part carries the factor 1/√d.
    qkv: Linear,
    qkv_bias: AddBias,
    heads: usize,
    head_width: usize,
}

impl BertSelfAttention {
    fn load(config: &BertConfig, weights: &Weights<'_>, at: &str) -> error::Result<Self> {
        let hidden = config.hidden;
        let head_width = hidden / config.heads;
        let scale = (head_width as f32).sqrt().recip();
        let mut fused = Vec::with_capacity(3 * hidden * hidden);
        let mut bias = Vec::with_capacity(3 * hidden);
        for (name, factor) in [("query", scale), ("key", 1.0), ("value", 1.0)] {
            let rows = weights.matrix_values(&format!("{at}.{name}.weight"), hidden, hidden)?;
            fused.extend(rows.into_iter().map(|value| value * factor));
            let values = weights.vector(&format!("{at}.{name}.bias"), hidden)?;
            bias.extend(values.into_iter().map(|value| value * factor));
        }
        let qkv = Linear { weight: weights.tensor(at, fused, 3 * hidden, hidden)? };
        Ok(Self { qkv, qkv_bias: AddBias { bias }, heads: config.heads, head_width })
    }

    fn forward(&self, x: &Tensor, lengths: &[usize]) -> candle_core::Result<Tensor> {
        let tokens = x.dim(0)?;
        let hidden = self.heads * self.head_width;
        let qkv = self.qkv.forward(x)?;
        qkv.inplace_op1(&self.qkv_bias)?;
        let qkv = qkv.reshape((tokens, 3, self.heads, self.head_width))?;
        let starts = lengths.iter().scan(0, |next, length| {
            let start = *next;
            *next += length;
            Some((start, *length))
        });
        let contexts = starts
            .collect::<Vec<_>>()
            .into_par_iter()
            .map(|(start, length)| {
                let context = self.attend(&qkv.narrow(0, start, length)?)?;
                context.transpose(0, 1)?.reshape((length, hidden))
            })
            .collect::<candle_core::Result<Vec<_>>>()?;
        Tensor::cat(&contexts, 0)
    }

    /// One sequence: (length × 3 × heads × width) to (heads × length × width). Q, K and V stay strided views of the fused
    /// matrix.
    fn attend(&self, qkv: &Tensor) -> candle_core::Result<Tensor> {
        let part = |index: usize| qkv.narrow(1, index, 1)?.squeeze(1)?.transpose(0, 1);
        let scores = part(0)?.matmul(&part(1)?.transpose(1, 2)?)?;
        scores.inplace_op1(&SoftmaxRows { width: scores.dim(2)? })?;
        scores.matmul(&part(2)?)
    }
}

/// x·Wᵀ; the bias is added by the step that follows.
struct Linear {
    /// (outputs × inputs), as stored.
    weight: Tensor,
}

impl Linear {
    fn load(weights: &Weights<'_>, name: &str, outputs: usize, inputs: usize) -> error::Result<Self> {
        Ok(Self { weight: weights.matrix(name, outputs, inputs)? })
    }

    fn forward(&self, x: &Tensor) -> candle_core::Result<Tensor> {
        x.matmul(&self.weight.t()?)
    }
}

fn layer_norm(config: &BertConfig, weights: &Weights<'_>, at: &str, bias: Vec<f32>) -> error::Result<AddNorm> {
    Ok(AddNorm {
        bias,
        weight: weights.vector(&format!("{at}.weight"), config.hidden)?,
        shift: weights.vector(&format!("{at}.bias"), config.hidden)?,
        eps: config.layer_norm_eps,
    })
}
