//! A query that stands alone, made of one that needs the conversation before it (LangChain's history-aware retriever).

use async_trait::async_trait;
use toller_core::error::join_path;
use toller_core::retriever::RephraseSpec;
use toller_core::{ChatMessage, Query, Result};

use crate::language_model::{Asker, PromptForm, queries, text_of};
use crate::node::{Found, Node, Operator};
use crate::plan::Binder;
use crate::run::Run;

const PROMPT: PromptForm = PromptForm {
    default: "Below are a conversation and the question that follows it. Write the question again, so that it can be understood \
              without the conversation: put names in the place of pronouns, and add what the conversation says that the question \
              needs. Do not answer it. When it can be understood as it is, write it as it is. Write one line in the language of the \
              question, and nothing else.\n\nConversation:\n{history}\n\nQuestion: {query}",
    required: &["query", "history"],
    optional: &[],
};

/// Rewrites the query where there is a conversation.
pub(crate) struct Rephrase {
    retriever: Node,
    asker: Asker,
}

impl Rephrase {
    pub(crate) async fn bind(binder: &mut Binder<'_>, path: &str, spec: &RephraseSpec) -> Result<Option<Self>> {
        let asker = Asker::bind_or_fault(binder, path, &spec.ask, &PROMPT)?;
        let retriever = binder.node(&spec.retriever, join_path(path, "retriever")).await?;
        Ok(retriever.zip(asker).map(|(retriever, asker)| Self { retriever, asker }))
    }

    /// The query on its own; none when the model wrote none.
    async fn rephrased(&self, run: &Run, text: &str) -> Result<Option<Query>> {
        let history = transcript(run.history());
        let said = self.asker.ask(run, &[("query", text), ("history", &history)], None).await?;
        if said.is_cut {
            return Ok(None);
        }
        Ok(queries(&said, 1, &[]).pop().map(Query::Text))
    }
}

#[async_trait]
impl Operator for Rephrase {
    async fn run(&self, run: &Run, query: &Query) -> Found {
        if run.history().is_empty() {
            return self.retriever.run(run, query).await;
        }
        let text = text_of(query, "rephrase")?;
        match self.rephrased(run, text).await? {
            Some(rephrased) => self.retriever.run(run, &rephrased).await,
            None => {
                run.warn("the language model wrote no query; the query was used as it came");
                self.retriever.run(run, query).await
            }
        }
    }
}

/// The conversation as text, a message a paragraph.
fn transcript(history: &[ChatMessage]) -> String {
    let lines = history.iter().map(|message| format!("{}: {}", message.role.as_str(), message.content.trim()));
    lines.collect::<Vec<_>>().join("\n")
}
