//! Computing inside the process: every model of it behind one bounded queue, with one set of threads.
//!
//! A request reserves room in the `queue`, is tokenised, becomes a `job`, is computed batch by batch by the `worker`
//! threads, and is answered in input order. Nothing here runs on the async threads for longer than a lock is held.

mod class;
pub mod config;
mod handle;
mod job;
mod local;
mod queue;
mod reranker;
mod speed;
mod station;
mod worker;

use std::fmt;
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use toller_core::context::Cancellation;
use toller_core::{Error, Principal, RequestContext, Result};

use crate::error;
use crate::model::Model;
pub(crate) use class::Class;
use config::EmbedderConfig;
pub(crate) use handle::{Computed, EngineHandle};
use job::Job;
pub use local::LocalEmbeddings;
use queue::{Full, Queue};
pub use reranker::LocalReranker;
use station::Station;
pub(crate) use station::{EncoderOnEngine, Prepared};
use worker::Worker;

/// The least and greatest advice on when to come back.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(60));
/// The speed that a first advice assumes, in tokens per second.
const ASSUMED_SPEED: f64 = 2_000.0;

/// What models are asked to embed to see whether they work.
const PROBE: &str = "alive";

const EMBEDDING: &str = "before all texts were embedded";

/// The threads that compute for every model of a process, and the queue before them: however many models are loaded,
/// workers × threads stay within the processors.
///
/// Models hold it; when the last one is gone, the threads stop (after at most one layer of the running batch) and what still
/// waits fails with `Unavailable`.
pub struct Engine {
    config: EmbedderConfig,
    queue: Arc<Queue>,
    tokenizing: Arc<Semaphore>,
    /// Every encoder that was put on the engine, as long as its model lives.
    stations: Mutex<Vec<Weak<Station>>>,
    workers: Vec<JoinHandle<()>>,
}

impl Engine {
    /// Starts the worker threads.
    ///
    /// # Errors
    /// [`error::Error::Threads`] when the system gives no threads.
    pub fn start(config: EmbedderConfig) -> error::Result<Arc<Self>> {
        let queue = Arc::new(Queue::new(config.queue_tokens()));
        let tokenizing = Arc::new(Semaphore::new(config.workers() * config.threads_per_worker()));
        let mut engine = Self { config, queue, tokenizing, stations: Mutex::default(), workers: Vec::new() };
        for number in 0..engine.config.workers() {
            // On an error the drop of `engine` stops the threads that were started.
            let worker = engine.start_worker(number)?;
            engine.workers.push(worker);
        }
        tracing::info!(
            workers = engine.config.workers(),
            threads_per_worker = engine.config.threads_per_worker(),
            queue_tokens = engine.config.queue_tokens(),
            batch_tokens = engine.config.batch_tokens(),
            "embedder started"
        );
        Ok(Arc::new(engine))
    }

    fn start_worker(&self, number: usize) -> error::Result<JoinHandle<()>> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(self.config.threads_per_worker())
            .thread_name(move |thread| format!("embed-{number}-{thread}"))
            .build()
            .map_err(|error| error::Error::Threads(error.to_string()))?;
        let worker = Worker { queue: Arc::clone(&self.queue), batch_tokens: self.config.batch_tokens(), pool };
        thread::Builder::new()
            .name(format!("embed-{number}"))
            .spawn(move || worker.run())
            .map_err(|error| error::Error::Threads(error.to_string()))
    }

    /// Puts an embedding model on the engine.
    pub fn embeddings(self: &Arc<Self>, model: Model) -> LocalEmbeddings {
        let handle = self.serve(EncoderOnEngine {
            encoder: Arc::clone(&model.encoder),
            model: model.fingerprint.model.clone(),
            max_tokens: model.fingerprint.max_tokens as usize,
            probe: model.tokenizer.encode("", PROBE).map(Into::into),
        });
        LocalEmbeddings::new(model, handle)
    }

    /// Puts any encoder on the engine.
    pub(crate) fn serve(self: &Arc<Self>, encoder: EncoderOnEngine) -> EngineHandle {
        let station = Arc::new(Station::new(encoder));
        let mut stations = self.stations.lock();
        stations.retain(|station| station.strong_count() > 0);
        stations.push(Arc::downgrade(&station));
        drop(stations);
        EngineHandle { engine: Arc::clone(self), station }
    }

    /// The configuration.
    pub fn config(&self) -> &EmbedderConfig {
        &self.config
    }

    /// Tokens that wait for a worker, or are reserved for requests that are being tokenised, over all models.
    pub fn queued_tokens(&self) -> usize {
        self.queue.waiting_tokens()
    }

    /// Does a real forward pass of each model come back within `patience`? The probes go before all that waits and need no
    /// room in the queue: a busy engine is alive.
    ///
    /// # Errors
    /// `Unavailable` when one does not, or the pass's own error.
    pub async fn check_alive(&self, patience: Duration) -> Result<()> {
        let stations: Vec<Arc<Station>> = self.stations.lock().iter().filter_map(Weak::upgrade).collect();
        for station in stations {
            self.probe(&station, patience).await?;
        }
        Ok(())
    }

    async fn probe(&self, station: &Arc<Station>, patience: Duration) -> Result<()> {
        let abandoned = Cancellation::default();
        let _abandon = abandoned.cancel_on_drop();
        let context = RequestContext::new(Principal::anonymous());
        let sequences = vec![station.probe.clone().map_err(Error::Internal)?];
        let (job, answer) = Job::new(Arc::clone(station), Class::Query, context, abandoned, sequences);
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

    fn exhausted(&self, station: &Station, full: &Full) -> Error {
        let speed = station.speed.get().map_or(ASSUMED_SPEED, |speed| speed * self.config.workers() as f64);
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

impl EngineHandle {
    /// As [`Engine::check_alive`], for this encoder alone.
    pub(crate) async fn check_alive(&self, patience: Duration) -> Result<()> {
        self.engine.probe(&self.station, patience).await
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Engine").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.queue.close();
        for worker in self.workers.drain(..) {
            if worker.join().is_err() {
                tracing::error!("an embedding thread had panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests;
