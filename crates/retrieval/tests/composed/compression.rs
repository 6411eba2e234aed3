//! Compressors.

use toller_core::retriever::{
    CompressorKind, EmbeddingsFilterSpec, ExtractSpec, OnError, RedundantFilterSpec, RerankSpec, RetrieverKind,
};
use toller_core::{Metadata, Query, TextSpan};

use crate::specs::*;
use crate::world::{World, at, cos, ids, metadata, paths};

async fn world() -> World {
    let world = World::new();
    world.fill_degrees("docs", &[0, 1, 2, 40, 80]).await;
    world
}

fn filter(threshold: Option<f64>, k: Option<u32>) -> CompressorKind {
    CompressorKind::EmbeddingsFilter(EmbeddingsFilterSpec { threshold, k, model: None })
}

fn rerank(top_n: Option<u32>) -> CompressorKind {
    CompressorKind::Rerank(RerankSpec { model: Some("numbers".to_owned()), top_n })
}

#[tokio::test]
async fn an_embeddings_filter_has_an_inclusive_threshold_or_a_bound_or_both() {
    let world = world().await;
    let ask = async |threshold, k| {
        let spec = compression(all_of("docs"), vec![filter(threshold, k)]);
        ids(&world.hits(&spec, "at 0").await).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = world.hits(&compression(all_of("docs"), vec![filter(None, None)]), "at 0").await;
    assert_eq!(ids(&all), ["0", "1", "2", "40", "80"]);
    let exact = all[3].sources.last().unwrap().score;
    assert_eq!(ask(Some(exact), None).await, ["0", "1", "2", "40"]);
    assert_eq!(ask(None, Some(2)).await, ["0", "1"]);
    assert_eq!(ask(Some(exact), Some(1)).await, ["0"]);
    assert_eq!(ask(Some(1.0), None).await, ["0"]);
}

#[tokio::test]
async fn a_threshold_brings_no_hidden_bound() {
    let world = World::new();
    let degrees: Vec<u32> = (0..30).collect();
    world.fill_degrees("docs", &degrees).await;
    let count = async |kind| world.hits(&compression(all_of("docs"), vec![kind]), "at 0").await.len();
    assert_eq!(count(filter(None, None)).await, 20);
    assert_eq!(count(filter(Some(0.0), None)).await, 30);
}

#[tokio::test]
async fn redundant_hits_go_and_the_better_ones_stay() {
    let world = world().await;
    let redundant = CompressorKind::RedundantFilter(RedundantFilterSpec::default());
    let spec = compression(all_of("docs"), vec![redundant.clone()]);
    assert_eq!(ids(&world.hits(&spec, "at 0").await), ["0", "40", "80"]);
    assert_eq!(ids(&world.hits(&spec, "at 90").await), ["80", "40", "2"]);
    // The hits' own vectors are as good, and cost no call of the model.
    let with_vectors = leaf_with("docs", |spec| {
        spec.k = Some(10);
        spec.with_vectors = true;
    });
    let before = world.compass.document_calls.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(ids(&world.hits(&compression(with_vectors, vec![redundant]), "at 0").await), ["0", "40", "80"]);
    assert_eq!(world.compass.document_calls.load(std::sync::atomic::Ordering::Relaxed), before);
}

#[tokio::test]
async fn a_reranker_tells_its_scores() {
    let world = World::new();
    world.fill("docs", [("a", "at 10", metadata("x", "kept")), ("b", "at 2", Metadata::new())]).await;
    let spec = compression(all_of("docs"), vec![rerank(None)]);
    let hits = world.hits(&spec, "at 7").await;
    assert_eq!(ids(&hits), ["a", "b"]);
    assert_eq!((hits[0].score, hits[0].metric, hits[0].rank), (-3.0, None, 1));
    assert!((hits[0].relevance.unwrap() - 1.0 / (1.0 + 3.0_f64.exp())).abs() < 1e-12);
    let sources: Vec<_> = hits[0].sources.iter().map(|source| (source.source.as_str(), source.rank)).collect();
    assert_eq!(sources, [("similarity", 1), ("rerank", 1)]);
    assert_eq!(hits[0].document.metadata, metadata("x", "kept"));
    assert_eq!(ids(&world.hits(&compression(all_of("docs"), vec![rerank(Some(1))]), "at 0").await), ["b"]);
}

#[tokio::test]
async fn langchains_top_n_is_three() {
    let world = world().await;
    assert_eq!(world.hits(&compression(all_of("docs"), vec![rerank(None)]), "at 0").await.len(), 3);
}

#[tokio::test]
async fn compressors_run_in_their_order() {
    let world = world().await;
    let kinds = vec![
        CompressorKind::RedundantFilter(RedundantFilterSpec::default()),
        filter(None, Some(2)),
        CompressorKind::LongContextReorder,
    ];
    let hits = world.hits(&compression(all_of("docs"), kinds), "at 0").await;
    assert_eq!(ids(&hits), ["0", "40"]);
    assert_eq!(hits.iter().map(|hit| hit.rank).collect::<Vec<_>>(), [1, 2]);
}

#[tokio::test]
async fn no_hits_in_are_no_hits_out() {
    let world = World::new();
    world.fill_degrees("empty", &[]).await;
    let kinds = [
        filter(None, None),
        CompressorKind::RedundantFilter(RedundantFilterSpec::default()),
        rerank(None),
        CompressorKind::LongContextReorder,
        CompressorKind::Extract(ExtractSpec::default()),
    ];
    for kind in kinds {
        assert!(world.hits(&compression(leaf("empty"), vec![kind.clone()]), "at 0").await.is_empty(), "{kind:?}");
    }
}

#[tokio::test]
async fn extracts_say_where_they_were() {
    let world = World::new();
    let text = "Ünder 80. Here 1. And 2.  Far 70. Again 3.";
    world.fill("docs", [("a", text, metadata("x", "kept")), ("b", "Only 90.", Metadata::new())]).await;
    let near = CompressorKind::Extract(ExtractSpec { threshold: Some(cos(10.0)), ..Default::default() });
    let hits = world.hits(&compression(all_of("docs"), vec![near]), "at 2").await;
    assert_eq!(ids(&hits), ["a"], "a hit without a sentence that is near goes");
    let hit = &hits[0];
    assert_eq!(hit.document.page_content, "Here 1. And 2.\nAgain 3.");
    assert_eq!(hit.document.metadata, metadata("x", "kept"));
    let chars: Vec<char> = text.chars().collect();
    let extracts: Vec<String> =
        hit.extracts.iter().map(|TextSpan { start, end }| chars[*start..*end].iter().collect()).collect();
    assert_eq!(extracts, ["Here 1. And 2.", "Again 3."]);

    let best = CompressorKind::Extract(ExtractSpec { max_sentences: Some(1), ..Default::default() });
    let hits = world.hits(&compression(all_of("docs"), vec![best]), "at 2").await;
    let contents: Vec<&str> = hits.iter().map(|hit| hit.document.page_content.as_str()).collect();
    assert_eq!(contents.len(), 2);
    assert!(contents.contains(&"And 2.") && contents.contains(&"Only 90."), "{contents:?}");
}

#[tokio::test]
async fn what_may_be_skipped_is_skipped_with_a_warning() {
    let world = world().await;
    // There is no default reranker in this world.
    let missing = CompressorKind::Rerank(RerankSpec::default());
    let mut spec = compression(all_of("docs"), vec![missing, filter(None, Some(1))]);
    let [fault] = world.faults(&spec).await.try_into().unwrap();
    assert!(fault.starts_with("contextual_compression.compressors[0].rerank.model: "), "{fault}");
    if let RetrieverKind::ContextualCompression(inner) = &mut spec.kind {
        inner.compressors[0].on_error = OnError::Skip;
    }
    let answer = world.ask(&spec, "at 0").await.unwrap();
    assert_eq!(ids(&answer.hits), ["0"]);
    assert_eq!(paths(&answer), ["contextual_compression.compressors[0]"]);
    assert!(answer.warnings[0].message.starts_with("skipped: "), "{:?}", answer.warnings);
}

#[tokio::test]
async fn queries_by_vector_are_compared_with_the_hits_own_vectors() {
    let world = world().await;
    let ask = async |with_vectors, kind| {
        let base = leaf_with("docs", |spec| spec.with_vectors = with_vectors);
        let plan = world.planner.plan(&world.context, &compression(base, vec![kind])).await.unwrap();
        plan.run(&world.context, &Query::Vector(at(0.0)), Default::default()).await
    };
    assert_eq!(ids(&ask(true, filter(None, Some(1))).await.unwrap().hits), ["0"]);
    for kind in [filter(None, None), rerank(None)] {
        let error = ask(false, kind).await.unwrap_err().to_string();
        assert!(error.starts_with("query.vector: "), "{error}");
    }
}
