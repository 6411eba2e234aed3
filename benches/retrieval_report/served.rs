//! Over gRPC: a real server in a process of its own.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use toller_api::v1;
use toller_benches::clustered;
use toller_benches::report::{Report, millis, percentile};
use toller_tests::client::Client;
use toller_tests::metrics::Metrics;
use toller_tests::request::{text_query, vector_query};
use toller_tests::server::{Server, Settings};
use tonic::Status;

use crate::chunks::{CHUNKS, PER_PARENT, chunk, parent, query};
use crate::trees::{self, COLLECTION, PARENTS};

/// Documents of one write.
const BATCH: u64 = 500;

/// Queries of each latency.
const QUERIES: u64 = 300;

/// How long each rate is measured.
const RATE_PERIOD: Duration = Duration::from_secs(10);

/// Clients at a time.
const CLIENTS: [usize; 3] = [1, 8, 64];

pub async fn measure(model: &str, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let mut server = Settings::new()
        .on_disk()
        .set("embedding.model", model)
        .set("embedding.cache_bytes", "0")
        .set("telemetry.metrics_listen", "127.0.0.1:0")
        .unset("embedding.threads")
        .start()
        .await;
    let metrics = server.metrics().await;
    let client = server.client().await;
    fill(&client).await?;
    until_idle(&server).await;

    let mut asked = 0;
    let mut spent = Vec::new();
    for _ in 0..QUERIES {
        let request = v1::EmbedQueryRequest { text: query(asked), ..Default::default() };
        asked += 1;
        let started = Instant::now();
        client.embedder().embed_query(request).await?;
        spent.push(started.elapsed());
    }
    let embedding = millis(percentile(&mut spent, 0.5));
    report.number("embedding", "p50_ms", embedding);
    report.number("embedding", "p99_ms", millis(percentile(&mut spent, 0.99)));

    let mut slowest = 0_f64;
    for (name, tree) in trees::leaves() {
        let mut spent = latencies(&client, &tree, &mut asked).await?;
        let median = millis(percentile(&mut spent, 0.5));
        report.number("leaves_of_eight", &format!("{name}_p50_ms"), median);
        slowest = slowest.max(median);
    }
    report.number("leaves_of_eight", "slowest_p50_ms", slowest);
    for (name, tree) in trees::all() {
        let mut spent = latencies(&client, &tree, &mut asked).await?;
        let median = millis(percentile(&mut spent, 0.5));
        report.number(name, "p50_ms", median);
        report.number(name, "p99_ms", millis(percentile(&mut spent, 0.99)));
        // A search for keywords alone embeds nothing.
        if name != "keyword" {
            report.number(name, "beyond_embedding_p50_ms", median - embedding);
            report.number(name, "beyond_embedding_p99_ms", millis(percentile(&mut spent, 0.99)) - embedding);
        }
        if name == "ensemble_of_eight" {
            report.number(name, "times_slowest_leaf", median / slowest);
            report.number(name, "texts_embedded_per_query", embedded_per_query(&client, &metrics, &tree).await?);
        }
    }
    for clients in CLIENTS {
        for (name, is_text) in [("by_vector", false), ("by_text", true)] {
            let rate = rate(&client, clients, is_text).await?;
            report.number("queries_per_s", &format!("{name}_{clients}"), rate);
        }
    }
    server.stop().await;
    Ok(())
}

async fn fill(client: &Client) -> Result<(), Status> {
    client.create(COLLECTION).await;
    for first in (0..CHUNKS).step_by(BATCH as usize) {
        client.add(COLLECTION, (first..first + BATCH).map(chunk).collect()).await;
        if first % (20 * BATCH) == 0 {
            eprint!("\r{first} of {CHUNKS} chunks written ");
        }
    }
    let parents = CHUNKS / PER_PARENT;
    for first in (0..parents).step_by(BATCH as usize) {
        let documents = (first..first + BATCH).map(parent).collect();
        let request = v1::DocumentStoresPutRequest { document_store: PARENTS.to_owned(), documents };
        client.document_stores().put(request).await?;
    }
    eprintln!("\r{CHUNKS} chunks and {parents} parents written");
    Ok(())
}

/// Waits until the server has nothing to do: the index is built in the background.
async fn until_idle(server: &Server) {
    const PERIOD: Duration = Duration::from_secs(2);
    /// Clock ticks of a hundredth of a second.
    const IDLE_TICKS: u64 = 10;

    let ticks = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", server.id())).unwrap_or_default();
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields).split_whitespace();
        fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>()
    };
    let mut before = ticks();
    loop {
        tokio::time::sleep(PERIOD).await;
        let now = ticks();
        if now - before < IDLE_TICKS {
            return;
        }
        eprint!("\rthe server builds its index ");
        before = now;
    }
}

fn request(tree: &v1::Retriever, query: v1::Query) -> v1::RetrieveRequest {
    v1::RetrieveRequest { query: Some(query), retriever: Some(tree.clone()), ..Default::default() }
}

async fn latencies(client: &Client, tree: &v1::Retriever, asked: &mut u64) -> Result<Vec<Duration>, Status> {
    let mut spent = Vec::with_capacity(QUERIES as usize);
    // The first ones may have an index built on a field.
    for number in 0..QUERIES + QUERIES / 10 {
        let request = request(tree, text_query(&query(*asked)));
        *asked += 1;
        let started = Instant::now();
        client.retrieval().retrieve(request).await?;
        if number >= QUERIES / 10 {
            spent.push(started.elapsed());
        }
    }
    Ok(spent)
}

/// Texts that the model embeds for one query of a tree.
async fn embedded_per_query(client: &Client, metrics: &Metrics, tree: &v1::Retriever) -> Result<f64, Status> {
    const COUNT: u64 = 20;

    let texts = || metrics.sum("toller_embedding_texts_total", &[]);
    let before = texts().await;
    for number in 0..COUNT {
        client.retrieval().retrieve(request(tree, text_query(&query(u64::MAX / 2 + number)))).await?;
    }
    Ok((texts().await - before) / COUNT as f64)
}

/// Queries per second of so many clients on one connection each.
async fn rate(client: &Client, clients: usize, is_text: bool) -> Result<f64, Status> {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 20);

    let tree = Arc::new(trees::all().remove(0).1);
    let started = Instant::now();
    let tasks = (0..clients).map(|_| {
        let (client, tree) = (client.clone(), Arc::clone(&tree));
        tokio::spawn(async move {
            let mut answered = 0_u64;
            while started.elapsed() < RATE_PERIOD {
                let number = NEXT.fetch_add(1, Ordering::Relaxed);
                let query = if is_text { text_query(&query(number)) } else { vector_query(&clustered::query(number)) };
                client.retrieval().retrieve(request(&tree, query)).await?;
                answered += 1;
            }
            Ok::<_, Status>(answered)
        })
    });
    let answered = try_join_all(tasks).await.map_err(|fault| Status::internal(fault.to_string()))?;
    let answered: u64 = answered.into_iter().sum::<Result<_, _>>()?;
    Ok(answered as f64 / started.elapsed().as_secs_f64())
}
