//! An embedding model of the pool, as `Embeddings`.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use toller_api::convert;
use toller_api::v1;
use toller_core::embeddings::Embedding;
use toller_core::{EmbeddingRole, Embeddings, Fingerprint, RequestContext, Result};

use super::Pool;
use super::call::Call;
use super::failure::Failure;
use super::fault::Fault;
use super::load::estimated_tokens;
use super::models::other_model;
use super::split::{Part, PartLimits, answer_parts, split};
use super::worker::{Lane, Worker};
use crate::vectors::check_vector;

const EMBEDDING: &str = "while the text was embedded";

/// Embeds with one model of a [`super::WorkerPool`].
pub struct PooledEmbeddings {
    pub(super) pool: Arc<Pool>,
    pub(super) fingerprint: Fingerprint,
    pub(super) name: String,
    pub(super) is_default: bool,
}

impl PooledEmbeddings {
    /// The name that requests use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Do the workers use it where a request names no model?
    pub fn is_default(&self) -> bool {
        self.is_default
    }

    /// What our requests name: nothing for the default model, which workers may call by different names.
    fn named(&self) -> Option<String> {
        (!self.is_default).then(|| self.name.clone())
    }
}

#[async_trait]
impl Embeddings for PooledEmbeddings {
    fn fingerprint(&self) -> &Fingerprint {
        &self.fingerprint
    }

    async fn embed(&self, context: &RequestContext, role: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>> {
        let max_tokens = self.fingerprint.max_tokens;
        let parts = match role {
            EmbeddingRole::Document => {
                let limits = PartLimits {
                    workers: self.pool.caller.members.numbers().1,
                    max_message_bytes: self.pool.caller.members.config.max_message_bytes,
                    fixed_bytes: self.name.len(),
                    answer_bytes: self.fingerprint.dimension as usize * size_of::<f32>(),
                    max_tokens,
                    tokens_beside: 0,
                };
                split(texts, limits)
            }
            // Queries travel alone.
            EmbeddingRole::Query => {
                let part = |(start, text): (usize, String)| {
                    let tokens = estimated_tokens(text.len(), max_tokens);
                    Part { start, texts: vec![text], tokens }
                };
                texts.into_iter().enumerate().map(part).collect()
            }
        };
        answer_parts(parts, self.pool.parallel(), |part| self.embed_part(context, role, part).boxed()).await
    }
}

impl PooledEmbeddings {
    async fn embed_part(&self, context: &RequestContext, role: EmbeddingRole, part: Part) -> Result<Vec<Embedding>> {
        let lane = match role {
            EmbeddingRole::Document => Lane::Documents,
            EmbeddingRole::Query => Lane::Queries,
        };
        let call = Call { context, lane, tokens: part.tokens, during: EMBEDDING };
        let (call, texts) = (&call, &part.texts);
        let attempt = move |worker: Arc<Worker>| async move {
            match role {
                EmbeddingRole::Document => self.embed_documents(call, &worker, texts.clone()).await,
                EmbeddingRole::Query => self.embed_query(call, &worker, texts.concat()).await,
            }
        };
        self.pool.caller.call(call, attempt).await
    }

    async fn embed_documents(
        &self,
        call: &Call<'_>,
        worker: &Worker,
        texts: Vec<String>,
    ) -> Result<Vec<Embedding>, Failure> {
        let wanted = texts.len();
        let message = v1::EmbedDocumentsRequest { texts, model: self.named(), ..Default::default() };
        let answer = worker.embedder().embed_documents(worker.request(call.context, message)).await;
        let answer = self.pool.caller.note(worker, call, answer)?;
        self.check_fingerprint(worker, answer.fingerprint)?;
        if answer.vectors.len() != wanted || answer.usage.len() != wanted {
            let (vectors, usage) = (answer.vectors.len(), answer.usage.len());
            let fault = format!("{vectors} vectors and {usage} usages for {wanted} texts");
            return Err(Failure::malformed(worker.address.url(), fault));
        }
        answer
            .vectors
            .into_iter()
            .zip(answer.usage)
            .map(|(vector, usage)| self.embedding(worker, vector, &usage))
            .collect()
    }

    async fn embed_query(&self, call: &Call<'_>, worker: &Worker, text: String) -> Result<Vec<Embedding>, Failure> {
        let message = v1::EmbedQueryRequest { text, model: self.named(), ..Default::default() };
        let answer = worker.embedder().embed_query(worker.request(call.context, message)).await;
        let answer = self.pool.caller.note(worker, call, answer)?;
        self.check_fingerprint(worker, answer.fingerprint)?;
        let (vector, usage) = (answer.vector.unwrap_or_default(), answer.usage.unwrap_or_default());
        Ok(vec![self.embedding(worker, vector, &usage)?])
    }

    fn embedding(&self, worker: &Worker, vector: v1::Vector, usage: &v1::TextUsage) -> Result<Embedding, Failure> {
        let checked = convert::vector_from_message(vector)
            .map_err(|fault| fault.to_string())
            .and_then(|vector| check_vector(vector, self.fingerprint.dimension));
        let vector =
            checked.map_err(|fault| Failure::malformed(worker.address.url(), format!("a vector that {fault}")))?;
        Ok(Embedding { vector, token_count: usage.token_count, truncated: usage.truncated })
    }

    /// A worker may have been restarted with another model since its last probe.
    fn check_fingerprint(&self, worker: &Worker, answered: Option<v1::Fingerprint>) -> Result<(), Failure> {
        let Some(answered) = answered else {
            return Err(Failure::malformed(worker.address.url(), "no fingerprint"));
        };
        let answered = convert::fingerprint_from_message(answered).map_err(|fault| {
            Failure::malformed(worker.address.url(), format!("a fingerprint that cannot be read: {fault}"))
        })?;
        if answered.is_compatible_with(&self.fingerprint) {
            return Ok(());
        }
        let fault = Fault::OtherModel(other_model(&answered, &self.fingerprint));
        Err(Failure::other_model(worker.address.url(), fault))
    }
}
