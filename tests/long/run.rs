//! How long a test goes on, where its random choices come from, and what it says meanwhile.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::task::JoinHandle;

const SECONDS_VARIABLE: &str = "TOLLER_LONG_SECONDS";
const SEED_VARIABLE: &str = "TOLLER_LONG_SEED";

const DEFAULT_SECONDS: u64 = 120;

/// A bound besides the time, so that a fast machine does not outgrow its memory or its disk.
const MAX_STEPS: u64 = 5_000_000;

const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// One run of one test.
pub struct Run {
    name: &'static str,
    seed: u64,
    length: Duration,
    started: Instant,
    steps: Arc<AtomicU64>,
    progress: JoinHandle<()>,
}

impl Run {
    /// Starts the clock; says the seed, and from then on how far it is.
    pub fn start(name: &'static str) -> Arc<Self> {
        let seconds = variable(SECONDS_VARIABLE).unwrap_or(DEFAULT_SECONDS);
        let seed = variable(SEED_VARIABLE).unwrap_or_else(|| fastrand::u64(..));
        eprintln!("{name}: {seconds} s with {SEED_VARIABLE}={seed}");
        let length = Duration::from_secs(seconds);
        let (started, steps) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let counted = Arc::clone(&steps);
        let progress = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(PROGRESS_EVERY);
            loop {
                ticks.tick().await;
                let (elapsed, steps) = (started.elapsed().as_secs(), counted.load(Ordering::Relaxed));
                eprintln!("{name}: {elapsed} of {seconds} s, {steps} steps");
            }
        });
        Arc::new(Self { name, seed, length, started, steps, progress })
    }

    /// Counts one step, unless the time or the number of steps is up.
    pub fn step(&self) -> bool {
        self.started.elapsed() < self.length && self.steps.fetch_add(1, Ordering::Relaxed) < MAX_STEPS
    }

    /// Steps so far.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// How long it goes on.
    pub fn length(&self) -> Duration {
        self.length
    }

    /// The random numbers of one part of the test: the same ones for the same seed, others for each part.
    pub fn random(&self, part: u64) -> Rng {
        let mut parts = Rng::with_seed(self.seed);
        let offset = parts.u64(..);
        Rng::with_seed(offset ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Says something of note.
    pub fn say(&self, what: impl std::fmt::Display) {
        eprintln!("{}: {what}", self.name);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.progress.abort();
    }
}

fn variable<T: FromStr>(name: &str) -> Option<T> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is {text:?}, which is no number")))
}
