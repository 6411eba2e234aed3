//! Search over an engine that proposes: what follows from its proposals is decided here, the same for every such backend.
//!
//! The engine gives candidates by its own scores (in `f32`) and a weaker filter. They are scored and filtered again as
//! `toller-core` defines it; when too few are left, more are asked for, and at last every record is looked at. So exactly
//! min(limit, matches) come back. Without approximation they are the best ones, ties included; with it, an index or quantised
//! vectors may miss some.
//!
//! A record without a vector in the space that is searched is no match: the engine does not give it, and a scan passes it
//! over.

use toller_core::metric::squared_norm;
use toller_core::vector_store::{ScoredRecord, VectorSearch};
use toller_core::{Document, Metric, Quantization, Record};

use super::best::Best;

/// Candidates beyond the limit, so that a tie at the limit is seen.
pub(super) const SLACK: usize = 16;

/// How many times as many candidates are asked for when too few matched.
pub(super) const WIDER: usize = 4;

/// Most candidates that are asked for beyond the limit; a scan, which keeps only the best, takes over from there.
pub(super) const MAX_CANDIDATES: usize = 4096;

/// Neighbours that a search in an index keeps in view: at least this many, and twice as many as are asked for.
const MIN_VIEW: usize = 128;

/// How many times as many with a filter: only those that match are walked over, so that there are fewer ways to the best.
const FILTERED_VIEW: usize = 2;

/// A search with what follows from it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) search: VectorSearch<'a>,
    /// Of the space that is searched.
    pub(super) metric: Metric,
}

impl Question<'_> {
    pub(super) fn matches(&self, document: &Document) -> bool {
        self.search.filter.is_none_or(|filter| filter.matches(&document.metadata))
    }

    /// The score of a record; none when it has no vector in the space.
    pub(super) fn score(&self, record: &Record) -> Option<f64> {
        let stored = record.vector_in(self.search.using)?;
        Some(self.metric.score(self.search.vector.as_slice(), stored.as_slice()))
    }

    /// How many neighbours an index is to keep in view for so many candidates: more where quantised vectors choose them, and
    /// where a filter does.
    pub(super) fn view(&self, count: usize, quantization: Option<Quantization>) -> usize {
        let oversampling = quantization.map_or(1.0, |quantization| quantization.oversampling);
        let chosen = (count as f64 * oversampling).ceil() as usize;
        let view = chosen.saturating_mul(2).max(MIN_VIEW);
        if self.search.filter.is_some() { view.saturating_mul(FILTERED_VIEW) } else { view }
    }
}

/// What one question to the engine gave.
pub(super) struct Proposals<'a> {
    question: Question<'a>,
    /// Are there no others?
    are_all: bool,
    /// Those that match.
    matching: Best,
    /// The worst score of all that the engine gave, matching or not.
    worst: Option<f64>,
    /// The greatest squared length among them.
    longest: f64,
}

impl<'a> Proposals<'a> {
    /// None yet. `are_all`: the engine gave fewer than were asked for.
    pub(super) fn new(question: Question<'a>, are_all: bool) -> Self {
        Self { question, are_all, matching: Best::new(question.metric, usize::MAX), worst: None, longest: 0.0 }
    }

    /// Takes one, whether it matches or not.
    pub(super) fn offer(&mut self, record: Record) {
        let Question { search, metric } = self.question;
        let Some(score) = self.question.score(&record) else { return };
        let length = record.vector_in(search.using).map_or(0.0, |stored| squared_norm(stored.as_slice()));
        self.longest = self.longest.max(length);
        if self.worst.is_none_or(|worst| metric.better_first(worst, score).is_lt()) {
            self.worst = Some(score);
        }
        if self.question.matches(&record.document) {
            self.matching.offer(ScoredRecord { record, score });
        }
    }

    /// How far the engine's scores may be from the true ones.
    fn tolerance(&self) -> f64 {
        let vector = self.question.search.vector;
        let scale = match self.question.metric {
            Metric::Cosine => 1.0,
            Metric::Dot => (squared_norm(vector.as_slice()) * self.longest).sqrt(),
            Metric::Euclidean => self.worst.unwrap_or_default(),
        };
        // The relative error of a sum of so many products in `f32`, which engines add up in lanes.
        f64::from(f32::EPSILON) * (16.0 + vector.dimension() as f64 / 4.0) * scale
    }
}

/// How many candidates are asked for next, as long as that is better than a scan.
pub(super) struct Widening {
    limit: usize,
    /// Records that there are.
    total: usize,
    most: usize,
    count: usize,
    is_exact: bool,
}

impl Widening {
    /// Before the first question.
    pub(super) fn new(limit: usize, total: usize, is_exact: bool) -> Self {
        let count = limit.saturating_add(SLACK);
        Self { limit, total, most: count.max(MAX_CANDIDATES), count, is_exact }
    }

    /// How many to ask for; none when it is time for a scan.
    pub(super) fn count(&self) -> Option<usize> {
        (self.count < self.total && self.count <= self.most).then_some(self.count)
    }

    /// Is the engine to answer without approximation?
    pub(super) fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// The hits, when the proposals are enough for them.
    pub(super) fn take(&mut self, proposals: Proposals<'_>) -> Option<Vec<ScoredRecord>> {
        let (metric, worst, tolerance) = (proposals.question.metric, proposals.worst, proposals.tolerance());
        let are_all = proposals.are_all;
        let mut matching = proposals.matching.into_best_first();
        let wider = self.count.saturating_mul(WIDER);
        let last = self.limit.checked_sub(1).and_then(|last| matching.get(last)).map(|hit| hit.score);
        // Equal scores are cut by their ids, as everywhere, unless there are more of them than an approximate search looks at.
        let is_wide = are_all || (wider > self.most && self.total > self.most);
        let is_enough =
            last.is_some_and(|last| (!self.is_exact && is_wide) || is_clear(metric, last, worst, tolerance));
        if is_enough || (are_all && self.is_exact) {
            matching.truncate(self.limit);
            return Some(matching);
        }
        if are_all {
            // The index may have missed some.
            self.is_exact = true;
        } else {
            self.count = wider;
        }
        None
    }
}

/// Is `last` better than everything that the engine did not give? That is at most as good as the worst it gave, but for
/// rounding.
pub(super) fn is_clear(metric: Metric, last: f64, worst: Option<f64>, tolerance: f64) -> bool {
    let Some(worst) = worst else { return true };
    let distance = if metric.more_is_better() { last - worst } else { worst - last };
    distance > 2.0 * tolerance
}
