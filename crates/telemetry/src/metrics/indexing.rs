//! Metrics of index runs.

use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};

use crate::names::metric::{self, label};

/// How the documents and chunks of a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct IndexedDocuments {
    /// Documents that are new in this form.
    pub added: u64,
    /// Documents that are written again.
    pub updated: u64,
    /// Documents that are there already.
    pub skipped: u64,
    /// Documents that are removed.
    pub deleted: u64,
    /// Documents that cannot be indexed.
    pub failed: u64,
    /// Chunks that a model embedded.
    pub chunks_embedded: u64,
    /// Chunks that kept a vector, of an earlier version or of a run that did not end.
    pub chunks_reused: u64,
}

/// What the runs did that keep collections in step with their sources.
pub struct IndexMetrics {
    committed: Counter,
    failed: Counter,
    duration: Histogram,
    added: Counter,
    updated: Counter,
    skipped: Counter,
    deleted: Counter,
    unusable: Counter,
    embedded: Counter,
    reused: Counter,
}

impl IndexMetrics {
    /// The handles.
    pub fn new() -> Self {
        let runs = |outcome| counter!(metric::INDEX_RUNS, label::OUTCOME => outcome);
        let documents = |outcome| counter!(metric::INDEX_DOCUMENTS, label::OUTCOME => outcome);
        let chunks = |outcome| counter!(metric::INDEX_CHUNKS, label::OUTCOME => outcome);
        Self {
            committed: runs("committed"),
            failed: runs("failed"),
            duration: histogram!(metric::INDEX_RUN_DURATION),
            added: documents("added"),
            updated: documents("updated"),
            skipped: documents("skipped"),
            deleted: documents("deleted"),
            unusable: documents("failed"),
            embedded: chunks("embedded"),
            reused: chunks("reused"),
        }
    }

    /// Records a run that was committed: what it did is visible. Dry runs are none.
    pub fn record_committed(&self, elapsed: Duration, done: IndexedDocuments) {
        self.committed.increment(1);
        self.duration.record(elapsed);
        let IndexedDocuments { added, updated, skipped, deleted, failed, chunks_embedded, chunks_reused } = done;
        self.added.increment(added);
        self.updated.increment(updated);
        self.skipped.increment(skipped);
        self.deleted.increment(deleted);
        self.unusable.increment(failed);
        self.embedded.increment(chunks_embedded);
        self.reused.increment(chunks_reused);
    }

    /// Records a run that ended without a commit.
    pub fn record_failed(&self, elapsed: Duration) {
        self.failed.increment(1);
        self.duration.record(elapsed);
    }
}

impl Default for IndexMetrics {
    fn default() -> Self {
        Self::new()
    }
}
