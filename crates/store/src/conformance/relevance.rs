//! Relevance and thresholds: the default methods on top of the backend's own scores.

use std::sync::Arc;

use toller_core::error::Error;
use toller_core::vector_store::{Scoring, Thresholds, VectorSearch};
use toller_core::{Metadata, Metric, RelevanceFunction, ScoredDocument, VectorStore};

use super::fixture::{SCORE_TOLERANCE, Scene, record, vector_of};

async fn scene_of(store: &Arc<dyn VectorStore>, metric: Metric) -> Scene {
    let scene = Scene::named(&metric.to_string(), Arc::clone(store), metric, 2).await;
    let unit_vectors = [("same", [1.0, 0.0]), ("close", [0.6, 0.8]), ("right", [0.0, 1.0]), ("opposite", [-1.0, 0.0])];
    scene.put(unit_vectors.iter().map(|(id, vector)| record(id, vector, Metadata::new())).collect()).await;
    scene
}

async fn similarity(scene: &Scene, function: RelevanceFunction, thresholds: Thresholds) -> Vec<ScoredDocument> {
    let vector = vector_of(&[1.0, 0.0]);
    let search = VectorSearch { vector: &vector, using: None, filter: None, limit: 10 };
    scene
        .store
        .similarity(&scene.context, &scene.collection, search, Scoring { relevance: function, thresholds })
        .await
        .unwrap()
}

fn ids(hits: &[ScoredDocument]) -> Vec<&str> {
    hits.iter().map(|hit| hit.document.id.as_str()).collect()
}

/// Relevance of unit vectors at 0°, 53°, 90° and 180°, for each function that fits; in [0, 1], 1 at identity, never growing.
pub async fn relevance_follows_the_metric_within_zero_and_one(store: Arc<dyn VectorStore>) {
    let sigmoid = |value: f64| 1.0 / (1.0 + (-value).exp());
    let close_distance = 0.8_f64.sqrt();
    let tables = [
        (Metric::Cosine, RelevanceFunction::Default, [1.0, 0.6, 0.0, 0.0]),
        (Metric::Cosine, RelevanceFunction::HalfCosine, [1.0, 0.8, 0.5, 0.0]),
        (Metric::Cosine, RelevanceFunction::Reciprocal, [1.0, 1.0 / 1.4, 0.5, 1.0 / 3.0]),
        (Metric::Cosine, RelevanceFunction::Sigmoid, [sigmoid(1.0), sigmoid(0.6), 0.5, sigmoid(-1.0)]),
        (Metric::Dot, RelevanceFunction::Default, [1.0, 0.6, 0.0, 0.0]),
        (Metric::Dot, RelevanceFunction::HalfCosine, [1.0, 0.8, 0.5, 0.0]),
        (Metric::Euclidean, RelevanceFunction::Default, [1.0, 1.0 - close_distance / 2_f64.sqrt(), 0.0, 0.0]),
        (
            Metric::Euclidean,
            RelevanceFunction::Reciprocal,
            [1.0, 1.0 / (1.0 + close_distance), 1.0 / (1.0 + 2_f64.sqrt()), 1.0 / 3.0],
        ),
    ];
    let scenes = [
        scene_of(&store, Metric::Cosine).await,
        scene_of(&store, Metric::Dot).await,
        scene_of(&store, Metric::Euclidean).await,
    ];
    for (metric, function, expected) in tables {
        let scene = scenes.iter().find(|scene| scene.collection.as_str() == metric.to_string()).unwrap();
        let hits = similarity(scene, function, Thresholds::default()).await;
        assert_eq!(ids(&hits), ["same", "close", "right", "opposite"], "{metric} {function}");
        for ((hit, expected), rank) in hits.iter().zip(expected).zip(1..) {
            let relevance = hit.relevance.unwrap();
            assert!((0.0..=1.0).contains(&relevance));
            assert!(
                (relevance - expected).abs() <= SCORE_TOLERANCE,
                "{metric} {function}: {relevance}, not {expected}"
            );
            assert_eq!((hit.rank, hit.metric), (rank, Some(metric)));
            assert_eq!(hit.sources.len(), 1);
            assert_eq!((hit.sources[0].rank, hit.sources[0].score), (rank, hit.score));
            assert!(hit.vector.is_some());
        }
    }
}

/// A hit exactly at a threshold is kept; raw thresholds go by the direction of the metric.
pub async fn thresholds_are_inclusive(store: Arc<dyn VectorStore>) {
    let relevance = |value| Thresholds { relevance: Some(value), raw_score: None };
    let raw = |value| Thresholds { relevance: None, raw_score: Some(value) };
    let cosine = scene_of(&store, Metric::Cosine).await;
    let euclidean = scene_of(&store, Metric::Euclidean).await;
    let all = ["same", "close", "right", "opposite"];
    let cases: [(&Scene, Thresholds, &[&str]); 11] = [
        (&cosine, relevance(1.0), &all[..1]),
        (&cosine, relevance(0.5), &all[..2]),
        (&cosine, relevance(0.0), &all),
        (&cosine, raw(1.0), &all[..1]),
        (&cosine, raw(0.0), &all[..3]),
        (&cosine, raw(-1.0), &all),
        (&euclidean, relevance(1.0), &all[..1]),
        (&euclidean, raw(0.0), &all[..1]),
        (&euclidean, raw(1.0), &all[..2]),
        (&euclidean, raw(2.0), &all),
        (&euclidean, Thresholds { relevance: Some(0.9), raw_score: Some(2.0) }, &all[..1]),
    ];
    for (scene, thresholds, expected) in cases {
        let hits = similarity(scene, RelevanceFunction::Default, thresholds).await;
        assert_eq!(ids(&hits), expected, "{} {thresholds:?}", scene.collection);
    }
    // A threshold that is a score which the backend gave is reached by the hit that had it.
    let close = similarity(&cosine, RelevanceFunction::Default, Thresholds::default()).await[1].score;
    assert_eq!(ids(&similarity(&cosine, RelevanceFunction::Default, raw(close)).await), all[..2]);
}

/// Half cosine and sigmoid want a similarity, reciprocal wants a distance; anything else is `InvalidArgument`.
pub async fn a_relevance_function_must_fit_the_metric(store: Arc<dyn VectorStore>) {
    for (metric, function) in [
        (Metric::Euclidean, RelevanceFunction::HalfCosine),
        (Metric::Euclidean, RelevanceFunction::Sigmoid),
        (Metric::Dot, RelevanceFunction::Reciprocal),
    ] {
        let scene = Scene::named(&format!("{metric}-{function}"), Arc::clone(&store), metric, 2).await;
        let vector = vector_of(&[1.0, 0.0]);
        let search = VectorSearch { vector: &vector, using: None, filter: None, limit: 1 };
        let scoring = Scoring { relevance: function, ..Scoring::default() };
        let answer = scene.store.similarity(&scene.context, &scene.collection, search, scoring).await;
        assert!(matches!(answer, Err(Error::InvalidArgument(_))), "{metric} {function}: {answer:?}");
    }
}
