//! The hybrid retriever: one collection, searched by vector and by keywords at the same time, and what both find fused.
//!
//! It is an ensemble of the two searches, which are nodes of their own below it: `hybrid.vector` and `hybrid.keyword` in traces,
//! `vector_store` and `keyword` in the sources of a hit. The filter holds in each of them, before ranks are given.

use async_trait::async_trait;
use toller_core::error::join_path;
use toller_core::retriever::{
    DEFAULT_K, DEFAULT_LEG_K, Fusion, HybridRetrieverSpec, KeywordRetrieverSpec, RetrieverKind, RetrieverSpec,
    VectorStoreRetrieverSpec,
};
use toller_core::{Query, Result};
use toller_store::CollectionHandle;
use toller_telemetry::spans::RetrievalSpan;

use crate::ensemble::{Ensemble, MAX_WEIGHT};
use crate::node::{Found, Operator};
use crate::plan::Binder;
use crate::run::Run;

/// Fuses two searches of one collection.
pub(crate) struct HybridRetriever {
    collection: CollectionHandle,
    k: u32,
    legs: Ensemble,
}

impl HybridRetriever {
    /// Checks the parameters at `path` and opens their collection; none when there are faults.
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &HybridRetrieverSpec) -> Result<Option<Self>> {
        let weights = check(binder, path, spec);
        let (Some(collection), Some([vector_weight, keyword_weight])) =
            (binder.indexed_collection(path, &spec.collection).await?, weights)
        else {
            return Ok(None);
        };
        let k = spec.k.unwrap_or(DEFAULT_K);
        let leg_k = Some(spec.leg_k.unwrap_or(DEFAULT_LEG_K).max(k).min(binder.max_k().max(k)));
        let vector = RetrieverKind::VectorStore(VectorStoreRetrieverSpec {
            k: leg_k,
            filter: spec.filter.clone(),
            with_vectors: spec.with_vectors,
            ..VectorStoreRetrieverSpec::new(spec.collection.clone())
        });
        let keyword = RetrieverKind::Keyword(KeywordRetrieverSpec {
            collection: spec.collection.clone(),
            k: leg_k,
            filter: spec.filter.clone(),
            with_vectors: spec.with_vectors,
        });
        let vector = binder.node(&RetrieverSpec::new(vector), join_path(path, "vector")).await?;
        let keyword = binder.node(&RetrieverSpec::new(keyword), join_path(path, "keyword")).await?;
        let (Some(vector), Some(keyword)) = (vector, keyword) else { return Ok(None) };
        let legs = vec![(vector, vector_weight), (keyword, keyword_weight)];
        Ok(Some(Self { collection, k, legs: Ensemble::of(legs, spec.fusion, spec.c, Some(k)) }))
    }
}

/// The weights of the legs; none where they or something else that would be a fault of both legs is one.
fn check(binder: &mut Binder<'_>, path: &str, spec: &HybridRetrieverSpec) -> Option<[f64; 2]> {
    let before = binder.fault_count();
    binder.check_count(path, "k", spec.k);
    binder.check_count(path, "leg_k", spec.leg_k);
    if let (Some(k), Some(leg_k)) = (spec.k, spec.leg_k)
        && leg_k < k
    {
        binder.fault(path, "leg_k", format!("must be at least k, {k}, got {leg_k}"));
    }
    binder.check_filter(path, "filter", spec.filter.as_ref());
    if spec.fusion == Fusion::Convex {
        binder.fault(path, "fusion", "must not be convex: hits by keywords have no relevance; choose another one");
    }
    if spec.fusion != Fusion::Rrf && spec.c.is_some() {
        binder.fault(path, "c", format!("is of use with fusion rrf only, not {}", spec.fusion.as_str()));
    }
    let weights = [("vector_weight", spec.vector_weight), ("keyword_weight", spec.keyword_weight)];
    let weights = weights.map(|(field, weight)| {
        binder.check_range(path, field, weight, 0.0..=MAX_WEIGHT);
        weight.unwrap_or(1.0)
    });
    if weights == [0.0, 0.0] {
        binder.fault(path, "keyword_weight", "must be above 0 where vector_weight is 0");
    }
    (binder.fault_count() == before).then_some(weights)
}

#[async_trait]
impl Operator for HybridRetriever {
    fn span(&self) -> RetrievalSpan<'_> {
        let spec = self.collection.spec();
        RetrievalSpan {
            store: Some(self.collection.store().backend()),
            collection: Some(spec.name.as_str()),
            embedding_provider: Some(&spec.fingerprint.provider),
            embedding_model: (!spec.fingerprint.model.is_empty()).then_some(spec.fingerprint.model.as_str()),
            search_type: Some("hybrid"),
            k: Some(self.k),
            ..RetrievalSpan::default()
        }
    }

    async fn run(&self, run: &Run, query: &Query) -> Found {
        self.legs.run(run, query).await
    }
}
