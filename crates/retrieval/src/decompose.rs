//! A question in parts: each is retrieved for, and the rankings are fused.

use async_trait::async_trait;
use toller_core::error::join_path;
use toller_core::retriever::DecomposeSpec;
use toller_core::{Query, Result};

use crate::language_model::{Asker, PromptForm, text_of};
use crate::multi_query::{ask_for_queries, checked_most};
use crate::node::{Found, Node, Operator};
use crate::plan::Binder;
use crate::query_fusion::retrieve_and_fuse;
use crate::run::Run;

const PROMPT: PromptForm = PromptForm {
    default: "Divide the question below into the simpler questions that have to be answered for it, at most {max_queries}. Each must \
              be understandable on its own, without the others: write names and not pronouns. When the question cannot be divided, \
              write it again as it is. Write in the language of the question, one question a line, and nothing else.\n\n\
              Question: {query}",
    required: &["query"],
    optional: &["max_queries"],
};

/// Asks for parts, and retrieves for each.
pub(crate) struct Decompose {
    retriever: Node,
    asker: Asker,
    most: u32,
    include_original: bool,
    k: Option<u32>,
}

impl Decompose {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &DecomposeSpec) -> Result<Option<Self>> {
        binder.check_count(path, "k", spec.k);
        let most = checked_most(binder, path, spec.max_queries);
        let asker = Asker::bind_or_fault(binder, path, &spec.ask, &PROMPT)?;
        let retriever = binder.node(&spec.retriever, join_path(path, "retriever")).await?;
        Ok(retriever.zip(asker).map(|(retriever, asker)| Self {
            retriever,
            asker,
            most,
            include_original: spec.include_original.unwrap_or(false),
            k: spec.k,
        }))
    }
}

#[async_trait]
impl Operator for Decompose {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        let text = text_of(query, "decompose")?;
        let taken: &[&str] = if self.include_original { &[text] } else { &[] };
        let parts = ask_for_queries(&self.asker, run, text, self.most, taken).await?;
        let has_none = parts.is_empty();
        if has_none {
            run.warn("the language model wrote no part of the question; the question itself was used");
        }
        let original = (self.include_original || has_none).then(|| query.clone());
        let queries: Vec<Query> = original.into_iter().chain(parts.into_iter().map(Query::Text)).collect();
        retrieve_and_fuse(&self.retriever, run, &queries, self.k).await
    }
}
