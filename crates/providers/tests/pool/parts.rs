//! Batches in parts, roles and rerankers.

use std::sync::atomic::Ordering;

use toller_core::{EmbeddingRole, Embeddings, Error, Reranker};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::fake::{AS_DOCUMENT, AS_QUERY, logit, vector};
use crate::{context, pool_of};

/// Texts of very different lengths, about 100,000 tokens together.
fn texts() -> Vec<String> {
    (0..600).map(|index| format!("{index} {}", "word ".repeat(index % 270))).collect()
}

#[tokio::test]
async fn a_large_batch_is_spread_over_the_workers_and_comes_back_in_order() {
    let (workers, _pool, embeddings) = pool_of(3).await;
    let texts = texts();
    let answer = embeddings.embed(&context(), EmbeddingRole::Document, texts.clone()).await.unwrap();
    assert_eq!(answer.len(), texts.len());
    for (text, embedding) in texts.iter().zip(&answer) {
        assert_eq!(embedding.vector, vector(text, AS_DOCUMENT));
        assert_eq!(embedding.token_count, Some(u32::try_from(text.len()).unwrap()));
        assert_eq!(embedding.truncated, text.len() > 100);
    }
    let mut embedded: Vec<String> = workers.iter().flat_map(|worker| worker.state.texts.lock().clone()).collect();
    // One that is quick may be done with its part before the last one is asked.
    let busy = workers.iter().filter(|worker| worker.state.calls() > 0).count();
    assert!(busy > 1, "several workers have a part in it");
    embedded.sort();
    let mut expected = texts;
    expected.sort();
    assert_eq!(embedded, expected, "no text is embedded twice");
}

#[tokio::test]
async fn queries_and_documents_keep_their_roles_and_nothing_is_asked_for_nothing() {
    let (workers, _pool, embeddings) = pool_of(2).await;
    let texts = || vec!["one".to_owned(), String::new(), "ünï".to_owned()];
    for (role, number) in [(EmbeddingRole::Query, AS_QUERY), (EmbeddingRole::Document, AS_DOCUMENT)] {
        let answer = embeddings.embed(&context(), role, texts()).await.unwrap();
        let vectors: Vec<_> = answer.into_iter().map(|embedding| embedding.vector).collect();
        assert_eq!(vectors, texts().iter().map(|text| vector(text, number)).collect::<Vec<_>>());
    }
    let calls: usize = workers.iter().map(|worker| worker.state.calls()).sum();
    assert_eq!(calls, 4, "a call for each query, and one for all documents");
    assert_eq!(embeddings.embed(&context(), EmbeddingRole::Document, Vec::new()).await, Ok(Vec::new()));
    assert_eq!(workers.iter().map(|worker| worker.state.calls()).sum::<usize>(), calls);
}

#[tokio::test]
async fn a_part_that_fails_for_good_fails_the_batch_and_names_the_text_in_it() {
    let (workers, _pool, embeddings) = pool_of(1).await;
    let state = &workers[0].state;
    state.holds.store(true, Ordering::SeqCst);
    let details = ErrorDetails::with_bad_request_violation("texts[1]", "is too long");
    let refusal = Status::with_error_details(Code::InvalidArgument, "texts[1]: is too long", details);
    let batch = {
        let embeddings = embeddings.clone();
        tokio::spawn(async move { embeddings.embed(&context(), EmbeddingRole::Document, texts()).await })
    };
    crate::fake::until("two parts are with the worker", || state.held.load(Ordering::SeqCst) == 2).await;
    state.refusals.lock().push_back(refusal);
    state.release.notify_one();
    let error = batch.await.unwrap().unwrap_err();
    let Error::InvalidArgument(violations) = &error else { panic!("{error:?}") };
    assert_eq!(violations.len(), 1);
    let index: usize = violations[0].field.strip_prefix("texts[").unwrap().strip_suffix(']').unwrap().parse().unwrap();
    assert!(index < 600 && violations[0].description == "is too long");
    crate::fake::until("the other part is dropped", || state.abandoned.load(Ordering::SeqCst) == 1).await;
    assert_eq!(state.calls(), 2, "what no worker would take is sent once");
}

#[tokio::test]
async fn rerankers_score_in_the_order_of_the_documents() {
    let (workers, pool, _embeddings) = pool_of(3).await;
    let rerankers = pool.rerankers();
    let [reranker] = rerankers.as_slice() else { panic!("one reranker") };
    assert_eq!((reranker.provider(), reranker.model(), reranker.max_tokens()), ("toller", "judge", Some(512)));
    let documents = texts();
    let scores = reranker.rerank(&context(), "a query", documents.clone()).await.unwrap();
    let expected: Vec<f32> = documents.iter().map(|document| logit("a query", document)).collect();
    assert_eq!(scores.iter().map(|score| score.logit).collect::<Vec<_>>(), expected);
    assert_eq!(scores[3].token_count, Some(u32::try_from(documents[3].len()).unwrap()));
    assert!(workers.iter().all(|worker| worker.state.calls() > 0));
    assert_eq!(reranker.rerank(&context(), "a query", Vec::new()).await, Ok(Vec::new()));
}
