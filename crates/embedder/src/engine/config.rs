//! How much of the machine the embedder takes, and how much may wait for it.

use std::ops::RangeInclusive;

use crate::cpu;
use crate::error::{Error, Result};

/// Tokens that may wait, unless configured: at the speed of a small model on two cores about a minute of work.
pub const DEFAULT_QUEUE_TOKENS: usize = 262_144;
/// The most tokens of a forward pass, unless configured. Passes are as long as the measured speed computes in a tenth of a
/// second; this bounds them on machines with many cores.
pub const DEFAULT_BATCH_TOKENS: usize = 4_096;

const QUEUE_TOKENS: RangeInclusive<usize> = 1_024..=1 << 30;
const BATCH_TOKENS: RangeInclusive<usize> = 16..=1 << 20;

/// A checked configuration of an [`crate::Engine`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedderConfig {
    workers: usize,
    threads_per_worker: usize,
    queue_tokens: usize,
    batch_tokens: usize,
}

impl EmbedderConfig {
    /// A builder with the defaults: one worker with all processors that [`cpu::available`] finds.
    pub fn builder() -> EmbedderConfigBuilder {
        EmbedderConfigBuilder::default()
    }

    /// Batches that run at the same time, at least 1.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Threads of each batch, at least 1.
    pub fn threads_per_worker(&self) -> usize {
        self.threads_per_worker
    }

    /// Tokens that may wait.
    pub fn queue_tokens(&self) -> usize {
        self.queue_tokens
    }

    /// The most tokens of a forward pass; a longer single text makes a pass of its own.
    pub fn batch_tokens(&self) -> usize {
        self.batch_tokens
    }
}

/// Builds an [`EmbedderConfig`]; what is not set has its default.
#[derive(Debug, Clone, Default)]
pub struct EmbedderConfigBuilder {
    workers: Option<usize>,
    threads_per_worker: Option<usize>,
    queue_tokens: Option<usize>,
    batch_tokens: Option<usize>,
    processors: Option<usize>,
}

impl EmbedderConfigBuilder {
    /// Batches that run at the same time; default 1, which is fastest for a single stream of work.
    #[must_use]
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = Some(workers);
        self
    }

    /// Threads of each batch; default: the processors divided among the workers.
    #[must_use]
    pub fn threads_per_worker(mut self, threads: usize) -> Self {
        self.threads_per_worker = Some(threads);
        self
    }

    /// Tokens that may wait, 1,024 to 2^30; default [`DEFAULT_QUEUE_TOKENS`].
    #[must_use]
    pub fn queue_tokens(mut self, tokens: usize) -> Self {
        self.queue_tokens = Some(tokens);
        self
    }

    /// The most tokens of a forward pass, 16 to 2^20; default [`DEFAULT_BATCH_TOKENS`].
    #[must_use]
    pub fn batch_tokens(mut self, tokens: usize) -> Self {
        self.batch_tokens = Some(tokens);
        self
    }

    /// Processors to stay within; default [`cpu::available`].
    #[must_use]
    pub fn processors(mut self, processors: usize) -> Self {
        self.processors = Some(processors);
        self
    }

    /// Checks the values.
    ///
    /// # Errors
    /// [`Error::Invalid`] names the value that is out of its range, or says that workers × threads exceed the processors.
    pub fn build(self) -> Result<EmbedderConfig> {
        let processors = self.processors.unwrap_or_else(cpu::available).max(1);
        let workers = in_range("workers", self.workers.unwrap_or(1), &(1..=processors))?;
        let default_threads = (processors / workers).max(1);
        let threads = self.threads_per_worker.unwrap_or(default_threads);
        let config = EmbedderConfig {
            workers,
            threads_per_worker: in_range("threads_per_worker", threads, &(1..=default_threads))?,
            queue_tokens: in_range("queue_tokens", self.queue_tokens.unwrap_or(DEFAULT_QUEUE_TOKENS), &QUEUE_TOKENS)?,
            batch_tokens: in_range("batch_tokens", self.batch_tokens.unwrap_or(DEFAULT_BATCH_TOKENS), &BATCH_TOKENS)?,
        };
        debug_assert!(config.workers * config.threads_per_worker <= processors);
        Ok(config)
    }
}

fn in_range(field: &'static str, value: usize, range: &RangeInclusive<usize>) -> Result<usize> {
    if range.contains(&value) {
        return Ok(value);
    }
    let problem = format!("must be {} to {}, got {value}", range.start(), range.end());
    Err(Error::Invalid { field, problem })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_take_all_processors_once() {
        let config = EmbedderConfig::builder().processors(6).build().unwrap();
        assert_eq!((config.workers(), config.threads_per_worker()), (1, 6));
        assert_eq!((config.queue_tokens(), config.batch_tokens()), (262_144, 4_096));
        let config = EmbedderConfig::builder().processors(6).workers(4).build().unwrap();
        assert_eq!((config.workers(), config.threads_per_worker()), (4, 1));
    }

    #[test]
    fn values_out_of_range_are_named() {
        let builder = EmbedderConfig::builder().processors(4);
        for (bad, message) in [
            (builder.clone().workers(0), "workers: must be 1 to 4, got 0"),
            (builder.clone().workers(5), "workers: must be 1 to 4, got 5"),
            (builder.clone().workers(2).threads_per_worker(3), "threads_per_worker: must be 1 to 2, got 3"),
            (builder.clone().queue_tokens(0), "queue_tokens: must be 1024 to 1073741824, got 0"),
            (builder.clone().batch_tokens(15), "batch_tokens: must be 16 to 1048576, got 15"),
        ] {
            assert_eq!(bad.build().unwrap_err().to_string(), message);
        }
    }
}
