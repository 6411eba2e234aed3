//! The first layer: text to vectors, with a role for every text.

use std::sync::Arc;

use async_trait::async_trait;

use crate::context::RequestContext;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::tokenizer::Tokenizer;

/// What a text is embedded as. Asymmetric models give the same text another vector in each role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EmbeddingRole {
    /// A text to be found.
    Document,
    /// A text to find with.
    Query,
}

/// One embedded text.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// The vector, in the fingerprint's dimension.
    pub vector: Vec<f32>,
    /// Tokens that the model saw, special tokens and instruction included; none when the provider does not say.
    pub token_count: Option<u32>,
    /// Was the text cut to the model's longest input?
    pub truncated: bool,
}

/// Turns texts into vectors.
#[async_trait]
pub trait Embeddings: Send + Sync {
    /// What decides the vectors of this instance.
    fn fingerprint(&self) -> &Fingerprint;

    /// Embeds `texts` in `role`; the answer is aligned with the input, an empty input gives an empty answer, and an empty
    /// string is a text like any other.
    ///
    /// # Errors
    /// `ResourceExhausted` when the queue is full, `DeadlineExceeded` and `Cancelled` from the context, `Unavailable` when
    /// the provider cannot be reached. One failed text fails the call: there are no partial answers.
    async fn embed(&self, context: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>>;

    /// The model's own tokenizer; none where the model runs elsewhere. Those who wrap embeddings pass it on. May copy a
    /// vocabulary: ask once and keep it.
    fn tokenizer(&self) -> Option<Arc<dyn Tokenizer>> {
        None
    }
}
