//! The seam between the queue and the mathematics: token ids in, vectors out.

use std::ops::ControlFlow;

use toller_core::fingerprint::Pooling;

use crate::models::{Rows, Transformer};
use crate::pooling;

/// The token ids of one text, or of a pair of texts, special tokens included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sequence<'a> {
    /// The ids.
    pub ids: &'a [u32],
    /// Where the second segment begins (token type 1, for models that know types); `ids.len()` where there is none.
    pub second: usize,
}

impl<'a> Sequence<'a> {
    /// A sequence of one segment.
    pub fn single(ids: &'a [u32]) -> Self {
        Self { ids, second: ids.len() }
    }
}

/// Asked again and again during a pass, on the thread that called [`Encoder::encode`] and outside of parallel work: shall
/// it go on? The answer may take its time, since the asker may run another pass first.
pub type Checkpoint<'a> = &'a (dyn Fn() -> ControlFlow<()> + Sync);

/// Why a batch has no vectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The checkpoint said so.
    #[error("stopped")]
    Stopped,
    /// The computation failed.
    #[error("{0}")]
    Failed(String),
}

/// Turns sequences of token ids into vectors; called from several threads at once.
///
/// The vector of a sequence must not depend (beyond rounding, 1e-5) on what else is in the batch. A cross-encoder is an
/// encoder of dimension 1: its vector is the logit.
pub trait Encoder: Send + Sync {
    /// Length of a vector.
    fn dimension(&self) -> usize;

    /// One vector per sequence, in their order. Runs on the rayon pool of the caller.
    ///
    /// # Errors
    /// [`EncodeError::Stopped`] soon after `checkpoint` said to break, [`EncodeError::Failed`] otherwise.
    fn encode(&self, sequences: &[Sequence<'_>], checkpoint: Checkpoint<'_>) -> Result<Vec<Vec<f32>>, EncodeError>;
}

/// A transformer, pooled.
pub(crate) struct PooledEncoder {
    pub(crate) transformer: Box<dyn Transformer>,
    pub(crate) pooling: Pooling,
    pub(crate) normalize: bool,
}

impl Encoder for PooledEncoder {
    fn dimension(&self) -> usize {
        self.transformer.hidden()
    }

    fn encode(&self, sequences: &[Sequence<'_>], checkpoint: Checkpoint<'_>) -> Result<Vec<Vec<f32>>, EncodeError> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let rows = match self.pooling {
            Pooling::Cls => Rows::First,
            Pooling::Mean => Rows::All,
        };
        let tokens = self.transformer.forward(sequences, rows, checkpoint)?;
        pooling::pool(&tokens, self.pooling, self.normalize).map_err(EncodeError::Failed)
    }
}
