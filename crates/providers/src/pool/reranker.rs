//! A reranker of the pool, as `Reranker`.

use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt;
use toller_api::v1;
use toller_core::reranker::RerankScore;
use toller_core::{RequestContext, Reranker, Result};

use super::Pool;
use super::call::Call;
use super::failure::Failure;
use super::load::estimated_tokens;
use super::split::{Part, PartLimits, answer_parts, split};
use super::worker::{Lane, Worker};

const RERANKING: &str = "while documents were reranked";

/// Bytes of one result: index, score, relevance and usage.
const RESULT_BYTES: usize = 48;

/// Scores pairs with one model of a [`super::WorkerPool`].
pub struct PooledReranker {
    pub(super) pool: Arc<Pool>,
    pub(super) name: String,
    pub(super) is_default: bool,
    pub(super) max_tokens: Option<u32>,
}

impl PooledReranker {
    /// Do the workers use it where a request names no model?
    pub fn is_default(&self) -> bool {
        self.is_default
    }
}

#[async_trait]
impl Reranker for PooledReranker {
    fn provider(&self) -> &str {
        super::PROVIDER
    }

    fn model(&self) -> &str {
        &self.name
    }

    fn max_tokens(&self) -> Option<u32> {
        self.max_tokens
    }

    async fn rerank(&self, context: &RequestContext, query: &str, documents: Vec<String>) -> Result<Vec<RerankScore>> {
        let max_tokens = self.max_tokens.unwrap_or(0);
        let limits = PartLimits {
            workers: self.pool.caller.members.numbers().1,
            max_message_bytes: self.pool.caller.members.config.max_message_bytes,
            fixed_bytes: query.len() + self.name.len(),
            answer_bytes: RESULT_BYTES,
            max_tokens,
            tokens_beside: estimated_tokens(query.len(), max_tokens),
        };
        let parts = split(documents, limits);
        answer_parts(parts, self.pool.parallel(), |part| self.rerank_part(context, query, part).boxed()).await
    }
}

impl PooledReranker {
    async fn rerank_part(&self, context: &RequestContext, query: &str, part: Part) -> Result<Vec<RerankScore>> {
        let call = Call { context, lane: Lane::Pairs, tokens: part.tokens, during: RERANKING };
        let (call, documents) = (&call, &part.texts);
        let attempt = move |worker: Arc<Worker>| async move {
            let message = v1::RerankRequest {
                query: query.to_owned(),
                documents: documents.clone(),
                model: Some(self.name.clone()),
                top_n: None,
            };
            let answer = worker.embedder().rerank(worker.request(call.context, message)).await;
            let answer = self.pool.caller.note(&worker, call, answer)?;
            in_order(answer.results, documents.len()).map_err(|fault| Failure::malformed(worker.address.url(), fault))
        };
        self.pool.caller.call(call, attempt).await
    }
}

/// The scores in the order of the documents.
///
/// # Errors
/// Says what is wrong with the results; continues "it answered …".
fn in_order(results: Vec<v1::RerankedText>, documents: usize) -> Result<Vec<RerankScore>, String> {
    let mut scores = vec![None; documents];
    for result in results {
        let Some(slot) = scores.get_mut(result.index as usize) else {
            return Err(format!("index {} for {documents} documents", result.index));
        };
        #[allow(clippy::cast_possible_truncation)]
        let logit = result.score as f32;
        if !logit.is_finite() {
            return Err(format!("the score {} for document {}", result.score, result.index));
        }
        let usage = result.usage.unwrap_or_default();
        let score = RerankScore { logit, token_count: usage.token_count, truncated: usage.truncated };
        if slot.replace(score).is_some() {
            return Err(format!("two scores for document {}", result.index));
        }
    }
    let missing = scores.iter().position(Option::is_none);
    scores
        .into_iter()
        .collect::<Option<Vec<_>>>()
        .ok_or_else(|| format!("no score for document {}", missing.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_come_in_the_order_of_the_documents_each_once() {
        let result = |index, score| v1::RerankedText { index, score, ..Default::default() };
        let logits = |results, documents| {
            in_order(results, documents).map(|scores| scores.iter().map(|score| score.logit).collect::<Vec<_>>())
        };
        assert_eq!(logits(vec![result(2, 3.0), result(0, 1.0), result(1, -2.0)], 3), Ok(vec![1.0, -2.0, 3.0]));
        assert_eq!(logits(vec![], 0), Ok(vec![]));
        assert_eq!(logits(vec![result(0, 1.0)], 2), Err("no score for document 1".to_owned()));
        assert_eq!(logits(vec![result(0, 1.0), result(0, 1.0)], 2), Err("two scores for document 0".to_owned()));
        assert_eq!(logits(vec![result(2, 1.0)], 2), Err("index 2 for 2 documents".to_owned()));
        assert!(logits(vec![result(0, f64::NAN)], 1).is_err() && logits(vec![result(0, 1e300)], 1).is_err());
    }
}
