//! Token vectors to one vector per sequence.

use toller_core::fingerprint::Pooling;

use crate::models::TokenVectors;

/// The least length that a vector is divided by, as in `torch.nn.functional.normalize`.
const LEAST_NORM: f64 = 1e-12;

/// Pools each sequence, and scales the result to unit length when `normalize` says so. Sums run in f64 and in the order of the
/// tokens, so that the same text gives the same vector in every batch.
pub(crate) fn pool(tokens: &TokenVectors, pooling: Pooling, normalize: bool) -> Result<Vec<Vec<f32>>, String> {
    let width = tokens.width;
    let mut rest = tokens.values.as_slice();
    let mut vectors = Vec::with_capacity(tokens.lengths.len());
    for length in &tokens.lengths {
        let Some((sequence, after)) = rest.split_at_checked(length * width) else {
            return Err("the packed matrix is shorter than its sequences".to_owned());
        };
        rest = after;
        let pooled = match pooling {
            Pooling::Cls => first(sequence, width),
            Pooling::Mean => mean(sequence, width),
        };
        vectors.push(if normalize { unit_length(&pooled) } else { pooled.iter().map(|value| *value as f32).collect() });
    }
    Ok(vectors)
}

fn first(sequence: &[f32], width: usize) -> Vec<f64> {
    sequence.iter().take(width).map(|value| f64::from(*value)).collect()
}

fn mean(sequence: &[f32], width: usize) -> Vec<f64> {
    let mut sums = vec![0.0; width];
    for token in sequence.chunks_exact(width) {
        for (sum, value) in sums.iter_mut().zip(token) {
            *sum += f64::from(*value);
        }
    }
    let count = (sequence.len() / width) as f64;
    sums.into_iter().map(|sum| sum / count).collect()
}

fn unit_length(vector: &[f64]) -> Vec<f32> {
    let norm = vector.iter().map(|value| value * value).sum::<f64>().sqrt().max(LEAST_NORM);
    vector.iter().map(|value| (value / norm) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> TokenVectors {
        TokenVectors { values: vec![3.0, 4.0, 1.0, 0.0, 2.0, 2.0, 0.0, 0.0], width: 2, lengths: vec![3, 1] }
    }

    #[test]
    fn cls_is_the_first_token_and_mean_the_mean() {
        assert_eq!(pool(&tokens(), Pooling::Cls, false).unwrap(), [[3.0, 4.0], [0.0, 0.0]]);
        assert_eq!(pool(&tokens(), Pooling::Mean, false).unwrap(), [[2.0, 2.0], [0.0, 0.0]]);
    }

    #[test]
    fn unit_length_leaves_the_zero_vector_alone() {
        assert_eq!(pool(&tokens(), Pooling::Cls, true).unwrap(), [[0.6, 0.8], [0.0, 0.0]]);
    }
}
