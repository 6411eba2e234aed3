//! Keeps blocking work off the threads of the async runtime, so much of it at a time and no more.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::sync::Semaphore;
use toller_core::RequestContext;
use toller_core::error::{Error, Result};

/// Pieces of work that run at a time for each shard: some of them wait for the disk or for a lock.
const PER_CORE: usize = 4;

/// Runs blocking work on the runtime's threads for it. What does not run yet waits, and holds no thread.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    permits: Arc<Semaphore>,
}

impl Pool {
    pub(super) fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        Self { permits: Arc::new(Semaphore::new(cores * PER_CORE)) }
    }

    /// Runs `work` when it is its turn, unless nobody waits for it any more.
    ///
    /// # Errors
    /// What `work` returns; `Cancelled` and `DeadlineExceeded` from the context; `Internal` when it panicked; `Unavailable`
    /// when the runtime is shutting down.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        context: &RequestContext,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shutting_down = || Error::Unavailable("the service is shutting down".to_owned());
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| shutting_down())?;
        context.check("before the store was asked")?;
        let outcome = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        outcome.await.unwrap_or_else(|fault| {
            Err(if fault.is_panic() {
                Error::Internal("an operation of the edge store panicked; the log has the place".to_owned())
            } else {
                shutting_down()
            })
        })
    }
}
