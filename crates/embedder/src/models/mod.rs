//! One encoder architecture per file, top to bottom in the order of its forward pass.

pub mod bert;
mod tensors;

use crate::device::Device;
use crate::encoder::{Checkpoint, EncodeError, Sequence};
use crate::error::Result as LoadResult;
use crate::folder::bert_config::BertConfig;
use crate::packed::PackedTransformer;
use crate::weights::Weights;

/// The encoder that `config` describes, in the form that is fastest on `device`.
pub(crate) fn load(config: &BertConfig, weights: &Weights<'_>, device: Device) -> LoadResult<Box<dyn Transformer>> {
    Ok(match device {
        Device::Cpu => Box::new(PackedTransformer::load(config, weights)?),
        Device::Cuda | Device::Metal => Box::new(tensors::TensorBert::load(config, weights, &device.open()?)?),
    })
}

/// Which rows of the last layer are wanted. What is not wanted is not computed where that saves work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Every token's.
    All,
    /// The first token's of each sequence.
    First,
}

/// Vectors of the last layer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TokenVectors {
    /// (rows × width), sequence after sequence.
    pub(crate) values: Vec<f32>,
    /// Length of a row.
    pub(crate) width: usize,
    /// Rows of each sequence: its tokens, or 1 each with [`Rows::First`].
    pub(crate) lengths: Vec<usize>,
}

impl TokenVectors {
    /// The first row of each sequence.
    pub(crate) fn first_rows(self) -> Self {
        let mut values = Vec::with_capacity(self.lengths.len() * self.width);
        let mut rest = self.values.as_slice();
        for length in &self.lengths {
            values.extend(rest.iter().take(self.width));
            rest = rest.get(length * self.width..).unwrap_or_default();
        }
        Self { values, width: self.width, lengths: vec![1; self.lengths.len()] }
    }
}

/// A transformer encoder without a head.
pub(crate) trait Transformer: Send + Sync {
    /// Width of a token's vector.
    fn hidden(&self) -> usize;

    /// The forward pass over a packed batch of at least one sequence; asks `checkpoint` at least once in each layer.
    ///
    /// # Errors
    /// As [`crate::Encoder::encode`]; a sequence that is empty or has more tokens than the model has positions fails.
    fn forward(
        &self,
        sequences: &[Sequence<'_>],
        rows: Rows,
        checkpoint: Checkpoint<'_>,
    ) -> Result<TokenVectors, EncodeError>;
}

/// The same encoder in candle tensors on the CPU.
pub(crate) fn load_in_tensors(
    config: &BertConfig,
    weights: &Weights<'_>,
    _: Device,
) -> LoadResult<Box<dyn Transformer>> {
    Ok(Box::new(bert::Bert::load(config, weights)?))
}

/// How an encoder is made from its weights: [`load`] or [`load_in_tensors`].
pub(crate) type Load = fn(&BertConfig, &Weights<'_>, Device) -> LoadResult<Box<dyn Transformer>>;

/// Refuses a sequence that has no tokens, or more than `positions`.
fn check_lengths(sequences: &[Sequence<'_>], positions: usize) -> Result<(), EncodeError> {
    match sequences.iter().map(|sequence| sequence.ids.len()).find(|length| *length == 0 || *length > positions) {
        Some(length) => {
            Err(EncodeError::Failed(format!("a sequence has {length} tokens, but must have 1 to {positions}")))
        }
        None => Ok(()),
    }
}
