//! Computing inside the process: every model of it behind one bounded queue, with one set of threads.
//!
//! The way of a request: a model's `handle` asks the `admission` for room, and puts an `errand` into the `lane` of
//! its class. A `worker` tokenises it in small steps; each of its sequences then is a `flight`, of its own or one that
//! is there already. Workers take flights batch by batch through their encoder, queries before documents and also in the
//! middle of a pass of documents, as the `share` allows. What lands is delivered to the `job`s that want it, each of
//! which answers in the order of its inputs. The `queue` holds the one lock. Nothing here runs on the async threads for
//! longer than a lock is held.

mod admission;
mod batch;
mod class;
pub mod config;
mod errand;
mod flight;
mod handle;
mod job;
mod lane;
mod local;
mod queue;
mod reranker;
mod share;
mod speed;
mod station;
mod vitals;
mod worker;

use std::fmt;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use toller_core::context::Cancellation;
use toller_core::{Error, Principal, RequestContext, Result};

use crate::error;
use crate::model::Model;
pub(crate) use class::Class;
use config::EmbedderConfig;
pub(crate) use errand::Prepared;
pub(crate) use handle::EngineHandle;
use job::Job;
pub use local::LocalEmbeddings;
use queue::Queue;
pub use reranker::LocalReranker;
pub(crate) use station::EncoderOnEngine;
use station::Station;
use vitals::Vitals;
use worker::Worker;

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
    workers: Vec<RunningWorker>,
}

struct RunningWorker {
    thread: JoinHandle<()>,
    vitals: Arc<Vitals>,
}

impl Engine {
    /// Starts the worker threads.
    ///
    /// # Errors
    /// [`error::Error::Threads`] when the system gives no threads.
    pub fn start(config: EmbedderConfig) -> error::Result<Arc<Self>> {
        let queue = Arc::new(Queue::new(config.queue_tokens(), config.workers(), config.batch_tokens()));
        let mut engine = Self { config, queue, workers: Vec::new() };
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

    fn start_worker(&self, number: usize) -> error::Result<RunningWorker> {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(self.config.threads_per_worker())
            .thread_name(move |thread| format!("embed-{number}-{thread}"))
            .build()
            .map_err(|error| error::Error::Threads(error.to_string()))?;
        let vitals = Arc::new(Vitals::new());
        let worker = Worker { queue: Arc::clone(&self.queue), pool, vitals: Arc::clone(&vitals) };
        let thread = thread::Builder::new().name(format!("embed-{number}")).spawn(move || worker.run());
        let thread = thread.map_err(|error| error::Error::Threads(error.to_string()))?;
        Ok(RunningWorker { thread, vitals })
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
        self.queue.register(&station);
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

    /// Does a real forward pass of each model come back within `patience`, and does every worker give signs of life? The
    /// probes go before all that waits and need no room in the queue: a busy engine is alive.
    ///
    /// # Errors
    /// `Unavailable` when a pass does not come back, or a worker has been silent for longer than `patience`; or a pass's
    /// own error.
    pub async fn check_alive(&self, patience: Duration) -> Result<()> {
        for station in self.queue.stations() {
            self.probe(&station, patience).await?;
        }
        self.check_workers(patience)
    }

    async fn probe(&self, station: &Arc<Station>, patience: Duration) -> Result<()> {
        let probe = station.probe.clone().map_err(Error::Internal)?;
        let abandoned = Cancellation::default();
        let _abandon = abandoned.cancel_on_drop();
        let context = RequestContext::new(Principal::anonymous());
        let (job, answer) = Job::new(Arc::clone(station), Class::Query, probe.ids.len(), context, abandoned.clone());
        let _ticket = self.queue.submit_first(job, probe);
        match tokio::time::timeout(patience, answer).await {
            Ok(Ok(computed)) => computed.map(|_| ()),
            Ok(Err(_)) => Err(queue::stopping()),
            Err(_) => {
                let seconds = patience.as_secs_f64();
                Err(Error::Unavailable(format!("no forward pass came back within {seconds:.1} s")))
            }
        }
    }

    /// A probe finds a worker that works; this finds the one that does not.
    fn check_workers(&self, patience: Duration) -> Result<()> {
        for (number, worker) in self.workers.iter().enumerate() {
            if worker.thread.is_finished() {
                return Err(Error::Unavailable(format!("embedding worker {number} has ended: restart the process")));
            }
            let silence = worker.vitals.silence();
            if silence > patience {
                let seconds = silence.as_secs_f64();
                return Err(Error::Unavailable(format!(
                    "embedding worker {number} has given no sign of life for {seconds:.1} s"
                )));
            }
        }
        Ok(())
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
            if worker.thread.join().is_err() {
                tracing::error!("an embedding thread had panicked");
            }
        }
    }
}

#[cfg(test)]
mod tests;
