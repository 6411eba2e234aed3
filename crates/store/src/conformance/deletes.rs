//! Deletes: by ids, by filter, all, and of what is not there.

use std::sync::Arc;

use toller_core::vector_store::Selector;
use toller_core::{Filter, Metric, Value, VectorStore};

use super::fixture::{Scene, ids, key, metadata, record};

async fn scene(store: Arc<dyn VectorStore>) -> Scene {
    let scene = Scene::new(store, Metric::Euclidean, 1).await;
    let records = ["a", "b", "c", "d"].iter().zip(0_u8..);
    scene
        .put(records.map(|(id, n)| record(id, &[f32::from(n)], metadata([("n", Value::Int(n.into()))]))).collect())
        .await;
    scene
}

async fn delete(scene: &Scene, selector: Selector) -> u64 {
    scene.store.delete(&scene.context, &scene.collection, &selector).await.unwrap()
}

/// Only what was there is counted, an id that stands twice once; no ids delete nothing.
pub async fn by_ids(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    assert_eq!(delete(&scene, Selector::Ids(Vec::new())).await, 0);
    assert_eq!(scene.count(None).await, 4);
    assert_eq!(delete(&scene, Selector::Ids(ids(["b", "missing", "b", "d"]))).await, 2);
    assert_eq!(scene.all_ids(None).await, ["a", "c"]);
    assert_eq!(scene.search_ids(&[9.0], None, 4).await, ["c", "a"], "search reads its own writes");
    assert_eq!(delete(&scene, Selector::Ids(ids(["b", "d"]))).await, 0);
}

/// Exactly the matches go; a filter that matches nothing deletes nothing.
pub async fn by_filter(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    let filter = |filter| Selector::Filter(filter);
    assert_eq!(delete(&scene, filter(Filter::Gt(key("n"), Value::Int(9)))).await, 0);
    assert_eq!(delete(&scene, filter(Filter::Or(vec![]))).await, 0);
    assert_eq!(delete(&scene, filter(Filter::Gte(key("n"), Value::Int(2)))).await, 2);
    assert_eq!(scene.all_ids(None).await, ["a", "b"]);
    assert_eq!(delete(&scene, filter(Filter::Ne(key("missing"), Value::Null))).await, 2);
    assert_eq!(scene.count(None).await, 0);
}

/// Everything goes, the collection stays.
pub async fn all(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    assert_eq!(delete(&scene, Selector::All).await, 4);
    assert_eq!(scene.search_ids(&[0.0], None, 4).await, [] as [&str; 0]);
    assert_eq!(delete(&scene, Selector::All).await, 0);
    scene.put(vec![record("a", &[1.0], metadata([]))]).await;
    assert_eq!(scene.count(None).await, 1);
}

/// A deleted id is free; the new record is found and the old one is not.
pub async fn what_was_deleted_can_be_written_again(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    for round in 0..5_u8 {
        assert_eq!(delete(&scene, Selector::Ids(ids(["a", "b", "c"]))).await, 3);
        assert_eq!(scene.all_ids(None).await, ["d"]);
        let records = ["a", "b", "c"].iter().map(|id| record(id, &[f32::from(round)], metadata([])));
        scene.put(records.collect()).await;
        assert_eq!(scene.count(None).await, 4);
        assert_eq!(scene.search(&[f32::from(round)], None, 1).await[0].score, 0.0);
    }
}
