//! Over gRPC: a real server in a process of its own, alone and flooded with documents.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use toller_api::v1;
use toller_api::v1::embedder_client::EmbedderClient;
use toller_tests::server::Settings;
use tonic::transport::Channel;

use crate::report::Report;
use crate::texts::Texts;

/// Passes over all documents.
const ROUNDS: usize = 5;
/// Texts of a call, and calls at a time: enough that the server always has work.
const CALL_TEXTS: usize = 64;
const CALLS: usize = 4;
/// Queries of each measurement.
const QUERIES: usize = 600;
/// Pause between two queries.
const PAUSE: Duration = Duration::from_millis(5);

type Client = EmbedderClient<Channel>;

pub fn measure(folder: &Path, texts: &Texts, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Settings::new()
            .set("embedding.model", &folder.display().to_string())
            .set("embedding.cache_bytes", "0")
            .unset("embedding.threads")
            .start()
            .await;
        let channel = Channel::from_shared(server.url())?.connect().await?;
        let client = EmbedderClient::new(channel).max_decoding_message_size(64 << 20);

        embed_all(&client, texts).await?;
        let mut best = 0_f64;
        for _ in 0..ROUNDS {
            let started = Instant::now();
            let tokens = embed_all(&client, texts).await?;
            best = best.max(tokens as f64 / started.elapsed().as_secs_f64());
        }
        report.number("tokens_per_s_through_grpc", best);
        report.number("grpc_fraction", best / report.get("tokens_per_s"));

        let idle = query_latencies(&client, 0).await?;
        let stop = Arc::new(AtomicBool::new(false));
        let flood = tokio::spawn(flood(client.clone(), texts.documents.clone(), Arc::clone(&stop)));
        // Until the queue is full of documents.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let flooded = query_latencies(&client, QUERIES).await?;
        stop.store(true, Ordering::Relaxed);
        let flood_rate = flood.await??;

        report.number("query_p50_idle_ms", percentile(&idle, 0.5));
        report.number("query_p99_idle_ms", percentile(&idle, 0.99));
        report.number("query_p50_flooded_ms", percentile(&flooded, 0.5));
        report.number("query_p99_flooded_ms", percentile(&flooded, 0.99));
        report.number("tokens_per_s_of_the_flood", flood_rate);
        server.stop().await;
        Ok(())
    })
}

async fn embed(client: &Client, texts: &[String]) -> Result<usize, tonic::Status> {
    let request = v1::EmbedDocumentsRequest { texts: texts.to_vec(), ..Default::default() };
    let answer = client.clone().embed_documents(request).await?.into_inner();
    Ok(answer.usage.iter().map(|usage| usage.token_count.unwrap_or(0) as usize).sum())
}

/// Embeds all documents, [`CALLS`] calls at a time, and returns their tokens.
async fn embed_all(client: &Client, texts: &Texts) -> Result<usize, tonic::Status> {
    let calls: Vec<&[String]> = texts.documents.chunks(CALL_TEXTS).collect();
    let next = AtomicUsize::new(0);
    let tokens = try_join_all((0..CALLS).map(|_| async {
        let mut tokens = 0;
        while let Some(call) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
            tokens += embed(client, call).await?;
        }
        Ok::<_, tonic::Status>(tokens)
    }));
    Ok(tokens.await?.into_iter().sum())
}

/// Sends documents without a pause until `stop`; returns the tokens per second that came back.
async fn flood(client: Client, documents: Vec<String>, stop: Arc<AtomicBool>) -> Result<f64, tonic::Status> {
    let started = Instant::now();
    let calls: Vec<&[String]> = documents.chunks(CALL_TEXTS).collect();
    let tokens = try_join_all((0..CALLS).map(|first| {
        let (client, calls, stop) = (&client, &calls, &stop);
        async move {
            let mut tokens = 0;
            for call in calls.iter().cycle().skip(first) {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                tokens += embed(client, call).await?;
            }
            Ok::<_, tonic::Status>(tokens)
        }
    }));
    Ok(tokens.await?.into_iter().sum::<usize>() as f64 / started.elapsed().as_secs_f64())
}

/// Milliseconds of each of [`QUERIES`] queries, one at a time, sorted. The queries are numbered from `first` on.
async fn query_latencies(client: &Client, first: usize) -> Result<Vec<f64>, tonic::Status> {
    let mut latencies = Vec::with_capacity(QUERIES);
    for number in first..first + QUERIES {
        let request = v1::EmbedQueryRequest { text: Texts::query(number), ..Default::default() };
        let started = Instant::now();
        client.clone().embed_query(request).await?;
        latencies.push(started.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    latencies.sort_by(f64::total_cmp);
    Ok(latencies)
}

fn percentile(sorted: &[f64], part: f64) -> f64 {
    let place = (sorted.len() as f64 * part) as usize;
    sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
}
