//! How much a worker has to do, in tokens, as far as this process can tell.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// After this time half of what a worker said is still believed: about the time in which a worker empties a queue of normal
/// length.
const HALF_LIFE: Duration = Duration::from_secs(1);

/// Bytes of a token, on average over languages: about 4 in English, about 3 in Chinese.
const BYTES_PER_TOKEN: u64 = 4;

/// The special tokens around a text.
const SPECIAL_TOKENS: u64 = 2;

/// An estimate of the tokens of a text of `bytes`, of which the model reads at most `max_tokens` (0: no bound is known).
pub(crate) fn estimated_tokens(bytes: usize, max_tokens: u32) -> u64 {
    let tokens = u64::try_from(bytes).unwrap_or(u64::MAX) / BYTES_PER_TOKEN + SPECIAL_TOKENS;
    if max_tokens == 0 { tokens } else { tokens.min(u64::from(max_tokens)) }
}

/// The load of one worker.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Estimated tokens of our calls that it has not answered yet.
    outstanding: AtomicU64,
    reported: Mutex<Option<Report>>,
}

#[derive(Debug, Clone, Copy)]
struct Report {
    /// What it said that waits, without what of it was ours.
    foreign: u64,
    at: Instant,
}

impl Load {
    /// Counts `tokens` as being with the worker until the guard is dropped.
    pub(crate) fn begin(&self, tokens: u64) -> Outstanding<'_> {
        self.outstanding.fetch_add(tokens, Ordering::Relaxed);
        Outstanding { load: self, tokens }
    }

    /// Remembers that the worker said that `queued` tokens wait. Ours are among them and known better, so that only the rest
    /// is kept: the calls of others.
    pub(crate) fn report(&self, queued: u64, now: Instant) {
        let foreign = queued.saturating_sub(self.outstanding.load(Ordering::Relaxed));
        *self.reported.lock() = Some(Report { foreign, at: now });
    }

    /// Tokens that are before a new call.
    pub(crate) fn estimate(&self, now: Instant) -> u64 {
        let foreign = match *self.reported.lock() {
            None => 0,
            Some(Report { foreign, at }) => {
                let half_lives = now.saturating_duration_since(at).as_nanos() / HALF_LIFE.as_nanos();
                let shift = u32::try_from(half_lives).unwrap_or(u32::MAX);
                foreign.checked_shr(shift).unwrap_or(0)
            }
        };
        self.outstanding.load(Ordering::Relaxed).saturating_add(foreign)
    }
}

/// See [`Load::begin`].
#[derive(Debug)]
pub(crate) struct Outstanding<'a> {
    load: &'a Load,
    tokens: u64,
}

impl Drop for Outstanding<'_> {
    fn drop(&mut self) {
        self.load.outstanding.fetch_sub(self.tokens, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_calls_count_once_and_what_others_do_fades() {
        let load = Load::default();
        let now = Instant::now();
        assert_eq!(load.estimate(now), 0);
        let first = load.begin(100);
        let second = load.begin(50);
        assert_eq!(load.estimate(now), 150);
        drop(first);
        // 50 of the 850 are ours.
        load.report(850, now);
        assert_eq!(load.estimate(now), 850);
        drop(second);
        assert_eq!(load.estimate(now), 800);
        assert_eq!(load.estimate(now + HALF_LIFE), 400);
        assert_eq!(load.estimate(now + 3 * HALF_LIFE), 100);
        assert_eq!(load.estimate(now + 500 * HALF_LIFE), 0);
    }

    #[test]
    fn estimates_are_bounded_by_what_the_model_reads() {
        assert_eq!(estimated_tokens(0, 512), 2);
        assert_eq!(estimated_tokens(400, 512), 102);
        assert_eq!(estimated_tokens(1 << 20, 512), 512);
        assert_eq!(estimated_tokens(1 << 20, 0), (1 << 18) + 2);
    }
}
