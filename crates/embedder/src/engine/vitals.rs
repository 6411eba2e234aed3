//! Signs of life of a worker: a thread that hangs in an encoder gives none.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When a worker last showed that it goes on.
#[derive(Debug)]
pub(super) struct Vitals {
    started: Instant,
    /// Milliseconds after `started`, plus 1; 0 while it has nothing to do.
    last_sign: AtomicU64,
}

impl Vitals {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), last_sign: AtomicU64::new(0) }
    }

    /// It works.
    pub(super) fn works(&self) {
        self.last_sign.store(self.now(), Ordering::Relaxed);
    }

    /// It has nothing to do.
    pub(super) fn rests(&self) {
        self.last_sign.store(0, Ordering::Relaxed);
    }

    /// How long it has been working without a sign.
    pub(super) fn silence(&self) -> Duration {
        match self.last_sign.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            sign => Duration::from_millis(self.now().saturating_sub(sign)),
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX - 1) + 1
    }
}
