//! The parts of a retriever that makes one list of several: their names, and their lists without duplicates.

use std::collections::BTreeSet;

use toller_core::{ScoredDocument, SourceScore};

use crate::fusion::distinct;
use crate::identity::{Identity, Key};
use crate::node::Node;
use crate::run::Run;

/// Names for `sources`: those of the nodes, with `#2` and so on where a name is taken.
pub(crate) fn leg_names(nodes: &[Node]) -> Vec<String> {
    let mut taken = BTreeSet::new();
    let mut names = Vec::with_capacity(nodes.len());
    for node in nodes {
        let mut name = node.name().to_owned();
        let mut number = 2_usize;
        while !taken.insert(name.clone()) {
            name = format!("{}#{number}", node.name());
            number += 1;
        }
        names.push(name);
    }
    names
}

/// The hits of one leg with their keys; of hits with the same key the best one.
pub(crate) fn distinct_hits(run: &Run, identity: &Identity, hits: Vec<ScoredDocument>) -> Vec<(Key, ScoredDocument)> {
    let keys = identity.keys(run, &hits);
    let kept: BTreeSet<usize> = distinct(&keys).into_iter().collect();
    let keyed = keys.into_iter().zip(hits).enumerate();
    keyed.filter(|(position, _)| kept.contains(position)).map(|(_, keyed)| keyed).collect()
}

/// What the leg `name` says of a hit.
pub(crate) fn leg_score(name: &str, hit: &ScoredDocument, rank: u32) -> SourceScore {
    SourceScore { source: name.to_owned(), score: hit.score, rank }
}
