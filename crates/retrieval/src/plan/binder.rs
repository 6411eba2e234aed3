//! From a declaration without references to running nodes: every parameter is checked, every collection opened.
//!
//! The walk goes on after a fault, so that one answer names them all; a node with a fault comes to nothing.

use std::ops::RangeInclusive;
use std::sync::Arc;

use futures::future::BoxFuture;
use toller_core::error::join_path;
use toller_core::filter::{FilterLimits, KeyPath};
use toller_core::keyword::keyword_not_indexed;
use toller_core::retriever::{RetrieverKind, RetrieverSpec};
use toller_core::{CollectionName, DocumentStore, Filter, Models, RequestContext, Result};
use toller_store::CollectionHandle;

use super::Planner;
use super::faults::Faults;
use crate::access_log::AccessLog;
use crate::compression::ContextualCompression;
use crate::decompose::Decompose;
use crate::ensemble::Ensemble;
use crate::fallback::Fallback;
use crate::hybrid::HybridRetriever;
use crate::hyde::Hyde;
use crate::identity::Identity;
use crate::keyword::KeywordRetriever;
use crate::llm_router::LlmRouter;
use crate::merger::Merger;
use crate::multi_query::MultiQuery;
use crate::multi_vector::MultiVector;
use crate::node::{Node, Operator};
use crate::parent_document::ParentDocument;
use crate::rephrase::Rephrase;
use crate::router::Router;
use crate::run::Place;
use crate::self_query::SelfQuery;
use crate::time_weighted::TimeWeighted;
use crate::vector_store::VectorStoreRetriever;

/// Binds one tree.
pub(crate) struct Binder<'a> {
    pub(super) context: &'a RequestContext,
    pub(super) planner: &'a Planner,
    pub(super) faults: Faults,
    /// Nodes so far, for their order.
    pub(super) nodes: usize,
}

impl Binder<'_> {
    /// The node that `spec` declares at `path`; none when there are faults.
    ///
    /// # Errors
    /// What stands in the way of checking.
    pub(crate) fn node<'s>(&'s mut self, spec: &'s RetrieverSpec, path: String) -> BoxFuture<'s, Result<Option<Node>>> {
        Box::pin(async move {
            let place = self.place(&path);
            let inner = join_path(&path, spec.kind.as_str());
            let operator = self.operator(&spec.kind, &inner).await?;
            Ok(operator.map(|operator| Node {
                place,
                name: spec.name.as_ref().map(|name| name.as_str().to_owned()),
                kind: spec.kind.as_str(),
                tags: spec.tags.iter().cloned().collect(),
                timeout: spec.timeout,
                on_error: spec.on_error,
                metrics: self.planner.metrics.of(spec.kind.as_str()),
                operator,
            }))
        })
    }

    /// The next place in the order of the tree.
    pub(super) fn place(&mut self, path: &str) -> Place {
        let order = self.nodes;
        self.nodes += 1;
        Place { path: path.into(), order }
    }

    /// What a kind does, its parameters being at `path`. Adding a kind is adding a line.
    async fn operator(&mut self, kind: &RetrieverKind, path: &str) -> Result<Option<Box<dyn Operator>>> {
        match kind {
            RetrieverKind::VectorStore(spec) => boxed(VectorStoreRetriever::bind(self, path, spec).await),
            RetrieverKind::MultiVector(spec) => boxed(MultiVector::bind(self, path, spec).await),
            RetrieverKind::ParentDocument(spec) => boxed(ParentDocument::bind(self, path, spec).await),
            RetrieverKind::ContextualCompression(spec) => boxed(ContextualCompression::bind(self, path, spec).await),
            RetrieverKind::Merger(spec) => boxed(Merger::bind(self, path, spec).await),
            RetrieverKind::Ensemble(spec) => boxed(Ensemble::bind(self, path, spec).await),
            RetrieverKind::Router(spec) => boxed(Router::bind(self, path, spec).await),
            RetrieverKind::Fallback(spec) => boxed(Fallback::bind(self, path, spec).await),
            RetrieverKind::TimeWeighted(spec) => boxed(TimeWeighted::bind(self, path, spec).await),
            RetrieverKind::Keyword(spec) => boxed(KeywordRetriever::bind(self, path, spec).await),
            RetrieverKind::Hybrid(spec) => boxed(HybridRetriever::bind(self, path, spec).await),
            RetrieverKind::MultiQuery(spec) => boxed(MultiQuery::bind(self, path, spec).await),
            RetrieverKind::Hyde(spec) => boxed(Hyde::bind(self, path, spec).await),
            RetrieverKind::Rephrase(spec) => boxed(Rephrase::bind(self, path, spec).await),
            RetrieverKind::Decompose(spec) => boxed(Decompose::bind(self, path, spec).await),
            RetrieverKind::SelfQuery(spec) => boxed(SelfQuery::bind(self, path, spec).await),
            RetrieverKind::LlmRouter(spec) => boxed(LlmRouter::bind(self, path, spec).await),
            // It could not be resolved, which is a fault already.
            RetrieverKind::Ref(_) => Ok(None),
        }
    }

    /// The nodes of the list `retrievers` at `path`, which has at least `least`; none when there are faults.
    pub(crate) async fn nodes(
        &mut self,
        specs: &[RetrieverSpec],
        path: &str,
        least: usize,
    ) -> Result<Option<Vec<Node>>> {
        if specs.len() < least {
            self.fault(path, "retrievers", format!("must be at least {least}, got {}", specs.len()));
        }
        let mut nodes = Vec::with_capacity(specs.len());
        for (index, spec) in specs.iter().enumerate() {
            nodes.extend(self.node(spec, join_path(path, &format!("retrievers[{index}]"))).await?);
        }
        Ok((nodes.len() == specs.len() && specs.len() >= least).then_some(nodes))
    }

    /// An open collection, which `field` of the message at `path` names; none when it does not exist.
    pub(crate) async fn collection(
        &mut self,
        path: &str,
        field: &str,
        name: &CollectionName,
    ) -> Result<Option<CollectionHandle>> {
        let opened = self.planner.collections.open(self.context, name).await;
        self.faults.note(&join_path(path, field), opened)
    }

    /// The open collection that the message at `path` names in `collection`, if it has a keyword index; else none.
    pub(crate) async fn indexed_collection(
        &mut self,
        path: &str,
        name: &CollectionName,
    ) -> Result<Option<CollectionHandle>> {
        let opened = self.planner.collections.open(self.context, name).await;
        let indexed = opened.and_then(|opened| match opened.spec().keyword {
            Some(_) => Ok(opened),
            None => Err(keyword_not_indexed(name)),
        });
        self.faults.note(&join_path(path, "collection"), indexed)
    }

    /// Faults so far.
    pub(crate) fn fault_count(&self) -> usize {
        self.faults.len()
    }

    /// The value; or none, with a fault at `path`.
    pub(crate) fn note<T>(&mut self, path: &str, result: Result<T>) -> Result<Option<T>> {
        self.faults.note(path, result)
    }

    /// Adds a fault in `field` of the message at `path`.
    pub(crate) fn fault(&mut self, path: &str, field: &str, description: impl Into<String>) {
        self.faults.add(join_path(path, field), description);
    }

    /// A number of hits is from 1 to the limit.
    pub(crate) fn check_count(&mut self, path: &str, field: &str, value: Option<u32>) {
        let max_k = self.planner.limits.max_k;
        if let Some(value) = value.filter(|value| !(1..=max_k).contains(value)) {
            self.fault(path, field, format!("must be from 1 to {max_k} (limits.max_k), got {value}"));
        }
    }

    /// A number is in `range`, and so it is one.
    pub(crate) fn check_range(&mut self, path: &str, field: &str, value: Option<f64>, range: RangeInclusive<f64>) {
        if let Some(value) = value.filter(|value| !range.contains(value)) {
            self.fault(path, field, format!("must be from {} to {}, got {value}", range.start(), range.end()));
        }
    }

    /// A filter is within the limits and can be decided.
    pub(crate) fn check_filter(&mut self, path: &str, field: &str, filter: Option<&Filter>) {
        if let Some(Err(error)) = filter.map(|filter| filter.check(self.planner.limits.filter)) {
            self.faults.add_invalid(join_path(path, field), error);
        }
    }

    /// A path within metadata; none with a fault.
    pub(crate) fn key_path(&mut self, path: &str, field: &str, text: &str) -> Option<KeyPath> {
        match KeyPath::parse(text) {
            Ok(key) => Some(key),
            Err(description) => {
                self.fault(path, field, description);
                None
            }
        }
    }

    /// What tells hits apart: the `id_key` of the message at `path`, or their ids; none with a fault.
    pub(crate) fn identity(&mut self, path: &str, id_key: Option<&str>) -> Option<Identity> {
        match id_key {
            None => Some(Identity::Id),
            Some(key) => self.key_path(path, "id_key", key).map(Identity::Metadata),
        }
    }

    /// The models of the process.
    pub(crate) fn models(&self) -> &Models {
        self.planner.collections.models()
    }

    /// How large a filter may be.
    pub(crate) fn filter_limits(&self) -> FilterLimits {
        self.planner.limits.filter
    }

    /// Most hits of one node.
    pub(crate) fn max_k(&self) -> u32 {
        self.planner.limits.max_k
    }

    /// The access logs, where there is a store of documents.
    pub(crate) fn access_log(&self) -> Option<AccessLog> {
        self.planner.access_log().cloned()
    }

    /// The store of documents without vectors, where there is one.
    pub(crate) fn documents(&self) -> Option<Arc<dyn DocumentStore>> {
        self.planner.documents.clone()
    }
}

fn boxed<O: Operator + 'static>(operator: Result<Option<O>>) -> Result<Option<Box<dyn Operator>>> {
    Ok(operator?.map(|operator| Box::new(operator) as Box<dyn Operator>))
}
