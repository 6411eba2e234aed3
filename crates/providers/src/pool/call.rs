//! One call to whichever worker answers it: choice, retries, and when to give up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use toller_core::{Error, RequestContext, Result};
use tonic::{Code, Response, Status};

use super::failure::Failure;
use super::members::Members;
use super::worker::{Lane, Worker};
use crate::budget::RetryBudget;

/// Pause before the second round over the workers; doubles with each round.
const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// Longest pause between two rounds.
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// Longest time to wait for room at a worker. A caller with more patience comes back by itself, as the answer tells it to.
const LONGEST_WAIT_FOR_ROOM: Duration = Duration::from_secs(2);

/// For how long a worker that is full without saying until when is passed over.
const FULL_FOR: Duration = Duration::from_millis(100);

/// While no worker is left, calls that wait ask for probes this often.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// What every try of a call has in common.
pub(crate) struct Call<'a> {
    pub(crate) context: &'a RequestContext,
    pub(crate) lane: Lane,
    /// An estimate of what the worker has to do.
    pub(crate) tokens: u64,
    /// What is not done when the deadline passes, as in "while the text was embedded".
    pub(crate) during: &'static str,
}

/// Sends calls to the members of a pool.
pub(crate) struct Caller {
    pub(crate) members: Arc<Members>,
    budget: RetryBudget,
}

enum Choice {
    Worker(Arc<Worker>),
    /// All healthy workers that were not tried in this round have no room before then.
    Full(Instant),
    /// All healthy workers were tried in this round.
    AllTried,
    NoneHealthy,
}

impl Caller {
    pub(crate) fn new(members: Arc<Members>) -> Self {
        Self { members, budget: RetryBudget::new() }
    }

    /// Answers a call by one worker, or by another one where the first fails; `attempt` sends it and reads the answer. Ends
    /// with the deadline; when it is dropped, so is the call.
    ///
    /// # Errors
    /// Of the last try; `Unavailable` when no worker is left, after a short wait for one to come back.
    pub(crate) async fn call<A, Attempt, Answer>(&self, call: &Call<'_>, attempt: Attempt) -> Result<A>
    where
        Attempt: Fn(Arc<Worker>) -> Answer + Send + Sync,
        Answer: Future<Output = Result<A, Failure>> + Send,
        A: Send,
    {
        let work = self.call_without_clock(call, attempt);
        match call.context.deadline() {
            None => work.await,
            Some(deadline) => match tokio::time::timeout_at(deadline.into(), work).await {
                Ok(answer) => answer,
                Err(_) => Err(Error::DeadlineExceeded(call.during)),
            },
        }
    }

    async fn call_without_clock<A, Attempt, Answer>(&self, call: &Call<'_>, attempt: Attempt) -> Result<A>
    where
        Attempt: Fn(Arc<Worker>) -> Answer + Send + Sync,
        Answer: Future<Output = Result<A, Failure>> + Send,
    {
        let mut tried: Vec<Arc<Worker>> = Vec::new();
        let mut last: Option<Failure> = None;
        let mut backoff = FIRST_BACKOFF;
        let mut attempts = 0;
        let mut recovery_ends = None;
        self.budget.deposit();
        loop {
            call.context.check(call.during)?;
            let worker = match self.choose(call.lane, &tried) {
                Choice::Worker(worker) => worker,
                Choice::NoneHealthy => {
                    let ends = *recovery_ends.get_or_insert_with(|| self.recovery_ends(call.context));
                    self.wait_for_recovery(ends).await?;
                    tried.clear();
                    continue;
                }
                // Whoever was tried and has room comes next, after a pause; whoever has none says when it will.
                Choice::AllTried => {
                    let pause = jittered(backoff);
                    backoff = (backoff * 2).min(LONGEST_BACKOFF);
                    self.pause(call, pause, &mut last).await?;
                    tried.clear();
                    continue;
                }
                Choice::Full(until) => {
                    let wait = until.saturating_duration_since(Instant::now());
                    if wait > LONGEST_WAIT_FOR_ROOM {
                        return Err(full(last, wait));
                    }
                    self.pause(call, wait + jittered(backoff), &mut last).await?;
                    backoff = (backoff * 2).min(LONGEST_BACKOFF);
                    tried.clear();
                    continue;
                }
            };

            if attempts > 0 {
                if !self.budget.withdraw() {
                    self.members.metrics.record_refused_retry();
                    return Err(last.map_or_else(no_answer, Failure::into_error));
                }
                self.members.metrics.record_retry();
            }
            attempts += 1;
            let failure = match self.try_once(call, Arc::clone(&worker), &attempt).await {
                Ok(answer) => return Ok(answer),
                Err(Failure::Final(error)) => return Err(error),
                Err(failure) => failure,
            };
            tracing::debug!(worker = %worker.address, attempts, ?failure, "a call to an embedding worker failed");
            if attempts >= self.members.config.max_attempts {
                return Err(failure.into_error());
            }
            last = Some(failure);
            tried.push(worker);
        }
    }

    async fn try_once<A, Attempt, Answer>(
        &self,
        call: &Call<'_>,
        worker: Arc<Worker>,
        attempt: &Attempt,
    ) -> Result<A, Failure>
    where
        Attempt: Fn(Arc<Worker>) -> Answer + Send + Sync,
        Answer: Future<Output = Result<A, Failure>> + Send,
    {
        let epoch = worker.standing.lock().epoch();
        let result = {
            let _outstanding = worker.load.begin(call.tokens);
            attempt(Arc::clone(&worker)).await
        };
        match &result {
            Ok(_) => worker.standing.lock().succeeded(),
            Err(Failure::Worker { fault, .. }) => self.members.broke(&worker, epoch, fault.clone()),
            Err(Failure::Refusal(error)) => self.members.failed(&worker, epoch, &error.to_string()),
            Err(Failure::Full { retry_after, .. }) => {
                let now = Instant::now();
                let until = now.checked_add(retry_after.unwrap_or(FULL_FOR)).unwrap_or(now + LONGEST_WAIT_FOR_ROOM * 2);
                worker.note_full(call.lane, until);
            }
            Err(Failure::Final(_)) => {}
        }
        result
    }

    /// The less loaded of two healthy workers with room, drawn from those that were not tried.
    fn choose(&self, lane: Lane, tried: &[Arc<Worker>]) -> Choice {
        let now = Instant::now();
        let workers = self.members.all();
        let mut candidates: Vec<&Arc<Worker>> = Vec::with_capacity(workers.len());
        let mut room_at: Option<Instant> = None;
        let mut healthy = 0_usize;
        for worker in workers.iter().filter(|worker| worker.is_healthy()) {
            healthy += 1;
            if let Some(until) = worker.full_until(lane, now) {
                room_at = Some(room_at.map_or(until, |earliest| earliest.min(until)));
            } else if !tried.iter().any(|other| Arc::ptr_eq(other, worker)) {
                candidates.push(worker);
            }
        }
        let first = draw(&mut candidates);
        let second = draw(&mut candidates);
        match (first, second) {
            (Some(first), Some(second)) if second.load.estimate(now) < first.load.estimate(now) => {
                Choice::Worker(Arc::clone(second))
            }
            (Some(first), _) => Choice::Worker(Arc::clone(first)),
            (None, _) if healthy == 0 => Choice::NoneHealthy,
            (None, _) => match room_at {
                Some(until) if !self.has_room(&workers, lane, now) => Choice::Full(until),
                _ => Choice::AllTried,
            },
        }
    }

    fn has_room(&self, workers: &[Arc<Worker>], lane: Lane, now: Instant) -> bool {
        workers.iter().any(|worker| worker.is_healthy() && worker.full_until(lane, now).is_none())
    }

    /// Until when a call waits for a worker to come back: half of what is left until its deadline at most, so that it is
    /// answered well before.
    fn recovery_ends(&self, context: &RequestContext) -> Instant {
        let wait = self.members.config.recovery_wait;
        Instant::now() + context.remaining().map_or(wait, |remaining| wait.min(remaining / 2))
    }

    async fn wait_for_recovery(&self, ends: Instant) -> Result<()> {
        let mut recoveries = self.members.watch_recoveries();
        // One may have come between the choice and the subscription.
        if self.members.numbers().1 > 0 {
            return Ok(());
        }
        loop {
            self.members.hurry();
            let soon = (Instant::now() + ASK_AGAIN_AFTER).min(ends);
            match tokio::time::timeout_at(soon.into(), recoveries.changed()).await {
                Ok(Ok(())) => return Ok(()),
                Err(_) if Instant::now() < ends => {}
                _ => return Err(self.nobody_left()),
            }
        }
    }

    fn nobody_left(&self) -> Error {
        if let Some(fault) = self.members.other_model() {
            return Error::FailedPrecondition {
                reason: "FINGERPRINT_MISMATCH",
                message: format!(
                    "the embedding worker at {fault}; restart this process to use the other model, or the worker with \
                     the model as it was"
                ),
            };
        }
        let faults = self.members.faults();
        Error::Unavailable(format!("no embedding worker can be used: {faults}; check that they run and can be reached"))
    }

    /// Waits, unless the caller's deadline comes first: then the last failure is the answer.
    async fn pause(&self, call: &Call<'_>, time: Duration, last: &mut Option<Failure>) -> Result<()> {
        if call.context.remaining().is_some_and(|remaining| remaining <= time) {
            return Err(full(last.take(), time));
        }
        tokio::time::sleep(time).await;
        Ok(())
    }

    /// What a worker answered, with its queue and the outcome noted.
    pub(crate) fn note<A>(
        &self,
        worker: &Worker,
        call: &Call<'_>,
        answer: std::result::Result<Response<A>, Status>,
    ) -> Result<A, Failure> {
        match answer {
            Ok(answer) => {
                self.members.metrics.record_call(Code::Ok.into());
                worker.note_queue(answer.metadata());
                Ok(answer.into_inner())
            }
            Err(status) => {
                self.members.metrics.record_call(status.code().into());
                worker.note_queue(status.metadata());
                Err(Failure::from_status(call.context, worker.address.url(), call.during, &status))
            }
        }
    }
}

/// One of `candidates` at random, taken out of them.
fn draw<'a>(candidates: &mut Vec<&'a Arc<Worker>>) -> Option<&'a Arc<Worker>> {
    if candidates.is_empty() { None } else { Some(candidates.swap_remove(fastrand::usize(..candidates.len()))) }
}

/// The last failure, or that there was no room from the start.
fn full(last: Option<Failure>, wait: Duration) -> Error {
    let none =
        || Error::ResourceExhausted { what: "all embedding workers are full".to_owned(), retry_after: Some(wait) };
    last.map_or_else(none, Failure::into_error)
}

fn no_answer() -> Error {
    Error::Unavailable("no embedding worker answered".to_owned())
}

/// Between half of `time` and all of it, so that calls that failed together do not come back together.
fn jittered(time: Duration) -> Duration {
    time.mul_f64(0.5 + 0.5 * fastrand::f64())
}
