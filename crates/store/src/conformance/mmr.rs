//! Maximal marginal relevance on top of the backend's search.

use std::sync::Arc;

use toller_core::vector_store::{MmrParams, Scoring, Thresholds};
use toller_core::{Filter, Metric, ScoredDocument, Value, VectorStore};

use super::fixture::{Scene, assert_score, key, metadata, record, vector_of};

const QUERY: [f32; 2] = [0.96, 0.28];

async fn scene(store: Arc<dyn VectorStore>) -> Scene {
    let scene = Scene::new(store, Metric::Cosine, 2).await;
    let vectors = [("a", [0.8, 0.6]), ("b", [0.6, 0.8]), ("c", [1.0, 0.0]), ("d", [0.0, 1.0]), ("e", [0.96, 0.28])];
    let records = vectors.iter().map(|(id, vector)| record(id, vector, metadata([("id", Value::from(*id))])));
    scene.put(records.collect()).await;
    scene
}

async fn mmr(
    scene: &Scene,
    filter: Option<&Filter>,
    k: usize,
    fetch_k: usize,
    lambda_mult: f64,
    thresholds: Thresholds,
) -> Vec<ScoredDocument> {
    let params = MmrParams { k, fetch_k, lambda_mult };
    let vector = vector_of(&QUERY);
    let (context, collection) = (&scene.context, &scene.collection);
    let scoring = Scoring { thresholds, ..Scoring::default() };
    scene.store.max_marginal_relevance(context, collection, &vector, None, filter, params, scoring).await.unwrap()
}

fn ids(hits: &[ScoredDocument]) -> String {
    hits.iter().map(|hit| hit.document.id.as_str()).collect()
}

/// Picks by hand at several λ, and both scores of every hit.
pub async fn diversity_is_traded_for_relevance(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    let none = Thresholds::default();
    // Similarities: a .936, b .8, c .96, d .28, e 1.
    assert_eq!(ids(&mmr(&scene, None, 5, 20, 1.0, none).await), "ecabd");
    assert_eq!(ids(&mmr(&scene, None, 5, 20, 0.7, none).await), "ecabd");
    assert_eq!(ids(&mmr(&scene, None, 5, 20, 0.3, none).await), "edbca");
    assert_eq!(ids(&mmr(&scene, None, 3, 20, 0.0, none).await), "edb");

    let hits = mmr(&scene, None, 2, 20, 0.3, none).await;
    let second = &hits[1];
    assert_eq!((second.document.id.as_str(), second.rank), ("d", 2));
    assert_score(second.score, 0.28);
    let sources: Vec<(&str, u32)> = second.sources.iter().map(|source| (source.source.as_str(), source.rank)).collect();
    assert_eq!(sources, [("similarity", 5), ("mmr", 2)]);
    assert_score(second.sources[1].score, 0.3 * 0.28 - 0.7 * 0.28);
}

/// A `fetch_k` below `k` still gives k hits; k above the number of records gives them all; k = 0 gives none.
pub async fn the_pool_holds_at_least_k_candidates(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    let none = Thresholds::default();
    assert_eq!(ids(&mmr(&scene, None, 3, 1, 0.3, none).await), "eac", "only the 3 most similar are candidates");
    assert_eq!(ids(&mmr(&scene, None, 3, 0, 1.0, none).await), "eca");
    assert_eq!(mmr(&scene, None, 100, 100, 0.5, none).await.len(), 5);
    assert_eq!(mmr(&scene, None, 0, 0, 0.5, none).await, []);
}

/// Only matches above the thresholds are candidates.
pub async fn filters_and_thresholds_apply_before_the_choice(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    let not_d = Filter::Ne(key("id"), Value::from("d"));
    assert_eq!(ids(&mmr(&scene, Some(&not_d), 2, 20, 0.3, Thresholds::default()).await), "eb");
    let at_least = Thresholds { relevance: Some(0.9), raw_score: None };
    assert_eq!(ids(&mmr(&scene, None, 5, 20, 0.3, at_least).await), "eac");
    let nothing = Filter::Eq(key("id"), Value::from("z"));
    assert_eq!(mmr(&scene, Some(&nothing), 5, 20, 0.5, Thresholds::default()).await, []);
}
