//! The messages of `POST /v1/chat/completions`.

use serde::{Deserialize, Serialize};
use toller_core::ChatMessage;
use toller_core::language_model::{AnswerSchema, Completion, TokenUsage};

/// A question; where it wants a form of its answer, `response_format` says so.
#[derive(Debug, Serialize)]
pub(super) struct Request<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    temperature: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    response_format: Option<ResponseFormat<'a>>,
}

#[derive(Debug, Serialize)]
struct Message<'a> {
    role: &'static str,
    content: &'a str,
}

#[derive(Debug, Serialize)]
struct ResponseFormat<'a> {
    r#type: &'static str,
    json_schema: JsonSchema<'a>,
}

#[derive(Debug, Serialize)]
struct JsonSchema<'a> {
    name: &'a str,
    strict: bool,
    schema: serde_json::Value,
}

impl<'a> Request<'a> {
    /// Asks for the likeliest answer.
    ///
    /// # Errors
    /// When the schema is no JSON.
    pub(super) fn new(
        model: &'a str,
        messages: &'a [ChatMessage],
        schema: Option<&'a AnswerSchema>,
    ) -> serde_json::Result<Self> {
        let message = |message: &'a ChatMessage| Message { role: message.role.as_str(), content: &message.content };
        let response_format = |schema: &'a AnswerSchema| {
            let json_schema =
                JsonSchema { name: schema.name, strict: true, schema: serde_json::from_str(&schema.json)? };
            Ok(ResponseFormat { r#type: "json_schema", json_schema })
        };
        Ok(Self {
            model,
            messages: messages.iter().map(message).collect(),
            temperature: 0.0,
            response_format: schema.map(response_format).transpose()?,
        })
    }
}

#[derive(Debug, Deserialize)]
struct Answer {
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    message: Said,
    finish_reason: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Said {
    content: Option<Content>,
    refusal: Option<String>,
}

/// A text, or for some services a list of parts, of which the texts count.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Debug, Deserialize)]
struct Part {
    text: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

/// What an answer is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// An answer to the question.
    Completion(Completion),
    /// The model, or a filter before it, will not answer; why not, where it says so.
    Refusal(String),
}

/// Reads the first choice. No content is an empty text.
///
/// # Errors
/// Says what is wrong; continues "it answered …".
pub(super) fn read(body: &[u8]) -> Result<Read, String> {
    let answer: Answer = serde_json::from_slice(body).map_err(|fault| format!("what is no completion: {fault}"))?;
    let Some(Choice { message, finish_reason }) = answer.choices.into_iter().next() else {
        return Err("a completion without a choice".to_owned());
    };
    if let Some(refusal) = message.refusal.filter(|refusal| !refusal.is_empty()) {
        return Ok(Read::Refusal(refusal));
    }
    if finish_reason.as_deref() == Some("content_filter") {
        return Ok(Read::Refusal("its content filter stepped in".to_owned()));
    }
    let text = match message.content {
        None => String::new(),
        Some(Content::Text(text)) => text,
        Some(Content::Parts(parts)) => parts.into_iter().filter_map(|part| part.text).collect(),
    };
    let usage = answer.usage.map(|usage| TokenUsage { input: usage.prompt_tokens, output: usage.completion_tokens });
    Ok(Read::Completion(Completion {
        text,
        is_cut: finish_reason.as_deref() == Some("length"),
        usage: usage.unwrap_or_default(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(body: &str) -> String {
        match read(body.as_bytes()) {
            Ok(Read::Completion(completion)) => completion.text,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn texts_parts_and_nothing_are_answers() {
        assert_eq!(text(r#"{"choices":[{"message":{"content":"a"}},{"message":{"content":"b"}}]}"#), "a");
        let parts = r#"{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"x"},{"text":"b"}]}}]}"#;
        assert_eq!(text(parts), "ab");
        assert_eq!(text(r#"{"choices":[{"message":{"content":null},"finish_reason":"stop"}],"usage":null}"#), "");
    }

    #[test]
    fn malformed_answers_are_told_apart() {
        for (body, expected) in [
            ("<html>", "no completion"),
            (r#"{"choices":[{"message":{"content":"cut in the mi"#, "no completion"),
            (r#"{"choices":[{"message":{"content":5}}]}"#, "no completion"),
            (r#"{"choices":[]}"#, "without a choice"),
            ("{}", "no completion"),
        ] {
            let fault = read(body.as_bytes()).unwrap_err();
            assert!(fault.contains(expected), "{body}: {fault}");
        }
    }
}
