//! A query's time while documents flood the queue, for a look at it:
//! `scripts/cargo test --profile fast --workspace --test embedder -- --ignored --nocapture flood`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use toller_core::{EmbeddingRole, Embeddings as _, Error, Principal, RequestContext};
use toller_embedder::{LocalEmbeddings, Overrides};

use crate::fixtures;

const QUERIES: usize = 300;
/// Between two queries, so that they meet a pass of documents anywhere.
const PAUSE: Duration = Duration::from_millis(7);
const IMPORTERS: usize = 3;
const TEXTS_PER_REQUEST: usize = 16;

const WORDS: [&str; 10] = ["search", "the", "vector", "of", "a", "river", "and", "house", "time", "in"];

fn text(words: usize, seed: usize) -> String {
    let word = |place: usize| WORDS[(seed + place * place + seed * place / 7) % WORDS.len()];
    format!("{seed} {}", (1..words).map(word).collect::<Vec<_>>().join(" "))
}

/// Median and 99th percentile of the times of queries of about 12 tokens, one after another.
async fn measure(embeddings: &LocalEmbeddings, what: &str) -> (Duration, Duration) {
    let context = RequestContext::new(Principal::anonymous());
    let mut times = Vec::with_capacity(QUERIES);
    for number in 0..QUERIES {
        tokio::time::sleep(PAUSE).await;
        let query = vec![text(9, number)];
        let started = Instant::now();
        embeddings.embed(&context, EmbeddingRole::Query, query).await.unwrap();
        times.push(started.elapsed());
    }
    times.sort();
    let (median, late) = (times[QUERIES / 2], times[QUERIES * 99 / 100]);
    eprintln!("{what}: p50 {median:.1?}, p99 {late:.1?}");
    (median, late)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "measures, proves nothing"]
async fn flood() {
    let Some(folder) = fixtures::minilm() else { return };
    let embeddings = Arc::new(fixtures::start(&fixtures::load(&folder, &Overrides::default())));
    embeddings.warm_up().await.unwrap();
    let (_, idle) = measure(&embeddings, "idle").await;

    let stop = Arc::new(AtomicBool::new(false));
    let tokens = Arc::new(AtomicU64::new(0));
    let started = Instant::now();
    let importers: Vec<_> = (0..IMPORTERS)
        .map(|importer| {
            let (embeddings, stop, tokens) = (Arc::clone(&embeddings), Arc::clone(&stop), Arc::clone(&tokens));
            tokio::spawn(async move {
                let context = RequestContext::new(Principal::anonymous());
                let mut seed = importer * 1_000_000;
                while !stop.load(Ordering::Relaxed) {
                    let texts =
                        (0..TEXTS_PER_REQUEST).map(|place| text(20 + place * 107 % 300, seed + place)).collect();
                    seed += TEXTS_PER_REQUEST;
                    let answer = embeddings.embed(&context, EmbeddingRole::Document, texts).await.unwrap();
                    let read: u32 = answer.iter().filter_map(|embedding| embedding.token_count).sum();
                    tokens.fetch_add(u64::from(read), Ordering::Relaxed);
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (_, flooded) = measure(&embeddings, "flooded").await;
    let speed = tokens.load(Ordering::Relaxed) as f64 / started.elapsed().as_secs_f64();
    eprintln!("documents meanwhile: {speed:.0} tokens/s; p99 flooded - idle: {:.1?}", flooded.saturating_sub(idle));
    stop.store(true, Ordering::Relaxed);
    for importer in importers {
        importer.await.unwrap();
    }

    // Nothing but tokenising: requests of 16 MB that are dropped before their texts are computed.
    let stop = Arc::new(AtomicBool::new(false));
    let tokenising = {
        let (embeddings, stop) = (Arc::clone(&embeddings), Arc::clone(&stop));
        tokio::spawn(async move {
            let texts: Vec<String> = (0..16_000).map(|seed| text(180, seed)).collect();
            while !stop.load(Ordering::Relaxed) {
                let soon = Instant::now() + Duration::from_millis(500);
                let context = RequestContext::new(Principal::anonymous()).with_deadline(Some(soon));
                let answer = embeddings.embed(&context, EmbeddingRole::Document, texts.clone()).await;
                assert!(matches!(answer, Err(Error::DeadlineExceeded(_) | Error::ResourceExhausted { .. })));
            }
        })
    };
    measure(&embeddings, "while 16 MB are tokenised").await;
    stop.store(true, Ordering::Relaxed);
    tokenising.await.unwrap();
}
