//! An encoder on the engine, with what the engine has to know about it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use toller_telemetry::metrics::BatchMetrics;

use super::class::{Class, Size};
use super::errand::Prepared;
use super::speed::Speed;
use crate::encoder::Encoder;

/// What the engine runs for a model.
pub(crate) struct EncoderOnEngine {
    pub(crate) encoder: Arc<dyn Encoder>,
    /// The model's name, for spans and metrics.
    pub(crate) model: String,
    /// The longest sequence, for estimates.
    pub(crate) max_tokens: usize,
    /// A short sequence that the model can do, to see whether it works; or why there is none.
    pub(crate) probe: Result<Prepared, String>,
}

/// An encoder on the engine. Requests of different stations never share a pass.
pub(super) struct Station {
    pub(super) encoder: Arc<dyn Encoder>,
    pub(super) model: String,
    pub(super) max_tokens: usize,
    pub(super) probe: Result<Prepared, String>,
    pub(super) speed: Speed,
    pub(super) metrics: BatchMetrics,
    backlog: Backlog,
}

/// Tokens that wait for the encoder or are reserved. Changes under the lock of the queue only.
#[derive(Debug, Default)]
struct Backlog {
    queries: AtomicUsize,
    small_documents: AtomicUsize,
    large_documents: AtomicUsize,
}

impl Station {
    pub(super) fn new(on: EncoderOnEngine) -> Self {
        let metrics = BatchMetrics::new(&on.model);
        Self {
            encoder: on.encoder,
            model: on.model,
            max_tokens: on.max_tokens.max(1),
            probe: on.probe,
            speed: Speed::default(),
            metrics,
            backlog: Backlog::default(),
        }
    }

    /// `tokens` more wait.
    pub(super) fn add_backlog(&self, class: Class, size: Size, tokens: usize) {
        self.backlog.part(class, size).fetch_add(tokens, Ordering::Relaxed);
        self.publish(class);
    }

    /// `tokens` fewer wait.
    pub(super) fn take_backlog(&self, class: Class, size: Size, tokens: usize) {
        let before = self.backlog.part(class, size).fetch_sub(tokens, Ordering::Relaxed);
        debug_assert!(before >= tokens, "more was taken than waited");
        self.publish(class);
    }

    fn publish(&self, class: Class) {
        self.metrics.set_queued_tokens(class.role(), self.backlog.tokens(class));
    }

    /// How long one worker needs for the documents that a document request of `size` must wait for; none while the speed
    /// is unknown. A small request alternates with large ones pass by pass, so that it waits for as much of them as of
    /// small ones at most.
    pub(super) fn documents_ahead(&self, size: Size) -> Option<Duration> {
        let small = self.backlog.small_documents.load(Ordering::Relaxed);
        let large = self.backlog.large_documents.load(Ordering::Relaxed);
        let ahead = match size {
            Size::Small => small + large.min(small),
            Size::Large => small + large,
        };
        self.duration(ahead)
    }

    /// How long one worker needs for `tokens` tokens; none while the speed is unknown.
    pub(super) fn duration(&self, tokens: usize) -> Option<Duration> {
        Some(Duration::from_secs_f64(tokens as f64 / self.speed.get()?))
    }
}

impl Backlog {
    fn part(&self, class: Class, size: Size) -> &AtomicUsize {
        match (class, size) {
            (Class::Query, _) => &self.queries,
            (Class::Document, Size::Small) => &self.small_documents,
            (Class::Document, Size::Large) => &self.large_documents,
        }
    }

    fn tokens(&self, class: Class) -> usize {
        match class {
            Class::Query => self.queries.load(Ordering::Relaxed),
            Class::Document => {
                self.small_documents.load(Ordering::Relaxed) + self.large_documents.load(Ordering::Relaxed)
            }
        }
    }
}

impl fmt::Debug for Station {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Station").field(&self.model).finish()
    }
}
