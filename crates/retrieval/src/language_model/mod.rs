//! Asking a language model: a prompt with its placeholders, the question, and reading what comes back.
//!
//! Answers are data: each reader here takes any text whatever and says what it could make of it. None of them fails a retrieval by
//! itself; what an answer that cannot be read means is decided where it was asked for.

mod choice;
mod json;
mod prompt;
mod queries;

use std::sync::Arc;

use toller_core::error::join_path;
use toller_core::language_model::{AnswerSchema, CompletionOptions};
use toller_core::retriever::AskSpec;
use toller_core::{ChatMessage, Error, LanguageModel, Query, Result};

use crate::plan::Binder;
use crate::run::Run;

pub(crate) use choice::{Choice, Verdict, numbers, verdict};
pub(crate) use json::find_object;
pub(crate) use prompt::PromptForm;
pub(crate) use queries::{QUERIES_SCHEMA, queries, same_query};

use self::prompt::Prompt;

/// Questions that one retriever has open at a time.
pub(crate) const CONCURRENT_QUESTIONS: usize = 8;

/// A model and the prompt that it is asked with.
pub(crate) struct Asker {
    model: Arc<dyn LanguageModel>,
    prompt: Prompt,
}

/// What a model said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    /// Without white space at its ends and without what reasoning models think aloud.
    pub(crate) text: String,
    /// Did it stop in the middle?
    pub(crate) is_cut: bool,
}

impl Asker {
    /// The model and the prompt of the message at `path`. A prompt with faults adds them to the binder, and its form's own stands in.
    ///
    /// # Errors
    /// `NotFound` for the model that it names; `FailedPrecondition` without a default one.
    pub(crate) fn bind(binder: &mut Binder<'_>, path: &str, spec: &AskSpec, form: &PromptForm) -> Result<Self> {
        let own = || Prompt::parse(form, form.default).map_err(|faults| Error::Internal(faults.join("; ")));
        let prompt = match spec.prompt.as_deref().map(|text| Prompt::parse(form, text)) {
            None => own()?,
            Some(Ok(prompt)) => prompt,
            Some(Err(faults)) => {
                for fault in faults {
                    binder.fault(path, "prompt", fault);
                }
                own()?
            }
        };
        let model = Arc::clone(binder.models().language_model(spec.model.as_deref())?);
        Ok(Self { model, prompt })
    }

    /// As [`Self::bind`], with a fault at the field `model` instead of an error; then there is none.
    ///
    /// # Errors
    /// What stands in the way of checking.
    pub(crate) fn bind_or_fault(
        binder: &mut Binder<'_>,
        path: &str,
        spec: &AskSpec,
        form: &PromptForm,
    ) -> Result<Option<Self>> {
        let asker = Self::bind(binder, path, spec, form);
        binder.note(&join_path(path, "model"), asker)
    }

    /// Asks with `values` in the placeholders; the answer shall be as `schema` says, and may be anything.
    ///
    /// # Errors
    /// What the model reports.
    pub(crate) async fn ask(&self, run: &Run, values: &[(&str, &str)], schema: Option<AnswerSchema>) -> Result<Said> {
        run.context.check("before the language model was asked")?;
        let messages = [ChatMessage::user(self.prompt.filled(values))];
        let answer = self.model.complete(&run.context, &messages, &CompletionOptions { schema }).await?;
        Ok(Said { text: spoken(&answer.text).to_owned(), is_cut: answer.is_cut })
    }
}

/// The text after what a reasoning model thinks aloud; nothing when it never came to an end.
fn spoken(text: &str) -> &str {
    let text = text.trim();
    match (text.starts_with("<think>"), text.split_once("</think>")) {
        // Some templates open the thoughts in the prompt, so that only their end is in the answer.
        (_, Some((_, after))) => after.trim(),
        (true, None) => "",
        (false, None) => text,
    }
}

/// The text of a query.
///
/// # Errors
/// `InvalidArgument` for a query by vector, which a retriever of `kind` cannot put into words.
pub(crate) fn text_of<'a>(query: &'a Query, kind: &str) -> Result<&'a str> {
    match query {
        Query::Text(text) => Ok(text),
        Query::Vector(_) => Err(Error::invalid("query.vector", format!("{kind} needs a query by text"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thoughts_are_not_the_answer() {
        assert_eq!(spoken(" answer\n"), "answer");
        assert_eq!(spoken("<think>\n1. no\n</think>\n\nanswer"), "answer");
        assert_eq!(spoken("it may be\n</think> answer"), "answer");
        assert_eq!(spoken("<think>and on and on"), "");
    }
}
