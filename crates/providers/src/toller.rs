//! The `Embedder` service of another Toller.
//!
//! The fingerprint is the one that the other reports, so that a collection can be served by a model in process today and by
//! a remote one tomorrow. One connection (HTTP/2, many calls at a time) that reconnects by itself.

use std::time::Duration;

use async_trait::async_trait;
use toller_api::convert;
use toller_api::v1;
use toller_api::v1::embedder_client::EmbedderClient;
use toller_core::embeddings::Embedding;
use toller_core::{EmbeddingRole, Embeddings, Error, Fingerprint, RequestContext, Result};
use toller_telemetry::propagation;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};
use tonic_types::StatusExt;

use crate::error::ProviderError;

/// How [`TollerEmbeddings`] reaches the other service.
#[derive(Clone)]
pub struct TollerEmbeddingsConfig {
    /// Such as `http://embedder:7700`.
    pub address: String,
    /// Its API key, where it wants one.
    pub api_key: Option<String>,
    /// How long to keep trying at the start, in which the other may still be loading its model.
    pub start_timeout: Duration,
    /// Largest message in bytes, in and out; must not be above the other's.
    pub max_message_bytes: usize,
}

/// Embeds through another Toller.
pub struct TollerEmbeddings {
    client: EmbedderClient<Channel>,
    authorization: Option<MetadataValue<Ascii>>,
    fingerprint: Fingerprint,
    address: String,
    max_message_bytes: usize,
}

impl TollerEmbeddings {
    /// Connects, and asks for the default model's fingerprint; retries until `start_timeout` has passed.
    ///
    /// # Errors
    /// See [`ProviderError`].
    pub async fn connect(config: TollerEmbeddingsConfig) -> Result<Self, ProviderError> {
        const PAUSE_BETWEEN_TRIES: Duration = Duration::from_millis(250);

        let TollerEmbeddingsConfig { address, api_key, start_timeout, max_message_bytes } = config;
        let endpoint = Endpoint::from_shared(address.clone())
            .map_err(|fault| ProviderError::Address { address: address.clone(), fault: fault.to_string() })?
            .connect_timeout(Duration::from_secs(5))
            .tcp_nodelay(true)
            .http2_keep_alive_interval(Duration::from_secs(30))
            .keep_alive_while_idle(true);
        let authorization = match api_key {
            None => None,
            Some(key) => {
                let value = MetadataValue::try_from(format!("Bearer {key}"));
                Some(value.map_err(|_| ProviderError::ApiKey { address: address.clone() })?)
            }
        };
        let client = EmbedderClient::new(endpoint.connect_lazy())
            .max_decoding_message_size(max_message_bytes)
            .max_encoding_message_size(max_message_bytes);

        let give_up = tokio::time::Instant::now() + start_timeout;
        let models = loop {
            let mut request = Request::new(v1::ListModelsRequest {});
            authorize(&mut request, authorization.as_ref());
            let answer = tokio::time::timeout_at(give_up, client.clone().list_models(request)).await;
            match answer {
                Ok(Ok(response)) => break response.into_inner().models,
                Ok(Err(status)) if status.code() == Code::Unavailable && tokio::time::Instant::now() < give_up => {
                    tokio::time::sleep(PAUSE_BETWEEN_TRIES).await;
                }
                Ok(Err(status)) => {
                    let fault = format!("{:?}: {}", status.code(), status.message());
                    return Err(ProviderError::Unusable { address, fault });
                }
                Err(_) => {
                    let fault = format!("no answer within {} s", start_timeout.as_secs_f32());
                    return Err(ProviderError::Unusable { address, fault });
                }
            }
        };
        let model = models
            .into_iter()
            .find(|model| model.is_default)
            .and_then(|model| model.fingerprint)
            .ok_or_else(|| ProviderError::Model { address: address.clone(), fault: "it lists none".to_owned() })?;
        let fingerprint = convert::fingerprint_from_message(model)
            .map_err(|fault| ProviderError::Model { address: address.clone(), fault: fault.to_string() })?;
        Ok(Self { client, authorization, fingerprint, address, max_message_bytes })
    }

    fn request<T>(&self, context: &RequestContext, message: T) -> Request<T> {
        let mut request = Request::new(message);
        authorize(&mut request, self.authorization.as_ref());
        if let Some(remaining) = context.remaining() {
            request.set_timeout(remaining);
        }
        propagation::inject(&tracing::Span::current(), request.metadata_mut().as_mut());
        request
    }

    async fn embed_documents(&self, context: &RequestContext, texts: Vec<String>) -> Result<Vec<Embedding>> {
        let wanted = texts.len();
        let message = v1::EmbedDocumentsRequest { texts, ..Default::default() };
        let answer = self.client.clone().embed_documents(self.request(context, message)).await;
        let answer = answer.map_err(|status| self.error_from_status(context, &status))?.into_inner();
        self.check_fingerprint(answer.fingerprint)?;
        if answer.vectors.len() != wanted || answer.usage.len() != wanted {
            return Err(Error::Internal(format!(
                "the Embedder service at {} answered {} vectors for {wanted} texts",
                self.address,
                answer.vectors.len()
            )));
        }
        answer.vectors.into_iter().zip(answer.usage).map(|(vector, usage)| self.embedding(vector, &usage)).collect()
    }

    async fn embed_query(&self, context: &RequestContext, text: String) -> Result<Embedding> {
        let message = v1::EmbedQueryRequest { text, ..Default::default() };
        let answer = self.client.clone().embed_query(self.request(context, message)).await;
        let answer = answer.map_err(|status| self.error_from_status(context, &status))?.into_inner();
        self.check_fingerprint(answer.fingerprint)?;
        self.embedding(answer.vector.unwrap_or_default(), &answer.usage.unwrap_or_default())
    }

    fn embedding(&self, vector: v1::Vector, usage: &v1::TextUsage) -> Result<Embedding> {
        let vector = convert::vector_from_message(vector).map_err(|fault| {
            Error::Internal(format!("the Embedder service at {} answered a vector that {fault}", self.address))
        })?;
        Ok(Embedding { vector, token_count: usage.token_count, truncated: usage.truncated })
    }

    /// The other may have been restarted with another model since we asked.
    fn check_fingerprint(&self, answered: Option<v1::Fingerprint>) -> Result<()> {
        let answered = answered.map(convert::fingerprint_from_message).transpose()?;
        match answered {
            Some(answered) if answered.is_compatible_with(&self.fingerprint) => Ok(()),
            other => Err(Error::FailedPrecondition {
                reason: "FINGERPRINT_MISMATCH",
                message: format!(
                    "the Embedder service at {} now embeds with {}, not with {} as at the start; restart this gateway",
                    self.address,
                    other.map_or_else(|| "an unknown model".to_owned(), |other| other.to_string()),
                    self.fingerprint
                ),
            }),
        }
    }

    /// What the other's status means for our caller, who does not know that there is another.
    fn error_from_status(&self, context: &RequestContext, status: &Status) -> Error {
        const EMBEDDING: &str = "while the text was embedded";

        let said = format!("the Embedder service at {}: {}", self.address, status.message());
        // What has a source was made up on this side: the connection broke, or our own clock ran out.
        let is_broken = std::error::Error::source(status).is_some();
        match status.code() {
            Code::Cancelled | Code::Unknown | Code::Internal if is_broken => {
                context.check(EMBEDDING).err().unwrap_or(Error::Unavailable(said))
            }
            Code::InvalidArgument => Error::invalid("", status.message()),
            Code::DeadlineExceeded => Error::DeadlineExceeded(EMBEDDING),
            Code::Cancelled => Error::Cancelled,
            Code::ResourceExhausted => Error::ResourceExhausted {
                what: said,
                retry_after: status.get_error_details().retry_info().and_then(|info| info.retry_delay),
            },
            Code::Unavailable => Error::Unavailable(said),
            code => Error::Internal(format!("{said} ({code:?})")),
        }
    }
}

fn authorize<T>(request: &mut Request<T>, authorization: Option<&MetadataValue<Ascii>>) {
    if let Some(value) = authorization {
        request.metadata_mut().insert("authorization", value.clone());
    }
}

#[async_trait]
impl Embeddings for TollerEmbeddings {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, context: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        let mut embeddings = Vec::with_capacity(texts.len());
        match role {
            EmbeddingRole::Query => {
                for text in texts {
                    context.check("before a query was embedded")?;
                    embeddings.push(self.embed_query(context, text).await?);
                }
            }
            EmbeddingRole::Document => {
                let mut rest = texts.into_iter().peekable();
                while rest.peek().is_some() {
                    context.check("before all texts were embedded")?;
                    let batch = self.take_batch(&mut rest);
                    embeddings.extend(self.embed_documents(context, batch).await?);
                }
            }
        }
        Ok(embeddings)
    }
}

impl TollerEmbeddings {
    /// The next texts that fit into one call: their bytes into the request, the bytes of their vectors into the answer.
    fn take_batch(&self, texts: &mut std::iter::Peekable<impl Iterator<Item = String>>) -> Vec<String> {
        /// Protobuf's own bytes around a text, a vector and its usage, rounded up.
        const OVERHEAD_BYTES: usize = 64;

        let vector_bytes = self.fingerprint.dimension as usize * size_of::<f32>();
        let mut batch = Vec::new();
        let mut bytes = OVERHEAD_BYTES;
        while let Some(text) = texts.peek() {
            let with_this = bytes + OVERHEAD_BYTES + text.len().max(vector_bytes);
            let is_full = with_this > self.max_message_bytes;
            if is_full && !batch.is_empty() {
                break;
            }
            bytes = with_this;
            batch.extend(texts.next());
        }
        batch
    }
}
