//! The best hits of those that are offered, in the total order: better score first, then id bytes.

use std::cmp::Ordering;

use toller_core::Metric;
use toller_core::vector_store::ScoredRecord;

/// Hits that are kept beyond the limit before the worst are thrown away.
const ROOM: usize = 1024;

/// Keeps the best `limit` hits, in O(log(limit)) each on average.
pub(super) struct Best {
    metric: Metric,
    limit: usize,
    hits: Vec<ScoredRecord>,
}

impl Best {
    pub(super) fn new(metric: Metric, limit: usize) -> Self {
        Self { metric, limit, hits: Vec::new() }
    }

    pub(super) fn offer(&mut self, hit: ScoredRecord) {
        self.hits.push(hit);
        if self.hits.len() >= self.limit.saturating_mul(2).saturating_add(ROOM) {
            self.keep_best();
        }
    }

    pub(super) fn into_best_first(mut self) -> Vec<ScoredRecord> {
        self.keep_best();
        self.hits
    }

    fn keep_best(&mut self) {
        let metric = self.metric;
        self.hits.sort_by(|left, right| in_order(metric, left, right));
        self.hits.truncate(self.limit);
    }
}

fn in_order(metric: Metric, left: &ScoredRecord, right: &ScoredRecord) -> Ordering {
    let by_score = metric.better_first(left.score, right.score);
    by_score.then_with(|| left.record.document.id.cmp(&right.record.document.id))
}
