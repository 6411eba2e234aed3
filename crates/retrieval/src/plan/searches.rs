//! How many searches a tree may come to: retrievers that ask several queries multiply what is below them.

use toller_core::retriever::{DEFAULT_MAX_QUERIES, RetrieverKind, RetrieverSpec};

/// The most searches that one run of the tree may make. O(nodes).
pub(super) fn most_searches(spec: &mut RetrieverSpec) -> usize {
    let queries = |most: Option<u32>, original: bool| {
        (most.unwrap_or(DEFAULT_MAX_QUERIES) as usize).saturating_add(usize::from(original))
    };
    let factor = match &spec.kind {
        RetrieverKind::MultiQuery(spec) => {
            let original = spec.include_original.unwrap_or(true);
            match spec.queries.len() {
                0 => queries(spec.max_queries, original),
                given => given + usize::from(original),
            }
        }
        RetrieverKind::Decompose(spec) => queries(spec.max_queries, spec.include_original.unwrap_or(false)),
        RetrieverKind::Hybrid(_) => 2,
        _ => 1,
    };
    let below = spec.kind.children_mut().into_iter().map(|(_, child)| most_searches(child));
    factor.saturating_mul(below.fold(0, usize::saturating_add).max(1))
}
