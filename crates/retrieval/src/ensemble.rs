//! The ensemble: several rankings fused into one (LangChain's `EnsembleRetriever`, with its defects mended: duplicates within a list
//! count once, a weight of zero asks nobody, and the copy that survives is the best ranked one).

use async_trait::async_trait;
use toller_core::retriever::{DEFAULT_RRF_C, EnsembleSpec, Fusion};
use toller_core::{Error, Metric, Query, Result, ScoredDocument};

use crate::failure::Failure;
use crate::fusion::{distribution_based, min_max, reciprocal_ranks};
use crate::identity::{Identity, Key};
use crate::leg_fusion::{LegHits, fuse_legs};
use crate::legs::{distinct_hits, leg_names};
use crate::node::{Found, Node, Operator, run_all};
use crate::plan::Binder;
use crate::run::Run;

/// Largest weight: far beyond any sensible one, and small enough for the scores of nested ensembles to stay finite.
pub(crate) const MAX_WEIGHT: f64 = 1e6;

/// Fuses what its legs find.
pub(crate) struct Ensemble {
    legs: Vec<Leg>,
    fusion: Fusion,
    c: u32,
    identity: Identity,
    k: Option<u32>,
}

struct Leg {
    node: Node,
    name: String,
    weight: f64,
}

impl Ensemble {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &EnsembleSpec) -> Result<Option<Self>> {
        binder.check_count(path, "k", spec.k);
        if spec.fusion != Fusion::Rrf && spec.c.is_some() {
            binder.fault(path, "c", format!("is of use with fusion rrf only, not {}", spec.fusion.as_str()));
        }
        check_weights(binder, path, spec);
        let identity = binder.identity(path, spec.id_key.as_deref());
        let nodes = binder.nodes(&spec.retrievers, path, 1).await?;
        let (Some(identity), Some(nodes)) = (identity, nodes) else { return Ok(None) };

        let equal = vec![1.0 / nodes.len() as f64; nodes.len()];
        let weights = if spec.weights.is_empty() { &equal } else { &spec.weights };
        Ok(Some(Self::new(nodes, weights, identity, spec.fusion, spec.c, spec.k)))
    }

    /// An ensemble of these nodes with their weights, of hits that are told apart by id; a weight of 0 asks nobody.
    pub(crate) fn of(legs: Vec<(Node, f64)>, fusion: Fusion, c: Option<u32>, k: Option<u32>) -> Self {
        let (nodes, weights): (Vec<Node>, Vec<f64>) = legs.into_iter().unzip();
        Self::new(nodes, &weights, Identity::Id, fusion, c, k)
    }

    fn new(
        nodes: Vec<Node>,
        weights: &[f64],
        identity: Identity,
        fusion: Fusion,
        c: Option<u32>,
        k: Option<u32>,
    ) -> Self {
        let names = leg_names(&nodes);
        let legs = nodes.into_iter().zip(names).zip(weights);
        let legs = legs.map(|((node, name), weight)| Leg { node, name, weight: *weight });
        let legs = legs.filter(|leg| leg.weight > 0.0).collect();
        Self { legs, fusion, c: c.unwrap_or(DEFAULT_RRF_C), identity, k }
    }

    /// What each hit of a leg contributes.
    fn contributions(&self, leg: &Leg, hits: &[(Key, ScoredDocument)]) -> Result<Vec<f64>> {
        let scores = || hits.iter().map(|(_, hit)| greater_is_better(hit)).collect::<Vec<_>>();
        let weighted = |values: Vec<f64>| values.into_iter().map(|value| leg.weight * value).collect();
        Ok(match self.fusion {
            Fusion::Rrf => reciprocal_ranks(hits.len(), leg.weight, self.c),
            Fusion::MinMax => weighted(min_max(&scores())),
            Fusion::DistributionBased => weighted(distribution_based(&scores())),
            Fusion::Convex => {
                let total: f64 = self.legs.iter().map(|leg| leg.weight).sum();
                let relevances = hits.iter().map(|(_, hit)| hit.relevance).collect::<Option<Vec<_>>>();
                let relevances = relevances.ok_or_else(|| {
                    let description = format!("convex needs a relevance of every hit, and {} gives none", leg.name);
                    Error::invalid("ensemble.fusion", description)
                })?;
                relevances.into_iter().map(|relevance| leg.weight / total * relevance).collect()
            }
        })
    }
}

#[async_trait]
impl Operator for Ensemble {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let nodes: Vec<&Node> = self.legs.iter().map(|leg| &leg.node).collect();
        let lists = run_all(&nodes, run, query).await?;
        let lists: Vec<_> = lists.into_iter().map(|hits| distinct_hits(run, &self.identity, hits)).collect();

        let mut legs = Vec::with_capacity(lists.len());
        for (leg, hits) in self.legs.iter().zip(lists) {
            let contributions = self.contributions(leg, &hits).map_err(Failure::from)?;
            legs.push(LegHits { name: leg.name.clone(), hits, contributions });
        }
        Ok(fuse_legs(self.fusion, legs, self.k))
    }
}

/// The score, turned round where less is better.
fn greater_is_better(hit: &ScoredDocument) -> f64 {
    match hit.metric {
        Some(Metric::Euclidean) => -hit.score,
        _ => hit.score,
    }
}

fn check_weights(binder: &mut Binder<'_>, path: &str, spec: &EnsembleSpec) {
    let (weights, retrievers) = (&spec.weights, spec.retrievers.len());
    if weights.is_empty() {
        return;
    }
    if weights.len() != retrievers {
        binder.fault(path, "weights", format!("must be as many as retrievers, {retrievers}, got {}", weights.len()));
    }
    for (index, weight) in weights.iter().enumerate() {
        binder.check_range(path, &format!("weights[{index}]"), Some(*weight), 0.0..=MAX_WEIGHT);
    }
    if weights.iter().all(|weight| *weight == 0.0) {
        binder.fault(path, "weights", "must have at least one above 0");
    }
}
