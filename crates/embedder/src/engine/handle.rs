//! What a model holds to have its encoder run: one call from texts to vectors.

use std::sync::Arc;
use std::time::Duration;

use toller_core::context::Cancellation;
use toller_core::{Error, RequestContext, Result};

use super::class::Class;
use super::errand::{Errand, Prepared};
use super::job::Job;
use super::queue;
use super::station::Station;
use super::{EMBEDDING, Engine};

/// Bytes of a text per token, for a first estimate; English has about 4.5, Chinese 3.
const BYTES_PER_TOKEN: usize = 4;

/// What came of one input.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Computed {
    /// The encoder's vector.
    pub(crate) vector: Vec<f32>,
    /// Tokens that the model saw, special tokens included.
    pub(crate) tokens: usize,
    /// Was the input cut to the model's longest one?
    pub(crate) truncated: bool,
}

/// An encoder's place on an engine, which it keeps alive. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct EngineHandle {
    pub(super) engine: Arc<Engine>,
    pub(super) station: Arc<Station>,
}

impl EngineHandle {
    /// The engine.
    pub(crate) fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Prepares each of `inputs` on the engine's threads, and computes its vector; the answer is aligned with the inputs.
    /// `bytes` says how long an input is, for a first estimate. An input that cannot be prepared fails the call.
    ///
    /// # Errors
    /// `ResourceExhausted` when the queue is full, `DeadlineExceeded` and `Cancelled` from the context, `Unavailable` while
    /// the engine stops, `Internal` when the encoder or `prepare` fails.
    pub(crate) async fn compute<T: Send + 'static>(
        &self,
        context: &RequestContext,
        class: Class,
        inputs: Vec<T>,
        bytes: impl Fn(&T) -> usize + Send + 'static,
        prepare: impl Fn(&T) -> Result<Prepared, String> + Send + Sync + 'static,
    ) -> Result<Vec<Computed>> {
        context.check(EMBEDDING)?;
        if inputs.is_empty() {
            return Ok(Vec::new());
        }
        let work = self.compute_all(context, class, inputs, bytes, prepare);
        match context.deadline() {
            // The future is dropped at the deadline, which frees its room in the queue.
            Some(deadline) => {
                tokio::time::timeout_at(deadline.into(), work).await.unwrap_or(Err(Error::DeadlineExceeded(EMBEDDING)))
            }
            None => work.await,
        }
    }

    async fn compute_all<T: Send + 'static>(
        &self,
        context: &RequestContext,
        class: Class,
        inputs: Vec<T>,
        bytes: impl Fn(&T) -> usize + Send + 'static,
        prepare: impl Fn(&T) -> Result<Prepared, String> + Send + Sync + 'static,
    ) -> Result<Vec<Computed>> {
        let abandoned = Cancellation::default();
        let _abandon = abandoned.cancel_on_drop();
        let tokens = inputs.iter().map(|input| self.estimate(bytes(input))).sum();
        let (job, answer) = Job::new(Arc::clone(&self.station), class, tokens, context.clone(), abandoned.clone());
        let _ticket = self.engine.queue.submit(Errand::new(job, tokens, inputs, bytes, prepare))?;
        answer.await.map_err(|_| queue::stopping())?
    }

    /// About how many tokens an input of `bytes` bytes has; corrected once it is tokenised.
    fn estimate(&self, bytes: usize) -> usize {
        (bytes / BYTES_PER_TOKEN + 2).min(self.station.max_tokens)
    }

    /// Does a real forward pass of this encoder come back within `patience`, and do all workers give signs of life?
    ///
    /// # Errors
    /// As [`Engine::check_alive`].
    pub(crate) async fn check_alive(&self, patience: Duration) -> Result<()> {
        self.engine.probe(&self.station, patience).await?;
        self.engine.check_workers(patience)
    }
}
