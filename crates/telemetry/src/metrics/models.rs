//! Metrics of models: embeddings, rerankers and language models.

use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use toller_core::language_model::TokenUsage;
use toller_core::{EmbeddingRole, Error as CoreError, Result as CoreResult};

use super::count;
use crate::classes::error_class;
use crate::names::metric::{self, label};
use crate::names::values;
use crate::spans::{EmbeddingUsage, RerankUsage, role_name};

/// What one embedding provider did, by model and role.
pub struct EmbeddingMetrics {
    provider: String,
    model: String,
    document_duration: Histogram,
    query_duration: Histogram,
    call_texts: Histogram,
    tokens: Counter,
    texts: Counter,
    truncated: Counter,
}

impl EmbeddingMetrics {
    /// The handles for a configured provider and model.
    pub fn new(provider: &str, model: &str) -> Self {
        let labels = [(label::PROVIDER, provider.to_owned()), (label::MODEL, model.to_owned())];
        let duration = |role| {
            histogram!(
                metric::GEN_AI_OPERATION_DURATION,
                label::PROVIDER => provider.to_owned(),
                label::MODEL => model.to_owned(),
                label::GEN_AI_OPERATION => values::OPERATION_EMBEDDINGS,
                label::ROLE => role_name(role),
            )
        };
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            document_duration: duration(EmbeddingRole::Document),
            query_duration: duration(EmbeddingRole::Query),
            call_texts: histogram!(metric::EMBEDDING_CALL_TEXTS, &labels),
            tokens: counter!(metric::EMBEDDING_TOKENS, &labels),
            texts: counter!(metric::EMBEDDING_TEXTS, &labels),
            truncated: counter!(metric::EMBEDDING_TRUNCATED, &labels),
        }
    }

    /// Records one call of `texts` texts.
    pub fn record(
        &self,
        role: EmbeddingRole,
        texts: usize,
        elapsed: Duration,
        result: CoreResult<EmbeddingUsage, &CoreError>,
    ) {
        match role {
            EmbeddingRole::Document => self.document_duration.record(elapsed),
            EmbeddingRole::Query => self.query_duration.record(elapsed),
        }
        self.call_texts.record(count(texts));
        match result {
            Ok(usage) => {
                self.texts.increment(u64::try_from(texts).unwrap_or(u64::MAX));
                self.tokens.increment(usage.tokens.unwrap_or(0));
                self.truncated.increment(usage.truncated);
            }
            Err(error) => counter!(
                metric::EMBEDDING_ERRORS,
                label::PROVIDER => self.provider.clone(),
                label::MODEL => self.model.clone(),
                label::ERROR_TYPE => error_class(error),
            )
            .increment(1),
        }
    }
}

/// What one reranker did.
pub struct RerankMetrics {
    provider: String,
    model: String,
    duration: Histogram,
    documents: Histogram,
    tokens: Counter,
    truncated: Counter,
}

impl RerankMetrics {
    /// The handles for a configured provider and model.
    pub fn new(provider: &str, model: &str) -> Self {
        let labels = [(label::PROVIDER, provider.to_owned()), (label::MODEL, model.to_owned())];
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            duration: histogram!(metric::RERANK_DURATION, &labels),
            documents: histogram!(metric::RERANK_DOCUMENTS, &labels),
            tokens: counter!(metric::RERANK_TOKENS, &labels),
            truncated: counter!(metric::RERANK_TRUNCATED, &labels),
        }
    }

    /// Records one call of `documents` documents.
    pub fn record(&self, documents: usize, elapsed: Duration, result: CoreResult<RerankUsage, &CoreError>) {
        self.duration.record(elapsed);
        self.documents.record(count(documents));
        match result {
            Ok(usage) => {
                self.tokens.increment(usage.tokens.unwrap_or(0));
                self.truncated.increment(usage.truncated);
            }
            Err(error) => counter!(
                metric::RERANK_ERRORS,
                label::PROVIDER => self.provider.clone(),
                label::MODEL => self.model.clone(),
                label::ERROR_TYPE => error_class(error),
            )
            .increment(1),
        }
    }
}

/// What one language model did.
pub struct LanguageModelMetrics {
    provider: String,
    model: String,
    duration: Histogram,
    input_tokens: Counter,
    output_tokens: Counter,
}

impl LanguageModelMetrics {
    /// The handles for a configured provider and model.
    pub fn new(provider: &str, model: &str) -> Self {
        let labels = [(label::PROVIDER, provider.to_owned()), (label::MODEL, model.to_owned())];
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            duration: histogram!(metric::LLM_DURATION, &labels),
            input_tokens: counter!(metric::LLM_INPUT_TOKENS, &labels),
            output_tokens: counter!(metric::LLM_OUTPUT_TOKENS, &labels),
        }
    }

    /// Records one question.
    pub fn record(&self, elapsed: Duration, result: CoreResult<TokenUsage, &CoreError>) {
        self.duration.record(elapsed);
        match result {
            Ok(usage) => {
                self.input_tokens.increment(usage.input.unwrap_or(0));
                self.output_tokens.increment(usage.output.unwrap_or(0));
            }
            Err(error) => counter!(
                metric::LLM_ERRORS,
                label::PROVIDER => self.provider.clone(),
                label::MODEL => self.model.clone(),
                label::ERROR_TYPE => error_class(error),
            )
            .increment(1),
        }
    }
}
