//! Tokens per second, for a look at it: `cargo test -p toller-embedder --profile fast -- --ignored --nocapture speed`.

use std::time::Instant;

use toller_core::{EmbeddingRole, Embeddings as _, Principal, RequestContext};
use toller_embedder::Overrides;

use crate::fixtures;

const TEXTS: usize = 160;
const WORDS: usize = 178;
const ROUNDS: usize = 3;

#[tokio::test]
#[ignore = "measures, proves nothing"]
async fn speed() {
    let Some(folder) = fixtures::minilm() else { return };
    let embeddings = fixtures::start(&fixtures::load(&folder, &Overrides::default()));
    embeddings.warm_up().await.unwrap();
    let words = ["search", "the", "vector", "of", "a", "river", "and", "house", "time", "in"];
    let text = |index: usize| {
        (0..WORDS - 20 + index % 41).map(|word| words[(index + word * word) % 10]).collect::<Vec<_>>().join(" ")
    };
    let texts: Vec<String> = (0..TEXTS).map(text).collect();
    let context = RequestContext::new(Principal::anonymous());
    let mut best = 0.0_f64;
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let answer = embeddings.embed(&context, EmbeddingRole::Document, texts.clone()).await.unwrap();
        let tokens: u32 = answer.iter().filter_map(|embedding| embedding.token_count).sum();
        let speed = f64::from(tokens) / started.elapsed().as_secs_f64();
        eprintln!("{tokens} tokens, {speed:.0} tokens/s");
        best = best.max(speed);
    }
    let started = Instant::now();
    for _ in 0..20 {
        embeddings.embed(&context, EmbeddingRole::Query, vec!["what is a vector search".to_owned()]).await.unwrap();
    }
    let query = started.elapsed() / 20;
    eprintln!(
        "best of {ROUNDS}: {best:.0} tokens/s with {} threads; a short query {query:.2?}",
        embeddings.config().threads_per_worker()
    );
}
