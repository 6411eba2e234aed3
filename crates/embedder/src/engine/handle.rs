//! What a model holds to have its encoder run: one call from texts to vectors.

use std::sync::Arc;

use toller_core::context::Cancellation;
use toller_core::{Error, RequestContext, Result};

use super::class::Class;
use super::job::Job;
use super::queue;
use super::station::{Prepared, Station};
use super::{EMBEDDING, Engine};

/// Bytes of a text per token, for a first estimate; English has about 4.5, Chinese 3.
const BYTES_PER_TOKEN: usize = 4;
/// Texts are tokenised in chunks of about this many bytes, between which other requests get their turn.
const TOKENIZE_CHUNK_BYTES: usize = 256 * 1024;

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
        bytes: impl Fn(&T) -> usize + Send,
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
        bytes: impl Fn(&T) -> usize + Send,
        prepare: impl Fn(&T) -> Result<Prepared, String> + Send + Sync + 'static,
    ) -> Result<Vec<Computed>> {
        let abandoned = Cancellation::default();
        let _abandon = abandoned.cancel_on_drop();
        let queue = &self.engine.queue;
        let estimate = inputs.iter().map(|input| self.estimate(bytes(input))).sum();
        let reservation = queue.reserve(class, estimate).map_err(|full| self.engine.exhausted(&self.station, &full))?;

        let prepare = Arc::new(prepare);
        let mut sequences = Vec::with_capacity(inputs.len());
        for chunk in chunks(inputs, &bytes) {
            let permit = Arc::clone(&self.engine.tokenizing).acquire_owned().await.map_err(|_| queue::stopping())?;
            let prepare = Arc::clone(&prepare);
            let (abandoned, context) = (abandoned.clone(), context.clone());
            let work = move || {
                let _permit = permit;
                let one = |input: &T| {
                    if abandoned.is_cancelled() {
                        return Err(Error::Cancelled);
                    }
                    context.check(EMBEDDING)?;
                    prepare(input).map_err(|error| Error::Internal(format!("the tokenizer failed: {error}")))
                };
                chunk.iter().map(one).collect::<Result<Vec<Prepared>>>()
            };
            let done = tokio::task::spawn_blocking(work).await;
            sequences.extend(done.map_err(|error| Error::Internal(format!("the tokenizer failed: {error}")))??);
        }
        let counts: Vec<(usize, bool)> = sequences.iter().map(|one| (one.ids.len(), one.truncated)).collect();

        let station = Arc::clone(&self.station);
        let (job, answer) = Job::new(station, class, context.clone(), abandoned.clone(), sequences);
        let _ticket = reservation.fill(Arc::new(job)).map_err(|full| self.engine.exhausted(&self.station, &full))?;
        let vectors = answer.await.map_err(|_| queue::stopping())??;
        let computed = vectors.into_iter().zip(counts);
        Ok(computed.map(|(vector, (tokens, truncated))| Computed { vector, tokens, truncated }).collect())
    }

    /// About how many tokens an input of `bytes` bytes has; corrected once it is tokenised.
    fn estimate(&self, bytes: usize) -> usize {
        (bytes / BYTES_PER_TOKEN + 2).min(self.station.max_tokens)
    }
}

/// `inputs` in chunks of at least one input and about [`TOKENIZE_CHUNK_BYTES`].
fn chunks<T>(inputs: Vec<T>, bytes_of: &impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let mut chunks = Vec::new();
    let mut chunk = Vec::new();
    let mut bytes = 0;
    for input in inputs {
        bytes += bytes_of(&input);
        chunk.push(input);
        if bytes >= TOKENIZE_CHUNK_BYTES {
            chunks.push(std::mem::take(&mut chunk));
            bytes = 0;
        }
    }
    if !chunk.is_empty() {
        chunks.push(chunk);
    }
    chunks
}
