//! The plan: from a declared retriever to one that runs.
//!
//! A declaration is checked whole before anything runs: every fault is reported with its path, such as `vector_store.k`.

use std::sync::Arc;

use toller_core::error::{FieldViolation, join_path};
use toller_core::filter::FilterLimits;
use toller_core::retriever::{
    DEFAULT_FETCH_K, DEFAULT_K, DEFAULT_LAMBDA_MULT, RetrieverKind, RetrieverName, RetrieverSpec, SearchType,
    VectorStoreRetrieverSpec,
};
use toller_core::vector_store::{MmrParams, Scoring, Thresholds, check_relevance};
use toller_core::{Error, RequestContext, Result, Retriever};
use toller_store::Collections;
use toller_telemetry::metrics::RetrievalMetrics;

use crate::stored::StoredRetrievers;
use crate::vector_store::{self, Choice, VectorStoreRetriever};

/// How large a declared retriever may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlanLimits {
    /// Most hits and most MMR candidates of one node; the setting `limits.max_k`, which errors name.
    pub max_k: u32,
    /// Deepest nesting, references included.
    pub max_depth: usize,
    /// How large a filter may be.
    pub filter: FilterLimits,
}

impl Default for PlanLimits {
    fn default() -> Self {
        Self { max_k: 1000, max_depth: 16, filter: FilterLimits::default() }
    }
}

/// Makes running retrievers of declared ones.
pub struct Planner {
    collections: Arc<Collections>,
    stored: StoredRetrievers,
    limits: PlanLimits,
    vector_store_metrics: Arc<RetrievalMetrics>,
}

impl Planner {
    /// A planner over these collections and stored retrievers.
    pub fn new(collections: Arc<Collections>, stored: StoredRetrievers, limits: PlanLimits) -> Self {
        Self { collections, stored, limits, vector_store_metrics: Arc::new(RetrievalMetrics::new(vector_store::KIND)) }
    }

    /// The running form of `spec`, bound to the collections of the context's tenant.
    ///
    /// # Errors
    /// `InvalidArgument` with every fault of the declaration; `NotFound` for a collection or a stored retriever that does
    /// not exist; `FailedPrecondition` for a reference that leads back to itself.
    pub async fn plan(&self, context: &RequestContext, spec: &RetrieverSpec) -> Result<Arc<dyn Retriever>> {
        let spec = self.resolve(context, spec, Vec::new()).await?;
        self.bind(context, &spec).await
    }

    /// The running form of an unnamed search of one collection; paths of faults begin at its parameters.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub async fn plan_search(
        &self,
        context: &RequestContext,
        parameters: VectorStoreRetrieverSpec,
    ) -> Result<Arc<dyn Retriever>> {
        self.bind_vector_store(context, None, Vec::new(), &parameters).await
    }

    /// Checks that `spec` may be stored under its name: as [`Self::plan`], and nothing in it leads back to that name.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub async fn check_storable(&self, context: &RequestContext, spec: &RetrieverSpec) -> Result<()> {
        let own_name = spec.name.iter().cloned().collect();
        let spec = self.resolve(context, spec, own_name).await?;
        self.bind(context, &spec).await.map(drop)
    }

    /// A declaration without references, bound to its collections.
    async fn bind(&self, context: &RequestContext, spec: &RetrieverSpec) -> Result<Arc<dyn Retriever>> {
        match &spec.kind {
            RetrieverKind::VectorStore(parameters) => {
                let name = spec.name.as_ref().map(RetrieverName::as_str);
                let tags = spec.tags.iter().cloned().collect();
                let retriever = self.bind_vector_store(context, name, tags, parameters).await;
                retriever.map_err(|error| error.within("vector_store"))
            }
            // `resolve` has replaced every reference.
            RetrieverKind::Ref(name) => Err(Error::Internal(format!("reference {name} was not resolved"))),
        }
    }

    /// Every fault of `spec`, without running it. Missing collections and stored retrievers are faults too, and so is a
    /// reference that leads back to its own name, since it may be meant for storing.
    ///
    /// # Errors
    /// What stands in the way of checking, such as a catalogue that cannot be reached.
    pub async fn validate(&self, context: &RequestContext, spec: &RetrieverSpec) -> Result<Vec<FieldViolation>> {
        match self.check_storable(context, spec).await {
            Ok(()) => Ok(Vec::new()),
            Err(Error::InvalidArgument(violations)) => Ok(violations),
            Err(error @ (Error::NotFound { .. } | Error::FailedPrecondition { .. })) => {
                let field = match &spec.kind {
                    RetrieverKind::VectorStore(_) => "vector_store.collection",
                    RetrieverKind::Ref(_) => "ref",
                };
                Ok(vec![FieldViolation { field: field.to_owned(), description: error.to_string() }])
            }
            Err(other) => Err(other),
        }
    }

    /// Follows references to what they name; none may lead to a name of `seen`. The outermost name wins, tags add up.
    async fn resolve(
        &self,
        context: &RequestContext,
        spec: &RetrieverSpec,
        mut seen: Vec<RetrieverName>,
    ) -> Result<RetrieverSpec> {
        let mut spec = spec.clone();
        while let RetrieverKind::Ref(name) = &spec.kind {
            if seen.contains(name) || seen.len() >= self.limits.max_depth {
                seen.push(name.clone());
                let way: Vec<&str> = seen.iter().map(RetrieverName::as_str).collect();
                return Err(Error::FailedPrecondition {
                    reason: "RETRIEVER_CYCLE",
                    message: format!(
                        "stored retrievers must not lead back to themselves or over {} references: {}",
                        self.limits.max_depth,
                        way.join(" -> ")
                    ),
                });
            }
            let mut found = self.stored.get(context, name).await?.spec;
            seen.push(name.clone());
            found.name = spec.name.or(found.name);
            found.tags.append(&mut spec.tags);
            spec = found;
        }
        Ok(spec)
    }

    async fn bind_vector_store(
        &self,
        context: &RequestContext,
        name: Option<&str>,
        tags: Vec<String>,
        parameters: &VectorStoreRetrieverSpec,
    ) -> Result<Arc<dyn Retriever>> {
        Error::from_violations(self.check_vector_store(parameters))?;
        let collection = self.collections.open(context, &parameters.collection).await?;
        check_relevance(parameters.relevance_fn, collection.spec().metric)?;

        let k = parameters.k.unwrap_or(DEFAULT_K) as usize;
        let choice = match parameters.search_type {
            SearchType::Similarity | SearchType::SimilarityScoreThreshold => Choice::Similarity { k },
            SearchType::Mmr => Choice::Mmr(MmrParams {
                k,
                fetch_k: parameters.fetch_k.unwrap_or(DEFAULT_FETCH_K) as usize,
                lambda_mult: parameters.lambda_mult.unwrap_or(DEFAULT_LAMBDA_MULT),
            }),
        };
        Ok(Arc::new(VectorStoreRetriever {
            name: name.map(str::to_owned),
            tags,
            collection,
            search_type: parameters.search_type,
            choice,
            scoring: Scoring {
                relevance: parameters.relevance_fn,
                thresholds: Thresholds {
                    relevance: parameters.score_threshold,
                    raw_score: parameters.raw_score_threshold,
                },
            },
            filter: parameters.filter.clone(),
            with_vectors: parameters.with_vectors,
            metrics: Arc::clone(&self.vector_store_metrics),
        }))
    }

    /// Every fault that can be seen without the collection.
    fn check_vector_store(&self, parameters: &VectorStoreRetrieverSpec) -> Vec<FieldViolation> {
        let mut violations = Vec::new();
        let mut fault = |field: &str, description: String| {
            violations.push(FieldViolation { field: field.to_owned(), description });
        };
        let max_k = self.limits.max_k;
        for (field, value) in [("k", parameters.k), ("fetch_k", parameters.fetch_k)] {
            if let Some(value) = value.filter(|value| !(1..=max_k).contains(value)) {
                fault(field, format!("must be from 1 to {max_k} (limits.max_k), got {value}"));
            }
        }
        if parameters.search_type != SearchType::Mmr {
            let is_given =
                [("fetch_k", parameters.fetch_k.is_some()), ("lambda_mult", parameters.lambda_mult.is_some())];
            for (field, _) in is_given.into_iter().filter(|(_, given)| *given) {
                fault(field, format!("is of use with search_type mmr only, not {}", parameters.search_type.as_str()));
            }
        }
        for (field, value) in [("lambda_mult", parameters.lambda_mult), ("score_threshold", parameters.score_threshold)]
        {
            if let Some(value) = value.filter(|value| !(0.0..=1.0).contains(value)) {
                fault(field, format!("must be from 0 to 1, got {value}"));
            }
        }
        if let Some(value) = parameters.raw_score_threshold.filter(|value| !value.is_finite()) {
            fault("raw_score_threshold", format!("must be a finite number, got {value}"));
        }
        if parameters.search_type == SearchType::SimilarityScoreThreshold
            && parameters.score_threshold.is_none()
            && parameters.raw_score_threshold.is_none()
        {
            let description = "search_type similarity_score_threshold needs it, or raw_score_threshold";
            fault("score_threshold", description.to_owned());
        }
        if let Some(Err(Error::InvalidArgument(faults))) =
            parameters.filter.as_ref().map(|filter| filter.check(self.limits.filter))
        {
            violations.extend(faults.into_iter().map(|fault| FieldViolation {
                field: join_path("filter", &fault.field),
                description: fault.description,
            }));
        }
        violations
    }
}
