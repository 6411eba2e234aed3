//! Has a language model put the hits in order, in one question (LangChain's `LLMListwiseRerank`, where a number that the model invents
//! is an error, a negative one counts from the end, and one that comes twice doubles a document).

use async_trait::async_trait;
use toller_core::language_model::AnswerSchema;
use toller_core::retriever::{DEFAULT_TOP_N, LlmRerankSpec};
use toller_core::{Query, Result, ScoredDocument, SourceScore};

use super::{Compressor, pick};
use crate::language_model::{Asker, Choice, PromptForm, numbers, text_of};
use crate::plan::Binder;
use crate::run::Run;

/// The name of its part in `sources`.
const SOURCE: &str = "llm_rerank";

/// Most hits that the model is shown.
const MOST_LISTED: usize = 50;

/// Most code points of one document that it is shown.
const MAX_CHARS: usize = 2000;

const PROMPT: PromptForm = PromptForm {
    default: "Below are a question and numbered documents. Put the documents in order by how well they help to answer the question, the \
              best first. Answer with their numbers, separated by commas, and nothing else.\n\nQuestion: {query}\n\n\
              Documents:\n{documents}",
    required: &["query", "documents"],
    optional: &[],
};

const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"required":["ranking"],
    "properties":{"ranking":{"type":"array","items":{"type":"integer"}}}}"#;

pub(super) struct LlmRerank {
    asker: Asker,
    top_n: usize,
}

impl LlmRerank {
    /// # Errors
    /// `NotFound` for the model that it names; `FailedPrecondition` without a default one.
    pub(super) fn bind(binder: &mut Binder<'_>, path: &str, spec: &LlmRerankSpec) -> Result<Self> {
        binder.check_count(path, "top_n", spec.top_n);
        let asker = Asker::bind(binder, path, &spec.ask, &PROMPT)?;
        Ok(Self { asker, top_n: spec.top_n.unwrap_or(DEFAULT_TOP_N) as usize })
    }
}

#[async_trait]
impl Compressor for LlmRerank {
    async fn compress(&self, run: &Run, query: &Query, mut hits: Vec<ScoredDocument>) -> Result<Vec<ScoredDocument>> {
        let text = text_of(query, SOURCE)?;
        let schema = AnswerSchema { name: "ranking", json: SCHEMA.to_owned() };
        let said = self.asker.ask(run, &[("query", text), ("documents", &numbered(&hits))], Some(schema)).await?;
        let Some(Choice { positions, has_unknown }) = numbers(&said, "ranking", hits.len().min(MOST_LISTED)) else {
            run.warn("llm_rerank left the hits in their order, since the language model's answer cannot be read");
            hits.truncate(self.top_n);
            return Ok(hits);
        };
        if has_unknown {
            run.warn("llm_rerank passed over numbers of the language model's that no hit has");
        }
        let rest: Vec<usize> = (0..hits.len()).filter(|position| !positions.contains(position)).collect();
        let mut ranked = pick(hits, positions.into_iter().chain(rest).take(self.top_n));
        for (hit, rank) in ranked.iter_mut().zip(1..) {
            hit.score = 1.0 / f64::from(rank);
            hit.relevance = None;
            hit.metric = None;
            hit.sources.push(SourceScore { source: SOURCE.to_owned(), score: hit.score, rank });
        }
        Ok(ranked)
    }
}

fn numbered(hits: &[ScoredDocument]) -> String {
    let listed = hits.iter().take(MOST_LISTED).zip(1..).map(|(hit, number)| {
        let text: String = hit.document.page_content.chars().take(MAX_CHARS).collect();
        format!("[{number}] {}", text.trim())
    });
    listed.collect::<Vec<_>>().join("\n\n")
}
