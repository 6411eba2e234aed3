//! Services that speak OpenAI's `POST /v1/embeddings` and `POST /v1/chat/completions`, such as OpenAI itself, vLLM, Ollama and
//! llama.cpp.
//!
//! `wire` reads and writes the messages, `http` carries them, and [`OpenAiEmbeddings`] cuts batches, retries, and says what an
//! error means; `chat` asks language models over the same transport. The service's answers are not trusted: counts, indices,
//! dimensions and numbers are checked.

mod chat;
mod chat_wire;
mod config;
mod http;
mod wire;

#[cfg(test)]
mod chat_tests;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use ::http::{StatusCode, Uri};
use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use hyper::body::Bytes;
use parking_lot::Mutex;
use toller_core::embeddings::Embedding;
use toller_core::{EmbeddingRole, Embeddings, Error, Fingerprint, RequestContext, Result};

pub use chat::{ChatConfig, OpenAiChat};
pub use config::OpenAiConfig;
pub use wire::EncodingFormat;

use self::config::SERVICE;
use self::http::{Answer, HttpClient};
use self::wire::Embedded;
use crate::budget::RetryBudget;
use crate::error::ProviderError;
use crate::reachable::Reachable;
use crate::retry::{Failure, start_context, with_retries};
use crate::vectors::{check_vector, is_unit};

const PROVIDER: &str = "openai";

const EMBEDDING: &str = "while the text was embedded";

/// What is embedded at the start, to see the dimension.
const PROBE: &str = "dimension";

/// For how long after an answer the service counts as reachable without being asked.
const TRUSTED_FOR: Duration = Duration::from_secs(30);

/// Time for the question whether the service can be reached.
const REACH_TIMEOUT: Duration = Duration::from_secs(5);

/// Embeds with a model of an OpenAI-compatible service.
///
/// The service does not say what it cut or where it stops reading: `truncated` is always false, and a text has a token count
/// only where it travelled alone. Its fingerprint knows the model by its name alone, so that a service which changes a model
/// under its name goes unnoticed.
pub struct OpenAiEmbeddings {
    config: OpenAiConfig,
    client: HttpClient,
    embeddings_url: Uri,
    models_url: Uri,
    fingerprint: Fingerprint,
    budget: RetryBudget,
    last_answer: Mutex<Option<Instant>>,
}

impl OpenAiEmbeddings {
    /// Checks the settings, and embeds a word to see whether the service answers, in which dimension, and whether its vectors
    /// have unit length.
    ///
    /// # Errors
    /// See [`ProviderError`].
    pub async fn connect(config: OpenAiConfig) -> Result<Self, ProviderError> {
        config.check()?;
        let unusable =
            |fault: String| ProviderError::Unusable { service: SERVICE, address: config.base_url.clone(), fault };
        let client = HttpClient::new(config.authorization()?).map_err(unusable)?;
        let fingerprint = Fingerprint {
            provider: PROVIDER.to_owned(),
            model: config.model.clone(),
            query_instruction: config.query_instruction.clone(),
            document_instruction: config.document_instruction.clone(),
            ..Fingerprint::client(0)
        };
        let mut service = Self {
            embeddings_url: config.url("embeddings")?,
            models_url: config.url("models")?,
            client,
            fingerprint,
            budget: RetryBudget::new(),
            last_answer: Mutex::new(None),
            config,
        };
        let give_up = Instant::now() + service.config.start_timeout;
        let context = start_context(give_up);
        let vector = loop {
            match service.ask(&context, &[PROBE.to_owned()]).await {
                Ok(embedded) => break embedded.vectors.into_iter().next().unwrap_or_default(),
                // Still starting.
                Err(Error::Unavailable(_)) if Instant::now() < give_up => {}
                Err(fault) => {
                    let address = service.config.base_url;
                    return Err(ProviderError::Unusable { service: SERVICE, address, fault: fault.to_string() });
                }
            }
        };
        let dimension = u32::try_from(vector.len()).unwrap_or(u32::MAX);
        let fault = match service.config.dimensions {
            Some(wanted) if wanted != dimension => {
                Some(format!("it answers vectors of dimension {dimension}, not of {wanted} as dimensions says"))
            }
            _ if dimension == 0 => Some("it answers vectors without elements".to_owned()),
            _ => check_vector(vector.clone(), dimension).err().map(|fault| format!("it answers a vector that {fault}")),
        };
        if let Some(fault) = fault {
            return Err(ProviderError::Model { service: SERVICE, address: service.config.base_url, fault });
        }
        service.fingerprint.dimension = dimension;
        service.fingerprint.normalized = is_unit(&vector);
        Ok(service)
    }

    /// One request, with retries. The answer has as many vectors as there are texts; their dimension is not checked.
    async fn ask(&self, context: &RequestContext, texts: &[String]) -> Result<Embedded> {
        let encoding_format = match self.config.encoding_format {
            EncodingFormat::Base64 => "base64",
            EncodingFormat::Float => "float",
        };
        let request = wire::Request {
            model: &self.config.model,
            input: texts,
            encoding_format,
            dimensions: self.config.dimensions,
        };
        let body = serde_json::to_vec(&request).map_err(|fault| Error::Internal(format!("writing JSON: {fault}")))?;
        let body = Bytes::from(body);
        let count = texts.len();
        let attempt = || async {
            let said = |fault: &str| format!("the embedding service at {}: {fault}", self.config.base_url);
            let answer = match self.client.post(self.embeddings_url.clone(), body.clone()).await {
                Ok(answer) => answer,
                Err(fault) => return Err(Failure::Passing { error: Error::Unavailable(said(&fault)), after: None }),
            };
            if !answer.status.is_success() {
                return Err(failure(&answer, said));
            }
            *self.last_answer.lock() = Some(Instant::now());
            let read = wire::read(&answer.body, count);
            read.map_err(|fault| Failure::Final(Error::Internal(said(&format!("it answered {fault}")))))
        };
        with_retries(context, EMBEDDING, &self.budget, attempt).await
    }

    async fn embed_batch(&self, context: &RequestContext, texts: Vec<String>) -> Result<Vec<Embedding>> {
        let Embedded { vectors, tokens } = self.ask(context, &texts).await?;
        let token_count = tokens.filter(|_| texts.len() == 1);
        let checked = vectors.into_iter().map(|vector| {
            let checked = check_vector(vector, self.fingerprint.dimension);
            let vector = checked.map_err(|fault| {
                let address = &self.config.base_url;
                Error::Internal(format!("the embedding service at {address} answered a vector that {fault}"))
            })?;
            Ok(Embedding { vector, token_count, truncated: false })
        });
        checked.collect()
    }

    /// Texts that travel together, in order.
    fn batches(&self, texts: Vec<String>) -> Vec<Vec<String>> {
        let mut batches: Vec<Vec<String>> = Vec::new();
        let mut bytes = 0;
        for text in texts {
            if let Some(batch) = batches.last_mut()
                && batch.len() < self.config.batch_texts
                && bytes + text.len() <= self.config.batch_bytes
            {
                bytes += text.len();
                batch.push(text);
                continue;
            }
            bytes = text.len();
            batches.push(vec![text]);
        }
        batches
    }
}

/// What a status that is no success means.
fn failure(answer: &Answer, said: impl Fn(&str) -> String) -> Failure {
    let (message, code) = wire::read_error(&answer.body);
    let status = answer.status;
    let said = |hint: &str| said(&format!("{} {message}{hint}", status.as_u16()));
    let refused =
        |hint: &str| Failure::Final(Error::FailedPrecondition { reason: "PROVIDER_REFUSED", message: said(hint) });
    match status {
        StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE | StatusCode::UNPROCESSABLE_ENTITY => {
            Failure::Final(Error::invalid("", said("")))
        }
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => refused("; check the API key"),
        StatusCode::NOT_FOUND => refused("; check the base URL and the model's name"),
        // Waiting fills no purse.
        StatusCode::TOO_MANY_REQUESTS if code.as_deref() == Some("insufficient_quota") => {
            Failure::Final(Error::ResourceExhausted { what: said(""), retry_after: None })
        }
        StatusCode::TOO_MANY_REQUESTS => Failure::Passing {
            error: Error::ResourceExhausted { what: said(""), retry_after: answer.retry_after },
            after: answer.retry_after,
        },
        StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT | StatusCode::TOO_EARLY => {
            Failure::Passing { error: Error::Unavailable(said("")), after: answer.retry_after }
        }
        status if status.is_server_error() && status != StatusCode::NOT_IMPLEMENTED => {
            Failure::Passing { error: Error::Unavailable(said("")), after: answer.retry_after }
        }
        _ => Failure::Final(Error::Internal(said("; check the base URL"))),
    }
}

#[async_trait]
impl Embeddings for OpenAiEmbeddings {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, context: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        let instruction = match role {
            EmbeddingRole::Document => &self.config.document_instruction,
            EmbeddingRole::Query => &self.config.query_instruction,
        };
        let texts = match instruction.as_str() {
            "" => texts,
            instruction => texts.into_iter().map(|text| format!("{instruction}{text}")).collect(),
        };
        let answers = stream::iter(self.batches(texts))
            .map(|batch| self.embed_batch(context, batch))
            .buffered(self.config.parallel_requests);
        answers.try_concat().await
    }
}

#[async_trait]
impl Reachable for OpenAiEmbeddings {
    /// Reachable when it has answered lately; else its list of models is asked for.
    async fn reach(&self) -> Result<()> {
        let is_recent = |at: Instant| at.elapsed() < TRUSTED_FOR;
        if self.last_answer.lock().is_some_and(is_recent) {
            return Ok(());
        }
        let fault = match tokio::time::timeout(REACH_TIMEOUT, self.client.get(self.models_url.clone())).await {
            Err(_) => format!("no answer within {REACH_TIMEOUT:?}"),
            Ok(Err(fault)) => fault,
            Ok(Ok(answer)) if answer.status.is_server_error() => format!("it answers {}", answer.status),
            Ok(Ok(answer)) if matches!(answer.status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                format!("it answers {}; check the API key", answer.status)
            }
            // Whatever it thinks of the question, it is there.
            Ok(Ok(_)) => {
                *self.last_answer.lock() = Some(Instant::now());
                return Ok(());
            }
        };
        Err(Error::Unavailable(format!("the embedding service at {} cannot be reached: {fault}", self.config.base_url)))
    }
}
