//! Embeddings inside the process: a model behind a bounded queue with threads of its own.
//!
//! A request reserves room in the `queue`, is tokenised on tokio's blocking threads, becomes a `job`, is computed batch
//! by batch by the `worker` threads, and is answered in input order. Nothing here runs on the async threads for longer
//! than a lock is held.

pub mod config;
mod job;
mod queue;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Semaphore;
use toller_core::context::Cancellation;
use toller_core::embeddings::Embedding;
use toller_core::{EmbeddingRole, Embeddings, Error, Fingerprint, Principal, RequestContext, Result};
use toller_telemetry::metrics::BatchMetrics;

use crate::error;
use crate::model::Model;
use crate::tokenizer::{Tokenized, Tokenizer};
use config::EmbedderConfig;
use job::Job;
use queue::{Full, Queue};
use worker::{Speed, Worker};

/// Bytes of a text per token, for a first estimate; English has about 4.5, Chinese 3.
const BYTES_PER_TOKEN: usize = 4;
/// Texts are tokenised in chunks of about this many bytes, between which other requests get their turn.
const TOKENIZE_CHUNK_BYTES: usize = 256 * 1024;
/// The least and greatest advice on when to come back.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));
/// The speed that a first advice assumes, in tokens per second.
const ASSUMED_SPEED: f64 = 2_000.0;
/// Words of the warm-up text: enough to touch every weight and start every thread, little enough to take a moment.
const WARM_UP_WORDS: usize = 64;

const EMBEDDING: &str = "before all texts were embedded";

/// A model that embeds inside this process.
///
/// Needs a tokio runtime with time enabled. Dropping it stops the threads (after at most one layer of the running batch) and
/// fails what still waits with `Unavailable`.
pub struct LocalEmbeddings {
    model: Model,
    config: EmbedderConfig,
    queue: Arc<Queue>,
    speed: Arc<Speed>,
    metrics: Arc<BatchMetrics>,
    tokenizing: Arc<Semaphore>,
    workers: Vec<JoinHandle<()>>,
}

impl LocalEmbeddings {
    /// Starts the worker threads for `model`.
    ///
    /// # Errors
    /// [`error::Error::Threads`] when the system gives no threads.
    pub fn start(model: Model, config: EmbedderConfig) -> error::Result<Self> {
        let metrics = Arc::new(BatchMetrics::new(&model.fingerprint.model));
        let queue = Arc::new(Queue::new(config.queue_tokens(), Arc::clone(&metrics)));
        let speed = Arc::new(Speed::default());
        let tokenizing = Arc::new(Semaphore::new(config.workers() * config.threads_per_worker()));
        let mut embeddings = Self { model, config, queue, speed, metrics, tokenizing, workers: Vec::new() };
        for number in 0..embeddings.config.workers() {
            // On an error the drop of `embeddings` stops the threads that were started.
            let worker = embeddings.start_worker(number)?;
            embeddings.workers.push(worker);
        }
        tracing::info!(
            workers = embeddings.config.workers(),
            threads_per_worker = embeddings.config.threads_per_worker(),
            queue_tokens = embeddings.config.queue_tokens(),
            batch_tokens = embeddings.config.batch_tokens(),
            "embedder started"
        );
        Ok(embeddings)
    }

    fn start_worker(&self, number: usize) -> error::Result<JoinHandle<()>> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(self.config.threads_per_worker())
            .thread_name(move |thread| format!("embed-{number}-{thread}"))
            .build()
            .map_err(|error| error::Error::Threads(error.to_string()))?;
        let worker = Worker {
            queue: Arc::clone(&self.queue),
            encoder: Arc::clone(&self.model.encoder),
            model: self.model.fingerprint.model.clone(),
            batch_tokens: self.config.batch_tokens(),
            pool,
            speed: Arc::clone(&self.speed),
            metrics: Arc::clone(&self.metrics),
        };
        thread::Builder::new()
            .name(format!("embed-{number}"))
            .spawn(move || worker.run())
            .map_err(|error| error::Error::Threads(error.to_string()))
    }

    /// The configuration.
    pub fn config(&self) -> &EmbedderConfig {
        &self.config
    }

    /// Tokens that wait for a worker.
    pub fn waiting_tokens(&self) -> usize {
        self.queue.waiting_tokens()
    }

    /// One forward pass, so that the first request finds threads started and weights in memory.
    ///
    /// # Errors
    /// As [`Embeddings::embed`]; an error means that the model does not work.
    pub async fn warm_up(&self) -> Result<()> {
        let context = RequestContext::new(Principal::anonymous());
        self.embed(&context, EmbeddingRole::Document, vec!["warm up ".repeat(WARM_UP_WORDS / 2)]).await?;
        Ok(())
    }

    /// Does a real forward pass come back within `patience`? The probe goes before all that waits and needs no room in the
    /// queue: a busy embedder is alive.
    ///
    /// # Errors
    /// `Unavailable` when it does not, or the pass's own error.
    pub async fn check_alive(&self, patience: Duration) -> Result<()> {
        let probe = self.model.tokenizer.encode("", "alive").map_err(Error::Internal)?;
        let abandoned = Cancellation::default();
        let _abandon = abandoned.cancel_on_drop();
        let context = RequestContext::new(Principal::anonymous());
        let (job, answer) = Job::new(EmbeddingRole::Query, context, abandoned, vec![probe.ids]);
        let _ticket = self.queue.push(Arc::new(job), true);
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(vectors)) => vectors.map(|_| ()),
            Ok(Err(_)) => Err(queue::stopping()),
            Err(_) => {
                let seconds = patience.as_secs_f64();
                Err(Error::Unavailable(format!("no forward pass came back within {seconds:.1} s")))
            }
        }
    }

    async fn embed_all(
        &self,
        context: &RequestContext,
        role: EmbeddingRole,
        texts: Vec<String>,
    ) -> Result<Vec<Embedding>> {
        let instruction: Arc<str> = match role {
            EmbeddingRole::Query => self.model.fingerprint.query_instruction.as_str().into(),
            EmbeddingRole::Document => self.model.fingerprint.document_instruction.as_str().into(),
        };
        let abandoned = Cancellation::default();
        let _abandon = abandoned.cancel_on_drop();

        let estimate = texts.iter().map(|text| self.estimate(instruction.len() + text.len())).sum();
        let reservation = self.queue.reserve(role, estimate).map_err(|full| self.exhausted(&full))?;
        let tokenized = self.tokenize(context, &abandoned, &instruction, texts).await?;
        let counts: Vec<(usize, bool)> = tokenized.iter().map(|text| (text.ids.len(), text.truncated)).collect();
        let sequences = tokenized.into_iter().map(|text| text.ids).collect();

        let (job, answer) = Job::new(role, context.clone(), abandoned.clone(), sequences);
        let _ticket = reservation.fill(Arc::new(job)).map_err(|full| self.exhausted(&full))?;
        let vectors = answer.await.map_err(|_| queue::stopping())??;
        let embeddings = vectors.into_iter().zip(counts).map(|(vector, (tokens, truncated))| Embedding {
            vector,
            token_count: u32::try_from(tokens).ok(),
            truncated,
        });
        Ok(embeddings.collect())
    }

    async fn tokenize(
        &self,
        context: &RequestContext,
        abandoned: &Cancellation,
        instruction: &Arc<str>,
        texts: Vec<String>,
    ) -> Result<Vec<Tokenized>> {
        let mut tokenized = Vec::with_capacity(texts.len());
        for chunk in chunks(texts) {
            context.check(EMBEDDING)?;
            let permit = Arc::clone(&self.tokenizing).acquire_owned().await.map_err(|_| queue::stopping())?;
            let tokenizer = Arc::clone(&self.model.tokenizer);
            let instruction = Arc::clone(instruction);
            let (abandoned, context) = (abandoned.clone(), context.clone());
            let work = move || {
                let _permit = permit;
                tokenize_chunk(&tokenizer, &instruction, &chunk, &|| {
                    if abandoned.is_cancelled() { Err(Error::Cancelled) } else { context.check(EMBEDDING) }
                })
            };
            let done = tokio::task::spawn_blocking(work).await;
            tokenized.extend(done.map_err(|error| Error::Internal(format!("the tokenizer failed: {error}")))??);
        }
        Ok(tokenized)
    }

    /// About how many tokens a text of `bytes` bytes has; corrected once it is tokenised.
    fn estimate(&self, bytes: usize) -> usize {
        (bytes / BYTES_PER_TOKEN + 2).min(self.model.fingerprint.max_tokens.max(1) as usize)
    }

    fn exhausted(&self, full: &Full) -> Error {
        let measured = self.speed.get() * self.config.workers() as f64;
        let speed = if measured > 0.0 { measured } else { ASSUMED_SPEED };
        let wait = Duration::from_secs_f64((full.waiting as f64 / speed).min(RETRY_AFTER.1.as_secs_f64()));
        Error::ResourceExhausted {
            what: format!(
                "the embedding queue is full: {} of {} tokens wait",
                full.waiting,
                self.config.queue_tokens()
            ),
            retry_after: Some(wait.max(RETRY_AFTER.0)),
        }
    }
}

#[async_trait]
impl Embeddings for LocalEmbeddings {
    fn fingerprint(&self) -> &Fingerprint {
        &self.model.fingerprint
    }

    async fn embed(&self, context: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        context.check(EMBEDDING)?;
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let work = self.embed_all(context, role, texts);
        match context.deadline() {
            // The future is dropped at the deadline, which frees its room in the queue.
            Some(deadline) => {
                tokio::time::timeout_at(deadline.into(), work).await.unwrap_or(Err(Error::DeadlineExceeded(EMBEDDING)))
            }
            None => work.await,
        }
    }
}

impl fmt::Debug for LocalEmbeddings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LocalEmbeddings")
            .field("model", &self.model)
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Drop for LocalEmbeddings {
    fn drop(&mut self) {
        self.queue.close();
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("an embedding thread had panicked");
            }
        }
    }
}

/// `texts` in chunks of at least one text and about [`TOKENIZE_CHUNK_BYTES`].
fn chunks(texts: Vec<String>) -> Vec<Vec<String>> {
    let mut chunks = Vec::new();
    let mut chunk = Vec::new();
    let mut bytes = 0;
    for text in texts {
        bytes += text.len();
        chunk.push(text);
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

fn tokenize_chunk(
    tokenizer: &Tokenizer,
    instruction: &str,
    texts: &[String],
    check: &dyn Fn() -> Result<()>,
) -> Result<Vec<Tokenized>> {
    let mut tokenized = Vec::with_capacity(texts.len());
    for text in texts {
        check()?;
        let one = tokenizer.encode(instruction, text);
        tokenized.push(one.map_err(|error| Error::Internal(format!("the tokenizer failed: {error}")))?);
    }
    Ok(tokenized)
}

#[cfg(test)]
mod tests;
