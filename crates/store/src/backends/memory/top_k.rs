//! The best k of a scan, in a heap that never grows beyond k.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use toller_core::Metric;

/// A row with its score; ordered best first, then by position in the scan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate {
    pub(super) score: f64,
    pub(super) block: usize,
    pub(super) slot: usize,
}

/// Keeps the best `limit` candidates of a scan in O(log limit) each. Of two equal scores the one that was offered first wins.
#[derive(Debug)]
pub(super) struct TopK {
    metric: Metric,
    limit: usize,
    /// The worst is on top.
    heap: BinaryHeap<Ranked>,
}

#[derive(Debug)]
struct Ranked {
    candidate: Candidate,
    metric: Metric,
}

impl TopK {
    pub(super) fn new(metric: Metric, limit: usize) -> Self {
        Self { metric, limit, heap: BinaryHeap::with_capacity(limit) }
    }

    /// The score that a later candidate must beat; none while there is room.
    pub(super) fn score_to_beat(&self) -> Option<f64> {
        if self.heap.len() < self.limit { None } else { self.heap.peek().map(|worst| worst.candidate.score) }
    }

    /// Takes a candidate when it is among the best so far. Candidates come in ascending position.
    pub(super) fn offer(&mut self, candidate: Candidate) {
        let ranked = Ranked { candidate, metric: self.metric };
        if self.heap.len() < self.limit {
            self.heap.push(ranked);
        } else if let Some(mut worst) = self.heap.peek_mut()
            && ranked < *worst
        {
            *worst = ranked;
        }
    }

    /// The candidates, best first.
    pub(super) fn into_best_first(self) -> Vec<Candidate> {
        self.heap.into_sorted_vec().into_iter().map(|ranked| ranked.candidate).collect()
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        let (left, right) = (&self.candidate, &other.candidate);
        self.metric
            .better_first(left.score, right.score)
            .then_with(|| (left.block, left.slot).cmp(&(right.block, right.slot)))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Ranked {}

#[cfg(test)]
mod tests {
    use super::*;

    fn best(metric: Metric, limit: usize, scores: &[f64]) -> Vec<usize> {
        let mut top = TopK::new(metric, limit);
        for (slot, score) in scores.iter().enumerate() {
            top.offer(Candidate { score: *score, block: 0, slot });
        }
        top.into_best_first().iter().map(|candidate| candidate.slot).collect()
    }

    #[test]
    fn the_first_of_equals_wins_in_both_directions() {
        assert_eq!(best(Metric::Dot, 3, &[1.0, 2.0, 1.0, 2.0, 1.0]), [1, 3, 0]);
        assert_eq!(best(Metric::Euclidean, 3, &[1.0, 2.0, 1.0, 2.0, 1.0]), [0, 2, 4]);
        assert_eq!(best(Metric::Dot, 0, &[1.0]), [] as [usize; 0]);
        assert_eq!(best(Metric::Dot, 9, &[1.0, 3.0]), [1, 0]);
    }
}
