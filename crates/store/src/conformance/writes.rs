//! What is written comes back, whole.

use std::sync::Arc;

use toller_core::error::Error;
use toller_core::metric::cosine;
use toller_core::{Document, Metadata, Metric, Record, Value, VectorStore};

use super::fixture::{Scene, id, ids, metadata, record, vector_of};

/// Ids are told apart by their bytes, whatever characters they have.
pub async fn ids_are_any_text(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Dot, 1).await;
    let longest = "x".repeat(1024);
    // The accented letters look alike: one is composed, the other is not.
    let texts = [" ", "A", "a", "\u{e9}", "e\u{301}", "日本語/路", "' OR 1=1 --", "{\"a\":1}", "a\nb", "👨‍👩‍👧", &longest];
    scene.put(texts.iter().map(|text| record(text, &[1.0], Metadata::new())).collect()).await;
    assert_eq!(scene.count(None).await, texts.len() as u64);
    let mut sorted = texts.to_vec();
    sorted.sort_unstable();
    assert_eq!(scene.all_ids(None).await, sorted, "the order is that of the bytes");
    for text in texts {
        let found = scene.store.get(&scene.context, &scene.collection, &[id(text)]).await.unwrap();
        assert_eq!(found[0].as_ref().unwrap().document.page_content, format!("content of {text}"));
    }
}

/// Text, metadata with its types, and vectors are what was written (for cosine at least in their direction).
pub async fn documents_come_back_as_they_were_written(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Euclidean, 3).await;
    let content = "line\r\n\ttab \u{0} nul 日本語 \u{1f600}".to_owned();
    let metadata = metadata([
        ("beyond_doubles", Value::Int((1 << 53) + 1)),
        ("least", Value::Int(i64::MIN)),
        ("one", Value::Int(1)),
        ("one_as_double", Value::Double(1.0)),
        ("third", Value::Double(1.0 / 3.0)),
        ("tiny", Value::Double(5e-324)),
        ("null", Value::Null),
        ("yes", Value::Bool(true)),
        ("empty", Value::from("")),
        ("dotted.key", Value::from("ü")),
        ("list", Value::from(vec![Value::Int(1), Value::from(vec![]), Value::Null])),
        ("map", Value::Map(metadata([("inner", Value::Map(Metadata::new()))]))),
    ]);
    let document = Document { id: id("a"), page_content: content, metadata };
    let written = Record::new(Arc::new(document), vector_of(&[0.1, -1e-3, 12345.678]));
    scene.put(vec![written.clone()]).await;

    let found = scene.store.get(&scene.context, &scene.collection, &ids(["a"])).await.unwrap();
    assert_eq!(found, [Some(written.clone())]);
    assert_eq!(scene.search(written.vector.as_slice(), None, 1).await[0].record, written);
    let page = scene.store.scroll(&scene.context, &scene.collection, None, None, 1).await.unwrap();
    assert_eq!(page.records, std::slice::from_ref(&written));

    let scene = Scene::named("cosine", scene.store, Metric::Cosine, 3).await;
    scene.put(vec![written.clone()]).await;
    let found = scene.store.get(&scene.context, &scene.collection, &ids(["a"])).await.unwrap();
    let found = found[0].as_ref().unwrap();
    assert_eq!(found.document, written.document);
    assert!(cosine(found.vector.as_slice(), written.vector.as_slice()) > 1.0 - 1e-6);
}

/// Text, metadata and vector are replaced as one, and there is still one record.
pub async fn an_upsert_replaces_whole_records(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Cosine, 2).await;
    scene
        .put(vec![
            record("a", &[1.0, 0.0], metadata([("old", Value::Int(1))])),
            record("b", &[0.0, 1.0], Metadata::new()),
        ])
        .await;
    let replaced =
        Document { id: id("a"), page_content: "new".to_owned(), metadata: metadata([("new", Value::Int(2))]) };
    scene.put(vec![Record::new(Arc::new(replaced.clone()), vector_of(&[-1.0, 0.0]))]).await;
    assert_eq!(scene.count(None).await, 2);
    let hits = scene.search(&[1.0, 0.0], None, 2).await;
    assert_eq!(hits[0].record.document.id.as_str(), "b");
    assert_eq!(*hits[1].record.document, replaced);
    assert_eq!(hits[1].score, -1.0);
    let again = scene.store.get(&scene.context, &scene.collection, &ids(["a"])).await.unwrap();
    scene.put(vec![again[0].clone().unwrap()]).await;
    assert_eq!(scene.count(None).await, 2, "writing the same again changes nothing");
}

/// One record that cannot be written keeps the whole call from writing.
pub async fn an_upsert_is_all_or_none(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Cosine, 2).await;
    scene.put(vec![record("kept", &[1.0, 0.0], Metadata::new())]).await;
    let good = || record("a", &[1.0, 1.0], Metadata::new());
    let faulty = [
        ("dimension", record("b", &[1.0], Metadata::new())),
        ("dimension", record("b", &[1.0, 1.0, 1.0], Metadata::new())),
        ("zero vector", record("b", &[0.0, 0.0], Metadata::new())),
        ("\"a\"", record("a", &[0.0, 1.0], Metadata::new())),
    ];
    for (expected, bad) in faulty {
        let replaced = record("kept", &[0.0, 1.0], Metadata::new());
        let records = vec![replaced, good(), bad];
        let fault = scene.store.upsert(&scene.context, &scene.collection, records).await.unwrap_err();
        assert!(matches!(fault, Error::InvalidArgument(_)), "{fault:?}");
        let text = fault.to_string();
        assert!(text.contains("records[2]") && text.contains(expected), "{text:?} must name {expected}");
        assert_eq!(scene.all_ids(None).await, ["kept"]);
        assert_eq!(scene.search(&[1.0, 0.0], None, 1).await[0].score, 1.0, "nothing was replaced");
    }
    scene.put(Vec::new()).await;
    assert_eq!(scene.count(None).await, 1);
}

/// One entry per asked id: none where missing, repeated where repeated.
pub async fn get_is_aligned_with_its_ids(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Dot, 1).await;
    scene.put(vec![record("a", &[1.0], Metadata::new()), record("b", &[2.0], Metadata::new())]).await;
    let asked = ids(["b", "missing", "a", "b"]);
    let found = scene.store.get(&scene.context, &scene.collection, &asked).await.unwrap();
    let found: Vec<Option<&str>> =
        found.iter().map(|record| record.as_ref().map(|record| record.document.id.as_str())).collect();
    assert_eq!(found, [Some("b"), None, Some("a"), Some("b")]);
    assert_eq!(scene.store.get(&scene.context, &scene.collection, &[]).await.unwrap(), []);
}
