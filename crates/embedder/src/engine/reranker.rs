//! A reranker inside the process, behind the trait that everybody uses.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use toller_core::reranker::RerankScore;
use toller_core::{Error, Principal, RequestContext, Reranker, Result};

use super::class::Class;
use super::handle::{Computed, EngineHandle};
use super::station::EncoderOnEngine;
use super::{Engine, PROBE, Prepared};
use crate::model::PROVIDER;
use crate::pair_tokenizer::TokenizedPair;
use crate::rerank_model::RerankModel;

/// Words of the warm-up's document: with the first pass, which is slow, weights come into memory; the second is measured.
const WARM_UP_WORDS: [usize; 2] = [64, 500];

/// A model that reranks inside this process, in the class of queries: somebody waits for it.
///
/// Needs a tokio runtime with time enabled.
pub struct LocalReranker {
    model: RerankModel,
    handle: EngineHandle,
}

impl Engine {
    /// Puts a reranker on the engine.
    pub fn reranker(self: &Arc<Self>, model: RerankModel) -> LocalReranker {
        let probe = model.tokenizer.query(PROBE).and_then(|query| model.tokenizer.pair(&query, PROBE));
        let handle = self.serve(EncoderOnEngine {
            encoder: Arc::clone(&model.encoder),
            model: model.name().to_owned(),
            max_tokens: model.max_tokens(),
            probe: probe.map(Into::into),
        });
        LocalReranker { model, handle }
    }
}

impl LocalReranker {
    /// The engine that it runs on.
    pub fn engine(&self) -> &Arc<Engine> {
        self.handle.engine()
    }

    /// The model, with its revision and its longest input.
    pub fn rerank_model(&self) -> &RerankModel {
        &self.model
    }

    /// Two forward passes, so that the first request finds weights in memory and the speed measured.
    ///
    /// # Errors
    /// As [`Reranker::rerank`]; an error means that the model does not work.
    pub async fn warm_up(&self) -> Result<()> {
        let context = RequestContext::new(Principal::anonymous());
        for words in WARM_UP_WORDS {
            self.rerank(&context, "warm up", vec!["warm up ".repeat(words / 2)]).await?;
        }
        Ok(())
    }

    /// Does a real forward pass of this model come back within `patience`? See
    /// [`LocalEmbeddings::check_alive`](super::LocalEmbeddings::check_alive).
    ///
    /// # Errors
    /// `Unavailable` when it does not, or the pass's own error.
    pub async fn check_alive(&self, patience: Duration) -> Result<()> {
        self.handle.check_alive(patience).await
    }
}

#[async_trait]
impl Reranker for LocalReranker {
    fn provider(&self) -> &str {
        PROVIDER
    }

    fn model(&self) -> &str {
        self.model.name()
    }

    async fn rerank(&self, context: &RequestContext, query: &str, documents: Vec<String>) -> Result<Vec<RerankScore>> {
        let query_bytes = query.len();
        let bytes = move |document: &String| query_bytes + document.len();
        let tokenizer = Arc::clone(&self.model.tokenizer);
        let (query, tokenized) = (query.to_owned(), OnceLock::new());
        let prepare = move |document: &String| {
            // On the thread of the first pair: a long query costs as much as a document.
            match tokenized.get_or_init(|| tokenizer.query(&query)) {
                Ok(query) => tokenizer.pair(query, document).map(Into::into),
                Err(problem) => Err(problem.clone()),
            }
        };
        let computed = self.handle.compute(context, Class::Query, documents, bytes, prepare).await?;
        let score = |one: Computed| match one.vector.as_slice() {
            [logit] => {
                Ok(RerankScore { logit: *logit, token_count: u32::try_from(one.tokens).ok(), truncated: one.truncated })
            }
            other => {
                Err(Error::Internal(format!("the reranker gave {} values for a pair instead of one", other.len())))
            }
        };
        computed.into_iter().map(score).collect()
    }
}

impl From<TokenizedPair> for Prepared {
    fn from(pair: TokenizedPair) -> Self {
        Self { ids: pair.ids, second: pair.second, truncated: pair.truncated }
    }
}

impl fmt::Debug for LocalReranker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LocalReranker").field("model", &self.model).finish_non_exhaustive()
    }
}
