//! Metrics of forward passes and of the queue before them.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use toller_core::EmbeddingRole;

use super::count;
use crate::names::metric::{self, label};
use crate::spans::role_name;

/// Why an embedding request was not let into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// There is no room.
    QueueFull,
    /// It would not be ready before its deadline.
    Deadline,
}

impl RefusalReason {
    /// Its name in labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Deadline => "deadline",
        }
    }
}

/// What the queue and the forward passes of one model did.
#[derive(Debug)]
pub struct BatchMetrics {
    model: String,
    texts: Histogram,
    tokens: Histogram,
    duration: Histogram,
    queries: QueueMetrics,
    documents: QueueMetrics,
    joined: Counter,
    preemptions: Counter,
}

/// What waits in one role.
#[derive(Debug)]
struct QueueMetrics {
    wait: Histogram,
    tokens: Gauge,
}

impl BatchMetrics {
    /// The handles for a loaded model.
    pub fn new(model: &str) -> Self {
        let labels = [(label::MODEL, model.to_owned())];
        let queue = |role| {
            let labels = [(label::MODEL, model.to_owned()), (label::ROLE, role_name(role).to_owned())];
            QueueMetrics {
                wait: histogram!(metric::EMBEDDING_QUEUE_WAIT, &labels),
                tokens: gauge!(metric::EMBEDDING_QUEUE_TOKENS, &labels),
            }
        };
        Self {
            model: model.to_owned(),
            texts: histogram!(metric::EMBEDDING_BATCH_TEXTS, &labels),
            tokens: histogram!(metric::EMBEDDING_BATCH_TOKENS, &labels),
            duration: histogram!(metric::EMBEDDING_BATCH_DURATION, &labels),
            queries: queue(EmbeddingRole::Query),
            documents: queue(EmbeddingRole::Document),
            joined: counter!(metric::EMBEDDING_JOINED_TEXTS, &labels),
            preemptions: counter!(metric::EMBEDDING_PREEMPTIONS, &labels),
        }
    }

    fn queue(&self, role: EmbeddingRole) -> &QueueMetrics {
        match role {
            EmbeddingRole::Query => &self.queries,
            EmbeddingRole::Document => &self.documents,
        }
    }

    /// Records one forward pass, without the time in which others interrupted it.
    pub fn record_batch(&self, texts: usize, tokens: usize, elapsed: Duration) {
        self.texts.record(count(texts));
        self.tokens.record(count(tokens));
        self.duration.record(elapsed);
    }

    /// Records how long one text waited for its forward pass.
    pub fn record_wait(&self, role: EmbeddingRole, waited: Duration) {
        self.queue(role).wait.record(waited);
    }

    /// Sets how many tokens wait.
    pub fn set_queued_tokens(&self, role: EmbeddingRole, tokens: usize) {
        self.queue(role).tokens.set(count(tokens));
    }

    /// Counts texts that got the vector of the same text, which waited or ran already.
    pub fn add_joined(&self, texts: usize) {
        self.joined.increment(u64::try_from(texts).unwrap_or(u64::MAX));
    }

    /// Counts a pass that ran in the middle of a less urgent one.
    pub fn record_preemption(&self) {
        self.preemptions.increment(1);
    }

    /// Counts a request that was not let in.
    pub fn record_refusal(&self, role: EmbeddingRole, reason: RefusalReason) {
        counter!(
            metric::EMBEDDING_REFUSED,
            label::MODEL => self.model.clone(),
            label::ROLE => role_name(role),
            label::REASON => reason.as_str(),
        )
        .increment(1);
    }
}
