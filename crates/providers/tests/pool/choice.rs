//! Which worker gets a call.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use toller_core::{EmbeddingRole, Embeddings, Error, Principal, RequestContext};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::fake::until;
use crate::{context, pool_of, query};

#[tokio::test]
async fn a_worker_that_is_slow_gets_no_more_calls_than_it_answers() {
    let (workers, _pool, embeddings) = pool_of(2).await;
    let slow = &workers[0].state;
    slow.holds.store(true, Ordering::SeqCst);
    let held = {
        let embeddings = embeddings.clone();
        tokio::spawn(async move {
            // One of them comes to the slow worker, and the others go past it.
            let text = "word ".repeat(200);
            futures::future::join_all((0..8).map(|_| query(&embeddings, &text))).await
        })
    };
    until("a call is with the slow worker", || slow.held.load(Ordering::SeqCst) > 0).await;
    until("the other one is idle", || workers[1].state.calls() + slow.calls() == 8).await;
    let before = slow.calls();
    for _ in 0..50 {
        query(&embeddings, "short").await.unwrap();
    }
    assert_eq!(slow.calls(), before);
    slow.holds.store(false, Ordering::SeqCst);
    assert!(held.await.unwrap().iter().all(Result::is_ok));
}

#[tokio::test]
async fn a_worker_that_says_that_much_waits_is_passed_over() {
    let (workers, _pool, embeddings) = pool_of(2).await;
    let busy = &workers[0].state;
    busy.queued_tokens.store(1_000_000_000, Ordering::SeqCst);
    for _ in 0..100 {
        query(&embeddings, "text").await.unwrap();
    }
    // Its probes say so too, so that it may get none at all.
    assert!(busy.calls() <= 1, "{}", busy.calls());
}

fn full(delay: Option<Duration>) -> Status {
    let details = delay.map_or_else(ErrorDetails::new, |delay| ErrorDetails::with_retry_info(Some(delay)));
    Status::with_error_details(Code::ResourceExhausted, "the queue is full", details)
}

#[tokio::test]
async fn a_full_worker_is_passed_over_for_as_long_as_it_says() {
    let (workers, _pool, embeddings) = pool_of(2).await;
    let state = &workers[0].state;
    *state.refuses.lock() = Some(full(Some(Duration::from_secs(3600))));
    for _ in 0..100 {
        query(&embeddings, "text").await.unwrap();
    }
    assert!(state.calls() <= 1, "{}", state.calls());
}

#[tokio::test]
async fn all_full_workers_are_waited_for_as_they_say_or_not_at_all() {
    let (workers, _pool, embeddings) = pool_of(2).await;
    let calls = || workers.iter().map(|worker| worker.state.calls()).sum::<usize>();
    let delay = Duration::from_millis(200);
    for worker in &workers {
        worker.state.refusals.lock().push_back(full(Some(delay)));
    }
    let started = Instant::now();
    query(&embeddings, "text").await.unwrap();
    assert!(started.elapsed() >= delay, "the third try waits as it was told");
    assert_eq!(calls(), 3);

    for worker in &workers {
        *worker.state.refuses.lock() = Some(full(Some(Duration::from_secs(60))));
    }
    let error = query(&embeddings, "text").await.unwrap_err();
    let Error::ResourceExhausted { what, retry_after } = &error else { panic!("{error:?}") };
    assert_eq!(*retry_after, Some(Duration::from_secs(60)));
    assert!(what.contains("the queue is full") && what.contains("http://127.0.0.1:"), "{what}");
    assert_eq!(calls(), 5);
    // It is known that none has room: nobody is asked.
    assert!(matches!(query(&embeddings, "text").await, Err(Error::ResourceExhausted { retry_after: Some(_), .. })));
    assert_eq!(calls(), 5);
    // Documents are another queue.
    let documents = embeddings.embed(&context(), EmbeddingRole::Document, vec!["text".to_owned()]).await;
    assert!(matches!(documents, Err(Error::ResourceExhausted { .. })));
    assert_eq!(calls(), 7);
}

#[tokio::test]
async fn deadlines_go_on_to_the_worker_and_gone_callers_end_their_calls() {
    let (workers, _pool, embeddings) = pool_of(1).await;
    let state = &workers[0].state;
    query(&embeddings, "text").await.unwrap();
    let told = state.timeouts.lock().pop().flatten().unwrap();
    assert!(told.ends_with('u') || told.ends_with('m') || told.ends_with('n'), "{told}");

    state.holds.store(true, Ordering::SeqCst);
    let soon = RequestContext::new(Principal::anonymous()).with_deadline(Some(Instant::now() + Duration::from_secs(2)));
    let late = embeddings.embed(&soon, EmbeddingRole::Query, vec!["text".to_owned()]).await;
    assert!(matches!(late, Err(Error::DeadlineExceeded(_))), "{late:?}");
    until("the late call is dropped", || state.abandoned.load(Ordering::SeqCst) == 1).await;

    let call = {
        let embeddings = embeddings.clone();
        tokio::spawn(async move { query(&embeddings, "text").await })
    };
    until("it is with the worker", || state.held.load(Ordering::SeqCst) == 2).await;
    call.abort();
    until("the abandoned call is dropped", || state.abandoned.load(Ordering::SeqCst) == 2).await;
    assert_eq!(state.calls(), 3, "neither is sent again");

    let passed = RequestContext::new(Principal::anonymous()).with_deadline(Some(Instant::now()));
    let answer = embeddings.embed(&passed, EmbeddingRole::Query, vec!["text".to_owned()]).await;
    assert!(matches!(answer, Err(Error::DeadlineExceeded(_))));
    assert_eq!(state.calls(), 3, "nobody waits for it");
}
