//! Keeps blocking work off the threads of the async runtime, so much of it at a time and no more.

use std::num::NonZeroUsize;
use std::sync::Arc;

use tokio::sync::Semaphore;
use toller_core::RequestContext;
use toller_core::error::{Error, Result};

/// Pieces of work that run at a time for each core: some of them wait for the disk or for a lock.
const PER_CORE: usize = 6;

/// As many of them may be of one collection, so that others have the rest while all that read it wait for its writer.
const PER_CORE_AND_COLLECTION: usize = 4;

/// Most pieces of work at a time where none of them is large, or where more would be in each other's way.
const FEW: usize = 32;

/// Runs blocking work on the runtime's threads for it. What does not run yet waits, and holds no thread.
///
/// Work that waits for other work of the same pool could fill it, so none may: what one does at a time is waited for before.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    permits: Arc<Semaphore>,
}

impl Pool {
    /// For reads.
    pub(super) fn new() -> Self {
        Self::with(cores() * PER_CORE)
    }

    /// For what is short, or rare.
    pub(super) fn small() -> Self {
        Self::with((cores() * PER_CORE).min(FEW))
    }

    fn with(permits: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(permits)) }
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

    /// As [`Self::run`], for work on one collection: not more of it than is its share.
    ///
    /// # Errors
    /// As for [`Self::run`].
    pub(super) async fn run_within<T: Send + 'static>(
        &self,
        share: &Share,
        context: &RequestContext,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let shutting_down = |_| Error::Unavailable("the service is shutting down".to_owned());
        let place = Arc::clone(&share.0).acquire_owned().await.map_err(shutting_down)?;
        let work = move || {
            let _place = place;
            work()
        };
        self.run(context, work).await
    }
}

/// How much of a pool one collection may have.
#[derive(Debug)]
pub(super) struct Share(Arc<Semaphore>);

impl Share {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(cores() * PER_CORE_AND_COLLECTION)))
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZeroUsize::get)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use toller_core::Principal;

    use super::*;

    #[tokio::test]
    async fn work_on_one_collection_leaves_room_for_that_on_another() {
        let (pool, busy, other) = (Pool::new(), Arc::new(Share::new()), Share::new());
        let context = RequestContext::new(Principal::anonymous());
        let (release, released) = channel::<()>();
        let released = Arc::new(parking_lot::Mutex::new(released));
        let blocked: Vec<_> = (0..cores() * PER_CORE * 2)
            .map(|_| {
                let (pool, busy, context, released) =
                    (pool.clone(), Arc::clone(&busy), context.clone(), Arc::clone(&released));
                let wait = move || Ok(released.lock().recv().is_ok());
                tokio::spawn(async move { pool.run_within(&busy, &context, wait).await })
            })
            .collect();
        while busy.0.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        let quick = pool.run_within(&other, &context, || Ok(1));
        assert_eq!(tokio::time::timeout(Duration::from_secs(20), quick).await.unwrap(), Ok(1));
        drop(release);
        for work in blocked {
            assert_eq!(work.await.unwrap(), Ok(false));
        }
    }
}
