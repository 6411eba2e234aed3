//! Fusion: several rankings become one. Pure functions of keys and scores.
//!
//! Each list is first rid of its duplicates, of which the best rank stays (LangChain adds them up, so that a long document with many
//! chunks wins). Then each entry of each list makes a contribution, and contributions to the same key are added up.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// A key in the fused list.
#[derive(Debug, Clone, PartialEq)]
pub struct Fused<K> {
    /// The key.
    pub key: K,
    /// The sum of its contributions.
    pub score: f64,
    /// Where it stood best: the list, and the 1-based rank in it. Of equal ranks the one in the first list.
    pub best: Standing,
    /// Where it stood, in the order of the lists.
    pub standings: Vec<Standing>,
}

/// A place in one of the lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Standing {
    /// Number of the list, from 0.
    pub list: usize,
    /// 1-based rank in it.
    pub rank: u32,
}

/// Positions of the first entry of each key. O(n log n).
pub fn distinct<K: Ord>(keys: &[K]) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    keys.iter().enumerate().filter(|(_, key)| seen.insert(*key)).map(|(position, _)| position).collect()
}

/// What each rank of a list of `count` contributes by reciprocal ranks: weight / (rank + c), ranks from 1.
pub fn reciprocal_ranks(count: usize, weight: f64, c: u32) -> Vec<f64> {
    (1..=count).map(|rank| weight / (rank as f64 + f64::from(c))).collect()
}

/// Scores brought to [0, 1] by the least and the greatest of them; 1 for all when they are the same. The greater the better.
pub fn min_max(scores: &[f64]) -> Vec<f64> {
    let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let width = greatest - least;
    let scaled = |score: &f64| if width > 0.0 { (score - least) / width } else { 1.0 };
    scores.iter().map(scaled).collect()
}

/// Scores brought to [0, 1] by their mean μ and (population) standard deviation σ: 0 at μ − 3σ, 1 at μ + 3σ, cut beyond; one half for
/// all when they are the same. The greater the better.
pub fn distribution_based(scores: &[f64]) -> Vec<f64> {
    let count = scores.len().max(1) as f64;
    let mean = scores.iter().sum::<f64>() / count;
    let variance = scores.iter().map(|score| (score - mean) * (score - mean)).sum::<f64>() / count;
    let three_sigma = 3.0 * variance.sqrt();
    let scaled = |score: &f64| match three_sigma > 0.0 {
        true => ((score - mean + three_sigma) / (2.0 * three_sigma)).clamp(0.0, 1.0),
        false => 0.5,
    };
    scores.iter().map(scaled).collect()
}

/// Adds up what the lists contribute to each key; each list is in the order of its ranks and without duplicates.
///
/// Order is total: score, then best rank, then the list that it was in. The result does not depend on the order of addition, since
/// contributions are added in the order of their size. O(n log n) for n entries.
///
/// ```
/// use toller_retrieval::fusion::{fuse, reciprocal_ranks};
/// let list = |keys: [&'static str; 3]| keys.into_iter().zip(reciprocal_ranks(3, 1.0, 60)).collect::<Vec<_>>();
/// let fused = fuse(&[list(["X", "a", "Y"]), list(["b", "c", "Y"])]);
/// assert_eq!(fused.iter().map(|fused| fused.key).collect::<Vec<_>>(), ["Y", "X", "b", "a", "c"]);
/// ```
pub fn fuse<K: Ord + Clone>(lists: &[Vec<(K, f64)>]) -> Vec<Fused<K>> {
    let mut by_key: BTreeMap<&K, (Vec<f64>, Vec<Standing>)> = BTreeMap::new();
    for (list, entries) in lists.iter().enumerate() {
        for ((key, contribution), rank) in entries.iter().zip(1..) {
            let (contributions, standings) = by_key.entry(key).or_default();
            contributions.push(*contribution);
            standings.push(Standing { list, rank });
        }
    }
    let fused = by_key.into_iter().filter_map(|(key, (mut contributions, standings))| {
        contributions.sort_by(f64::total_cmp);
        let best = *standings.iter().min_by_key(|standing| (standing.rank, standing.list))?;
        Some(Fused { key: key.clone(), score: contributions.iter().sum(), best, standings })
    });
    let mut fused: Vec<Fused<K>> = fused.collect();
    fused.sort_by(better_first);
    fused
}

fn better_first<K>(left: &Fused<K>, right: &Fused<K>) -> Ordering {
    let place = |fused: &Fused<K>| (fused.best.rank, fused.best.list);
    right.score.total_cmp(&left.score).then_with(|| place(left).cmp(&place(right)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_come_to_their_range() {
        assert_eq!(min_max(&[3.0, 1.0, 2.0]), [1.0, 0.0, 0.5]);
        assert_eq!(min_max(&[2.0, 2.0]), [1.0, 1.0]);
        assert_eq!(min_max(&[]), [0.0; 0]);
        assert_eq!(distribution_based(&[2.0, 2.0]), [0.5, 0.5]);
        assert_eq!(distribution_based(&[]), [0.0; 0]);
        // Mean 2, standard deviation 1: 3 is one of six deviations above the middle.
        let [high, low] = distribution_based(&[3.0, 1.0]).try_into().unwrap();
        assert!((high - 4.0 / 6.0).abs() < 1e-12 && (low - 2.0 / 6.0).abs() < 1e-12, "{high} {low}");
    }

    #[test]
    fn sums_do_not_depend_on_the_order_of_lists() {
        let at = |rank: usize| reciprocal_ranks(rank, 1.0 / 3.0, 60).last().copied().unwrap();
        let list = |rank| vec![("x", at(rank))];
        let first = fuse(&[list(1), list(2), list(3)]);
        let second = fuse(&[list(3), list(1), list(2)]);
        assert_eq!(first[0].score, second[0].score);
    }
}
