//! The pool against real servers on real sockets: what it does when workers die, stall, fill up, change and come back.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]

mod choice;
mod failures;
mod fake;
mod membership;
mod parts;

use std::sync::Arc;
use std::time::{Duration, Instant};

use fake::Worker;
use toller_core::embeddings::Embedding;
use toller_core::{EmbeddingRole, Embeddings, Principal, RequestContext, Result};
use toller_providers::{PoolConfig, PoolConfigBuilder, PooledEmbeddings, WorkerPool};

/// A pool that probes often and waits little.
fn config(addresses: &str) -> PoolConfigBuilder {
    PoolConfig::builder(addresses.parse().unwrap())
        .start_timeout(fake::SOON)
        .probe_interval(Duration::from_millis(50))
        .resolve_interval(Duration::from_millis(150))
        .recovery_wait(Duration::from_millis(300))
}

fn list(workers: &[Worker]) -> String {
    workers.iter().map(Worker::url).collect::<Vec<_>>().join(",")
}

async fn start(builder: PoolConfigBuilder) -> (WorkerPool, Arc<PooledEmbeddings>) {
    let pool = WorkerPool::start(builder.build().unwrap()).await.unwrap();
    let embeddings = pool.embeddings().into_iter().next().unwrap();
    (pool, Arc::new(embeddings))
}

/// A pool of `count` workers, all of them healthy.
async fn pool_of(count: usize) -> (Vec<Worker>, WorkerPool, Arc<PooledEmbeddings>) {
    let mut workers = Vec::new();
    for _ in 0..count {
        workers.push(Worker::start().await);
    }
    let (pool, embeddings) = start(config(&list(&workers))).await;
    fake::until("all workers are healthy", || pool.workers().healthy == count).await;
    (workers, pool, embeddings)
}

/// A context with a deadline that no test reaches unless it hangs.
fn context() -> RequestContext {
    RequestContext::new(Principal::anonymous()).with_deadline(Some(Instant::now() + fake::SOON))
}

async fn query(embeddings: &PooledEmbeddings, text: &str) -> Result<Embedding> {
    let answer = embeddings.embed(&context(), EmbeddingRole::Query, vec![text.to_owned()]).await?;
    assert_eq!(answer.len(), 1);
    Ok(answer.into_iter().next().unwrap())
}
