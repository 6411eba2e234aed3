//! The fallback: one retriever after the other, until an answer is good enough.

use async_trait::async_trait;
use toller_core::retriever::FallbackSpec;
use toller_core::{Query, Result, ScoredDocument};

use crate::failure::Failure;
use crate::node::{Found, Node, Operator, is_skippable};
use crate::plan::Binder;
use crate::run::Run;

/// Asks one retriever after the other.
pub(crate) struct Fallback {
    retrievers: Vec<Node>,
    min_hits: usize,
    min_relevance: Option<f64>,
}

impl Fallback {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &FallbackSpec) -> Result<Option<Self>> {
        binder.check_count(path, "min_hits", spec.min_hits);
        binder.check_range(path, "min_relevance", spec.min_relevance, 0.0..=1.0);
        let retrievers = binder.nodes(&spec.retrievers, path, 2).await?;
        Ok(retrievers.map(|retrievers| Self {
            retrievers,
            min_hits: spec.min_hits.unwrap_or(1) as usize,
            min_relevance: spec.min_relevance,
        }))
    }

    /// How many hits count.
    fn good_hits(&self, hits: &[ScoredDocument]) -> usize {
        let Some(least) = self.min_relevance else { return hits.len() };
        hits.iter().filter(|hit| hit.relevance.is_some_and(|relevance| relevance >= least)).count()
    }
}

#[async_trait]
impl Operator for Fallback {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let mut best: Option<(usize, Vec<ScoredDocument>)> = None;
        let mut last_failure: Option<Failure> = None;
        for node in &self.retrievers {
            let path = &node.place.path;
            match node.run(run, query).await {
                Ok(hits) => {
                    let good = self.good_hits(&hits);
                    if good >= self.min_hits {
                        return Ok(hits);
                    }
                    run.warn_at(
                        path,
                        format!("passed over: {good} hits are good enough, {} are wanted", self.min_hits),
                    );
                    if best.as_ref().is_none_or(|(most, _)| good > *most) {
                        best = Some((good, hits));
                    }
                }
                Err(failure) if !is_skippable(run, &failure.error) => return Err(failure),
                Err(failure) => {
                    run.warn_at(path, format!("passed over: {}", failure.error));
                    last_failure = Some(failure);
                }
            }
        }
        match (best, last_failure) {
            (Some((_, hits)), _) => Ok(hits),
            (None, Some(failure)) => Err(failure),
            // There are at least two retrievers, each of which gave hits or failed.
            (None, None) => Ok(Vec::new()),
        }
    }
}
