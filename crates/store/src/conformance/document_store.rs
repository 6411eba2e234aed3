//! The rules of `DocumentStore`.

use std::sync::Arc;

use toller_core::error::Error;
use toller_core::{Document, DocumentStore, Metadata, Value};

use super::fixture::{collection, context, document, id, ids, metadata};

/// Get is aligned, put replaces whole documents, delete counts what was there.
pub async fn documents_are_kept_replaced_and_removed(store: Arc<dyn DocumentStore>) {
    let (context, docs) = (context("conformance"), collection("docs"));
    let old = document("a", metadata([("old", Value::Int((1 << 53) + 1))]));
    let other = document("b", Metadata::new());
    store.put(&context, &docs, vec![old.clone(), other.clone()]).await.unwrap();
    let found = store.get(&context, &docs, &ids(["b", "missing", "a", "b"])).await.unwrap();
    assert_eq!(found, [Some(other.clone()), None, Some(old), Some(other.clone())]);

    let new = Document { page_content: "new".to_owned(), ..document("a", metadata([("new", Value::Double(1.0))])) };
    store.put(&context, &docs, vec![new.clone()]).await.unwrap();
    assert_eq!(store.get(&context, &docs, &ids(["a"])).await.unwrap(), [Some(new)]);

    assert_eq!(store.delete(&context, &docs, &ids(["a", "missing", "a"])).await.unwrap(), 1);
    assert_eq!(store.get(&context, &docs, &ids(["a", "b"])).await.unwrap(), [None, Some(other)]);
    assert_eq!(store.delete(&context, &docs, &[]).await.unwrap(), 0);
    assert_eq!(store.get(&context, &docs, &[]).await.unwrap(), []);
    assert_eq!(store.get(&context, &collection("unknown"), &ids(["a"])).await.unwrap(), [None]);
    assert_eq!(store.delete(&context, &collection("unknown"), &ids(["a"])).await.unwrap(), 0);
}

/// An id that stands twice is `InvalidArgument` and nothing is written.
pub async fn a_put_is_all_or_none(store: Arc<dyn DocumentStore>) {
    let (context, docs) = (context("conformance"), collection("docs"));
    let twice = vec![document("a", Metadata::new()), document("b", Metadata::new()), document("a", Metadata::new())];
    let fault = store.put(&context, &docs, twice).await.unwrap_err();
    assert!(matches!(fault, Error::InvalidArgument(_)), "{fault:?}");
    assert!(fault.to_string().contains("documents[2].id"), "{fault}");
    assert_eq!(store.get(&context, &docs, &ids(["a", "b"])).await.unwrap(), [None, None]);
    store.put(&context, &docs, Vec::new()).await.unwrap();
    assert_eq!(store.scroll(&context, &docs, None, 9).await.unwrap(), []);
}

/// Pages come in the order of id bytes, after an exclusive cursor that need not exist.
pub async fn pages_are_in_id_order(store: Arc<dyn DocumentStore>) {
    let (context, docs) = (context("conformance"), collection("docs"));
    let written = ["é", "b", "B", "a2", "a10"].map(|id| document(id, Metadata::new()));
    store.put(&context, &docs, written.to_vec()).await.unwrap();
    let page = async |after: Option<&str>, limit| {
        let after = after.map(id);
        let page = store.scroll(&context, &docs, after.as_ref(), limit).await.unwrap();
        page.into_iter().map(|document| document.id.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 9).await, ["B", "a10", "a2", "b", "é"]);
    assert_eq!(page(Some("a10"), 2).await, ["a2", "b"]);
    assert_eq!(page(Some("a3"), 1).await, ["b"]);
    assert_eq!(page(Some("é"), 9).await, [] as [&str; 0]);
    assert_eq!(page(None, 0).await, [] as [&str; 0]);
}

/// Removing all removes those of one collection, however many there are, and counts them.
pub async fn all_documents_of_a_collection_are_removed(store: Arc<dyn DocumentStore>) {
    let (context, docs, more) = (context("conformance"), collection("docs"), collection("more"));
    let many = (0..1001).map(|number| document(&format!("d{number}"), Metadata::new())).collect();
    store.put(&context, &docs, many).await.unwrap();
    store.put(&context, &more, vec![document("kept", Metadata::new())]).await.unwrap();
    assert_eq!(store.delete_all(&context, &docs).await.unwrap(), 1001);
    assert_eq!(store.scroll(&context, &docs, None, 9).await.unwrap(), []);
    assert_eq!(store.scroll(&context, &more, None, 9).await.unwrap().len(), 1);
    assert_eq!(store.delete_all(&context, &docs).await.unwrap(), 0);
}

/// Tenant and collection are part of every key.
pub async fn documents_of_tenants_and_collections_are_apart(store: Arc<dyn DocumentStore>) {
    let (ours, theirs) = (context("conformance"), context("other"));
    let (docs, more) = (collection("docs"), collection("more"));
    store.put(&ours, &docs, vec![document("a", metadata([("n", Value::Int(1))]))]).await.unwrap();
    for (context, collection) in [(&ours, &more), (&theirs, &docs)] {
        assert_eq!(store.get(context, collection, &ids(["a"])).await.unwrap(), [None]);
        assert_eq!(store.scroll(context, collection, None, 9).await.unwrap(), []);
        assert_eq!(store.delete(context, collection, &ids(["a"])).await.unwrap(), 0);
        store.put(context, collection, vec![document("a", Metadata::new())]).await.unwrap();
        assert_eq!(store.delete(context, collection, &ids(["a"])).await.unwrap(), 1);
    }
    let kept = store.get(&ours, &docs, &ids(["a"])).await.unwrap();
    assert_eq!(kept[0].as_ref().unwrap().metadata["n"], Value::Int(1));
}

/// Names are listed while they have documents, in order, and of the tenant alone.
pub async fn names_are_those_with_documents(store: Arc<dyn DocumentStore>) {
    let (ours, theirs) = (context("conformance"), context("conformance.2"));
    assert_eq!(store.names(&ours).await.unwrap(), []);
    // Names that begin alike, and tenants too.
    for name in ["b", "a.b", "a", "a-b", "B"] {
        let documents = ["1", "2", "3"].map(|id| document(id, Metadata::new()));
        store.put(&ours, &collection(name), documents.to_vec()).await.unwrap();
    }
    for tenant in ["conform", "conformance.2", "z"] {
        store.put(&context(tenant), &collection("theirs"), vec![document("1", Metadata::new())]).await.unwrap();
    }
    assert_eq!(store.names(&ours).await.unwrap(), ["B", "a", "a-b", "a.b", "b"].map(collection));
    assert_eq!(store.names(&theirs).await.unwrap(), [collection("theirs")]);
    assert_eq!(store.names(&context("nobody")).await.unwrap(), []);

    assert_eq!(store.delete(&ours, &collection("a"), &ids(["1", "2"])).await.unwrap(), 2);
    assert_eq!(store.delete(&ours, &collection("b"), &ids(["1", "2", "3"])).await.unwrap(), 3);
    assert_eq!(store.names(&ours).await.unwrap(), ["B", "a", "a-b", "a.b"].map(collection));
}
