//! Tokens per second, as measured.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The weight of the newest pass in the measured speed: little, so that one pass that another process disturbed does not
/// change the size of the next ones much.
const NEWEST_WEIGHT: f64 = 0.1;
/// Passes of fewer tokens say nothing about speed: they are bound by the weights that pass through memory.
const LEAST_MEASURED_TOKENS: usize = 96;
/// How long a pass is to take: nothing but a query's pass can come between its layers.
const PASS: Duration = Duration::from_millis(100);
/// A pass of so many tokens runs at nearly full speed, so that smaller ones would only cost.
const LEAST_PASS_TOKENS: usize = 192;
/// Tokens of a pass while nothing was measured.
const FIRST_PASS_TOKENS: usize = 512;

/// The speed of one worker with one encoder; 0 before the first measured pass.
#[derive(Debug, Default)]
pub(super) struct Speed(AtomicU64);

impl Speed {
    /// Takes a pass of `tokens` tokens into account.
    pub(super) fn record(&self, tokens: usize, elapsed: Duration) {
        let seconds = elapsed.as_secs_f64();
        if tokens < LEAST_MEASURED_TOKENS || seconds <= 0.0 {
            return;
        }
        let newest = tokens as f64 / seconds;
        let speed = match self.get() {
            Some(so_far) => so_far + NEWEST_WEIGHT * (newest - so_far),
            None => newest,
        };
        // Two workers may overwrite each other's measurement: the next pass makes up for it.
        self.0.store(speed.to_bits(), Ordering::Relaxed);
    }

    /// Tokens per second; none before the first measured pass.
    pub(super) fn get(&self) -> Option<f64> {
        let speed = f64::from_bits(self.0.load(Ordering::Relaxed));
        (speed > 0.0).then_some(speed)
    }

    /// Tokens that a pass may have: about [`PASS`] of work, and never more than `most`.
    pub(super) fn pass_tokens(&self, most: usize) -> usize {
        let tokens = match self.get() {
            Some(speed) => ((speed * PASS.as_secs_f64()) as usize).max(LEAST_PASS_TOKENS),
            None => FIRST_PASS_TOKENS,
        };
        tokens.min(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_pass_is_a_tenth_of_a_second_within_its_bounds() {
        let speed = Speed::default();
        assert_eq!(speed.pass_tokens(4_096), FIRST_PASS_TOKENS);
        speed.record(5_000, SECOND);
        assert_eq!((speed.get(), speed.pass_tokens(4_096), speed.pass_tokens(300)), (Some(5_000.0), 500, 300));
        speed.record(15_000, SECOND);
        assert_eq!(speed.get(), Some(6_000.0), "a tenth of the way");
        let slow = Speed::default();
        slow.record(100, SECOND);
        assert_eq!((slow.pass_tokens(4_096), slow.pass_tokens(16)), (LEAST_PASS_TOKENS, 16));
    }

    #[test]
    fn short_passes_and_passes_without_time_say_nothing() {
        let speed = Speed::default();
        speed.record(LEAST_MEASURED_TOKENS - 1, SECOND);
        speed.record(1_000, Duration::ZERO);
        assert_eq!(speed.get(), None);
    }
}
