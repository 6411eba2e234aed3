//! The merger: hits of several retrievers in turn (LangChain's `MergerRetriever`, without its duplicates).

use std::collections::BTreeMap;

use async_trait::async_trait;
use toller_core::retriever::MergerSpec;
use toller_core::{Query, Result, ScoredDocument, SourceScore};

use crate::identity::{Identity, Key};
use crate::leg_fusion::within_span;
use crate::legs::{leg_names, leg_score};
use crate::node::{Found, Node, Operator, run_all};
use crate::plan::Binder;
use crate::run::Run;
use crate::selection::round_robin;

/// How its span calls what it does.
const METHOD: &str = "round_robin";

/// Takes hits in turn. Scores stay what they were; `sources` names the legs that found a document, with their ranks.
pub(crate) struct Merger {
    retrievers: Vec<Node>,
    names: Vec<String>,
    identity: Identity,
    allow_duplicates: bool,
    k: Option<u32>,
}

impl Merger {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &MergerSpec) -> Result<Option<Self>> {
        binder.check_count(path, "k", spec.k);
        if spec.allow_duplicates && spec.id_key.is_some() {
            binder.fault(path, "id_key", "is of use without allow_duplicates only");
        }
        let identity = binder.identity(path, spec.id_key.as_deref());
        let retrievers = binder.nodes(&spec.retrievers, path, 1).await?;
        Ok(identity.zip(retrievers).map(|(identity, retrievers)| Self {
            names: leg_names(&retrievers),
            retrievers,
            identity,
            allow_duplicates: spec.allow_duplicates,
            k: spec.k,
        }))
    }
}

#[async_trait]
impl Operator for Merger {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let nodes: Vec<&Node> = self.retrievers.iter().collect();
        let lists = run_all(&nodes, run, query).await?;
        let keyed = self.names.iter().zip(lists).map(|(name, hits)| {
            let keys = self.identity.keys(run, &hits);
            let hits = hits.into_iter().zip(1..).map(|(mut hit, rank)| {
                hit.sources = vec![leg_score(name, &hit, rank)];
                hit
            });
            keys.into_iter().zip(hits).collect()
        });
        let lists: Vec<Vec<(Key, ScoredDocument)>> = keyed.collect();
        let lengths: Vec<usize> = lists.iter().map(Vec::len).collect();
        Ok(within_span(METHOD, &lengths, || {
            let merged = round_robin(lists);
            let mut hits = if self.allow_duplicates {
                merged.into_iter().map(|(_, hit)| hit).collect()
            } else {
                without_duplicates(merged)
            };
            hits.truncate(self.k.map_or(usize::MAX, |k| k as usize));
            hits
        }))
    }
}

/// The first hit of each key, with what each leg said of it where it stood best.
fn without_duplicates(merged: Vec<(Key, ScoredDocument)>) -> Vec<ScoredDocument> {
    let mut hits: Vec<ScoredDocument> = Vec::new();
    let mut positions: BTreeMap<Key, usize> = BTreeMap::new();
    for (key, hit) in merged {
        let position = *positions.entry(key).or_insert(hits.len());
        match hits.get_mut(position) {
            None => hits.push(hit),
            Some(first) => {
                let is_new = |source: &SourceScore| first.sources.iter().all(|known| known.source != source.source);
                let new: Vec<SourceScore> = hit.sources.into_iter().filter(is_new).collect();
                first.sources.extend(new);
            }
        }
    }
    hits
}
