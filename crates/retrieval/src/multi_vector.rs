//! The multi-vector retriever: any retriever finds small documents, such as chunks, summaries or questions, and the documents that they
//! stand for are the hits (LangChain's `MultiVectorRetriever`).

use async_trait::async_trait;
use toller_core::error::join_path;
use toller_core::retriever::MultiVectorSpec;
use toller_core::{Error, Query, Result};

use crate::node::{Found, Node, Operator};
use crate::parents::{Declared, Families, Parents};
use crate::plan::Binder;
use crate::run::Run;

/// Answers with the parents of what another retriever finds.
pub(crate) struct MultiVector {
    retriever: Node,
    parents: Parents,
}

impl MultiVector {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &MultiVectorSpec) -> Result<Option<Self>> {
        let declared = Declared { source: &spec.parents, id_key: spec.id_key.as_deref(), k: spec.k, score: spec.score };
        let parents = Parents::bind(binder, path, declared).await?;
        let retriever = binder.node(&spec.retriever, join_path(path, "retriever")).await?;
        Ok(retriever.zip(parents).map(|(retriever, parents)| Self { retriever, parents }))
    }
}

#[async_trait]
impl Operator for MultiVector {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let children = self.retriever.run(run, query).await?;
        let mut families = Families::default();
        families.replace(&self.parents, children);
        families.look_up(&self.parents, &run.context).await?;
        let hits = families.into_hits(&self.parents, run);
        Ok(hits.map_err(|error: Error| error.within("multi_vector"))?)
    }
}
