//! Making one list of the lists of several legs, within a span of its own.

use toller_core::retriever::{DEFAULT_RRF_C, Fusion};
use toller_core::{ScoredDocument, SourceScore};
use toller_telemetry::spans;

use crate::fusion::{Fused, fuse, reciprocal_ranks};
use crate::identity::Key;
use crate::legs::leg_score;

/// What one leg found.
pub(crate) struct LegHits {
    /// The leg's name in `sources`.
    pub(crate) name: String,
    /// Its hits with their keys, best first and without duplicates.
    pub(crate) hits: Vec<(Key, ScoredDocument)>,
    /// What each of them contributes.
    pub(crate) contributions: Vec<f64>,
}

impl LegHits {
    /// A leg of weight 1 whose hits contribute by their reciprocal ranks.
    pub(crate) fn by_rank(name: String, hits: Vec<(Key, ScoredDocument)>) -> Self {
        let contributions = reciprocal_ranks(hits.len(), 1.0, DEFAULT_RRF_C);
        Self { name, hits, contributions }
    }
}

/// The fused list, at most `k` hits: of a document that several legs found the copy that stood best, with what each leg said. O(n log n)
/// for n hits.
pub(crate) fn fuse_legs(fusion: Fusion, legs: Vec<LegHits>, k: Option<u32>) -> Vec<ScoredDocument> {
    let lengths: Vec<usize> = legs.iter().map(|leg| leg.hits.len()).collect();
    within_span(fusion.as_str(), &lengths, || {
        let entries: Vec<Vec<(Key, f64)>> = legs
            .iter()
            .map(|leg| leg.hits.iter().map(|(key, _)| key.clone()).zip(leg.contributions.iter().copied()).collect())
            .collect();
        let mut lists: Vec<Vec<Option<ScoredDocument>>> = Vec::with_capacity(legs.len());
        let mut names = Vec::with_capacity(legs.len());
        for leg in legs {
            names.push(leg.name);
            lists.push(leg.hits.into_iter().map(|(_, hit)| Some(hit)).collect());
        }
        let hits = fuse(&entries).into_iter().filter_map(|fused| fused_hit(fused, &names, &mut lists));
        hits.take(k.map_or(usize::MAX, |k| k as usize)).collect()
    })
}

/// Runs `make`, which makes one list of lists of these lengths by `method`, within its span.
pub(crate) fn within_span(
    method: &'static str,
    lengths: &[usize],
    make: impl FnOnce() -> Vec<ScoredDocument>,
) -> Vec<ScoredDocument> {
    let span = spans::fusion(method, lengths.len(), lengths.iter().sum());
    let hits = span.in_scope(make);
    spans::record_fused(&span, hits.len());
    hits
}

fn fused_hit(fused: Fused<Key>, names: &[String], lists: &mut [Vec<Option<ScoredDocument>>]) -> Option<ScoredDocument> {
    let place = |rank: u32| rank as usize - 1;
    let sources = fused.standings.iter().filter_map(|standing| {
        let hit = lists.get(standing.list)?.get(place(standing.rank))?.as_ref()?;
        Some(leg_score(names.get(standing.list)?, hit, standing.rank))
    });
    let sources: Vec<SourceScore> = sources.collect();
    let copy = lists.get_mut(fused.best.list)?.get_mut(place(fused.best.rank))?.take()?;
    Some(ScoredDocument { score: fused.score, relevance: None, metric: None, sources, ..copy })
}
