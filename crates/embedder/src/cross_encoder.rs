//! A transformer with a classifier on its first token: a pair's ids in, one logit out.

use rayon::prelude::*;

use crate::encoder::{Checkpoint, EncodeError, Encoder, Sequence};
use crate::error::Result;
use crate::folder::bert_config::{Architecture, BertConfig};
use crate::models::{Rows, Transformer};
use crate::weights::Weights;

/// Partial sums of a dot product: one vector register of the least processor that counts.
const LANES: usize = 8;

/// A cross-encoder; its vector has one value, the raw logit.
pub(crate) struct CrossEncoder {
    transformer: Box<dyn Transformer>,
    head: ClassificationHead,
}

impl CrossEncoder {
    pub(crate) fn new(transformer: Box<dyn Transformer>, head: ClassificationHead) -> Self {
        Self { transformer, head }
    }
}

impl Encoder for CrossEncoder {
    fn dimension(&self) -> usize {
        1
    }

    fn encode(
        &self,
        sequences: &[Sequence<'_>],
        checkpoint: Checkpoint<'_>,
    ) -> std::result::Result<Vec<Vec<f32>>, EncodeError> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let first = self.transformer.forward(sequences, Rows::First, checkpoint)?;
        Ok(first.values.par_chunks_exact(first.width).map(|row| vec![self.head.logit(row)]).collect())
    }
}

/// out · tanh(dense · x + bias) + bias, on the first token's vector x.
///
/// In BERT the dense layer and tanh are `BertPooler`, and `BertForSequenceClassification` adds `classifier`; in XLM-RoBERTa both
/// are `RobertaClassificationHead` (transformers, `modeling_bert.py` and `modeling_xlm_roberta.py`).
pub(crate) struct ClassificationHead {
    /// (hidden × hidden), row by row.
    dense: Vec<f32>,
    dense_bias: Vec<f32>,
    out: Vec<f32>,
    out_bias: f32,
}

impl ClassificationHead {
    pub(crate) fn load(config: &BertConfig, weights: &Weights<'_>) -> Result<Self> {
        let hidden = config.hidden;
        let (dense, dense_bias, out) = match config.architecture {
            Architecture::Bert => (
                weights.matrix_values("pooler.dense.weight", hidden, hidden)?,
                weights.vector("pooler.dense.bias", hidden)?,
                "classifier",
            ),
            Architecture::XlmRoberta => (
                weights.head_values("classifier.dense.weight", &[hidden, hidden])?,
                weights.head_values("classifier.dense.bias", &[hidden])?,
                "classifier.out_proj",
            ),
        };
        Ok(Self {
            dense,
            dense_bias,
            out: weights.head_values(&format!("{out}.weight"), &[1, hidden])?,
            out_bias: weights.head_values(&format!("{out}.bias"), &[1])?.iter().sum(),
        })
    }

    fn logit(&self, x: &[f32]) -> f32 {
        let pooled: Vec<f32> = self
            .dense
            .chunks_exact(x.len())
            .zip(&self.dense_bias)
            .map(|(weights, bias)| (dot(weights, x) + bias).tanh())
            .collect();
        dot(&self.out, &pooled) + self.out_bias
    }
}

/// The dot product in [`LANES`] partial sums, which the compiler turns into vector instructions.
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest: f32 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}
