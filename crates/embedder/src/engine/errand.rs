//! Tokenising: work of the engine's own threads, done in small steps between which queries get their turn.

use std::any::Any;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rayon::ThreadPool;
use rayon::prelude::*;
use toller_core::{Error, Result};

use super::EMBEDDING;
use super::job::Job;
use crate::encoder::Sequence;
use crate::tokenizer::Tokenized;

/// A step takes texts of about this many bytes, and one text at least: a few milliseconds.
const STEP_BYTES: usize = 16 * 1024;

/// A sequence that is ready for an encoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Prepared {
    /// Token ids, special tokens and instruction included.
    pub(crate) ids: Vec<u32>,
    /// Where the second segment begins; `ids.len()` where there is none.
    pub(crate) second: usize,
    /// Was the text cut to the model's longest input?
    pub(crate) truncated: bool,
}

impl Prepared {
    /// The sequence, borrowed.
    pub(super) fn sequence(&self) -> Sequence<'_> {
        Sequence { ids: &self.ids, second: self.second }
    }
}

impl From<Tokenized> for Prepared {
    /// A sequence of one segment.
    fn from(text: Tokenized) -> Self {
        Self { second: text.ids.len(), ids: text.ids, truncated: text.truncated }
    }
}

/// A request that is being tokenised.
pub(super) struct Errand {
    pub(super) job: Arc<Job>,
    /// Tokens that were reserved for it.
    pub(super) reserved: usize,
    work: Box<dyn Preparation>,
}

/// What a step of an [`Errand`] came to.
pub(super) enum Step {
    /// There is more to do.
    Unfinished(Errand),
    /// Every input is ready.
    Finished(Errand, Vec<Prepared>),
    /// The request has ended: nobody waits for it, or an input failed, which it was told.
    Over(Errand),
}

impl Errand {
    /// Tokenising `inputs` with `prepare`; `bytes` is an input's length.
    pub(super) fn new<T: Send + 'static>(
        job: Arc<Job>,
        reserved: usize,
        inputs: Vec<T>,
        bytes: impl Fn(&T) -> usize + Send + 'static,
        prepare: impl Fn(&T) -> Result<Prepared, String> + Send + Sync + 'static,
    ) -> Self {
        let prepared = Vec::with_capacity(inputs.len());
        Self { job, reserved, work: Box::new(Inputs { rest: inputs.into_iter(), bytes, prepare, prepared }) }
    }

    /// Does the next step, on the threads of `pool`.
    pub(super) fn step(mut self, pool: &ThreadPool) -> Step {
        if let Err(gone) = self.job.check(EMBEDDING) {
            self.job.fail(gone);
        }
        if self.job.is_answered() {
            return Step::Over(self);
        }
        // After a panic the request ends, and its inputs with it.
        match catch_unwind(AssertUnwindSafe(|| self.work.step(pool))) {
            Ok(Ok(None)) => Step::Unfinished(self),
            Ok(Ok(Some(prepared))) => Step::Finished(self, prepared),
            Ok(Err(reason)) => self.failed(&reason),
            Err(panic) => self.failed(&format!("a panic: {}", panic_text(panic.as_ref()))),
        }
    }

    fn failed(self, reason: &str) -> Step {
        tracing::error!(reason, model = self.job.station.model, "the tokenizer failed");
        self.job.fail(Error::Internal(format!("the tokenizer failed: {reason}")));
        Step::Over(self)
    }
}

impl fmt::Debug for Errand {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Errand").field("reserved", &self.reserved).finish_non_exhaustive()
    }
}

/// Inputs of any kind on their way to sequences.
trait Preparation: Send {
    /// Prepares some more inputs; all sequences once the last one is ready.
    fn step(&mut self, pool: &ThreadPool) -> Result<Option<Vec<Prepared>>, String>;
}

struct Inputs<T, B, P> {
    rest: std::vec::IntoIter<T>,
    bytes: B,
    prepare: P,
    prepared: Vec<Prepared>,
}

impl<T, B, P> Preparation for Inputs<T, B, P>
where
    T: Send,
    B: Fn(&T) -> usize + Send,
    P: Fn(&T) -> Result<Prepared, String> + Send + Sync,
{
    fn step(&mut self, pool: &ThreadPool) -> Result<Option<Vec<Prepared>>, String> {
        let mut bytes = 0;
        let mut inputs = Vec::new();
        while bytes < STEP_BYTES
            && let Some(input) = self.rest.next()
        {
            bytes += (self.bytes)(&input);
            inputs.push(input);
        }
        let prepare = &self.prepare;
        match inputs.as_slice() {
            // A query is not worth waking another thread.
            [input] => self.prepared.push(prepare(input)?),
            _ => {
                let many: Result<Vec<Prepared>, String> =
                    pool.install(|| inputs.into_par_iter().map(|input| prepare(&input)).collect());
                self.prepared.append(&mut many?);
            }
        }
        Ok((self.rest.len() == 0).then(|| std::mem::take(&mut self.prepared)))
    }
}

/// What a panic said.
pub(super) fn panic_text(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else {
        panic.downcast_ref::<String>().map_or("(no message)", String::as_str)
    }
}
