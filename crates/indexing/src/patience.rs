//! Waiting for a model that is busy or out of reach.

use std::time::{Duration, Instant};

use toller_core::RequestContext;
use toller_core::error::{Error, Result};
use tracing::warn;

/// Pause before a call is tried again where nobody said how long to wait; twice as long each time.
const FIRST_WAIT: Duration = Duration::from_millis(100);
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// How long a model may be out of reach before the run ends.
const OUT_OF_REACH: Duration = Duration::from_secs(120);

/// How long it may have no room: other work goes by, and a quota that is used up does not.
const BUSY: Duration = Duration::from_secs(600);

/// Asks a model, and asks again while it has no room, or cannot be reached for a while.
///
/// # Errors
/// Every other fault of the model; the caller's deadline.
pub(crate) async fn patiently<T, F>(context: &RequestContext, mut ask: impl FnMut() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut wait = FIRST_WAIT;
    let mut waits_since = None;
    loop {
        let fault = match ask().await {
            Ok(answer) => return Ok(answer),
            Err(fault) => fault,
        };
        let waited = waits_since.get_or_insert_with(Instant::now).elapsed();
        let told = match &fault {
            Error::ResourceExhausted { retry_after, .. } if waited < BUSY => retry_after.unwrap_or(wait),
            Error::Unavailable(_) if waited < OUT_OF_REACH => wait,
            _ => return Err(fault),
        };
        let pause = told.max(wait).min(LONGEST_WAIT);
        context.check("while an index run waited for its model")?;
        warn!(%fault, ?pause, "an index run waits for its model");
        tokio::time::sleep(pause).await;
        wait = (wait * 2).min(LONGEST_WAIT);
    }
}

#[cfg(test)]
mod tests {
    use toller_core::Principal;

    use super::*;

    async fn asked(faults: Vec<Error>) -> (usize, Result<()>) {
        let (mut times, mut faults) = (0, faults.into_iter());
        let context = RequestContext::new(Principal::anonymous());
        let answer = patiently(&context, || {
            times += 1;
            let answer = faults.next().map_or(Ok(()), Err);
            async move { answer }
        });
        let answer = answer.await;
        (times, answer)
    }

    #[tokio::test]
    async fn what_passes_is_waited_for_and_what_does_not_is_told() {
        let busy = Error::ResourceExhausted { what: "the queue".to_owned(), retry_after: None };
        let (times, answer) = asked(vec![busy, Error::Unavailable("away".to_owned())]).await;
        assert!(times == 3 && answer.is_ok(), "{times} {answer:?}");
        let (times, answer) = asked(vec![Error::invalid("texts[0]", "too long")]).await;
        assert!(times == 1 && matches!(answer, Err(Error::InvalidArgument(_))), "{times} {answer:?}");
    }
}
