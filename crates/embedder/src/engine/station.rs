//! An encoder on the engine, with what the engine has to know about it.

use std::fmt;
use std::sync::Arc;

use toller_telemetry::metrics::BatchMetrics;

use super::speed::Speed;
use crate::encoder::{Encoder, Sequence};
use crate::tokenizer::Tokenized;

/// A sequence that is ready for an encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// Token ids, special tokens and instruction included.
    pub(crate) ids: Vec<u32>,
    /// Where the second segment begins; `ids.len()` where there is none.
    pub(crate) second: usize,
    /// Was the text cut to the model's longest input?
    pub(crate) truncated: bool,
}

impl Prepared {
    /// The sequence, borrowed.
    pub(super) fn sequence(&self) -> Sequence<'_> {
        Sequence { ids: &self.ids, second: self.second }
    }
}

impl From<Tokenized> for Prepared {
    /// A sequence of one segment.
    fn from(text: Tokenized) -> Self {
        Self { second: text.ids.len(), ids: text.ids, truncated: text.truncated }
    }
}

/// What the engine runs for a model.
pub(crate) struct EncoderOnEngine {
    pub(crate) encoder: Arc<dyn Encoder>,
    /// The model's name, for spans and metrics.
    pub(crate) model: String,
    /// The longest sequence, for estimates.
    pub(crate) max_tokens: usize,
    /// A short sequence that the model can do, to see whether it works; or why there is none.
    pub(crate) probe: Result<Prepared, String>,
}

/// An encoder on the engine. Requests of different stations never share a pass.
pub(super) struct Station {
    pub(super) encoder: Arc<dyn Encoder>,
    pub(super) model: String,
    pub(super) max_tokens: usize,
    pub(super) probe: Result<Prepared, String>,
    pub(super) speed: Speed,
    pub(super) metrics: BatchMetrics,
}

impl Station {
    pub(super) fn new(on: EncoderOnEngine) -> Self {
        let metrics = BatchMetrics::new(&on.model);
        Self {
            encoder: on.encoder,
            model: on.model,
            max_tokens: on.max_tokens.max(1),
            probe: on.probe,
            speed: Speed::default(),
            metrics,
        }
    }
}

impl fmt::Debug for Station {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Station").field(&self.model).finish()
    }
}
