//! Search without filters: scores, order, limits, and queries that do not fit.

use std::sync::Arc;

use toller_core::error::Error;
use toller_core::vector_store::VectorSearch;
use toller_core::{Metadata, Metric, VectorStore};

use super::fixture::{Scene, assert_score, record, vector_of};

/// Values by hand for every metric, best first: more for cosine and dot, less for Euclidean.
pub async fn scores_and_order_follow_the_metric(store: Arc<dyn VectorStore>) {
    let vectors = [("east", [2.0, 0.0]), ("north", [0.0, 1.0]), ("northeast", [3.0, 3.0]), ("west", [-1.0, 0.0])];
    let expected: [(Metric, [(&str, f64); 4]); 3] = [
        (Metric::Cosine, [("east", 1.0), ("northeast", 0.5_f64.sqrt()), ("north", 0.0), ("west", -1.0)]),
        (Metric::Dot, [("northeast", 3.0), ("east", 2.0), ("north", 0.0), ("west", -1.0)]),
        (Metric::Euclidean, [("east", 1.0), ("north", 2_f64.sqrt()), ("west", 2.0), ("northeast", 13_f64.sqrt())]),
    ];
    for (metric, expected) in expected {
        let scene = Scene::named(&metric.to_string(), Arc::clone(&store), metric, 2).await;
        scene.put(vectors.iter().map(|(id, vector)| record(id, vector, Metadata::new())).collect()).await;
        let hits = scene.search(&[1.0, 0.0], None, 10).await;
        assert_eq!(hits.len(), expected.len());
        for (hit, (id, score)) in hits.iter().zip(expected) {
            assert_eq!(hit.record.document.id.as_str(), id, "{metric}");
            assert_score(hit.score, score);
        }
    }
}

/// Equal scores come in one order, which does not depend on the limit: the best k are a prefix of the best k + 1.
pub async fn ties_are_broken_the_same_way_every_time(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Cosine, 2).await;
    let names: Vec<String> = (0..50).map(|index| format!("tie-{index:02}")).collect();
    scene.put(names.iter().map(|name| record(name, &[1.0, 1.0], Metadata::new())).collect()).await;
    for limit in [1, 2, 10, 49, 50] {
        assert_eq!(scene.search_ids(&[1.0, 1.0], None, limit).await, names[..limit]);
    }
}

/// min(limit, records) hits; a limit of 0 gives none.
pub async fn the_limit_is_an_upper_bound(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Dot, 1).await;
    scene.put((1..=3).map(|n| record(&n.to_string(), &[n as f32], Metadata::new())).collect()).await;
    assert_eq!(scene.search_ids(&[1.0], None, 0).await, [] as [&str; 0]);
    assert_eq!(scene.search_ids(&[1.0], None, 2).await, ["3", "2"]);
    assert_eq!(scene.search_ids(&[1.0], None, 100).await, ["3", "2", "1"]);
    assert_eq!(scene.search_ids(&[-1.0], None, 1).await, ["1"], "a negative score is a score");
}

/// A query of another dimension, and for cosine the zero vector, are `InvalidArgument`.
pub async fn queries_that_do_not_fit_are_refused(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Cosine, 2).await;
    scene.put(vec![record("a", &[1.0, 0.0], Metadata::new())]).await;
    for query in [vec![1.0], vec![1.0, 2.0, 3.0], vec![0.0, 0.0]] {
        let vector = vector_of(&query);
        let search = VectorSearch { vector: &vector, using: None, filter: None, limit: 1 };
        let fault = scene.store.search(&scene.context, &scene.collection, search).await.unwrap_err();
        assert!(matches!(fault, Error::InvalidArgument(_)), "{query:?}: {fault:?}");
    }
}
