//! Workers that come and go behind a name.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use toller_core::Error;
use toller_providers::Resolve;

use crate::fake::{AS_QUERY, Worker, until, vector};
use crate::{config, query, start};

/// A name server that its test changes.
#[derive(Default)]
struct Name {
    addresses: Mutex<Option<Vec<SocketAddr>>>,
    questions: Mutex<Vec<(String, u16)>>,
}

impl Name {
    /// What the name leads to from now on; none when it cannot be looked up.
    fn set(&self, workers: Option<&[&Worker]>) {
        *self.addresses.lock() = workers.map(|workers| workers.iter().map(|worker| worker.address).collect());
    }
}

#[async_trait]
impl Resolve for Name {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        self.questions.lock().push((host.to_owned(), port));
        self.addresses.lock().clone().ok_or_else(|| io::Error::other("the name server is down"))
    }
}

#[tokio::test]
async fn workers_follow_their_name() {
    let (first, second) = (Worker::start().await, Worker::start().await);
    let name = Arc::new(Name::default());
    name.set(Some(&[&first]));
    let (pool, embeddings) = start(config("dns://embedder:7700").resolver(name.clone())).await;
    assert_eq!(name.questions.lock()[0], ("embedder".to_owned(), 7700));
    query(&embeddings, "text").await.unwrap();
    assert_eq!(second.state.calls(), 0);

    name.set(Some(&[&first, &second]));
    until("the new worker is found", || pool.workers().healthy == 2).await;
    name.set(Some(&[&second]));
    until("the old one is gone", || pool.workers().known == 1).await;
    let before = first.state.calls();
    for _ in 0..20 {
        query(&embeddings, "text").await.unwrap();
    }
    assert_eq!((first.state.calls(), second.state.calls() >= 20), (before, true));

    // A name that cannot be looked up, or leads nowhere, takes no worker away.
    for trouble in [None, Some([].as_slice())] {
        name.set(trouble);
        let asked = name.questions.lock().len();
        until("the name is looked up again", || name.questions.lock().len() > asked + 1).await;
        query(&embeddings, "text").await.unwrap();
    }
}

#[tokio::test]
async fn a_worker_that_comes_back_at_another_address_is_found() {
    let worker = Worker::start().await;
    let name = Arc::new(Name::default());
    name.set(Some(&[&worker]));
    // The name is looked up again since calls fail: its own time would come too late for this test.
    let an_hour = std::time::Duration::from_secs(3600);
    let (_pool, embeddings) =
        start(config("dns://embedder:7700").resolver(name.clone()).resolve_interval(an_hour)).await;
    worker.kill();
    let error = query(&embeddings, "text").await.unwrap_err();
    assert!(matches!(error, Error::Unavailable(_)), "{error:?}");
    let moved = Worker::start().await;
    name.set(Some(&[&moved]));
    let give_up = tokio::time::Instant::now() + crate::fake::SOON;
    let answer = loop {
        match query(&embeddings, "text").await {
            Ok(answer) => break answer,
            Err(error) => assert!(tokio::time::Instant::now() < give_up, "{error:?}"),
        }
    };
    assert_eq!(answer.vector, vector("text", AS_QUERY));
}
