//! Drops hits that are like better ones (LangChain's `EmbeddingsRedundantFilter`, which drops the better one of a pair, and whose
//! victims take others with them).

use std::sync::Arc;

use async_trait::async_trait;
use toller_core::retriever::{DEFAULT_REDUNDANCY, RedundantFilterSpec};
use toller_core::{Embeddings, Query, Result, ScoredDocument};

use super::{Compressor, embed_documents, own_vectors, pick, texts};
use crate::plan::Binder;
use crate::run::Run;
use crate::selection::non_redundant;

pub(super) struct RedundantFilter {
    threshold: f64,
    /// Are the hits' own vectors good enough where all have one?
    uses_own_vectors: bool,
    /// Or why there is none, which matters for hits without vectors only.
    model: Result<Arc<dyn Embeddings>>,
}

impl RedundantFilter {
    /// # Errors
    /// `NotFound` for the model that it names.
    pub(super) fn bind(binder: &mut Binder<'_>, path: &str, spec: &RedundantFilterSpec) -> Result<Self> {
        binder.check_range(path, "threshold", spec.threshold, -1.0..=1.0);
        let model = binder.models().embedding_model(spec.model.as_deref()).cloned();
        if spec.model.is_some() {
            model.clone()?;
        }
        let threshold = spec.threshold.unwrap_or(DEFAULT_REDUNDANCY);
        Ok(Self { threshold, uses_own_vectors: spec.model.is_none(), model })
    }
}

#[async_trait]
impl Compressor for RedundantFilter {
    async fn compress(&self, run: &Run, _: &Query, hits: Vec<ScoredDocument>) -> Result<Vec<ScoredDocument>> {
        let kept = match own_vectors(&hits).filter(|_| self.uses_own_vectors) {
            Some(vectors) => non_redundant(&vectors, self.threshold),
            None => {
                let model = self.model.as_ref().map_err(Clone::clone)?;
                non_redundant(&embed_documents(run, model.as_ref(), texts(&hits)).await?, self.threshold)
            }
        };
        Ok(pick(hits, kept))
    }
}
