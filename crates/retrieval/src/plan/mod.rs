//! The plan: from a declared retriever to one that runs.
//!
//! A declaration is checked whole before anything runs, and every fault is reported with its path, such as
//! `ensemble.retrievers[1].vector_store.k`: references are put in their places (`resolve`), and then the tree is walked once,
//! checked and bound to collections and models (`binder`).

mod binder;
mod faults;
mod limits;
mod resolve;
mod searches;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use toller_core::error::FieldViolation;
use toller_core::retriever::{OnError, RetrieverSpec, VectorStoreRetrieverSpec};
use toller_core::{DocumentStore, Query, RequestContext, Result, Retriever, ScoredDocument};
use toller_store::Collections;
use toller_telemetry::metrics::RetrievalMetrics;

pub(crate) use binder::Binder;
pub use limits::PlanLimits;

use self::faults::Faults;
use self::resolve::Resolver;
use crate::access_log::AccessLog;
use crate::node::Node;
use crate::run::{Answer, Run, RunOptions};
use crate::stored::StoredRetrievers;
use crate::vector_store::VectorStoreRetriever;

/// A tree of retrievers that is ready to run, bound to the collections of one tenant.
pub struct Plan {
    root: Node,
}

impl Plan {
    /// Runs the tree for `query`.
    ///
    /// # Errors
    /// `InvalidArgument` when the query does not fit the tree, and whatever its parts report; the path of the part is in the
    /// message, where it is not the outermost one.
    pub async fn run(&self, context: &RequestContext, query: &Query, options: RunOptions) -> Result<Answer> {
        let run = Run::new(context, options);
        let hits = self.root.run(&run, query).await.map_err(|failure| failure.into_error())?;
        Ok(run.answer(hits))
    }
}

#[async_trait]
impl Retriever for Plan {
    fn name(&self) -> &str {
        self.root.name()
    }

    fn kind(&self) -> &'static str {
        self.root.kind
    }

    async fn retrieve(&self, context: &RequestContext, query: &Query) -> Result<Vec<ScoredDocument>> {
        Ok(self.run(context, query, RunOptions::default()).await?.hits)
    }
}

/// Makes running retrievers of declared ones.
pub struct Planner {
    pub(crate) collections: Arc<Collections>,
    pub(crate) documents: Option<Arc<dyn DocumentStore>>,
    access_log: Option<AccessLog>,
    stored: StoredRetrievers,
    pub(crate) limits: PlanLimits,
    metrics: KindMetrics,
}

impl Planner {
    /// A planner over these collections, with their models, and stored retrievers.
    pub fn new(collections: Arc<Collections>, stored: StoredRetrievers, limits: PlanLimits) -> Self {
        Self { collections, documents: None, access_log: None, stored, limits, metrics: KindMetrics::default() }
    }

    /// The same planner with a store of documents, where parents may be and access logs are kept.
    #[must_use]
    pub fn with_documents(self, documents: Arc<dyn DocumentStore>) -> Self {
        Self { access_log: Some(AccessLog::new(Arc::clone(&documents))), documents: Some(documents), ..self }
    }

    /// The access logs of its retrievers, to be flushed when the process ends; none without a store of documents.
    pub fn access_log(&self) -> Option<&AccessLog> {
        self.access_log.as_ref()
    }

    /// The running form of `spec`, bound to the collections of the context's tenant.
    ///
    /// # Errors
    /// `InvalidArgument` with every fault of the declaration. When it is the only one, `NotFound` for a collection, a model or a
    /// stored retriever that does not exist, and `FailedPrecondition` for a reference that leads back to itself or a model that
    /// is not loaded.
    pub async fn plan(&self, context: &RequestContext, spec: &RetrieverSpec) -> Result<Arc<Plan>> {
        match self.bind(context, spec, Vec::new()).await? {
            Ok(plan) => Ok(Arc::new(plan)),
            Err(faults) => Err(faults.into_error()),
        }
    }

    /// The running form of an unnamed search of one collection; paths of faults begin at its parameters.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub async fn plan_search(
        &self,
        context: &RequestContext,
        parameters: VectorStoreRetrieverSpec,
    ) -> Result<Arc<Plan>> {
        const KIND: &str = "vector_store";

        let mut binder = self.binder(context, Faults::default());
        let place = binder.place("");
        match VectorStoreRetriever::bind(&mut binder, "", &parameters).await? {
            Some(search) if binder.faults.is_empty() => {
                let root = Node {
                    place,
                    name: None,
                    kind: KIND,
                    tags: Vec::new(),
                    timeout: None,
                    on_error: OnError::Fail,
                    metrics: self.metrics.of(KIND),
                    operator: Box::new(search),
                };
                Ok(Arc::new(Plan { root }))
            }
            _ => Err(binder.faults.into_error()),
        }
    }

    /// Checks that `spec` may be stored under its name: as [`Self::plan`], and nothing in it leads back to that name.
    ///
    /// # Errors
    /// As [`Self::plan`].
    pub async fn check_storable(&self, context: &RequestContext, spec: &RetrieverSpec) -> Result<()> {
        let own_name = spec.name.iter().cloned().collect();
        self.bind(context, spec, own_name).await?.map(drop).map_err(Faults::into_error)
    }

    /// Every fault of `spec`, without running it. Missing collections, models and stored retrievers are faults too, and so is a
    /// reference that leads back to its own name, since it may be meant for storing.
    ///
    /// # Errors
    /// What stands in the way of checking, such as a catalogue that cannot be reached.
    pub async fn validate(&self, context: &RequestContext, spec: &RetrieverSpec) -> Result<Vec<FieldViolation>> {
        let own_name = spec.name.iter().cloned().collect();
        Ok(self.bind(context, spec, own_name).await?.err().map(Faults::into_violations).unwrap_or_default())
    }

    /// The tree, or its faults. No reference may lead to a name of `seen`.
    async fn bind(
        &self,
        context: &RequestContext,
        spec: &RetrieverSpec,
        seen: Vec<toller_core::retriever::RetrieverName>,
    ) -> Result<Result<Plan, Faults>> {
        let mut spec = spec.clone();
        let mut faults = Faults::default();
        let mut resolver =
            Resolver { context, stored: &self.stored, limits: self.limits, faults: &mut faults, nodes: 0 };
        resolver.resolve(&mut spec, String::new(), seen, 0).await?;
        if resolver.nodes > self.limits.max_nodes {
            // To look at all of it would be as costly as it is large.
            return Ok(Err(faults));
        }
        let searches = searches::most_searches(&mut spec);
        if searches > self.limits.max_searches {
            let most = self.limits.max_searches;
            faults.add(
                spec.kind.as_str().to_owned(),
                format!("may run {searches} searches, more than {most}: retrievers that ask several queries multiply what is below them; nest fewer of them"),
            );
        }
        let mut binder = self.binder(context, faults);
        Ok(match binder.node(&spec, String::new()).await? {
            Some(root) if binder.faults.is_empty() => Ok(Plan { root }),
            _ => Err(binder.faults),
        })
    }

    fn binder<'a>(&'a self, context: &'a RequestContext, faults: Faults) -> Binder<'a> {
        Binder { context, planner: self, faults, nodes: 0 }
    }
}

/// The metrics of each kind of retriever.
struct KindMetrics(BTreeMap<&'static str, Arc<RetrievalMetrics>>);

/// Every kind that runs.
const KINDS: [&str; 17] = [
    "vector_store",
    "multi_vector",
    "parent_document",
    "contextual_compression",
    "merger",
    "ensemble",
    "router",
    "fallback",
    "time_weighted",
    "keyword",
    "hybrid",
    "multi_query",
    "hyde",
    "rephrase",
    "decompose",
    "self_query",
    "llm_router",
];

impl Default for KindMetrics {
    fn default() -> Self {
        Self(KINDS.into_iter().map(|kind| (kind, Arc::new(RetrievalMetrics::new(kind)))).collect())
    }
}

impl KindMetrics {
    fn of(&self, kind: &'static str) -> Arc<RetrievalMetrics> {
        self.0.get(kind).map_or_else(|| Arc::new(RetrievalMetrics::new(kind)), Arc::clone)
    }
}
