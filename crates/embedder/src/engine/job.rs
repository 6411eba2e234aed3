//! One request in the queue: its sequences, who waits for them, and what has been computed so far.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use toller_core::context::Cancellation;
use toller_core::{Error, RequestContext, Result};
use tracing::Span;

use super::class::Class;
use super::station::{Prepared, Station};
use crate::encoder::Sequence;

/// The vectors of a request, in the order of its sequences.
pub(super) type Answer = Result<Vec<Vec<f32>>>;

/// One request.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) class: Class,
    /// What computes it.
    pub(super) station: Arc<Station>,
    /// The request's own span, for links.
    pub(super) span: Span,
    arrived: Instant,
    context: RequestContext,
    /// Raised when the future that waits is dropped.
    abandoned: Cancellation,
    sequences: Vec<Prepared>,
    /// Indices of the sequences, the longest first (stable), which is the order they are computed in.
    order: Vec<usize>,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// Empty where nothing has been computed yet.
    vectors: Vec<Vec<f32>>,
    missing: usize,
    /// Gone once the answer was sent.
    reply: Option<oneshot::Sender<Answer>>,
}

impl Job {
    /// A job for `sequences`, of which there is at least one.
    pub(super) fn new(
        station: Arc<Station>,
        class: Class,
        context: RequestContext,
        abandoned: Cancellation,
        sequences: Vec<Prepared>,
    ) -> (Self, oneshot::Receiver<Answer>) {
        let mut order: Vec<usize> = (0..sequences.len()).collect();
        order.sort_by_key(|index| std::cmp::Reverse(sequences.get(*index).map_or(0, |one| one.ids.len())));
        let (reply, answer) = oneshot::channel();
        let progress =
            Progress { vectors: vec![Vec::new(); sequences.len()], missing: sequences.len(), reply: Some(reply) };
        let job = Self {
            class,
            station,
            span: Span::current(),
            arrived: Instant::now(),
            context,
            abandoned,
            sequences,
            order,
            progress: Mutex::new(progress),
        };
        (job, answer)
    }

    /// How long it has been here.
    pub(super) fn waited(&self) -> Duration {
        self.arrived.elapsed()
    }

    /// Does anybody still wait for the answer?
    pub(super) fn check(&self, during: &'static str) -> Result<()> {
        if self.abandoned.is_cancelled() {
            return Err(Error::Cancelled);
        }
        self.context.check(during)
    }

    /// Was the answer sent?
    pub(super) fn is_answered(&self) -> bool {
        self.progress.lock().reply.is_none()
    }

    /// Number of sequences.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Tokens of all sequences from `place` in the order on.
    pub(super) fn tokens_from(&self, place: usize) -> usize {
        self.order.iter().skip(place).filter_map(|index| self.sequences.get(*index)).map(|one| one.ids.len()).sum()
    }

    /// The sequence at `place` in the order.
    pub(super) fn sequence(&self, place: usize) -> Option<Sequence<'_>> {
        self.sequences.get(*self.order.get(place)?).map(Prepared::sequence)
    }

    /// Takes the vectors of the sequences from `place` on; answers when they were the last ones.
    pub(super) fn deliver(&self, place: usize, vectors: Vec<Vec<f32>>) {
        let mut progress = self.progress.lock();
        for (index, vector) in self.order.iter().skip(place).zip(vectors) {
            if let Some(slot) = progress.vectors.get_mut(*index) {
                *slot = vector;
                progress.missing = progress.missing.saturating_sub(1);
            }
        }
        if progress.missing == 0
            && let Some(reply) = progress.reply.take()
        {
            // The receiver may be gone: then nobody wants it.
            let _ = reply.send(Ok(std::mem::take(&mut progress.vectors)));
        }
    }

    /// Answers with an error; later answers are ignored.
    pub(super) fn fail(&self, error: Error) {
        if let Some(reply) = self.progress.lock().reply.take() {
            let _ = reply.send(Err(error));
        }
    }
}
