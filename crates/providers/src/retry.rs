//! Calls to one service, sent again where that can help.

use std::time::{Duration, Instant};

use toller_core::{Error, Principal, RequestContext, Result};

use crate::budget::RetryBudget;

/// How often a call is sent at most.
const MAX_ATTEMPTS: u32 = 4;

/// Pause before the second try; doubles with each one.
const FIRST_BACKOFF: Duration = Duration::from_millis(200);

/// Time for the first question to a service, however little its start may take.
const FIRST_QUESTION: Duration = Duration::from_secs(10);

/// The context of what is asked at a start that gives up at `give_up`.
pub(crate) fn start_context(give_up: Instant) -> RequestContext {
    let deadline = give_up.max(Instant::now() + FIRST_QUESTION);
    RequestContext::new(Principal::anonymous()).with_deadline(Some(deadline))
}

/// Why one try failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Another try would fail in the same way.
    Final(Error),
    /// Another try may succeed, after the time that the service asked for.
    Passing { error: Error, after: Option<Duration> },
}

/// Calls `attempt` until it succeeds, fails for good, or further tries would come too late. Ends with the deadline.
///
/// # Errors
/// Of the last try; `DeadlineExceeded` with `during`.
pub(crate) async fn with_retries<A, Attempt, Answer>(
    context: &RequestContext,
    during: &'static str,
    budget: &RetryBudget,
    attempt: Attempt,
) -> Result<A>
where
    Attempt: Fn() -> Answer + Send + Sync,
    Answer: Future<Output = Result<A, Failure>> + Send,
    A: Send,
{
    let tries = async {
        budget.deposit();
        let mut backoff = FIRST_BACKOFF;
        for number in 1.. {
            context.check(during)?;
            let (error, after) = match attempt().await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing { error, after }) => (error, after),
            };
            // Between half of the pause and all of it, so that calls that failed together do not come back together.
            let pause = after.unwrap_or_default() + backoff.mul_f64(0.5 + 0.5 * fastrand::f64());
            let comes_too_late = context.remaining().is_some_and(|remaining| remaining <= pause);
            if number >= MAX_ATTEMPTS || comes_too_late || !budget.withdraw() {
                return Err(error);
            }
            tokio::time::sleep(pause).await;
            backoff *= 2;
        }
        Err(Error::Internal("no try was made".to_owned()))
    };
    match context.deadline() {
        None => tries.await,
        Some(deadline) => match tokio::time::timeout_at(deadline.into(), tries).await {
            Ok(answer) => answer,
            Err(_) => Err(Error::DeadlineExceeded(during)),
        },
    }
}
