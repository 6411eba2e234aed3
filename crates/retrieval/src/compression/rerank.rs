//! Scores query and document together (LangChain's `CrossEncoderReranker`, which keeps the scores to itself).

use std::sync::Arc;

use async_trait::async_trait;
use toller_core::retriever::{DEFAULT_TOP_N, RerankSpec};
use toller_core::{Error, Query, Reranker, Result, ScoredDocument, SourceScore};

use super::{Compressor, query_text, texts};
use crate::plan::Binder;
use crate::run::Run;

/// The name of its part in `sources`.
const SOURCE: &str = "rerank";

pub(super) struct Rerank {
    model: Arc<dyn Reranker>,
    top_n: usize,
}

impl Rerank {
    /// # Errors
    /// `NotFound` for the model that it names; `FailedPrecondition` without a default one.
    pub(super) fn bind(binder: &mut Binder<'_>, path: &str, spec: &RerankSpec) -> Result<Self> {
        binder.check_count(path, "top_n", spec.top_n);
        let model = Arc::clone(binder.models().reranker(spec.model.as_deref())?);
        Ok(Self { model, top_n: spec.top_n.unwrap_or(DEFAULT_TOP_N) as usize })
    }
}

#[async_trait]
impl Compressor for Rerank {
    async fn compress(&self, run: &Run, query: &Query, mut hits: Vec<ScoredDocument>) -> Result<Vec<ScoredDocument>> {
        let text = query_text(query, SOURCE)?;
        run.context.check("before the hits were reranked")?;
        let scores = self.model.rerank(&run.context, text, texts(&hits)).await?;
        if scores.len() != hits.len() || scores.iter().any(|score| !score.logit.is_finite()) {
            let (count, scored) = (hits.len(), scores.len());
            return Err(Error::Internal(format!(
                "the reranker gave {scored} scores for {count} hits, or one without a number"
            )));
        }
        for (hit, score) in hits.iter_mut().zip(scores) {
            hit.score = f64::from(score.logit);
            hit.relevance = Some(score.relevance());
            hit.metric = None;
        }
        // Stable: ties stay in their order.
        hits.sort_by(|left, right| right.score.total_cmp(&left.score));
        hits.truncate(self.top_n);
        for (hit, rank) in hits.iter_mut().zip(1..) {
            hit.sources.push(SourceScore { source: SOURCE.to_owned(), score: hit.score, rank });
        }
        Ok(hits)
    }
}
