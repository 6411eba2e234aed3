//! An embedding model inside the process, behind the trait that everybody uses.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use toller_core::embeddings::Embedding;
use toller_core::{EmbeddingRole, Embeddings, Fingerprint, Principal, RequestContext, Result, Tokenizer};

use super::config::EmbedderConfig;
use super::{Engine, EngineHandle, Prepared};
use crate::error;
use crate::model::Model;

/// Words of the warm-up's text: with the first pass, which is slow, weights come into memory and threads start; the second
/// one is measured.
const WARM_UP_WORDS: [usize; 2] = [64, 500];

/// A model that embeds inside this process.
///
/// Needs a tokio runtime with time enabled. When it and everything else on its engine is dropped, the threads stop (after at
/// most one layer of the running batch) and what still waits fails with `Unavailable`.
pub struct LocalEmbeddings {
    model: Model,
    handle: EngineHandle,
}

impl LocalEmbeddings {
    /// `model` on an engine of its own: [`Engine::start`] and [`Engine::embeddings`] in one. A process with more than one
    /// model starts one engine for all.
    ///
    /// # Errors
    /// [`error::Error::Threads`] when the system gives no threads.
    pub fn start(model: Model, config: EmbedderConfig) -> error::Result<Self> {
        Ok(Engine::start(config)?.embeddings(model))
    }

    pub(super) fn new(model: Model, handle: EngineHandle) -> Self {
        Self { model, handle }
    }

    /// The engine that it runs on.
    pub fn engine(&self) -> &Arc<Engine> {
        self.handle.engine()
    }

    /// The engine's configuration.
    pub fn config(&self) -> &EmbedderConfig {
        self.handle.engine().config()
    }

    /// Two forward passes, so that the first request finds threads started, weights in memory and the speed measured.
    ///
    /// # Errors
    /// As [`Embeddings::embed`]; an error means that the model does not work.
    pub async fn warm_up(&self) -> Result<()> {
        let context = RequestContext::new(Principal::anonymous());
        for words in WARM_UP_WORDS {
            self.embed(&context, EmbeddingRole::Document, vec!["warm up ".repeat(words / 2)]).await?;
        }
        Ok(())
    }

    /// Does a real forward pass of this model come back within `patience`, and do all workers show signs of life? The probe
    /// goes before all that waits and needs no room in the queue: a busy embedder is alive.
    ///
    /// # Errors
    /// `Unavailable` when it does not, or the pass's own error.
    pub async fn check_alive(&self, patience: Duration) -> Result<()> {
        self.handle.check_alive(patience).await
    }
}

#[async_trait]
impl Embeddings for LocalEmbeddings {
    fn fingerprint(&self) -> &Fingerprint {
        &self.model.fingerprint
    }

    async fn embed(&self, context: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        let instruction: Arc<str> = match role {
            EmbeddingRole::Query => self.model.fingerprint.query_instruction.as_str().into(),
            EmbeddingRole::Document => self.model.fingerprint.document_instruction.as_str().into(),
        };
        let instruction_bytes = instruction.len();
        let bytes = move |text: &String| instruction_bytes + text.len();
        let tokenizer = Arc::clone(&self.model.tokenizer);
        let prepare = move |text: &String| tokenizer.encode(&instruction, text).map(Prepared::from);
        let computed = self.handle.compute(context, role.into(), texts, bytes, prepare).await?;
        let embeddings = computed.into_iter().map(|one| Embedding {
            vector: one.vector,
            token_count: u32::try_from(one.tokens).ok(),
            truncated: one.truncated,
        });
        Ok(embeddings.collect())
    }

    fn tokenizer(&self) -> Option<Arc<dyn Tokenizer>> {
        match self.model.tokenizer.whole_text(&self.model.fingerprint.document_instruction) {
            Ok(tokenizer) => Some(Arc::new(tokenizer)),
            Err(fault) => {
                tracing::warn!(model = self.model.fingerprint.model, fault, "the model's tokenizer cannot cut texts");
                None
            }
        }
    }
}

impl fmt::Debug for LocalEmbeddings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("LocalEmbeddings")
            .field("model", &self.model)
            .field("config", self.config())
            .finish_non_exhaustive()
    }
}
