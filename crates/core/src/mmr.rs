//! Maximal marginal relevance (Carbonell and Goldstein 1998), in LangChain's form with its defects mended.

use crate::metric::{cosine_from_parts, dot, squared_norm};

/// One pick of [`maximal_marginal_relevance`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pick {
    /// Position in the list of candidates.
    pub index: usize,
    /// λ·sim(query, candidate) − (1−λ)·max sim(candidate, picked before) at the time of the pick; for the first pick
    /// the similarity with the query itself.
    pub score: f64,
}

/// Picks up to `k` of `candidates`, each the best trade-off between similarity with the query and novelty.
///
/// `lambda_mult` is in [0, 1]; 1 is pure relevance and 0 is pure diversity. Similarity is cosine whatever the metric of the
/// collection. The first pick is the candidate most similar to the query, for every λ. The lowest index wins ties. The redundancy of a
/// candidate is its greatest similarity with *any* earlier pick.
///
/// O(k·n·d) time with a running maximum and O(n) memory for n candidates of dimension d.
///
/// ```
/// use toller_core::mmr::maximal_marginal_relevance;
/// let candidates: [&[f32]; 3] = [&[1.0, 0.1], &[1.0, 0.11], &[0.2, 1.0]];
/// let picks = maximal_marginal_relevance(&[1.0, 0.3], &candidates, 2, 0.3);
/// assert_eq!(picks.iter().map(|pick| pick.index).collect::<Vec<_>>(), [1, 2]);
/// ```
pub fn maximal_marginal_relevance<V: AsRef<[f32]>>(
    query: &[f32],
    candidates: &[V],
    k: usize,
    lambda_mult: f64,
) -> Vec<Pick> {
    struct Candidate<'a> {
        index: usize,
        vector: &'a [f32],
        squared_norm: f64,
        similarity: f64,
        redundancy: f64,
    }

    let query_squared_norm = squared_norm(query);
    let mut remaining: Vec<Candidate<'_>> = candidates
        .iter()
        .enumerate()
        .map(|(index, vector)| {
            let vector = vector.as_ref();
            let squared_norm = squared_norm(vector);
            let similarity = cosine_from_parts(dot(query, vector), query_squared_norm, squared_norm);
            Candidate { index, vector, squared_norm, similarity, redundancy: f64::NEG_INFINITY }
        })
        .collect();

    let mut picks = Vec::with_capacity(k.min(candidates.len()));
    while picks.len() < k {
        let mut best: Option<(usize, f64)> = None;
        for (position, candidate) in remaining.iter().enumerate() {
            let score = if picks.is_empty() {
                candidate.similarity
            } else {
                lambda_mult * candidate.similarity - (1.0 - lambda_mult) * candidate.redundancy
            };
            if best.is_none_or(|(_, best_score)| score > best_score) {
                best = Some((position, score));
            }
        }
        let Some((position, score)) = best else { break };
        // `remove`, not `swap_remove`: the scan must keep meeting candidates in ascending index.
        let picked = remaining.remove(position);
        picks.push(Pick { index: picked.index, score });
        for candidate in &mut remaining {
            let similarity =
                cosine_from_parts(dot(picked.vector, candidate.vector), picked.squared_norm, candidate.squared_norm);
            candidate.redundancy = candidate.redundancy.max(similarity);
        }
    }
    picks
}
