//! One retriever asked several queries, and its rankings fused by reciprocal ranks.

use futures::{StreamExt, TryStreamExt, stream};
use toller_core::retriever::Fusion;
use toller_core::{Query, ScoredDocument};

use crate::identity::Identity;
use crate::leg_fusion::{LegHits, fuse_legs};
use crate::legs::distinct_hits;
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
    let legs = lists.into_iter().enumerate().map(|(number, hits)| {
        let name = match number {
            0 => node.name().to_owned(),
            number => format!("{}#{}", node.name(), number + 1),
        };
        LegHits::by_rank(name, distinct_hits(run, &Identity::Id, hits))
    });
    Ok(fuse_legs(Fusion::Rrf, legs.collect(), k))
}
