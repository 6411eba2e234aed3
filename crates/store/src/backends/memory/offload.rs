//! Keeps long work off the threads of the async runtime.

use tokio::runtime::Handle;
use toller_core::error::{Error, Result};

/// Steps of work (an `f32` moved or multiplied) that are done where the caller runs: some 50 µs, about what handing work over
/// costs in latency.
const INLINE_STEPS: usize = 1 << 18;

/// What evaluating a filter on one document costs, in the same steps.
pub(super) const STEPS_PER_FILTERED_ROW: usize = 256;

/// What taking a text apart into terms costs for each of its bytes, in the same steps.
pub(super) const STEPS_PER_TEXT_BYTE: usize = 192;

/// What one entry of a posting list costs a search, in the same steps.
pub(super) const STEPS_PER_POSTING: usize = 192;

/// What taking a row of some hundred terms out of the keyword index costs, in the same steps.
pub(super) const STEPS_PER_UNINDEXED_ROW: usize = 1 << 20;

/// Runs `work` at once when it is short (or there is no runtime), else on a thread for blocking work.
///
/// # Errors
/// What `work` returns; `Internal` when it panicked; `Unavailable` when the runtime is shutting down.
pub(super) async fn run<T: Send + 'static>(
    steps: usize,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    if steps <= INLINE_STEPS {
        return work();
    }
    match Handle::try_current() {
        Ok(runtime) => runtime.spawn_blocking(work).await.unwrap_or_else(|fault| {
            Err(if fault.is_panic() {
                Error::Internal("an operation of the memory store panicked; the log has the place".to_owned())
            } else {
                Error::Unavailable("the service is shutting down".to_owned())
            })
        }),
        Err(_) => work(),
    }
}
