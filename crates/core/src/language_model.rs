//! Asking a language model: messages in, one text out. What it answers is data that nobody trusts.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::context::RequestContext;
use crate::error::Result;

/// Who says a message of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatRole {
    /// Whoever runs the conversation.
    System,
    /// Who asks.
    User,
    /// Who answers.
    Assistant,
}

impl ChatRole {
    /// Its name, in the spelling of the public contract and of most models' protocols.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
        }
    }
}

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who says it.
    pub role: ChatRole,
    /// What is said.
    pub content: String,
}

impl ChatMessage {
    /// A message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: ChatRole::User, content: content.into() }
    }
}

/// How an answer is wanted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CompletionOptions {
    /// The form of the answer, for models that can keep to one; others answer as they like, so that whoever asks must read both.
    pub schema: Option<AnswerSchema>,
}

/// The JSON that an answer shall be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerSchema {
    /// A name for it: ASCII letters, digits, `-` and `_`.
    pub name: &'static str,
    /// A JSON schema, as JSON; every object in it forbids further properties and requires all of its own.
    pub json: String,
}

/// Tokens of one answer; none where the provider does not say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TokenUsage {
    /// Tokens that the model read.
    pub input: Option<u64>,
    /// Tokens that it wrote.
    pub output: Option<u64>,
}

/// What a language model answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completion {
    /// The text; may be empty, and of any form whatever was asked for.
    pub text: String,
    /// Did it end since it was too long, and not since it was whole?
    pub is_cut: bool,
    /// What it cost.
    pub usage: TokenUsage,
}

/// Answers conversations.
#[async_trait]
pub trait LanguageModel: Send + Sync {
    /// Who computes: the kind of the service that is called.
    fn provider(&self) -> &str;

    /// The model's name.
    fn model(&self) -> &str;

    /// The answer to `messages`, with as little chance in it as the model allows. Its size is bounded.
    ///
    /// # Errors
    /// `Unavailable` when the service cannot be reached or does not answer in time, `ResourceExhausted` when it has no room,
    /// `FailedPrecondition` when it refuses, `Internal` when it answers what is no answer, and `DeadlineExceeded` and `Cancelled` from
    /// the context.
    async fn complete(
        &self,
        context: &RequestContext,
        messages: &[ChatMessage],
        options: &CompletionOptions,
    ) -> Result<Completion>;
}
