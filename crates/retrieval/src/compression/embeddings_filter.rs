//! Keeps hits whose texts are near the query (LangChain's `EmbeddingsFilter`, with an inclusive threshold as everywhere here, and
//! without its hidden bound of 20 when a threshold is given).

use std::sync::Arc;

use async_trait::async_trait;
use toller_core::retriever::{DEFAULT_FILTER_K, EmbeddingsFilterSpec};
use toller_core::{Embeddings, Error, Query, Result, ScoredDocument, SourceScore};

use super::{Compressor, embed_documents, own_vectors, pick, texts};
use crate::plan::Binder;
use crate::run::Run;
use crate::selection::nearest;

/// The name of its part in `sources`.
const SOURCE: &str = "embeddings_filter";

pub(super) struct EmbeddingsFilter {
    threshold: Option<f64>,
    limit: Option<usize>,
    /// Or why there is none, which matters for queries by text only.
    model: Result<Arc<dyn Embeddings>>,
}

impl EmbeddingsFilter {
    /// # Errors
    /// `NotFound` for the model that it names.
    pub(super) fn bind(binder: &mut Binder<'_>, path: &str, spec: &EmbeddingsFilterSpec) -> Result<Self> {
        binder.check_range(path, "threshold", spec.threshold, -1.0..=1.0);
        binder.check_count(path, "k", spec.k);
        let model = binder.models().embedding_model(spec.model.as_deref()).cloned();
        if spec.model.is_some() {
            model.clone()?;
        }
        let default = spec.threshold.is_none().then_some(DEFAULT_FILTER_K);
        Ok(Self { threshold: spec.threshold, limit: spec.k.or(default).map(|k| k as usize), model })
    }

    async fn near(&self, run: &Run, query: &Query, hits: &[ScoredDocument]) -> Result<Vec<(usize, f64)>> {
        match query {
            Query::Text(text) => {
                let model = self.model.as_ref().map_err(Clone::clone)?;
                let query = run.queries().vector(&run.context, model.as_ref(), text).await?;
                let vectors = embed_documents(run, model.as_ref(), texts(hits)).await?;
                Ok(nearest(&query, &vectors, self.threshold, self.limit))
            }
            Query::Vector(query) => {
                let vectors = own_vectors(hits).filter(|vectors| vectors.iter().all(|own| own.len() == query.len()));
                let vectors = vectors.ok_or_else(|| {
                    let description =
                        "embeddings_filter compares it with the hits' own vectors: ask for them with with_vectors";
                    Error::invalid("query.vector", description)
                })?;
                Ok(nearest(query, &vectors, self.threshold, self.limit))
            }
        }
    }
}

#[async_trait]
impl Compressor for EmbeddingsFilter {
    async fn compress(&self, run: &Run, query: &Query, hits: Vec<ScoredDocument>) -> Result<Vec<ScoredDocument>> {
        let near = self.near(run, query, &hits).await?;
        let mut kept = pick(hits, near.iter().map(|(position, _)| *position));
        for ((hit, (_, similarity)), rank) in kept.iter_mut().zip(near).zip(1..) {
            hit.sources.push(SourceScore { source: SOURCE.to_owned(), score: similarity, rank });
        }
        Ok(kept)
    }
}
