//! `toller.v1.Embedder`.

use std::sync::Arc;

use toller_api::convert::{self, Encoding};
use toller_api::v1;
use toller_api::v1::embedder_server::Embedder as EmbedderRpc;
use toller_core::embeddings::Embedding;
use toller_core::error::ResourceKind;
use toller_core::{EmbeddingRole, Embeddings, Error, Result, Role};
use toller_serving::context::answer;
use tonic::{Request, Response, Status};

use crate::limits::Limits;

pub(crate) struct EmbedderService {
    /// The default model; none when the server runs without one.
    pub(crate) embeddings: Option<Arc<dyn Embeddings>>,
    pub(crate) limits: Limits,
}

impl EmbedderService {
    /// The model of that name, or the default one.
    fn model(&self, name: Option<&str>) -> Result<&Arc<dyn Embeddings>> {
        match (&self.embeddings, name) {
            (Some(embeddings), None) => Ok(embeddings),
            (Some(embeddings), Some(name)) if embeddings.fingerprint().model == name => Ok(embeddings),
            (_, Some(name)) => Err(Error::NotFound { kind: ResourceKind::Model, name: name.to_owned() }),
            (None, None) => Err(Error::FailedPrecondition {
                reason: "NO_EMBEDDING_MODEL",
                message: "this server runs without an embedding model; set embedding.provider and embedding.model"
                    .to_owned(),
            }),
        }
    }
}

#[tonic::async_trait]
impl EmbedderRpc for EmbedderService {
    async fn embed_documents(
        &self,
        request: Request<v1::EmbedDocumentsRequest>,
    ) -> Result<Response<v1::EmbedDocumentsResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let encoding = convert::encoding_from_message(message.encoding)?;
            let model = self.model(message.model.as_deref())?;
            let fingerprint = model.fingerprint();
            self.limits.check_vectors("texts", message.texts.len(), fingerprint.dimension)?;
            for (index, text) in message.texts.iter().enumerate() {
                self.limits.check_text(|| format!("texts[{index}]"), text)?;
            }
            let embeddings = model.embed(&context, EmbeddingRole::Document, message.texts).await?;
            check_truncation(message.truncate, &embeddings, |index| format!("texts[{index}]"))?;
            let (vectors, usage) = embeddings.iter().map(|embedding| to_message(embedding, encoding)).unzip();
            Ok(v1::EmbedDocumentsResponse {
                vectors,
                usage,
                fingerprint: Some(convert::fingerprint_to_message(fingerprint)),
            })
        })
        .await
    }

    async fn embed_query(
        &self,
        request: Request<v1::EmbedQueryRequest>,
    ) -> Result<Response<v1::EmbedQueryResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let encoding = convert::encoding_from_message(message.encoding)?;
            let model = self.model(message.model.as_deref())?;
            self.limits.check_text(|| "text".to_owned(), &message.text)?;
            let embeddings = model.embed(&context, EmbeddingRole::Query, vec![message.text]).await?;
            check_truncation(message.truncate, &embeddings, |_| "text".to_owned())?;
            let embedding = embeddings
                .first()
                .ok_or_else(|| Error::Internal("the provider answered no vector for a query".to_owned()))?;
            let (vector, usage) = to_message(embedding, encoding);
            Ok(v1::EmbedQueryResponse {
                vector: Some(vector),
                usage: Some(usage),
                fingerprint: Some(convert::fingerprint_to_message(model.fingerprint())),
            })
        })
        .await
    }

    async fn list_models(
        &self,
        request: Request<v1::ListModelsRequest>,
    ) -> Result<Response<v1::ListModelsResponse>, Status> {
        answer(request, Role::Reader, async |_, _| {
            let models = self.embeddings.iter().map(|embeddings| {
                let fingerprint = embeddings.fingerprint();
                v1::Model {
                    name: fingerprint.model.clone(),
                    is_default: true,
                    fingerprint: Some(convert::fingerprint_to_message(fingerprint)),
                    kind: v1::ModelKind::Embedding.into(),
                    max_tokens: (fingerprint.max_tokens > 0).then_some(fingerprint.max_tokens),
                }
            });
            Ok(v1::ListModelsResponse { models: models.collect() })
        })
        .await
    }
}

fn to_message(embedding: &Embedding, encoding: Encoding) -> (v1::Vector, v1::TextUsage) {
    let usage = v1::TextUsage { token_count: embedding.token_count, truncated: embedding.truncated };
    (convert::vector_to_message(&embedding.vector, encoding), usage)
}

/// Refuses texts that were cut where the caller said that none may be.
fn check_truncation(truncate: Option<bool>, embeddings: &[Embedding], field: impl Fn(usize) -> String) -> Result<()> {
    if truncate.unwrap_or(true) {
        return Ok(());
    }
    match embeddings.iter().position(|embedding| embedding.truncated) {
        None => Ok(()),
        Some(index) => {
            Err(Error::invalid(field(index), "is longer than the model's longest input, and truncate is false"))
        }
    }
}
