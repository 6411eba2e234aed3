//! Keeps of each hit the sentences that a language model chooses (what LangChain's `LLMChainExtractor` is for, which takes whatever the
//! model writes for the document's text, and loses its id).
//!
//! Sentences are numbered and the model answers with numbers, so that what comes out is in the document, with exact offsets, and an
//! answer is a few tokens long.

use async_trait::async_trait;
use toller_core::language_model::AnswerSchema;
use toller_core::retriever::AskSpec;
use toller_core::{Query, Result, ScoredDocument};

use super::Compressor;
use super::extract::extract;
use super::per_hit::{MAX_CHARS, ask_for_each, excerpt};
use crate::language_model::{Asker, PromptForm, Said, numbers, text_of};
use crate::plan::Binder;
use crate::run::Run;
use crate::sentences::{Sentence, sentences};

/// Most sentences of one document that the model is shown; those after them count as not chosen.
const MAX_SENTENCES: usize = 200;

const PROMPT: PromptForm = PromptForm {
    default: "Below are a question and the numbered sentences of a document. Which sentences help to answer the question? Answer with \
              their numbers, separated by commas, or with NONE, and nothing else.\n\nQuestion: {query}\n\nSentences:\n{sentences}",
    required: &["query", "sentences"],
    optional: &[],
};

const SCHEMA: &str = r#"{"type":"object","additionalProperties":false,"required":["sentences"],
    "properties":{"sentences":{"type":"array","items":{"type":"integer"}}}}"#;

pub(super) struct LlmExtract {
    asker: Asker,
}

impl LlmExtract {
    /// # Errors
    /// `NotFound` for the model that it names; `FailedPrecondition` without a default one.
    pub(super) fn bind(binder: &mut Binder<'_>, path: &str, spec: &AskSpec) -> Result<Self> {
        Ok(Self { asker: Asker::bind(binder, path, spec, &PROMPT)? })
    }
}

#[async_trait]
impl Compressor for LlmExtract {
    async fn compress(&self, run: &Run, query: &Query, hits: Vec<ScoredDocument>) -> Result<Vec<ScoredDocument>> {
        let text = text_of(query, "llm_extract")?;
        let split: Vec<Vec<Sentence<'_>>> = hits.iter().map(|hit| sentences(&hit.document.page_content)).collect();
        let listed: Vec<String> = split.iter().map(|sentences| numbered(sentences)).collect();
        let schema = AnswerSchema { name: "sentences", json: SCHEMA.to_owned() };
        let answers = ask_for_each(&self.asker, run, text, ("sentences", &listed), &schema).await?;

        let mut kept = Vec::with_capacity(hits.len());
        let mut unreadable = 0_usize;
        for ((hit, sentences), said) in hits.iter().zip(&split).zip(answers) {
            match chosen(&said, shown_count(sentences).min(sentences.len())) {
                Some(positions) => kept.extend(extract(hit, sentences, &positions)),
                None => {
                    unreadable += 1;
                    kept.push(hit.clone());
                }
            }
        }
        if unreadable > 0 {
            run.warn(format!(
                "llm_extract left {unreadable} hits whole, since the language model's answers to them cannot be read"
            ));
        }
        Ok(kept)
    }
}

/// The chosen sentences in the order of the document; none for an answer that cannot be read.
fn chosen(said: &Said, count: usize) -> Option<Vec<usize>> {
    let mut positions = numbers(said, "sentences", count)?.positions;
    positions.sort_unstable();
    Some(positions)
}

/// How many sentences the model is shown, from the first on: all where there is room, and one in any case.
fn shown_count(sentences: &[Sentence<'_>]) -> usize {
    let mut chars = 0;
    let has_room = |sentence: &&Sentence<'_>| {
        chars += sentence.chars.end - sentence.chars.start;
        chars <= MAX_CHARS
    };
    sentences.iter().take(MAX_SENTENCES).take_while(has_room).count().max(1)
}

fn numbered(sentences: &[Sentence<'_>]) -> String {
    let shown = sentences.iter().take(shown_count(sentences)).zip(1..);
    let lines = shown.map(|(sentence, number)| format!("[{number}] {}", excerpt(sentence.text)));
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_model_is_shown_is_bounded() {
        let count = |text: &str| shown_count(&sentences(text));
        assert_eq!(count("One. Two. Three."), 3);
        assert_eq!(count(&"Go on. ".repeat(1000)), MAX_SENTENCES);
        let long = format!("{}. ", "Word ".repeat(700).trim_end());
        assert_eq!(count(&long.repeat(4)), 2);
        let endless = "word ".repeat(3000);
        assert_eq!(count(&endless), 1);
        assert_eq!(numbered(&sentences(&endless)).len(), "[1] ".len() + MAX_CHARS);
    }
}
