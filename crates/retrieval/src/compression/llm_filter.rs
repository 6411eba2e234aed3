//! Keeps the hits that a language model calls relevant (LangChain's `LLMChainFilter`, where one answer that is neither yes nor no fails
//! the whole call).

use async_trait::async_trait;
use toller_core::language_model::AnswerSchema;
use toller_core::retriever::AskSpec;
use toller_core::{Query, Result, ScoredDocument};

use super::Compressor;
use super::per_hit::{ask_for_each, excerpt};
use crate::language_model::{Asker, PromptForm, Verdict, text_of, verdict};
use crate::plan::Binder;
use crate::run::Run;

const PROMPT: PromptForm = PromptForm {
    default: "Below are a question and a document. Does the document help to answer the question? Answer with YES or NO, and nothing \
              else.\n\nQuestion: {query}\n\nDocument:\n{document}",
    required: &["query", "document"],
    optional: &[],
};

const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"required":["relevant"],
    "properties":{"relevant":{"type":"boolean"}}}"#;

pub(super) struct LlmFilter {
    asker: Asker,
}

impl LlmFilter {
    /// # Errors
    /// `NotFound` for the model that it names; `FailedPrecondition` without a default one.
    pub(super) fn bind(binder: &mut Binder<'_>, path: &str, spec: &AskSpec) -> Result<Self> {
        Ok(Self { asker: Asker::bind(binder, path, spec, &PROMPT)? })
    }
}

#[async_trait]
impl Compressor for LlmFilter {
    async fn compress(&self, run: &Run, query: &Query, hits: Vec<ScoredDocument>) -> Result<Vec<ScoredDocument>> {
        let text = text_of(query, "llm_filter")?;
        let documents: Vec<String> = hits.iter().map(|hit| excerpt(&hit.document.page_content)).collect();
        let schema = AnswerSchema { name: "relevance", json: SCHEMA.to_owned() };
        let answers = ask_for_each(&self.asker, run, text, ("document", &documents), &schema).await?;
        let verdicts: Vec<Verdict> = answers.iter().map(|said| verdict(said, "relevant")).collect();
        let unreadable = verdicts.iter().filter(|verdict| **verdict == Verdict::Unreadable).count();
        if unreadable > 0 {
            run.warn(format!(
                "llm_filter kept {unreadable} hits, since the language model's answers to them are neither yes nor no"
            ));
        }
        let kept = hits.into_iter().zip(verdicts).filter(|(_, verdict)| *verdict != Verdict::No);
        Ok(kept.map(|(hit, _)| hit).collect())
    }
}
