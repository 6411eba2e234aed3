//! A bound on retries over all calls, so that an outage is not multiplied by them.

use std::sync::atomic::{AtomicI64, Ordering};

/// In units of a fifth of a retry: what a first try pays in, so that at most one call in five is sent again for long.
const DEPOSIT: i64 = 1;
/// What a retry costs.
const COST: i64 = 5;
/// Most retries that can be saved up: as many as the calls that a worker may hold when it dies, twice.
const MOST_RETRIES: i64 = 512;

/// The retries that are left: full at the start, filled by first tries, emptied by retries (as in gRPC's retry throttling).
#[derive(Debug)]
pub(crate) struct RetryBudget(AtomicI64);

impl RetryBudget {
    pub(crate) fn new() -> Self {
        Self(AtomicI64::new(MOST_RETRIES * COST))
    }

    /// A call is sent for the first time.
    pub(crate) fn deposit(&self) {
        let add = |left: i64| Some((left + DEPOSIT).min(MOST_RETRIES * COST));
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// May a call be sent again?
    pub(crate) fn withdraw(&self) -> bool {
        let take = |left: i64| (left >= COST).then_some(left - COST);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_the_savings_are_spent_one_call_in_five_is_sent_again() {
        let budget = RetryBudget::new();
        let savings = std::iter::repeat_with(|| budget.withdraw()).take_while(|may| *may).count();
        assert_eq!(savings, 512);
        let mut retries = 0;
        for _ in 0..1000 {
            budget.deposit();
            retries += usize::from(budget.withdraw());
        }
        assert_eq!(retries, 200);
        for _ in 0..10_000 {
            budget.deposit();
        }
        assert_eq!(
            std::iter::repeat_with(|| budget.withdraw()).take_while(|may| *may).count(),
            512,
            "they are bounded"
        );
    }
}
