//! Texts that a language model writes about a document, so that it is found by what it says and by what it answers.
//!
//! What the model answers is data that nobody trusts: it becomes text to be embedded and nothing else.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toller_core::error::{Error, Result};
use toller_core::language_model::{AnswerSchema, ChatMessage, CompletionOptions};
use toller_core::{LanguageModel, Models, RequestContext};

use crate::patience::patiently;
use crate::source_document::RelatedText;

/// Questions that are asked for where no number is given.
pub const DEFAULT_QUESTIONS: u32 = 3;

/// Most questions of a document.
pub const MAX_QUESTIONS: u32 = 10;

/// Most bytes of a document that the model is shown: about 8,000 tokens, which every model of today takes.
const MAX_SHOWN_BYTES: usize = 32 << 10;

/// Most bytes of a text that the model wrote which are kept.
const MAX_WRITTEN_BYTES: usize = 8 << 10;

/// What a language model writes about a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum GeneratedKind {
    /// What it says, in short.
    Summary,
    /// So many questions that it answers; 1 to [`MAX_QUESTIONS`].
    Questions(u32),
}

/// Texts that are to be written about each document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GeneratedTexts {
    /// What they are.
    pub kind: GeneratedKind,
    /// The language model; none for the default one.
    pub language_model: Option<String>,
}

/// What writes them, bound to its model.
pub(crate) struct Writer {
    kind: GeneratedKind,
    model: Arc<dyn LanguageModel>,
}

impl Writer {
    pub(crate) fn new(texts: &GeneratedTexts, models: &Models) -> Result<Self> {
        let model = models.language_model(texts.language_model.as_deref())?;
        Ok(Self { kind: texts.kind, model: Arc::clone(model) })
    }

    /// The texts about one document; or why the model writes none about this one.
    ///
    /// # Errors
    /// What ends a run: a model that cannot be reached, the caller's deadline.
    pub(crate) async fn write(
        &self,
        context: &RequestContext,
        text: Arc<str>,
    ) -> Result<std::result::Result<Vec<RelatedText>, String>> {
        let shown = beginning(&text, MAX_SHOWN_BYTES);
        let (kind, question, options) = match self.kind {
            GeneratedKind::Summary => ("summary", summary_prompt(shown), CompletionOptions::default()),
            GeneratedKind::Questions(count) => {
                let schema = AnswerSchema { name: "questions", json: QUESTIONS_SCHEMA.to_owned() };
                ("question", questions_prompt(shown, count), CompletionOptions { schema: Some(schema) })
            }
        };
        let messages = [ChatMessage::user(question)];
        let answer = match patiently(context, || self.model.complete(context, &messages, &options)).await {
            Ok(answer) => answer,
            // A model may refuse what a text says, or how long it is.
            Err(fault @ Error::InvalidArgument(_)) => {
                return Ok(Err(format!("the language model refuses it: {fault}")));
            }
            Err(fault) => return Err(fault),
        };
        let texts = match self.kind {
            GeneratedKind::Summary => vec![answer.text.trim().to_owned()],
            GeneratedKind::Questions(count) => questions(&answer.text, count as usize),
        };
        let texts: Vec<RelatedText> = texts
            .into_iter()
            .filter(|text| !text.is_empty())
            .map(|text| RelatedText { kind: kind.to_owned(), text: beginning(&text, MAX_WRITTEN_BYTES).to_owned() })
            .collect();
        if texts.is_empty() {
            let model = self.model.model();
            return Ok(Err(format!("the language model {model} wrote no {kind} of it; run the index again")));
        }
        Ok(Ok(texts))
    }
}

const QUESTIONS_SCHEMA: &str = r#"{"type":"object","properties":{"questions":{"type":"array","items":{"type":"string"}}},"required":["questions"],"additionalProperties":false}"#;

fn summary_prompt(text: &str) -> String {
    format!(
        "Write a summary of the document below, in its own language, in at most five sentences. Name what it is about, so that \
         somebody who searches finds it by the summary alone. Answer with the summary and nothing else.\n\n<document>\n{text}\n</document>"
    )
}

fn questions_prompt(text: &str, count: u32) -> String {
    format!(
        "Write {count} different questions, in the language of the document below, that it answers. Each must make sense to somebody who has not seen \
         the document. Answer with JSON of the form {{\"questions\": [\"…\"]}} and nothing else.\n\n<document>\n{text}\n</document>"
    )
}

/// The questions in an answer: those of its JSON, else its lines, without the marks of a list.
fn questions(answer: &str, most: usize) -> Vec<String> {
    #[derive(Deserialize)]
    struct Questions {
        questions: Vec<String>,
    }

    let json = answer.find('{').zip(answer.rfind('}')).and_then(|(start, end)| answer.get(start..=end));
    let parsed = json.and_then(|json| serde_json::from_str::<Questions>(json).ok());
    let lines = match parsed {
        Some(Questions { questions }) => questions,
        None => answer.lines().map(|line| without_mark(line).to_owned()).collect(),
    };
    let texts = lines.into_iter().map(|line| line.trim().to_owned());
    texts.filter(|line| !line.is_empty() && !line.starts_with("```")).take(most).collect()
}

/// A line without the mark of a list before it, such as `1. `, `2) `, `- ` or `* `.
fn without_mark(line: &str) -> &str {
    let line = line.trim_start();
    let rest = line.trim_start_matches(|character: char| character.is_ascii_digit());
    let marked =
        if rest.len() < line.len() { rest.strip_prefix(['.', ')']) } else { line.strip_prefix(['-', '*', '•']) };
    marked.and_then(|rest| rest.strip_prefix(' ')).unwrap_or(line)
}

/// The first bytes of a text, up to a character's end.
fn beginning(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_as_json_or_as_lines() {
        let wanted = ["What is a toller?", "Who breeds it?"];
        for answer in [
            r#"{"questions": ["What is a toller?", " Who breeds it? "]}"#,
            "Here you are:\n```json\n{\"questions\": [\"What is a toller?\", \"Who breeds it?\"]}\n```",
            "1. What is a toller?\n2) Who breeds it?\n",
            "- What is a toller?\n\n* Who breeds it?\n3. One too many?",
            "What is a toller?\nWho breeds it?",
        ] {
            assert_eq!(questions(answer, 2), wanted, "{answer}");
        }
        assert!(questions("", 3).is_empty());
        assert_eq!(questions("3.14 is what?", 1), ["3.14 is what?"], "no mark of a list");
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(beginning("aé", 2), "a");
        assert_eq!(beginning("aé", 3), "aé");
        assert_eq!(beginning("aé", 9), "aé");
    }
}
