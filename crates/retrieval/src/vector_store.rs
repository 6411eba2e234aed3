//! The vector store retriever: one collection, searched by vector (LangChain's `VectorStoreRetriever`).
//!
//! Unlike LangChain's, its hits carry scores, its filter cannot be replaced at call time, and thresholds apply to every
//! search type.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use toller_core::retriever::SearchType;
use toller_core::vector_store::{MmrParams, Scoring, VectorSearch};
use toller_core::{Filter, Query, RequestContext, Result, Retriever, ScoredDocument};
use toller_store::CollectionHandle;
use toller_telemetry::metrics::RetrievalMetrics;
use toller_telemetry::spans::{self, RetrievalSpan};
use tracing::Instrument;

/// How hits are chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice {
    /// The best k.
    Similarity { k: usize },
    /// By maximal marginal relevance.
    Mmr(MmrParams),
}

/// Searches one collection by vector. Made by [`crate::plan::Planner`], which checks every parameter.
pub struct VectorStoreRetriever {
    pub(crate) name: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) collection: CollectionHandle,
    pub(crate) search_type: SearchType,
    pub(crate) choice: Choice,
    pub(crate) scoring: Scoring,
    pub(crate) filter: Option<Filter>,
    pub(crate) with_vectors: bool,
    pub(crate) metrics: Arc<RetrievalMetrics>,
}

/// The kind's name, in the contract's spelling.
pub(crate) const KIND: &str = "vector_store";

impl VectorStoreRetriever {
    fn k(&self) -> usize {
        match self.choice {
            Choice::Similarity { k } => k,
            Choice::Mmr(params) => params.k,
        }
    }

    fn span(&self) -> tracing::Span {
        let spec = self.collection.spec();
        spans::retrieval(&RetrievalSpan {
            name: self.name(),
            kind: self.kind(),
            store: Some(self.collection.store().backend()),
            collection: Some(spec.name.as_str()),
            embedding_provider: Some(&spec.fingerprint.provider),
            embedding_model: (!spec.fingerprint.model.is_empty()).then_some(spec.fingerprint.model.as_str()),
            search_type: Some(self.search_type.as_str()),
            k: u32::try_from(self.k()).ok(),
            tags: self.tags.iter().map(String::as_str).collect(),
        })
    }

    async fn search(&self, context: &RequestContext, query: &Query) -> Result<Vec<ScoredDocument>> {
        context.check("before the query was embedded")?;
        let vector = self.collection.query_vector(context, query).await?;
        context.check("before the search")?;
        let store = self.collection.store();
        let name = &self.collection.spec().name;
        let filter = self.filter.as_ref();
        let mut hits = match self.choice {
            Choice::Similarity { k } => {
                let search = VectorSearch { vector: &vector, filter, limit: k };
                store.similarity(context, name, search, self.scoring).await?
            }
            Choice::Mmr(params) => {
                store.max_marginal_relevance(context, name, &vector, filter, params, self.scoring).await?
            }
        };
        if !self.with_vectors {
            hits.iter_mut().for_each(|hit| hit.vector = None);
        }
        Ok(hits)
    }
}

#[async_trait]
impl Retriever for VectorStoreRetriever {
    fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.kind())
    }

    fn kind(&self) -> &'static str {
        KIND
    }

    async fn retrieve(&self, context: &RequestContext, query: &Query) -> Result<Vec<ScoredDocument>> {
        let span = self.span();
        if let Query::Text(text) = query {
            spans::record_query(&span, text);
        }
        let started = Instant::now();
        let result = self.search(context, query).instrument(span.clone()).await;
        self.metrics.record(started.elapsed(), result.as_ref().map(Vec::len));
        spans::record_result(&span, &result);
        result
    }
}
