//! Trying again when the server is busy or away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tonic::{Code, Response, Status};
use tonic_types::StatusExt as _;

use crate::client::Connection;
use crate::ingest::progress::Progress;
use crate::ingest::run::{Order, Report, run_once};
use crate::status::is_local_timeout;

/// How long a call is tried again, from its first failure. Long enough for a server to restart and load its model.
const GIVE_UP_AFTER: Duration = Duration::from_secs(120);

/// First wait where the server does not say; doubled each time.
const FIRST_WAIT: Duration = Duration::from_millis(200);

/// Longest wait, also where the server asks for more: it may be free sooner.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// How long something has been failing.
///
/// Waits as long as the answer's RetryInfo says, else twice as long each time; both up to 10 s, and up to a fifth longer at random,
/// so that clients that failed together do not come back together.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    failed_since: Option<Instant>,
    attempts: u32,
}

impl Patience {
    /// Waits before the next attempt, and says so before the second one; `what` is what happens then.
    ///
    /// # Errors
    /// The status itself, where another attempt would be of no use or two minutes are over.
    pub(crate) async fn wait(&mut self, status: Status, what: &str, progress: &Progress) -> Result<(), Status> {
        let failed_for = self.failed_since.get_or_insert_with(Instant::now).elapsed();
        let random = getrandom::u32().unwrap_or(0);
        let Some(wait) = wait(&status, self.attempts, random).filter(|wait| failed_for + *wait <= GIVE_UP_AFTER) else {
            return Err(status);
        };
        if self.attempts == 0 {
            progress.say(&format!("{}; {what} for up to {} s", reason(&status), GIVE_UP_AFTER.as_secs()));
        }
        self.attempts += 1;
        tokio::time::sleep(wait).await;
        Ok(())
    }

    /// Something went well for as long as this: a failure after it is the first one again.
    pub(crate) fn went_well_for(&mut self, time: Duration) {
        if time >= GIVE_UP_AFTER {
            *self = Self::default();
        }
    }
}

/// Makes a call, and again as long as the answer is RESOURCE_EXHAUSTED or UNAVAILABLE, for at most two minutes. The call must be
/// harmless to repeat.
///
/// # Errors
/// The last answer.
pub(crate) async fn with_retries<T, F>(progress: &Progress, mut call: impl FnMut() -> F) -> Result<Response<T>, Status>
where
    F: Future<Output = Result<Response<T>, Status>>,
{
    let mut patience = Patience::default();
    loop {
        match call().await {
            Ok(response) => return Ok(response),
            Err(status) => patience.wait(status, "trying again", progress).await?,
        }
    }
}

/// Makes runs until one is committed: while the server is busy or away, from the beginning again, for at most two minutes. The server
/// takes up what an earlier run had embedded.
///
/// # Errors
/// What the last run ended with.
pub(crate) async fn run_with_retries(
    connection: &Connection,
    order: &Arc<Order>,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), Status> {
    let mut patience = Patience::default();
    loop {
        let began = Instant::now();
        let Err(status) = run_once(connection, order, progress, report).await else { return Ok(()) };
        patience.went_well_for(began.elapsed());
        patience.wait(status, "beginning the run again, which goes on with what is embedded,", progress).await?;
    }
}

/// Did a connection break, as when a server is killed? Such a status is made here, and has a cause; those of servers have none.
fn is_broken_connection(status: &Status) -> bool {
    let is_own = std::error::Error::source(status).is_some();
    let is_of_connection = matches!(status.code(), Code::Unknown | Code::Internal | Code::Cancelled);
    is_own && is_of_connection && !is_local_timeout(status)
}

/// Can it be another time with the same request?
pub(crate) fn may_pass(status: &Status) -> bool {
    matches!(status.code(), Code::ResourceExhausted | Code::Unavailable) || is_broken_connection(status)
}

fn reason(status: &Status) -> String {
    let what =
        if status.code() == Code::ResourceExhausted { "the server is busy" } else { "the server cannot be reached" };
    match status.message() {
        "" => what.to_owned(),
        message => format!("{what} ({message})"),
    }
}

/// How long to wait before the next attempt; none when another would be of no use. `random` adds 0 to 20 %.
fn wait(status: &Status, attempt: u32, random: u32) -> Option<Duration> {
    if !may_pass(status) {
        return None;
    }
    let asked = status.get_details_retry_info().and_then(|info| info.retry_delay);
    let doubled = || FIRST_WAIT.saturating_mul(1_u32.checked_shl(attempt).unwrap_or(u32::MAX));
    let wait = asked.unwrap_or_else(doubled).min(LONGEST_WAIT);
    Some(wait.mul_f64(1.0 + 0.2 * f64::from(random) / f64::from(u32::MAX)))
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    fn busy(delay: Option<Duration>) -> Status {
        let mut details = ErrorDetails::new();
        if delay.is_some() {
            details.set_retry_info(delay);
        }
        Status::with_error_details(Code::ResourceExhausted, "the queue is full", details)
    }

    #[test]
    fn waits_as_the_server_says_or_doubles() {
        let second = Duration::from_secs(1);
        assert_eq!(wait(&busy(Some(second)), 5, 0), Some(second));
        assert_eq!(wait(&busy(Some(second)), 0, u32::MAX), Some(second.mul_f64(1.2)));
        assert_eq!(wait(&busy(Some(Duration::from_secs(3600))), 0, 0), Some(LONGEST_WAIT));
        assert_eq!(wait(&busy(None), 0, 0), Some(FIRST_WAIT));
        assert_eq!(wait(&busy(None), 2, 0), Some(4 * FIRST_WAIT));
        assert_eq!(wait(&busy(None), 40, 0), Some(LONGEST_WAIT));
        assert_eq!(wait(&Status::unavailable("gone"), 1, 0), Some(2 * FIRST_WAIT));
    }

    #[test]
    fn what_will_not_get_better_is_not_tried_again() {
        for code in [Code::InvalidArgument, Code::FailedPrecondition, Code::Internal, Code::Cancelled, Code::NotFound] {
            assert_eq!(wait(&Status::new(code, ""), 0, 0), None, "{code:?}");
        }
    }

    #[test]
    fn a_broken_connection_may_be_whole_again() {
        let broken = |code| {
            let mut status = Status::new(code, "");
            status.set_source(Arc::new(std::io::Error::from(std::io::ErrorKind::BrokenPipe)));
            status
        };
        assert!(may_pass(&broken(Code::Unknown)) && may_pass(&broken(Code::Cancelled)));
        assert!(!may_pass(&Status::unknown("said by the server")) && !may_pass(&broken(Code::InvalidArgument)));
    }

    #[tokio::test]
    async fn a_busy_server_is_asked_again() {
        let mut attempts = 0;
        let progress = Progress::new();
        let answer = with_retries(&progress, || {
            attempts += 1;
            let answer =
                if attempts < 4 { Err(busy(Some(Duration::from_millis(1)))) } else { Ok(Response::new(attempts)) };
            std::future::ready(answer)
        });
        assert_eq!(answer.await.unwrap().into_inner(), 4);
    }

    #[tokio::test]
    async fn a_refusal_is_final() {
        let mut attempts = 0;
        let answer: Result<Response<()>, Status> = with_retries(&Progress::new(), || {
            attempts += 1;
            std::future::ready(Err(Status::invalid_argument("no")))
        })
        .await;
        assert_eq!((attempts, answer.unwrap_err().code()), (1, Code::InvalidArgument));
    }
}
