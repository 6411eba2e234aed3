//! Tenants: the same names, and nothing shared.

use std::sync::Arc;

use toller_core::collection::VectorParams;
use toller_core::error::Error;
use toller_core::vector_store::Selector;
use toller_core::{Filter, Metric, Value, VectorStore};

use super::fixture::{Scene, collection, context, id_texts, ids, key, metadata, record};

/// Two tenants with the same collection and the same ids: reads, writes, deletes and drops of one do not touch the other.
pub async fn no_operation_reaches_another_tenant(store: Arc<dyn VectorStore>) {
    let ours = Scene::new(store, Metric::Dot, 1).await;
    ours.put(vec![record("a", &[1.0], metadata([("of", Value::from("us"))]))]).await;

    let theirs = Scene { store: Arc::clone(&ours.store), context: context("other"), collection: collection("docs") };
    assert!(matches!(theirs.store.count(&theirs.context, &theirs.collection, None).await, Err(Error::NotFound { .. })));
    let dropped = theirs.store.drop_collection(&theirs.context, &theirs.collection).await;
    assert!(matches!(dropped, Err(Error::NotFound { .. })));

    let params = VectorParams::new(2, Metric::Cosine);
    theirs.store.create(&theirs.context, &theirs.collection, params).await.unwrap();
    assert_eq!(theirs.search_ids(&[1.0, 0.0], None, 9).await, [] as [&str; 0]);
    let all = Filter::And(Vec::new());
    assert_eq!(theirs.search_ids(&[1.0, 0.0], Some(&all), 9).await, [] as [&str; 0]);
    // Metadata that looks like a tenant is metadata.
    let forged = metadata([("tenant", Value::from("conformance")), ("of", Value::from("them"))]);
    theirs.put(vec![record("a", &[1.0, 1.0], forged), record("b", &[1.0, 0.0], metadata([]))]).await;

    assert_eq!(ours.search_ids(&[1.0], Some(&all), 9).await, ["a"]);
    assert_eq!(ours.all_ids(None).await, ["a"]);
    assert_eq!(ours.count(Some(&Filter::Eq(key("of"), Value::from("them")))).await, 0);
    let got = ours.store.get(&ours.context, &ours.collection, &ids(["a", "b"])).await.unwrap();
    assert_eq!(got[0].as_ref().unwrap().document.metadata["of"], Value::from("us"));
    assert_eq!(got[1], None);

    let selector = Selector::Filter(all);
    assert_eq!(theirs.store.delete(&theirs.context, &theirs.collection, &selector).await.unwrap(), 2);
    assert_eq!(theirs.store.delete(&theirs.context, &theirs.collection, &Selector::All).await.unwrap(), 0);
    theirs.store.drop_collection(&theirs.context, &theirs.collection).await.unwrap();
    let page = ours.store.scroll(&ours.context, &ours.collection, None, None, 9).await.unwrap();
    assert_eq!(id_texts(&page.records), ["a"]);
}
