//! The seam between the queue and the mathematics: token ids in, vectors out.

use toller_core::fingerprint::Pooling;

use crate::models::bert::Bert;
use crate::pooling;

/// Why a batch has no vectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The caller asked to stop.
    #[error("stopped")]
    Stopped,
    /// The computation failed.
    #[error("{0}")]
    Failed(String),
}

/// Turns sequences of token ids into vectors; called from several threads at once.
///
/// The vector of a sequence must not depend (beyond rounding, 1e-5) on what else is in the batch.
pub trait Encoder: Send + Sync {
    /// Length of a vector.
    fn dimension(&self) -> usize;

    /// One vector per sequence, in their order. Runs on the rayon pool of the caller.
    ///
    /// # Errors
    /// [`EncodeError::Stopped`] soon after `stop` begins to say true, [`EncodeError::Failed`] otherwise.
    fn encode(&self, sequences: &[&[u32]], stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Vec<f32>>, EncodeError>;
}

/// BERT, pooled.
pub(crate) struct PooledBert {
    pub(crate) bert: Bert,
    pub(crate) pooling: Pooling,
    pub(crate) normalize: bool,
}

impl Encoder for PooledBert {
    fn dimension(&self) -> usize {
        self.bert.hidden()
    }

    fn encode(&self, sequences: &[&[u32]], stop: &(dyn Fn() -> bool + Sync)) -> Result<Vec<Vec<f32>>, EncodeError> {
        if sequences.is_empty() {
            return Ok(Vec::new());
        }
        let failed = |error: candle_core::Error| EncodeError::Failed(error.to_string());
        match self.bert.forward(sequences, stop).map_err(failed)? {
            Some(tokens) => pooling::pool(&tokens, self.pooling, self.normalize).map_err(failed),
            None => Err(EncodeError::Stopped),
        }
    }
}
