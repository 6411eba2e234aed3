//! Whether calls go to a worker: a small state machine without clock or network.
//!
//! A worker begins unproved, is healthy once a probe has succeeded, and is left out when it fails: at once for a broken
//! connection, a wrong model or bad health, after some failures in a row otherwise. Only a probe brings it back. The pause
//! before the next probe doubles with every time that it is left out without having been healthy for a while in between.

use std::time::{Duration, Instant};

use super::fault::Fault;

/// Failed calls in a row after which a worker is left out.
const MOST_FAILURES: u32 = 3;

/// First pause, or the time between two probes of a healthy worker where that is shorter.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause between two probes of a worker that is left out.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Time of health after which earlier faults are forgotten.
const FORGIVEN_AFTER: Duration = Duration::from_secs(60);

/// Which time of health a call began in. A call that fails after a probe has succeeded anew says nothing of the worker as it
/// is now, so that the many calls on one broken connection count once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Epoch(u64);

/// What is known of a worker.
#[derive(Debug)]
pub(crate) struct Standing {
    state: State,
    epoch: Epoch,
    /// How often it was left out, or failed its probe, since it was last healthy for a while.
    streak: u32,
    first_pause: Duration,
}

#[derive(Debug)]
enum State {
    Healthy { failures: u32, since: Instant },
    LeftOut { fault: Fault, probe_at: Instant },
}

impl Standing {
    /// Unproved, to be probed at once, and with `probe_interval` while it is healthy.
    pub(crate) fn new(probe_interval: Duration, now: Instant) -> Self {
        let state = State::LeftOut { fault: Fault::Unproved, probe_at: now };
        Self { state, epoch: Epoch(0), streak: 0, first_pause: probe_interval.min(FIRST_PAUSE) }
    }

    /// What calls that begin now hand back with their failure.
    pub(crate) fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Do calls go to it?
    pub(crate) fn is_healthy(&self) -> bool {
        matches!(self.state, State::Healthy { .. })
    }

    /// Why calls do not go to it.
    pub(crate) fn fault(&self) -> Option<&Fault> {
        match &self.state {
            State::Healthy { .. } => None,
            State::LeftOut { fault, .. } => Some(fault),
        }
    }

    /// When the next probe is due; none while it is healthy.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        match &self.state {
            State::Healthy { .. } => None,
            State::LeftOut { probe_at, .. } => Some(*probe_at),
        }
    }

    /// A call was answered.
    pub(crate) fn succeeded(&mut self) {
        if let State::Healthy { failures, .. } = &mut self.state {
            *failures = 0;
        }
    }

    /// A call of `epoch` failed in a way that may be the worker's fault. True when it is left out by that.
    pub(crate) fn failed(&mut self, epoch: Epoch, said: &str, now: Instant) -> bool {
        match &mut self.state {
            State::Healthy { failures, .. } if epoch == self.epoch => {
                *failures += 1;
                if *failures < MOST_FAILURES {
                    return false;
                }
                let said = format!("it failed {MOST_FAILURES} calls in a row, the last with: {said}");
                self.leave_out(Fault::Failing(said), now)
            }
            _ => false,
        }
    }

    /// A call of `epoch` showed that the worker cannot be used. True when it is left out by that.
    pub(crate) fn broke(&mut self, epoch: Epoch, fault: Fault, now: Instant) -> bool {
        self.is_healthy() && epoch == self.epoch && self.leave_out(fault, now)
    }

    /// A probe showed that it cannot be used. True when it was healthy before.
    pub(crate) fn leave_out(&mut self, fault: Fault, now: Instant) -> bool {
        let was_healthy = match self.state {
            State::Healthy { since, .. } => {
                if now.saturating_duration_since(since) >= FORGIVEN_AFTER {
                    self.streak = 0;
                }
                true
            }
            State::LeftOut { .. } => false,
        };
        // A connection may break for reasons that are over at once, such as its age.
        let probe_at = match fault {
            Fault::Connection(_) if was_healthy && self.streak == 0 => now,
            _ => now + self.pause(),
        };
        self.streak = self.streak.saturating_add(1);
        self.state = State::LeftOut { fault, probe_at };
        was_healthy
    }

    /// A probe succeeded. True when it was left out before.
    pub(crate) fn proved(&mut self, now: Instant) -> bool {
        match &mut self.state {
            State::Healthy { .. } => false,
            State::LeftOut { .. } => {
                self.state = State::Healthy { failures: 0, since: now };
                self.epoch = Epoch(self.epoch.0.wrapping_add(1));
                true
            }
        }
    }

    fn pause(&self) -> Duration {
        let doubled = 2_u32.checked_pow(self.streak).and_then(|factor| self.first_pause.checked_mul(factor));
        doubled.unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(1);

    fn healthy(now: Instant) -> Standing {
        let mut standing = Standing::new(PAUSE, now);
        assert!(!standing.is_healthy() && standing.probe_at() == Some(now));
        assert!(standing.proved(now));
        standing
    }

    #[test]
    fn some_failures_in_a_row_leave_a_worker_out() {
        let now = Instant::now();
        let mut standing = healthy(now);
        let epoch = standing.epoch();
        assert!(!standing.failed(epoch, "a", now) && !standing.failed(epoch, "b", now));
        standing.succeeded();
        assert!(!standing.failed(epoch, "c", now) && !standing.failed(epoch, "d", now));
        assert!(standing.failed(epoch, "the last", now));
        assert!(!standing.is_healthy());
        assert!(standing.fault().unwrap().to_string().contains("the last"));
        assert_eq!(standing.probe_at(), Some(now + PAUSE));
    }

    #[test]
    fn calls_of_an_earlier_time_say_nothing_of_the_worker_of_today() {
        let now = Instant::now();
        let mut standing = healthy(now);
        let epoch = standing.epoch();
        let broken = || Fault::Connection("reset".to_owned());
        assert!(standing.broke(epoch, broken(), now));
        // The other calls on the same connection.
        assert!(!standing.broke(epoch, broken(), now) && !standing.failed(epoch, "reset", now));
        assert_eq!(standing.probe_at(), Some(now), "their failures do not make its pause longer");
        assert!(standing.proved(now));
        assert!(!standing.broke(epoch, broken(), now) && standing.is_healthy());
        assert!(standing.broke(standing.epoch(), broken(), now));
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_are_forgiven_after_a_while() {
        let mut now = Instant::now();
        let mut standing = healthy(now);
        let mut pauses = Vec::new();
        for _ in 0..8 {
            standing.leave_out(Fault::Silent, now);
            let probe_at = standing.probe_at().unwrap();
            pauses.push((probe_at - now).as_secs());
            now = probe_at;
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert!(standing.proved(now) && !standing.proved(now));
        // A worker that comes and goes is not trusted at once.
        standing.leave_out(Fault::Silent, now + PAUSE);
        assert_eq!(standing.probe_at(), Some(now + PAUSE + LONGEST_PAUSE));
        now += PAUSE + LONGEST_PAUSE;
        standing.proved(now);
        now += FORGIVEN_AFTER;
        standing.leave_out(Fault::Silent, now);
        assert_eq!(standing.probe_at(), Some(now + PAUSE));
    }

    #[test]
    fn the_first_broken_connection_is_probed_at_once() {
        let now = Instant::now();
        let mut standing = healthy(now);
        let broken = || Fault::Connection("reset".to_owned());
        assert!(standing.leave_out(broken(), now));
        assert_eq!(standing.probe_at(), Some(now));
        assert!(!standing.leave_out(broken(), now));
        assert_eq!(standing.probe_at(), Some(now + 2 * PAUSE));
    }
}
