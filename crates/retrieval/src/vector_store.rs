//! The vector store retriever: one collection, searched by vector (LangChain's `VectorStoreRetriever`).
//!
//! Unlike LangChain's, its hits carry scores, its filter cannot be replaced at call time, and thresholds apply to every
//! search type.

use async_trait::async_trait;
use toller_core::fingerprint::CLIENT_PROVIDER;
use toller_core::retriever::{DEFAULT_FETCH_K, DEFAULT_K, DEFAULT_LAMBDA_MULT, SearchType, VectorStoreRetrieverSpec};
use toller_core::vector_store::{MmrParams, Scoring, Thresholds, VectorSearch, check_relevance};
use toller_core::{Filter, Metric, Query, Result, ScoredDocument, Vector, VectorName};
use toller_store::CollectionHandle;
use toller_telemetry::spans::RetrievalSpan;

use crate::node::{Found, Operator};
use crate::plan::Binder;
use crate::run::Run;

/// Searches one collection.
pub(crate) struct VectorStoreRetriever {
    pub(crate) collection: CollectionHandle,
    search_type: SearchType,
    pub(crate) k: usize,
    choice: Choice,
    scoring: Scoring,
    filter: Option<Filter>,
    with_vectors: bool,
    /// The named space that is searched; none is the main one.
    vector_name: Option<VectorName>,
    metric: Metric,
}

/// How hits are chosen.
#[derive(Debug, Clone, Copy)]
enum Choice {
    /// The best k.
    Similarity,
    /// By maximal marginal relevance.
    Mmr(MmrParams),
}

impl VectorStoreRetriever {
    /// Checks the parameters at `path` and opens their collection; none when there are faults.
    pub(crate) async fn bind(
        binder: &mut Binder<'_>,
        path: &str,
        spec: &VectorStoreRetrieverSpec,
    ) -> Result<Option<Self>> {
        check(binder, path, spec);
        let Some(collection) = binder.collection(path, "collection", &spec.collection).await? else { return Ok(None) };
        let space = collection.spec().space(spec.vector_name.as_ref());
        let Some(space) = binder.note(path, space)? else { return Ok(None) };
        binder.note(path, check_relevance(spec.relevance_fn, space.metric))?;
        let k = spec.k.unwrap_or(DEFAULT_K) as usize;
        let choice = match spec.search_type {
            SearchType::Similarity | SearchType::SimilarityScoreThreshold => Choice::Similarity,
            SearchType::Mmr => Choice::Mmr(MmrParams {
                k,
                fetch_k: spec.fetch_k.unwrap_or(DEFAULT_FETCH_K) as usize,
                lambda_mult: spec.lambda_mult.unwrap_or(DEFAULT_LAMBDA_MULT),
            }),
        };
        Ok(Some(Self {
            collection,
            search_type: spec.search_type,
            k,
            choice,
            scoring: Scoring {
                relevance: spec.relevance_fn,
                thresholds: Thresholds { relevance: spec.score_threshold, raw_score: spec.raw_score_threshold },
            },
            filter: spec.filter.clone(),
            with_vectors: spec.with_vectors,
            vector_name: spec.vector_name.clone(),
            metric: space.metric,
        }))
    }

    /// The same search with `filter` besides its own, and with at most `limit` hits where that is less than its `k`.
    pub(crate) fn narrowed(&self, filter: Option<Filter>, limit: Option<usize>) -> Self {
        let filters: Vec<Filter> = self.filter.iter().cloned().chain(filter).collect();
        let k = limit.map_or(self.k, |limit| limit.min(self.k));
        let choice = match self.choice {
            Choice::Similarity => Choice::Similarity,
            Choice::Mmr(params) => Choice::Mmr(MmrParams { k, ..params }),
        };
        let filter = (!filters.is_empty()).then_some(Filter::And(filters));
        let (collection, vector_name) = (self.collection.clone(), self.vector_name.clone());
        Self { k, choice, filter, collection, vector_name, ..*self }
    }

    /// The metric of the scores.
    pub(crate) fn metric(&self) -> Metric {
        self.metric
    }

    /// The vector to search with; a text is embedded once in a run, and of no use in a named space.
    pub(crate) async fn query_vector(&self, run: &Run, query: &Query) -> Result<Vector> {
        run.context.check("before the query was embedded")?;
        if let Some(name) = &self.vector_name {
            return self.collection.named_query_vector(name, query);
        }
        match query {
            Query::Vector(_) => self.collection.query_vector(&run.context, query).await,
            Query::Text(text) => {
                let model = self.collection.embeddings()?;
                let vector = run.search_vector(model.as_ref(), text).await?;
                self.collection.embedded_query(vector)
            }
        }
    }

    /// The best `limit` by similarity, with their vectors.
    pub(crate) async fn similar(&self, run: &Run, vector: &Vector, limit: usize) -> Result<Vec<ScoredDocument>> {
        run.context.check("before the search")?;
        let search = VectorSearch { vector, using: self.vector_name.as_ref(), filter: self.filter.as_ref(), limit };
        self.collection.similarity(&run.context, search, self.scoring).await
    }

    async fn search(&self, run: &Run, query: &Query) -> Result<Vec<ScoredDocument>> {
        let vector = self.query_vector(run, query).await?;
        let mut hits = match self.choice {
            Choice::Similarity => self.similar(run, &vector, self.k).await?,
            Choice::Mmr(params) => {
                run.context.check("before the search")?;
                let (using, filter) = (self.vector_name.as_ref(), self.filter.as_ref());
                self.collection
                    .max_marginal_relevance(&run.context, &vector, using, filter, params, self.scoring)
                    .await?
            }
        };
        if !self.with_vectors {
            hits.iter_mut().for_each(|hit| hit.vector = None);
        }
        Ok(hits)
    }
}

#[async_trait]
impl Operator for VectorStoreRetriever {
    fn span(&self) -> RetrievalSpan<'_> {
        let spec = self.collection.spec();
        let is_named = self.vector_name.is_some();
        RetrievalSpan {
            store: Some(self.collection.store().backend()),
            collection: Some(spec.name.as_str()),
            embedding_provider: Some(if is_named { CLIENT_PROVIDER } else { &spec.fingerprint.provider }),
            embedding_model: (!is_named && !spec.fingerprint.model.is_empty())
                .then_some(spec.fingerprint.model.as_str()),
            search_type: Some(self.search_type.as_str()),
            k: u32::try_from(self.k).ok(),
            ..RetrievalSpan::default()
        }
    }

    async fn run(&self, run: &Run, query: &Query) -> Found {
        Ok(self.search(run, query).await?)
    }
}

/// Every fault that can be seen without the collection.
fn check(binder: &mut Binder<'_>, path: &str, spec: &VectorStoreRetrieverSpec) {
    binder.check_count(path, "k", spec.k);
    binder.check_count(path, "fetch_k", spec.fetch_k);
    if spec.search_type != SearchType::Mmr {
        let is_given = [("fetch_k", spec.fetch_k.is_some()), ("lambda_mult", spec.lambda_mult.is_some())];
        for (field, _) in is_given.into_iter().filter(|(_, given)| *given) {
            let search_type = spec.search_type.as_str();
            binder.fault(path, field, format!("is of use with search_type mmr only, not {search_type}"));
        }
    }
    binder.check_range(path, "lambda_mult", spec.lambda_mult, 0.0..=1.0);
    binder.check_range(path, "score_threshold", spec.score_threshold, 0.0..=1.0);
    if let Some(value) = spec.raw_score_threshold.filter(|value| !value.is_finite()) {
        binder.fault(path, "raw_score_threshold", format!("must be a finite number, got {value}"));
    }
    if spec.search_type == SearchType::SimilarityScoreThreshold
        && spec.score_threshold.is_none()
        && spec.raw_score_threshold.is_none()
    {
        let description = "search_type similarity_score_threshold needs it, or raw_score_threshold";
        binder.fault(path, "score_threshold", description);
    }
    binder.check_filter(path, "filter", spec.filter.as_ref());
}
