//! Hugging Face's text-embeddings-inference, over its gRPC.
//!
//! `server` holds the connection; [`TeiEmbeddings`] and [`TeiReranker`] are its models. Instructions are put before texts
//! here, as for every provider, and the server's own prompts are not used. A text that is too long is refused by the server
//! when it may not truncate, and then sent again for it to cut: so what was cut is known and not guessed.

mod config;
mod server;

#[cfg(test)]
mod tests;

use async_trait::async_trait;
use futures::{StreamExt, TryStreamExt, stream};
use toller_core::embeddings::Embedding;
use toller_core::reranker::RerankScore;
use toller_core::{EmbeddingRole, Embeddings, Error, Fingerprint, Principal, RequestContext, Reranker, Result};

pub use config::TeiConfig;

use self::config::SERVICE;
use self::proto::v1::embed_client::EmbedClient;
use self::proto::v1::rerank_client::RerankClient;
use self::proto::v1::{EmbedRequest, EmbedResponse, ModelType, RerankRequest};
use self::server::{MAX_ANSWER_BYTES, TeiServer};
use crate::error::ProviderError;
use crate::reachable::Reachable;
use crate::vectors::{check_vector, is_unit};

/// Generated from proto/tei/v1/tei.proto.
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all, clippy::pedantic, clippy::restriction)]
pub(crate) mod proto {
    pub(crate) mod v1 {
        tonic::include_proto!("tei.v1");
    }
}

const PROVIDER: &str = "tei";
const EMBEDDING: &str = "while the text was embedded";
const RERANKING: &str = "while documents were reranked";

/// What is embedded at the start, to see the dimension.
const PROBE: &str = "dimension";

/// Most texts of one rerank request, where the server says nothing of a limit.
const RERANK_BATCH: usize = 32;

/// Embeds with the model of a text-embeddings-inference server. Vectors are normalized by the server.
pub struct TeiEmbeddings {
    server: TeiServer,
    fingerprint: Fingerprint,
}

impl TeiEmbeddings {
    /// Connects, asks which model is served, and embeds a word to see the dimension.
    ///
    /// # Errors
    /// See [`ProviderError`].
    pub async fn connect(config: TeiConfig) -> Result<Self, ProviderError> {
        let server = TeiServer::connect(config, ModelType::Embedding).await?;
        let fingerprint = Fingerprint {
            provider: PROVIDER.to_owned(),
            model: server.info.model_id.clone(),
            revision: server.info.model_sha.clone().unwrap_or_default(),
            query_instruction: server.config.query_instruction.clone(),
            document_instruction: server.config.document_instruction.clone(),
            max_tokens: server.info.max_input_length,
            ..Fingerprint::client(0)
        };
        let mut embeddings = Self { server, fingerprint };
        let probe = embeddings.embed_text(&RequestContext::new(Principal::anonymous()), PROBE.to_owned()).await;
        let address = || embeddings.server.config.address.clone();
        let (answer, _) = probe.map_err(|fault| ProviderError::Unusable {
            service: SERVICE,
            address: address(),
            fault: fault.to_string(),
        })?;
        let dimension = u32::try_from(answer.embeddings.len()).unwrap_or(u32::MAX);
        let checked = match dimension {
            0 => Err("has no elements".to_owned()),
            _ => check_vector(answer.embeddings, dimension),
        };
        let vector = checked.map_err(|fault| ProviderError::Model {
            service: SERVICE,
            address: address(),
            fault: format!("it answers a vector that {fault}"),
        })?;
        embeddings.fingerprint.dimension = dimension;
        embeddings.fingerprint.normalized = is_unit(&vector);
        Ok(embeddings)
    }

    /// The answer for one text, and whether the server cut it.
    async fn embed_text(&self, context: &RequestContext, text: String) -> Result<(EmbedResponse, bool)> {
        match self.send(context, &text, false).await {
            // Too long, or wrong in another way, which the second answer tells.
            Err(Error::InvalidArgument(_)) => Ok((self.send(context, &text, true).await?, true)),
            answer => Ok((answer?, false)),
        }
    }

    async fn send(&self, context: &RequestContext, text: &str, truncate: bool) -> Result<EmbedResponse> {
        let send = |request: tonic::Request<()>| async move {
            let message = EmbedRequest { inputs: text.to_owned(), truncate, normalize: true };
            let mut client = EmbedClient::new(self.server.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
            Ok(client.embed(request.map(|()| message)).await?.into_inner())
        };
        self.server.call(context, EMBEDDING, send).await
    }

    async fn embed_one(&self, context: &RequestContext, text: String) -> Result<Embedding> {
        let (answer, truncated) = self.embed_text(context, text).await?;
        let vector = check_vector(answer.embeddings, self.fingerprint.dimension).map_err(|fault| {
            Error::Internal(format!("{SERVICE} at {} answered a vector that {fault}", self.server.config.address))
        })?;
        let token_count = answer.metadata.map(|metadata| metadata.compute_tokens);
        Ok(Embedding { vector, token_count, truncated })
    }
}

#[async_trait]
impl Embeddings for TeiEmbeddings {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, context: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        let instruction = match role {
            EmbeddingRole::Document => &self.fingerprint.document_instruction,
            EmbeddingRole::Query => &self.fingerprint.query_instruction,
        };
        stream::iter(texts)
            .map(|text| self.embed_one(context, format!("{instruction}{text}")))
            .buffered(self.server.parallel())
            .try_collect()
            .await
    }
}

#[async_trait]
impl Reachable for TeiEmbeddings {
    /// Asks which model is served.
    async fn reach(&self) -> Result<()> {
        self.server.reach().await
    }
}

/// Scores pairs with the reranker of a text-embeddings-inference server, which does not say what it cut.
pub struct TeiReranker {
    server: TeiServer,
}

impl TeiReranker {
    /// Connects, and asks which model is served.
    ///
    /// # Errors
    /// See [`ProviderError`].
    pub async fn connect(config: TeiConfig) -> Result<Self, ProviderError> {
        Ok(Self { server: TeiServer::connect(config, ModelType::Reranker).await? })
    }

    async fn rerank_batch(&self, context: &RequestContext, query: &str, texts: &[String]) -> Result<Vec<RerankScore>> {
        let send = |request: tonic::Request<()>| async move {
            let (query, texts) = (query.to_owned(), texts.to_vec());
            let message = RerankRequest { query, texts, truncate: true, raw_scores: true };
            let mut client = RerankClient::new(self.server.channel.clone()).max_decoding_message_size(MAX_ANSWER_BYTES);
            Ok(client.rerank(request.map(|()| message)).await?.into_inner().ranks)
        };
        let ranks = self.server.call(context, RERANKING, send).await?;
        let malformed =
            |fault: String| Error::Internal(format!("{SERVICE} at {} answered {fault}", self.server.config.address));
        let mut scores = vec![None; texts.len()];
        for rank in ranks {
            let Some(slot) = scores.get_mut(rank.index as usize) else {
                return Err(malformed(format!("index {} for {} texts", rank.index, texts.len())));
            };
            if !rank.score.is_finite() {
                return Err(malformed(format!("the score {} for text {}", rank.score, rank.index)));
            }
            *slot = Some(RerankScore { logit: rank.score, token_count: None, truncated: false });
        }
        let complete: Option<Vec<RerankScore>> = scores.into_iter().collect();
        complete.ok_or_else(|| malformed("no score for some of the texts".to_owned()))
    }
}

#[async_trait]
impl Reranker for TeiReranker {
    fn provider(&self) -> &str {
        PROVIDER
    }

    fn model(&self) -> &str {
        &self.server.info.model_id
    }

    fn max_tokens(&self) -> Option<u32> {
        Some(self.server.info.max_input_length).filter(|tokens| *tokens > 0)
    }

    async fn rerank(&self, context: &RequestContext, query: &str, documents: Vec<String>) -> Result<Vec<RerankScore>> {
        let batch = match self.server.info.max_client_batch_size as usize {
            0 => RERANK_BATCH,
            most => most,
        };
        let batches: Vec<Vec<String>> = documents.chunks(batch).map(<[String]>::to_vec).collect();
        stream::iter(batches)
            .map(|batch| async move { self.rerank_batch(context, query, &batch).await })
            .buffered(self.server.parallel())
            .try_concat()
            .await
    }
}

#[async_trait]
impl Reachable for TeiReranker {
    /// Asks which model is served.
    async fn reach(&self) -> Result<()> {
        self.server.reach().await
    }
}
