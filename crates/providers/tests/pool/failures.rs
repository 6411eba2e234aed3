//! Workers that die, refuse, and come back.

use std::sync::atomic::Ordering;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::time::Instant;
use toller_core::{EmbeddingRole, Embeddings, Error};
use toller_providers::Reachable;
use tonic::Status;

use crate::fake::{AS_DOCUMENT, AS_QUERY, SOON, Worker, until, vector};
use crate::{config, context, list, pool_of, query, start};

#[tokio::test]
async fn calls_of_a_worker_that_dies_are_answered_by_another() {
    let (mut workers, pool, embeddings) = pool_of(2).await;
    for worker in &workers {
        worker.state.holds.store(true, Ordering::SeqCst);
    }
    let dying = workers.swap_remove(0);
    let batch: Vec<String> = (0..400).map(|index| format!("{index} {}", "word ".repeat(100))).collect();
    // The queries come first: beside the batch, whose parts weigh more than all of them, they might all go to one worker.
    let queries = (0..40).map(|index| {
        let embeddings = embeddings.clone();
        async move { query(&embeddings, &format!("query {index}")).await }
    });
    let queries = tokio::spawn(futures::future::join_all(queries));
    until("queries are with the dying worker", || dying.state.held.load(Ordering::SeqCst) >= 5).await;
    until("queries are with both", || both_hold(&dying, &workers[0]) >= 40).await;
    let held = dying.state.held.load(Ordering::SeqCst);
    let documents = {
        let (embeddings, batch) = (embeddings.clone(), batch.clone());
        tokio::spawn(async move { embeddings.embed(&context(), EmbeddingRole::Document, batch).await })
    };
    until("a part of the batch is with the dying worker", || dying.state.held.load(Ordering::SeqCst) > held).await;
    dying.kill();
    workers[0].state.holds.store(false, Ordering::SeqCst);
    for (index, answer) in queries.await.unwrap().into_iter().enumerate() {
        assert_eq!(answer.unwrap().vector, vector(&format!("query {index}"), AS_QUERY));
    }
    for (text, embedding) in batch.iter().zip(documents.await.unwrap().unwrap()) {
        assert_eq!(embedding.vector, vector(text, AS_DOCUMENT));
    }
    until("it is left out", || pool.workers().healthy == 1).await;
    assert_eq!(pool.reach().await, Ok(()));
}

/// Calls that wait at either.
fn both_hold(one: &Worker, other: &Worker) -> usize {
    one.state.held.load(Ordering::SeqCst) + other.state.held.load(Ordering::SeqCst)
}

#[tokio::test]
async fn without_workers_calls_are_unavailable_in_time_and_go_on_when_one_is_back() {
    let (workers, pool, embeddings) = pool_of(2).await;
    let addresses: Vec<String> = workers.iter().map(Worker::url).collect();
    let killed: Vec<_> = workers.into_iter().map(Worker::kill).collect();
    let started = Instant::now();
    let error = query(&embeddings, "text").await.unwrap_err();
    assert!(started.elapsed() < SOON / 2, "it does not wait for its deadline");
    let Error::Unavailable(said) = &error else { panic!("{error:?}") };
    assert!(addresses.iter().all(|address| said.contains(address)) && said.contains("check that they run"), "{said}");
    let unreachable = pool.reach().await.unwrap_err().to_string();
    assert!(unreachable.contains(&addresses[0]), "{unreachable}");

    // One of them comes back on its old port.
    let (address, state) = killed.into_iter().next().unwrap();
    let _back = Worker::start_at(address, state, None).await;
    let give_up = Instant::now() + SOON;
    while let Err(error) = query(&embeddings, "text").await {
        assert!(matches!(error, Error::Unavailable(_)) && Instant::now() < give_up, "{error:?}");
    }
    assert_eq!(pool.reach().await, Ok(()));
}

#[tokio::test]
async fn a_call_that_finds_no_worker_waits_for_one_that_comes_back_soon() {
    let worker = Worker::start().await;
    let (_pool, embeddings) = start(config(&worker.url()).recovery_wait(SOON / 2)).await;
    let (address, state) = worker.kill();
    let call = tokio::spawn(async move { query(&embeddings, "text").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let _back = Worker::start_at(address, state, None).await;
    assert_eq!(call.await.unwrap().unwrap().vector, vector("text", AS_QUERY));
}

#[tokio::test]
async fn a_worker_that_does_not_serve_gets_no_calls_until_it_does() {
    let (workers, pool, embeddings) = pool_of(2).await;
    workers[0].set_serving(false).await;
    until("it is left out", || pool.workers().healthy == 1).await;
    let before = workers[0].state.calls();
    for _ in 0..30 {
        query(&embeddings, "text").await.unwrap();
    }
    assert_eq!(workers[0].state.calls(), before);
    workers[0].set_serving(true).await;
    until("it is healthy again", || pool.workers().healthy == 2).await;
    for _ in 0..100 {
        query(&embeddings, "text").await.unwrap();
    }
    assert!(workers[0].state.calls() > before);
}

#[tokio::test]
async fn what_every_worker_would_say_is_not_sent_again() {
    let (workers, pool, embeddings) = pool_of(2).await;
    let calls = || workers.iter().map(|worker| worker.state.calls()).sum::<usize>();
    for (number, status) in [
        Status::invalid_argument("is too long"),
        Status::internal("a defect"),
        Status::failed_precondition("x"),
        Status::out_of_range("too large"),
    ]
    .into_iter()
    .enumerate()
    {
        for worker in &workers {
            *worker.state.refuses.lock() = Some(status.clone());
        }
        let error = query(&embeddings, "text").await.unwrap_err();
        assert!(error.to_string().contains(status.message()), "{error:?}");
        assert_eq!(calls(), number + 1);
    }
    assert_eq!(pool.workers().healthy, 2, "nor is it the workers' fault");
}

#[tokio::test]
async fn a_worker_that_refuses_calls_is_left_out_after_some() {
    let (workers, pool, embeddings) = pool_of(2).await;
    *workers[0].state.refuses.lock() = Some(Status::unavailable("it stops"));
    let refusing = &workers[0].state;
    let mut least = 2;
    for _ in 0..60 {
        query(&embeddings, "text").await.unwrap();
        least = least.min(pool.workers().healthy);
    }
    assert_eq!(least, 1);
    // Three calls leave it out; each time that a probe lets it in again, three more.
    assert!((3..60).contains(&refusing.calls()), "{}", refusing.calls());
    *refusing.refuses.lock() = None;
    until("it is healthy again", || pool.workers().healthy == 2).await;
}

#[tokio::test]
async fn retries_do_not_multiply_an_outage() {
    let (workers, _pool, embeddings) = pool_of(2).await;
    for worker in &workers {
        // Full without saying until when: every call would be tried four times.
        *worker.state.refuses.lock() = Some(Status::resource_exhausted("full"));
    }
    let queries = (0..400).map(|_| query(&embeddings, "text"));
    let answers = futures::future::join_all(queries).await;
    // On a machine that is so busy that a probe is late, a worker is left out, and some calls find none.
    let is_refused = |error: &Error| matches!(error, Error::ResourceExhausted { .. } | Error::Unavailable(_));
    assert!(answers.iter().all(|answer| answer.as_ref().is_err_and(is_refused)));
    let calls: usize = workers.iter().map(|worker| worker.state.calls()).sum();
    // What was saved up, and one in five.
    assert!(calls <= 400 + 512 + 80, "{calls}");
}

#[tokio::test]
async fn another_model_at_the_old_address_is_noticed_and_named() {
    let (mut workers, pool, embeddings) = pool_of(2).await;
    let (address, state) = workers.swap_remove(0).kill();
    *state.query_instruction.lock() = "find: ".to_owned();
    let changed = Worker::start_at(address, state, None).await;
    until("it is left out", || pool.workers().healthy == 1).await;
    let before = changed.state.calls();
    for _ in 0..30 {
        query(&embeddings, "text").await.unwrap();
    }
    assert_eq!(changed.state.calls(), before);

    // The other one changes under the pool, between two probes at best: its answers say so.
    *workers[0].state.query_instruction.lock() = "find: ".to_owned();
    let error = query(&embeddings, "text").await.unwrap_err();
    let Error::FailedPrecondition { reason, message } = &error else { panic!("{error:?}") };
    assert_eq!(*reason, "FINGERPRINT_MISMATCH");
    assert!(
        message.contains("query instruction \"find: \"") && message.contains("not with candle/fake (dim"),
        "{message}"
    );
    assert!(message.contains("http://127.0.0.1:"), "{message}");

    *workers[0].state.query_instruction.lock() = String::new();
    until("the old model is back", || pool.workers().healthy == 1).await;
    query(&embeddings, "text").await.unwrap();
}

#[tokio::test]
async fn a_start_waits_for_a_first_worker() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let late = tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(300)).await;
        Worker::start_at(address, std::sync::Arc::default(), None).await
    });
    let (pool, embeddings) = start(config(&format!("http://{address},http://127.0.0.1:9"))).await;
    let _worker = late.await.unwrap();
    query(&embeddings, "text").await.unwrap();
    assert_eq!((pool.workers().known, pool.workers().healthy), (2, 1));
}

#[tokio::test]
async fn a_start_that_cannot_succeed_says_where_and_why() {
    let nobody = config("http://127.0.0.1:9").start_timeout(Duration::ZERO).build().unwrap();
    let error = toller_providers::WorkerPool::start(nobody).await.err().unwrap().to_string();
    assert!(error.contains("http://127.0.0.1:9") && error.contains("refused") && error.contains("check"), "{error}");

    let locked = Worker::start_at("127.0.0.1:0".parse().unwrap(), std::sync::Arc::default(), Some("the-key")).await;
    let started = Instant::now();
    let error = toller_providers::WorkerPool::start(config(&locked.url()).build().unwrap()).await.err().unwrap();
    assert!(started.elapsed() < SOON / 2, "a wrong key does not become right by waiting");
    assert!(error.to_string().contains(&locked.url()) && error.to_string().contains("API key"), "{error}");
    let (_pool, embeddings) = start(config(&locked.url()).api_key(Some("the-key".to_owned()))).await;
    query(&embeddings, "text").await.unwrap();
}

#[test]
fn what_happens_is_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::with_local_recorder(&recorder, || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let workers = [Worker::start().await, Worker::start().await];
            let (pool, embeddings) = start(config(&list(&workers))).await;
            until("all workers are healthy", || pool.workers().healthy == 2).await;
            for worker in &workers {
                worker.state.refusals.lock().push_back(Status::resource_exhausted("full"));
            }
            query(&embeddings, "text").await.unwrap();
            workers[0].set_serving(false).await;
            until("one is left out", || pool.workers().healthy == 1).await;
        });
    });
    let text = handle.render();
    for line in [
        "toller_pool_workers 2",
        "toller_pool_healthy_workers 1",
        "toller_pool_ejections_total{reason=\"not_serving\"} 1",
        "toller_pool_calls_total{rpc_status_code=\"OK\"} 1",
        "toller_pool_calls_total{rpc_status_code=\"RESOURCE_EXHAUSTED\"} 2",
        "toller_pool_retries_total 2",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
