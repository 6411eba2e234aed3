//! One request: who waits for it, and what has been computed so far.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use toller_core::context::Cancellation;
use toller_core::{Error, RequestContext, Result};
use tracing::Span;

use super::class::{Class, Size};
use super::errand::Prepared;
use super::handle::Computed;
use super::station::Station;

/// What came of a request's inputs, in their order.
pub(super) type Answer = Result<Vec<Computed>>;

/// One request.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) class: Class,
    pub(super) size: Size,
    /// What computes it.
    pub(super) station: Arc<Station>,
    /// The request's own span, for links.
    pub(super) span: Span,
    arrived: Instant,
    context: RequestContext,
    /// Raised when the future that waits is dropped.
    abandoned: Cancellation,
    /// Tokens that are reserved in the queue until it is tokenised or over. Changes under the lock of the queue only.
    reserved: AtomicUsize,
    progress: Mutex<Progress>,
}

#[derive(Debug)]
struct Progress {
    /// With an empty vector where nothing has been computed yet.
    computed: Vec<Computed>,
    missing: usize,
    /// Gone once the answer was sent.
    reply: Option<oneshot::Sender<Answer>>,
}

impl Job {
    /// A request of about `tokens` tokens, that is abandoned when `abandoned` is raised.
    pub(super) fn new(
        station: Arc<Station>,
        class: Class,
        tokens: usize,
        context: RequestContext,
        abandoned: Cancellation,
    ) -> (Arc<Self>, oneshot::Receiver<Answer>) {
        let (reply, answer) = oneshot::channel();
        let job = Self {
            class,
            size: Size::of(tokens),
            station,
            span: Span::current(),
            arrived: Instant::now(),
            context,
            abandoned,
            reserved: AtomicUsize::new(0),
            progress: Mutex::new(Progress { computed: Vec::new(), missing: 0, reply: Some(reply) }),
        };
        (Arc::new(job), answer)
    }

    /// Notes that the queue keeps room for `tokens` tokens.
    pub(super) fn reserve(&self, tokens: usize) {
        self.reserved.store(tokens, Ordering::Relaxed);
    }

    /// The tokens to give back: once, to whoever ends the reservation first.
    pub(super) fn take_reservation(&self) -> usize {
        self.reserved.swap(0, Ordering::Relaxed)
    }

    /// From now on it waits for the vectors of these sequences, of which there is at least one.
    pub(super) fn await_sequences(&self, sequences: &[Prepared]) {
        let mut progress = self.progress.lock();
        progress.missing = sequences.len();
        progress.computed = sequences
            .iter()
            .map(|one| Computed { vector: Vec::new(), tokens: one.ids.len(), truncated: one.truncated })
            .collect();
    }

    /// How long it has been here.
    pub(super) fn waited(&self) -> Duration {
        self.arrived.elapsed()
    }

    /// When its answer stops being of use.
    pub(super) fn remaining(&self) -> Option<Duration> {
        self.context.remaining()
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

    /// Takes the vector of the sequence at `index`; answers when it was the last one.
    pub(super) fn deliver(&self, index: usize, vector: Vec<f32>) {
        let mut progress = self.progress.lock();
        let Some(slot) = progress.computed.get_mut(index) else { return };
        slot.vector = vector;
        progress.missing = progress.missing.saturating_sub(1);
        if progress.missing == 0
            && let Some(reply) = progress.reply.take()
        {
            // The receiver may be gone: then nobody wants it.
            let _ = reply.send(Ok(std::mem::take(&mut progress.computed)));
        }
    }

    /// Answers with an error; later answers are ignored.
    pub(super) fn fail(&self, error: Error) {
        if let Some(reply) = self.progress.lock().reply.take() {
            let _ = reply.send(Err(error));
        }
    }
}
