//! Choosing and ordering hits: pure functions of positions and vectors.

use toller_core::metric::{cosine, cosine_from_parts, dot, squared_norm};

/// The first of each list, the second of each list, and so on; shorter lists are passed over once they are at their end.
///
/// ```
/// use toller_retrieval::selection::round_robin;
/// let merged = round_robin(vec![vec!["a1", "a2", "a3"], vec!["b1"], vec!["c1", "c2"]]);
/// assert_eq!(merged, ["a1", "b1", "c1", "a2", "c2", "a3"]);
/// ```
pub fn round_robin<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut lists: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut merged = Vec::new();
    for _ in 0..longest {
        merged.extend(lists.iter_mut().filter_map(Iterator::next));
    }
    merged
}

/// An order of `count` hits with the best ones at both ends and the worst in the middle: positions 0, 2, 4, … and then … 5, 3, 1.
///
/// The best one always comes first. (LangChain's `LongContextReorder` puts it last when the number is even.)
///
/// ```
/// use toller_retrieval::selection::long_context_order;
/// assert_eq!(long_context_order(5), [0, 2, 4, 3, 1]);
/// assert_eq!(long_context_order(4), [0, 2, 3, 1]);
/// ```
pub fn long_context_order(count: usize) -> Vec<usize> {
    let odd = (1..count).step_by(2).rev();
    (0..count).step_by(2).chain(odd).collect()
}

/// Positions of the vectors that no kept one before them is more similar to than `threshold`, by cosine.
///
/// Greedy, best first: what is dropped drops nothing else. O(n·m·d) for m kept of n vectors of dimension d.
pub fn non_redundant<V: AsRef<[f32]>>(vectors: &[V], threshold: f64) -> Vec<usize> {
    let mut kept: Vec<(usize, &[f32], f64)> = Vec::new();
    for (position, vector) in vectors.iter().enumerate() {
        let vector = vector.as_ref();
        let norm = squared_norm(vector);
        let is_redundant = kept
            .iter()
            .any(|(_, other, other_norm)| cosine_from_parts(dot(vector, other), norm, *other_norm) > threshold);
        if !is_redundant {
            kept.push((position, vector, norm));
        }
    }
    kept.into_iter().map(|(position, _, _)| position).collect()
}

/// Positions of the vectors nearest to `query` with their cosine similarities, best first, ties in their order: at most `limit`, and
/// none below `threshold`. O(n·d + n log n).
pub fn nearest<V: AsRef<[f32]>>(
    query: &[f32],
    vectors: &[V],
    threshold: Option<f64>,
    limit: Option<usize>,
) -> Vec<(usize, f64)> {
    let similarities = vectors.iter().map(|vector| cosine(query, vector.as_ref())).enumerate();
    let is_near = |(_, similarity): &(usize, f64)| threshold.is_none_or(|threshold| *similarity >= threshold);
    let mut near: Vec<(usize, f64)> = similarities.filter(is_near).collect();
    near.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    near.truncate(limit.unwrap_or(usize::MAX));
    near
}
