//! Making, dropping and not finding collections.

use std::sync::Arc;

use toller_core::collection::VectorParams;
use toller_core::error::{Error, ResourceKind};
use toller_core::vector_store::{Selector, VectorSearch};
use toller_core::{KeywordSearch, Metadata, Metric, VectorStore};

use super::fixture::{Scene, collection, context, ids, record, vector_of};

/// A second create is `AlreadyExists`, whatever its parameters, and changes nothing.
pub async fn a_collection_is_made_once_and_keeps_its_parameters(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Euclidean, 3).await;
    let other = VectorParams::new(4, Metric::Dot);
    let fault = scene.store.create(&scene.context, &scene.collection, other).await.unwrap_err();
    assert_eq!(fault, Error::AlreadyExists { kind: ResourceKind::Collection, name: "docs".to_owned() });
    let params = scene.store.params(&scene.context, &scene.collection).await.unwrap();
    assert_eq!(params, VectorParams::new(3, Metric::Euclidean));
}

/// Dimension 0 and dimensions above the maximum are `InvalidArgument`.
pub async fn dimensions_out_of_range_are_refused(store: Arc<dyn VectorStore>) {
    let (context, docs) = (context("conformance"), collection("docs"));
    for dimension in [0, 65_537] {
        let params = VectorParams::new(dimension, Metric::Cosine);
        let fault = store.create(&context, &docs, params).await.unwrap_err();
        assert!(matches!(fault, Error::InvalidArgument(_)), "{fault:?}");
    }
    assert!(matches!(store.params(&context, &docs).await, Err(Error::NotFound { .. })));
}

/// Every operation on a collection that does not exist is `NotFound` and names it.
pub async fn an_unknown_collection_is_not_found(store: Arc<dyn VectorStore>) {
    let (context, nope) = (context("conformance"), collection("nope"));
    let vector = vector_of(&[1.0, 2.0]);
    let search = VectorSearch { vector: &vector, using: None, filter: None, limit: 1 };
    let keywords = KeywordSearch { text: "a", filter: None, limit: 1 };
    let faults = [
        store.drop_collection(&context, &nope).await.unwrap_err(),
        store.params(&context, &nope).await.unwrap_err(),
        store.upsert(&context, &nope, vec![record("a", &[1.0, 2.0], Metadata::new())]).await.unwrap_err(),
        store.upsert(&context, &nope, Vec::new()).await.unwrap_err(),
        store.delete(&context, &nope, &Selector::All).await.unwrap_err(),
        store.delete(&context, &nope, &Selector::Ids(Vec::new())).await.unwrap_err(),
        store.get(&context, &nope, &ids(["a"])).await.unwrap_err(),
        store.search(&context, &nope, search).await.unwrap_err(),
        store.keyword_search(&context, &nope, keywords).await.unwrap_err(),
        store.scroll(&context, &nope, None, None, 1).await.unwrap_err(),
        store.count(&context, &nope, None).await.unwrap_err(),
    ];
    for fault in faults {
        assert_eq!(fault, Error::NotFound { kind: ResourceKind::Collection, name: "nope".to_owned() });
    }
}

/// A collection without records gives empty answers, never errors.
pub async fn an_empty_collection_answers_with_nothing(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Cosine, 2).await;
    assert_eq!(scene.search_ids(&[1.0, 0.0], None, 4).await, [] as [&str; 0]);
    assert_eq!(scene.all_ids(None).await, [] as [&str; 0]);
    assert_eq!(scene.count(None).await, 0);
    assert_eq!(scene.store.get(&scene.context, &scene.collection, &ids(["a"])).await.unwrap(), [None]);
    for selector in [Selector::All, Selector::Ids(ids(["a", "b"]))] {
        assert_eq!(scene.store.delete(&scene.context, &scene.collection, &selector).await.unwrap(), 0);
    }
}

/// A name that is used again starts empty, with the new parameters.
pub async fn a_dropped_collection_leaves_nothing_behind(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Cosine, 2).await;
    scene.put(vec![record("a", &[1.0, 0.0], Metadata::new())]).await;
    scene.store.drop_collection(&scene.context, &scene.collection).await.unwrap();
    assert!(matches!(scene.store.count(&scene.context, &scene.collection, None).await, Err(Error::NotFound { .. })));
    let params = VectorParams::new(3, Metric::Dot);
    scene.store.create(&scene.context, &scene.collection, params).await.unwrap();
    assert_eq!(scene.count(None).await, 0);
    assert_eq!(scene.store.get(&scene.context, &scene.collection, &ids(["a"])).await.unwrap(), [None]);
    scene.put(vec![record("a", &[0.0, 0.0, 2.0], Metadata::new())]).await;
    assert_eq!(scene.search(&[0.0, 0.0, 2.0], None, 1).await[0].score, 4.0);
}
