//! The transformers: packed for the processor (`packed`), and in candle tensors for accelerators.

mod tensors;

use crate::device::Device;
use crate::encoder::{Checkpoint, EncodeError, Sequence};
use crate::error::Result as LoadResult;
use crate::folder::bert_config::BertConfig;
use crate::packed::PackedTransformer;
use crate::precision::Precision;
use crate::weights::Weights;

/// Makes a transformer from its weights.
pub(crate) type Load = fn(&BertConfig, &Weights<'_>, Device, Precision) -> LoadResult<Box<dyn Transformer>>;

/// The encoder that `config` describes, in the form that is fastest on `device`.
///
/// # Errors
/// Of the weights; [`crate::Error::Invalid`] for a device or a precision that cannot be had.
pub(crate) fn load(
    config: &BertConfig,
    weights: &Weights<'_>,
    device: Device,
    precision: Precision,
) -> LoadResult<Box<dyn Transformer>> {
    Ok(match device {
        Device::Cpu => Box::new(PackedTransformer::load(config, weights, precision)?),
        Device::Cuda | Device::Metal => return load_in_tensors(config, weights, device, precision),
    })
}

/// The encoder that `config` describes, in candle tensors: what the packed one is compared with.
///
/// # Errors
/// As [`load`].
pub(crate) fn load_in_tensors(
    config: &BertConfig,
    weights: &Weights<'_>,
    device: Device,
    precision: Precision,
) -> LoadResult<Box<dyn Transformer>> {
    precision.check(device)?;
    Ok(Box::new(tensors::TensorBert::load(config, weights, &device.open()?)?))
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

/// Refuses a sequence that has no tokens, or more than `positions`.
fn check_lengths(sequences: &[Sequence<'_>], positions: usize) -> Result<(), EncodeError> {
    match sequences.iter().map(|sequence| sequence.ids.len()).find(|length| *length == 0 || *length > positions) {
        Some(length) => {
            Err(EncodeError::Failed(format!("a sequence has {length} tokens, but must have 1 to {positions}")))
        }
        None => Ok(()),
    }
}
