//! A gateway over a pool of embedding workers, which die as processes do.

use std::time::Duration;

use tokio::time::Instant;
use toller_api::v1;
use toller_tests::PATIENCE;
use toller_tests::client::Client;
use toller_tests::scene::in_time;
use toller_tests::server::{Server, Settings};
use tonic::{Code, Request};

use crate::expect;

/// A gateway without a model of its own, whose texts go to `workers`.
fn gateway_of(workers: &[&Server]) -> Settings {
    let addresses: Vec<String> = workers.iter().map(|worker| worker.url()).collect();
    Settings::new()
        .unset("embedding.model")
        .unset("embedding.threads")
        .set("embedding.provider", "toller")
        .set("embedding.address", &addresses.join(","))
}

/// Texts that no other batch has, each of about 500 tokens.
fn batch(number: usize) -> Vec<String> {
    (0..100).map(|index| format!("batch {number} text {index} {}", "word ".repeat(450 + index % 50))).collect()
}

async fn queued_tokens(worker: &Client) -> u64 {
    let answer = worker.embedder().list_models(v1::ListModelsRequest {}).await.expect("models are listed");
    answer.metadata().get("toller-queued-tokens").unwrap().to_str().unwrap().parse().unwrap()
}

fn elements(vector: &v1::Vector) -> Vec<f32> {
    toller_api::convert::vector_from_message(vector.clone()).unwrap()
}

/// Batches through a gateway of which one of two workers is killed in their middle; none where all were answered before.
async fn batches_of_which_a_worker_is_killed() -> Option<()> {
    const BATCHES: usize = 4;

    // One of them must have room for everything.
    let roomy = || Settings::embedder().set("embedding.queue_tokens", "4194304");
    let (first, second) = (roomy(), roomy());
    let (first, second) = tokio::join!(first.start(), second.start());
    let gateway = gateway_of(&[&first, &second]).start().await;
    let (near, dying) = (second.client().await, first.client().await);
    let calls: Vec<_> = (0..BATCHES)
        .map(|number| {
            let url = gateway.url();
            tokio::spawn(async move {
                let client = Client::connect(&url, None).await;
                let mut request =
                    Request::new(v1::EmbedDocumentsRequest { texts: batch(number), ..Default::default() });
                // One worker computes nearly all of them, and each waits for all others.
                request.set_timeout(Duration::from_secs(300));
                client.embedder().embed_documents(request).await
            })
        })
        .collect();
    let give_up = Instant::now() + PATIENCE;
    while queued_tokens(&dying).await == 0 {
        if calls.iter().all(tokio::task::JoinHandle::is_finished) {
            return None;
        }
        assert!(Instant::now() < give_up, "the worker has parts of them");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    first.kill().await;
    let was_in_time = calls.iter().any(|call| !call.is_finished());

    for (number, call) in calls.into_iter().enumerate() {
        let answer = call.await.unwrap().expect("every batch is answered").into_inner();
        let texts = batch(number);
        assert_eq!((answer.vectors.len(), answer.usage.len()), (texts.len(), texts.len()));
        let some: Vec<usize> = (0..texts.len()).step_by(37).collect();
        let asked: Vec<&str> = some.iter().map(|index| texts[*index].as_str()).collect();
        let expected = near.embed_documents(&asked).await;
        for (index, expected) in some.into_iter().zip(&expected.vectors) {
            let (got, expected) = (elements(&answer.vectors[index]), elements(expected));
            let farthest = got.iter().zip(&expected).map(|(got, expected)| (got - expected).abs()).fold(0.0, f32::max);
            assert!(farthest < 1e-4, "text {index} of batch {number} is {farthest} off");
        }
    }
    gateway.client().await.embed_query("one").await;
    was_in_time.then_some(())
}

#[tokio::test]
async fn a_worker_killed_in_the_middle_of_batches_costs_no_answer_and_no_order() {
    in_time(batches_of_which_a_worker_is_killed).await;
}

#[tokio::test]
async fn without_workers_texts_are_unavailable_in_time_and_no_restart_is_needed() {
    let (first, second) =
        tokio::join!(async { Settings::embedder().start().await }, async { Settings::embedder().start().await });
    let again = first.settings.clone().set("server.listen", &first.address.to_string());
    let gateway = gateway_of(&[&first, &second]).start().await;
    let client = gateway.client().await;
    let urls = [first.url(), second.url()];
    client.embed_query("one").await;
    tokio::join!(first.kill(), second.kill());

    let started = Instant::now();
    let mut request = Request::new(v1::EmbedQueryRequest { text: "two".to_owned(), ..Default::default() });
    request.set_timeout(PATIENCE);
    let status = client.embedder().embed_query(request).await.expect_err("nobody is left");
    assert!(started.elapsed() < PATIENCE / 2, "it does not wait for its deadline");
    assert!(urls.iter().all(|url| status.message().contains(url.as_str())), "{status:?}");
    expect::refused_with("a query", Err::<tonic::Response<()>, _>(status), Code::Unavailable, "UNAVAILABLE");

    let _back = again.start().await;
    let give_up = Instant::now() + PATIENCE;
    let request = v1::EmbedQueryRequest { text: "two".to_owned(), ..Default::default() };
    while let Err(status) = client.embedder().embed_query(request.clone()).await {
        assert!(status.code() == Code::Unavailable && Instant::now() < give_up, "{status:?}");
    }
}
