//! One retriever asked several queries, and its rankings fused by reciprocal ranks.

use futures::{StreamExt, TryStreamExt, stream};
use toller_core::retriever::DEFAULT_RRF_C;
use toller_core::{Query, ScoredDocument};

use crate::fusion::{Fused, fuse, reciprocal_ranks};
use crate::identity::{Identity, Key};
use crate::legs::{distinct_hits, leg_score};
use crate::node::{Found, Node};
use crate::run::Run;

/// Queries that one retriever runs at a time.
const CONCURRENT_QUERIES: usize = 8;

/// Runs `node` for each of `queries` and fuses what it finds; at most `k` hits. Each query is a leg, named after the node, with `#2` and
/// so on. Of several failures it is that of the first query that is told.
pub(crate) async fn retrieve_and_fuse(node: &Node, run: &Run, queries: &[Query], k: Option<u32>) -> Found {
    let runs: Vec<Run> = (0..queries.len()).map(|turn| run.at_turn(turn)).collect();
    let running: Vec<_> = queries.iter().zip(&runs).map(|(query, run)| node.run(run, query)).collect();
    let lists: Vec<Vec<ScoredDocument>> = stream::iter(running).buffered(CONCURRENT_QUERIES).try_collect().await?;
    let lists: Vec<_> = lists.into_iter().map(|hits| distinct_hits(run, &Identity::Id, hits)).collect();

    let entries: Vec<Vec<(Key, f64)>> = lists
        .iter()
        .map(|hits| {
            let contributions = reciprocal_ranks(hits.len(), 1.0, DEFAULT_RRF_C);
            hits.iter().map(|(key, _)| key.clone()).zip(contributions).collect()
        })
        .collect();
    let mut lists: Vec<Vec<_>> =
        lists.into_iter().map(|hits| hits.into_iter().map(|(_, hit)| Some(hit)).collect()).collect();
    let fused = fuse(&entries).into_iter().filter_map(|fused| hit(node.name(), fused, &mut lists));
    Ok(fused.take(k.map_or(usize::MAX, |k| k as usize)).collect())
}

/// The surviving copy of a fused document: the one that stood best, with what each leg said.
fn hit(name: &str, fused: Fused<Key>, lists: &mut [Vec<Option<ScoredDocument>>]) -> Option<ScoredDocument> {
    let place = |rank: u32| rank as usize - 1;
    let sources = fused.standings.iter().filter_map(|standing| {
        let hit = lists.get(standing.list)?.get(place(standing.rank))?.as_ref()?;
        let leg = match standing.list {
            0 => name.to_owned(),
            list => format!("{name}#{}", list + 1),
        };
        Some(leg_score(&leg, hit, standing.rank))
    });
    let sources = sources.collect();
    let copy = lists.get_mut(fused.best.list)?.get_mut(place(fused.best.rank))?.take()?;
    Some(ScoredDocument { score: fused.score, relevance: None, metric: None, sources, ..copy })
}
