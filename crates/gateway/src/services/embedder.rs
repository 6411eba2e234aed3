//! `toller.v1.Embedder`.

mod stream;

use toller_api::convert::{self, Encoding};
use toller_api::v1;
use toller_api::v1::embedder_server::Embedder as EmbedderRpc;
use toller_core::embeddings::Embedding;
use toller_core::{EmbeddingRole, Error, Models, RerankScore, Result, Role};
use toller_serving::context::{answer, request_context, require};
use toller_serving::drain::draining;
use toller_serving::read_ahead::read_ahead;
use toller_serving::status::status;
use tonic::{Request, Response, Status, Streaming};

use crate::limits::Limits;
use stream::{Answers, Session};

/// Bytes of a stream that are read ahead of the session: some thousand short texts.
const READ_AHEAD: u32 = 1 << 20;

pub(crate) struct EmbedderService {
    pub(crate) models: Models,
    pub(crate) limits: Limits,
}

#[tonic::async_trait]
impl EmbedderRpc for EmbedderService {
    async fn embed_documents(
        &self,
        request: Request<v1::EmbedDocumentsRequest>,
    ) -> Result<Response<v1::EmbedDocumentsResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let encoding = convert::encoding_from_message(message.encoding)?;
            let model = self.models.embedding_model(message.model.as_deref())?;
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
            let model = self.models.embedding_model(message.model.as_deref())?;
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

    type EmbedStreamStream = Answers;

    async fn embed_stream(
        &self,
        request: Request<Streaming<v1::EmbedStreamRequest>>,
    ) -> Result<Response<Answers>, Status> {
        let context = request_context(&request).map_err(|error| status(&error))?;
        require(&context, Role::Reader).map_err(|error| status(&error))?;
        let drain = draining(&request);
        // The headers go out at once: some clients send nothing before they have them.
        let session = Session::new(
            read_ahead(request.into_inner(), READ_AHEAD),
            self.models.clone(),
            self.limits.clone(),
            context,
            drain,
        );
        Ok(Response::new(session.answers()))
    }

    async fn rerank(&self, request: Request<v1::RerankRequest>) -> Result<Response<v1::RerankResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let reranker = self.models.reranker(message.model.as_deref())?;
            let v1::RerankRequest { query, documents, top_n, .. } = message;
            if top_n == Some(0) {
                return Err(Error::invalid("top_n", "must be at least 1; leave it out for all, got 0"));
            }
            self.limits.check_documents("documents", documents.len())?;
            self.limits.check_text(|| "query".to_owned(), &query)?;
            for (index, document) in documents.iter().enumerate() {
                self.limits.check_text(|| format!("documents[{index}]"), document)?;
            }
            let wanted = documents.len();
            let scores = reranker.rerank(&context, &query, documents).await?;
            if scores.len() != wanted {
                return Err(Error::Internal(format!("the reranker gave {} scores for {wanted} texts", scores.len())));
            }
            Ok(v1::RerankResponse { results: best_first(&scores, top_n) })
        })
        .await
    }

    async fn list_models(
        &self,
        request: Request<v1::ListModelsRequest>,
    ) -> Result<Response<v1::ListModelsResponse>, Status> {
        answer(request, Role::Reader, async |_, _| {
            let embeddings = self.models.embeddings.iter().map(|loaded| {
                let fingerprint = loaded.model.fingerprint();
                v1::Model {
                    name: loaded.name.to_owned(),
                    is_default: loaded.is_default,
                    fingerprint: Some(convert::fingerprint_to_message(fingerprint)),
                    kind: v1::ModelKind::Embedding.into(),
                    max_tokens: (fingerprint.max_tokens > 0).then_some(fingerprint.max_tokens),
                }
            });
            let rerankers = self.models.rerankers.iter().map(|loaded| v1::Model {
                name: loaded.name.to_owned(),
                is_default: loaded.is_default,
                fingerprint: None,
                kind: v1::ModelKind::Reranker.into(),
                max_tokens: loaded.model.max_tokens(),
            });
            Ok(v1::ListModelsResponse { models: embeddings.chain(rerankers).collect() })
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

/// The best `top_n` pairs, or all: by logit descending, then by index. O(n log n).
fn best_first(scores: &[RerankScore], top_n: Option<u32>) -> Vec<v1::RerankedText> {
    let mut order: Vec<(usize, &RerankScore)> = scores.iter().enumerate().collect();
    // Stable, so that ties stay in the order of their indices.
    order.sort_by(|(_, left), (_, right)| right.logit.total_cmp(&left.logit));
    order.truncate(top_n.map_or(usize::MAX, |top_n| top_n as usize));
    let result = |(index, score): (usize, &RerankScore)| v1::RerankedText {
        // A message cannot hold 2^32 documents.
        index: u32::try_from(index).unwrap_or(u32::MAX),
        score: f64::from(score.logit),
        relevance: score.relevance(),
        usage: Some(v1::TextUsage { token_count: score.token_count, truncated: score.truncated }),
    };
    order.into_iter().map(result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_best_first_with_ties_by_index() {
        let score = |logit| RerankScore { logit, token_count: Some(7), truncated: false };
        let scores = [score(-1.0), score(2.0), score(0.0), score(2.0), score(-0.0)];
        let indices = |top_n| best_first(&scores, top_n).iter().map(|text| text.index).collect::<Vec<_>>();
        assert_eq!(indices(None), [1, 3, 2, 4, 0]);
        assert_eq!(indices(Some(2)), [1, 3]);
        assert_eq!(indices(Some(9)), [1, 3, 2, 4, 0]);
        let best = best_first(&scores, Some(1)).remove(0);
        assert_eq!((best.score, best.relevance > 0.88 && best.relevance < 0.881), (2.0, true));
        assert_eq!(best.usage, Some(v1::TextUsage { token_count: Some(7), truncated: false }));
    }
}
