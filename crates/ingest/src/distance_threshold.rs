//! How far apart two neighbours have to be for a cut between them.

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// When two neighbouring groups of sentences are far enough from each other for a cut: LangChain's four ways
/// (`SemanticChunker._calculate_breakpoint_threshold` of langchain-experimental 0.4.2), and an exact number of chunks.
///
/// A cut is where a distance is greater than the threshold, not where it equals it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DistanceThreshold {
    /// This percentile of the distances, 0 to 100; LangChain's default is 95. Linear between two distances, as `numpy.percentile`.
    Percentile(f64),
    /// The mean and this many standard deviations (of the whole, not of a sample), at least 0; LangChain's default is 3.
    StandardDeviation(f64),
    /// The mean and this many interquartile ranges, at least 0; LangChain's default is 1.5.
    Interquartile(f64),
    /// This percentile of the gradients, 0 to 100, which are compared in the place of the distances; LangChain's default is 95.
    Gradient(f64),
    /// As many chunks as this, at least 1, or one for each sentence where there are fewer: the cuts are at the greatest distances,
    /// the first of equal ones. LangChain's number is approximate.
    NumberOfChunks(usize),
}

impl Default for DistanceThreshold {
    /// The 95th percentile, as in LangChain.
    fn default() -> Self {
        Self::Percentile(DEFAULT_PERCENTILE)
    }
}

/// LangChain's default amount for percentiles, of distances and of gradients.
pub const DEFAULT_PERCENTILE: f64 = 95.0;

/// LangChain's default number of standard deviations.
pub const DEFAULT_STANDARD_DEVIATIONS: f64 = 3.0;

/// LangChain's default number of interquartile ranges.
pub const DEFAULT_INTERQUARTILE_RANGES: f64 = 1.5;

impl DistanceThreshold {
    /// Checks the number.
    pub(crate) fn check(self) -> Result<(), Error> {
        let fault = match self {
            Self::Percentile(amount) | Self::Gradient(amount) if !(0.0..=100.0).contains(&amount) => {
                format!("must be a percentile of 0 to 100, got {amount}")
            }
            Self::StandardDeviation(amount) | Self::Interquartile(amount) if !(amount.is_finite() && amount >= 0.0) => {
                format!("must be a finite number of at least 0, got {amount}")
            }
            Self::NumberOfChunks(0) => "must be at least 1 chunk, got 0".to_owned(),
            _ => return Ok(()),
        };
        Err(Error::invalid("threshold", fault))
    }

    /// Is there a cut after each of the groups that these distances follow? O(n log n).
    pub(crate) fn cuts(self, distances: &[f64]) -> Vec<bool> {
        let above = |values: &[f64], threshold: f64| values.iter().map(|value| *value > threshold).collect();
        match self {
            Self::Percentile(amount) => above(distances, percentile(distances, amount)),
            Self::StandardDeviation(amount) => {
                above(distances, mean(distances) + amount * standard_deviation(distances))
            }
            Self::Interquartile(amount) => {
                let range = percentile(distances, 75.0) - percentile(distances, 25.0);
                above(distances, mean(distances) + amount * range)
            }
            Self::Gradient(amount) => {
                let gradients = gradients(distances);
                above(&gradients, percentile(&gradients, amount))
            }
            Self::NumberOfChunks(chunks) => greatest(distances, chunks.saturating_sub(1)),
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// As `numpy.std`: divided by n.
fn standard_deviation(values: &[f64]) -> f64 {
    let mean_value = mean(values);
    let squares: Vec<f64> = values.iter().map(|value| (value - mean_value) * (value - mean_value)).collect();
    mean(&squares).sqrt()
}

/// As `numpy.percentile` with its default, linear interpolation. 0 of nothing.
fn percentile(values: &[f64], amount: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let place = amount / 100.0 * sorted.len().saturating_sub(1) as f64;
    let at = |index: f64| sorted.get(index as usize).copied().unwrap_or(0.0);
    let (lower, upper) = (at(place.floor()), at(place.ceil()));
    lower + (upper - lower) * (place - place.floor())
}

/// As `numpy.gradient` with a spacing of 1: central differences, one-sided at the ends. Of a single value 0, where numpy fails.
fn gradients(values: &[f64]) -> Vec<f64> {
    let value = |index: usize| values.get(index).copied();
    (0..values.len())
        .map(|index| {
            let (left, right) = (index.saturating_sub(1), (index + 1).min(values.len() - 1));
            match (value(left), value(right)) {
                (Some(before), Some(after)) if right > left => (after - before) / (right - left) as f64,
                _ => 0.0,
            }
        })
        .collect()
}

/// Marks the `count` greatest, the first of equal ones.
fn greatest(values: &[f64], count: usize) -> Vec<bool> {
    let mut order: Vec<(usize, f64)> = values.iter().copied().enumerate().collect();
    order.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    let mut marks = vec![false; values.len()];
    for (index, _) in order.into_iter().take(count) {
        if let Some(mark) = marks.get_mut(index) {
            *mark = true;
        }
    }
    marks
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISTANCES: [f64; 5] = [0.1, 0.4, 0.2, 0.9, 0.3];

    fn is_close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-12
    }

    #[test]
    fn the_formulas_are_numpys() {
        // numpy.percentile, numpy.std and numpy.gradient of DISTANCES.
        assert!(is_close(percentile(&DISTANCES, 95.0), 0.8));
        assert!(is_close(percentile(&DISTANCES, 25.0), 0.2) && is_close(percentile(&DISTANCES, 75.0), 0.4));
        assert!(is_close(mean(&DISTANCES), 0.38));
        assert!(is_close(standard_deviation(&DISTANCES), 0.278_567_765_543_682_4));
        let expected = [0.3, 0.05, 0.25, 0.05, -0.6];
        assert!(gradients(&DISTANCES).iter().zip(expected).all(|(ours, numpys)| is_close(*ours, numpys)));
    }

    #[test]
    fn cuts_are_where_the_distance_is_greater() {
        for (threshold, expected) in [
            (DistanceThreshold::default(), vec![3]),
            (DistanceThreshold::Percentile(50.0), vec![1, 3]),
            (DistanceThreshold::Percentile(100.0), vec![]),
            (DistanceThreshold::StandardDeviation(1.0), vec![3]),
            (DistanceThreshold::StandardDeviation(3.0), vec![]),
            (DistanceThreshold::Interquartile(1.5), vec![3]),
            (DistanceThreshold::Gradient(95.0), vec![0]),
            (DistanceThreshold::NumberOfChunks(1), vec![]),
            (DistanceThreshold::NumberOfChunks(3), vec![1, 3]),
            (DistanceThreshold::NumberOfChunks(99), vec![0, 1, 2, 3, 4]),
        ] {
            let cuts = threshold.cuts(&DISTANCES);
            let places: Vec<usize> = (0..cuts.len()).filter(|index| cuts[*index]).collect();
            assert_eq!(places, expected, "{threshold:?}");
        }
    }

    #[test]
    fn few_distances_are_no_fault() {
        for threshold in [
            DistanceThreshold::Percentile(95.0),
            DistanceThreshold::StandardDeviation(3.0),
            DistanceThreshold::Interquartile(1.5),
            DistanceThreshold::Gradient(95.0),
        ] {
            assert_eq!(threshold.cuts(&[]), [] as [bool; 0]);
            assert_eq!(threshold.cuts(&[0.5]), [false], "{threshold:?}");
        }
        assert_eq!(DistanceThreshold::NumberOfChunks(2).cuts(&[0.5]), [true], "two sentences, two chunks");
        assert_eq!(DistanceThreshold::NumberOfChunks(2).cuts(&[0.5, 0.5]), [true, false]);
    }

    #[test]
    fn amounts_are_checked() {
        for (threshold, fault) in [
            (DistanceThreshold::Percentile(101.0), "threshold: must be a percentile of 0 to 100, got 101"),
            (DistanceThreshold::Gradient(f64::NAN), "threshold: must be a percentile of 0 to 100, got NaN"),
            (DistanceThreshold::StandardDeviation(-1.0), "threshold: must be a finite number of at least 0, got -1"),
            (DistanceThreshold::NumberOfChunks(0), "threshold: must be at least 1 chunk, got 0"),
        ] {
            assert_eq!(threshold.check().unwrap_err().to_string(), fault);
        }
        assert!(DistanceThreshold::Interquartile(0.0).check().is_ok());
    }
}
