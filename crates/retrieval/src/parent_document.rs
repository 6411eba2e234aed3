//! The parent document retriever: chunks are searched until enough of the documents are found that they were cut from (LangChain's
//! `ParentDocumentRetriever`).

use async_trait::async_trait;
use toller_core::error::join_path;
use toller_core::retriever::{ParentDocumentSpec, SearchType};
use toller_core::{Error, Query, Result};
use toller_telemetry::spans::RetrievalSpan;

use crate::node::{Found, Operator};
use crate::parents::{Declared, Families, Parents, check_sum};
use crate::plan::Binder;
use crate::run::Run;
use crate::vector_store::VectorStoreRetriever;

/// Chunks that are fetched at first for each wanted parent, unless the search says how many.
const CHILDREN_PER_PARENT: usize = 4;
/// How many times as many are fetched when parents are still missing.
const WIDENING: usize = 4;

/// Answers with the parents of chunks.
pub(crate) struct ParentDocument {
    search: VectorStoreRetriever,
    /// Chunks that are fetched at first.
    children: usize,
    parents: Parents,
}

impl ParentDocument {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &ParentDocumentSpec) -> Result<Option<Self>> {
        let search_path = join_path(path, "search");
        if spec.search.search_type == SearchType::Mmr {
            let description =
                "must not be mmr, whose choice cannot be widened until k parents are found; use multi_vector";
            binder.fault(&search_path, "search_type", description);
        }
        if spec.search.with_vectors {
            binder.fault(
                &search_path,
                "with_vectors",
                "is of no use: the hits are parents, which have no vectors here",
            );
        }
        let declared = Declared { source: &spec.parents, id_key: spec.id_key.as_deref(), k: spec.k, score: spec.score };
        let parents = Parents::bind(binder, path, declared).await?;
        let Some(search) = VectorStoreRetriever::bind(binder, &search_path, &spec.search).await? else {
            return Ok(None);
        };
        check_sum(binder, path, spec.score, search.metric());
        Ok(parents.map(|parents| {
            let default = parents.k.saturating_mul(CHILDREN_PER_PARENT);
            let children = spec.search.k.map_or(default, |k| k as usize);
            Self { search, children, parents }
        }))
    }

    /// The parents of the best chunks. Ends, since a search that asks for more than there is gets less than it asks for.
    async fn gather(&self, run: &Run, query: &Query) -> Result<Families> {
        let vector = self.search.query_vector(run, query).await?;
        let mut families = Families::default();
        let mut limit = self.children;
        loop {
            let children = self.search.similar(run, &vector, limit).await?;
            let is_exhausted = children.len() < limit;
            families.replace(&self.parents, children);
            let found = families.look_up(&self.parents, &run.context).await?;
            if found >= self.parents.k || is_exhausted {
                return Ok(families);
            }
            limit = limit.saturating_mul(WIDENING);
        }
    }
}

#[async_trait]
impl Operator for ParentDocument {
    fn span(&self) -> RetrievalSpan<'_> {
        RetrievalSpan { k: u32::try_from(self.parents.k).ok(), ..self.search.span() }
    }

    async fn run(&self, run: &Run, query: &Query) -> Found {
        let families = self.gather(run, query).await?;
        let hits = families.into_hits(&self.parents, run);
        Ok(hits.map_err(|error: Error| error.within("parent_document"))?)
    }
}
