//! Document stores: parents of children, and the logs of when documents were last found.

use std::fs;
use std::time::Instant;

use toller_api::v1;
use toller_api::v1::document_stores_delete_request::Selector;
use toller_api::v1::retriever::Kind;
use toller_tests::PATIENCE;
use toller_tests::client::Client;
use toller_tests::command::{run, toller};
use toller_tests::request::*;
use toller_tests::server::Settings;
use tonic::{Response, Status};

use crate::expect;

const PARENTS: &str = "parents";

async fn put(client: &Client, documents: Vec<v1::Document>) -> Result<Response<v1::DocumentStoresPutResponse>, Status> {
    let request = v1::DocumentStoresPutRequest { document_store: PARENTS.to_owned(), documents };
    client.document_stores().put(request).await
}

async fn get(client: &Client, ids: &[&str]) -> v1::DocumentStoresGetResponse {
    let ids = ids.iter().map(|id| (*id).to_owned()).collect();
    let request = v1::DocumentStoresGetRequest { document_store: PARENTS.to_owned(), ids };
    client.document_stores().get(request).await.unwrap().into_inner()
}

async fn list(client: &Client, document_store: &str, page_size: u32, token: &str) -> v1::DocumentStoresListResponse {
    let request = v1::DocumentStoresListRequest {
        document_store: document_store.to_owned(),
        page_size: Some(page_size),
        page_token: token.to_owned(),
        ids_only: None,
    };
    client.document_stores().list(request).await.unwrap().into_inner()
}

fn delete_request(selector: Option<Selector>, children: Option<v1::Children>) -> v1::DocumentStoresDeleteRequest {
    v1::DocumentStoresDeleteRequest { document_store: PARENTS.to_owned(), selector, children }
}

fn ids(ids: &[&str]) -> Option<Selector> {
    Some(Selector::Ids(v1::DocumentIds { ids: ids.iter().map(|id| (*id).to_owned()).collect() }))
}

/// Chunks of `p` and `q` in a collection, and those two in the store.
async fn fill(client: &Client) {
    client.create_for_vectors("chunks", 2, v1::Metric::Cosine).await;
    let chunk = |id: &str, parent: &str, y: f32| point(id, &[1.0, y]).with("doc_id", string(parent));
    client.add("chunks", vec![chunk("p1", "p", 0.0), chunk("p2", "p", 0.1), chunk("q1", "q", 0.5)]).await;
    let parents = vec![document("p", "all of p").with("n", int((1 << 53) + 1)), document("q", "all of q")];
    put(client, parents).await.unwrap();
}

fn stored_parents() -> Option<v1::ParentSource> {
    Some(v1::ParentSource { kind: Some(v1::parent_source::Kind::DocumentStore(PARENTS.to_owned())) })
}

fn parent_document() -> v1::Retriever {
    let message = v1::ParentDocumentRetriever {
        search: Some(search_in("chunks")),
        parents: stored_parents(),
        k: Some(2),
        ..Default::default()
    };
    retriever("", Kind::ParentDocument(message))
}

fn multi_vector() -> v1::Retriever {
    let message = v1::MultiVectorRetriever {
        retriever: Some(Box::new(vector_store("", search_in("chunks")))),
        parents: stored_parents(),
        ..Default::default()
    };
    retriever("", Kind::MultiVector(Box::new(message)))
}

async fn retrieve(client: &Client, retriever: v1::Retriever) -> v1::RetrieveResponse {
    let request = v1::RetrieveRequest {
        query: Some(vector_query(&[1.0, 0.0])),
        retriever: Some(retriever),
        ..Default::default()
    };
    client.retrieval().retrieve(request).await.unwrap().into_inner()
}

/// What both retrievers make of the parents.
async fn answers(client: &Client) -> Vec<Vec<v1::ScoredDocument>> {
    vec![retrieve(client, parent_document()).await.hits, retrieve(client, multi_vector()).await.hits]
}

#[tokio::test]
async fn parents_that_were_put_are_answers_also_after_kill_9_and_after_a_restart() {
    for is_on_disk in [true, false] {
        let settings = Settings::new().without_model();
        let settings = if is_on_disk { settings.on_disk() } else { settings };
        let server = settings.start().await;
        let client = server.client().await;
        fill(&client).await;
        let before = answers(&client).await;
        for hits in &before {
            assert_eq!(hits.ids(), ["p", "q"]);
            let parent = hits[0].document.as_ref().unwrap();
            assert_eq!((parent.page_content.as_str(), &parent.metadata["n"]), ("all of p", &int((1 << 53) + 1)));
            let children: Vec<&str> =
                hits[0].matched_children.iter().map(|child| child.document.as_ref().unwrap().id_text()).collect();
            assert_eq!(children, ["p1", "p2"]);
        }
        // The memory backend keeps what it has through an orderly stop alone.
        let server = if is_on_disk {
            server.kill().await;
            settings.start().await
        } else {
            server
        };
        assert_eq!(answers(&server.client().await).await, before, "after kill -9");
        let server = server.restart().await;
        assert_eq!(answers(&server.client().await).await, before, "after an orderly stop");
    }
}

#[tokio::test]
async fn documents_are_kept_read_and_listed_page_by_page() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    assert_eq!(list(&client, PARENTS, 5, "").await, v1::DocumentStoresListResponse::default(), "an empty store");
    let named = |number: u32| document(&format!("d{number}"), &format!("text {number}"));
    put(&client, (0..5).map(named).collect()).await.unwrap();
    put(&client, vec![named(3).with("new", boolean(true))]).await.unwrap();

    let found = get(&client, &["d3", "nobody", "d0", "d3"]).await;
    assert_eq!(found.documents.ids(), ["d3", "d0", "d3"]);
    assert_eq!((&found.documents[0].metadata["new"], found.missing_ids), (&boolean(true), vec!["nobody".to_owned()]));

    let first = list(&client, PARENTS, 3, "").await;
    assert_eq!(first.documents.ids(), ["d0", "d1", "d2"]);
    // What the token leads on from may go meanwhile.
    let gone = client.document_stores().delete(delete_request(ids(&["d2", "d2", "nobody"]), None)).await.unwrap();
    assert_eq!(gone.into_inner().deleted, 1);
    let second = list(&client, PARENTS, 2, &first.next_page_token).await;
    assert_eq!(
        (second.documents.ids(), second.next_page_token),
        (vec!["d3".to_owned(), "d4".to_owned()], String::new())
    );

    let all = client.document_stores().delete(delete_request(Some(Selector::All(true)), None)).await.unwrap();
    assert_eq!(all.into_inner().deleted, 4);
    assert!(list(&client, PARENTS, 5, "").await.documents.is_empty());
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused_with_its_path() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    let a = || document("a", "");
    for (what, documents, field) in [
        ("no id", vec![a(), text_only("b")], "documents[1].id"),
        ("an empty id", vec![document("", "")], "documents[0].id"),
        ("an id twice", vec![a(), a()], "documents[1].id"),
        ("a vector", vec![point("a", &[1.0])], "documents[0].vectors"),
        ("half a value", vec![a().with("x", v1::Value::default())], "documents[0].metadata.x"),
    ] {
        expect::invalid_fields(what, put(&client, documents).await, &[field]);
    }
    assert!(list(&client, PARENTS, 5, "").await.documents.is_empty(), "all or none");
    let named = |name: &str| v1::DocumentStoresPutRequest { document_store: name.to_owned(), documents: vec![a()] };
    let answer = client.document_stores().put(named("a/b")).await;
    expect::invalid_fields("a wrong name", answer, &["document_store"]);
    let children =
        |id_key: &str| Some(v1::Children { collection: "chunks".to_owned(), id_key: Some(id_key.to_owned()) });
    for (what, request, field) in [
        ("no selector", delete_request(None, None), "selector"),
        ("not all", delete_request(Some(Selector::All(false)), None), "all"),
        ("children of all", delete_request(Some(Selector::All(true)), children("doc_id")), "children"),
        ("a wrong path", delete_request(ids(&["a"]), children("a..b")), "children.id_key"),
    ] {
        expect::invalid_fields(what, client.document_stores().delete(request).await, &[field]);
    }
    let answer = client.document_stores().delete(delete_request(ids(&["a"]), children("doc_id"))).await;
    assert_eq!(answer.unwrap_err().code(), tonic::Code::NotFound, "there is no such collection");
    let list = v1::DocumentStoresListRequest { page_size: Some(0), page_token: "?".to_owned(), ..Default::default() };
    expect::invalid_fields("page 0", client.document_stores().list(list).await, &["page_size"]);
}

#[tokio::test]
async fn a_parent_that_is_deleted_takes_its_children_with_it() {
    let server = Settings::new().without_model().on_disk().start().await;
    let client = server.client().await;
    fill(&client).await;
    let children = Some(v1::Children { collection: "chunks".to_owned(), id_key: None });
    let request = delete_request(ids(&["p"]), children);
    let deleted = client.document_stores().delete(request.clone()).await.unwrap().into_inner();
    assert_eq!((deleted.deleted, deleted.deleted_children), (1, 2));
    assert_eq!(client.all("chunks").await.ids(), ["q1"]);
    let answer = retrieve(&client, parent_document()).await;
    assert_eq!(answer.hits.ids(), ["q"]);
    assert!(answer.warnings.is_empty(), "no child is left without its parent: {:?}", answer.warnings);
    let again = client.document_stores().delete(request).await.unwrap().into_inner();
    assert_eq!((again.deleted, again.deleted_children), (0, 0));
}

fn remembering() -> v1::Retriever {
    let message = v1::TimeWeightedRetriever {
        retriever: Some(Box::new(vector_store("", search_in("chunks")))),
        k: Some(1),
        access_log: Some("seen".to_owned()),
        ..Default::default()
    };
    retriever("", Kind::TimeWeighted(Box::new(message)))
}

#[tokio::test]
async fn what_was_found_is_remembered_also_after_kill_9_and_after_a_restart() {
    let server = Settings::new().without_model().on_disk().start().await;
    let settings = server.settings.clone();
    let client = server.client().await;
    fill(&client).await;
    let first = retrieve(&client, remembering()).await;
    assert_eq!(first.hits.ids(), ["p1"]);
    assert!(first.hits[0].score < 1.001, "no time is known yet: {first:?}");
    assert!(first.warnings[0].message.starts_with("3 hits have no time"), "{:?}", first.warnings);
    let started = Instant::now();
    while list(&client, "access-log.seen", 9, "").await.documents.ids() != ["p1"] {
        assert!(started.elapsed() < PATIENCE, "it is never written");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    server.kill().await;
    let server = settings.start().await;
    let client = server.client().await;
    let second = retrieve(&client, remembering()).await;
    assert!(second.hits[0].score > 1.9, "found moments ago: {second:?}");
    assert!(second.warnings[0].message.starts_with("2 hits have no time"), "{:?}", second.warnings);

    let forget = v1::DocumentStoresDeleteRequest {
        document_store: "access-log.seen".to_owned(),
        selector: Some(Selector::All(true)),
        children: None,
    };
    // The second retrieval may not be written yet, so that what is deleted may come again.
    client.document_stores().delete(forget).await.unwrap();
    retrieve(&client, remembering()).await;
    let server = server.restart().await;
    let stored = list(&server.client().await, "access-log.seen", 9, "").await;
    assert_eq!(stored.documents.ids(), ["p1"], "an orderly stop writes what was found last");
}

#[tokio::test]
async fn the_command_line_keeps_documents() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    fill(&client).await;
    let folder = tempfile::tempdir().unwrap();
    let file = r#"{"documents": [{"id": "r", "page_content": "all of r", "metadata": {"n": 9007199254740993}}]}"#;
    fs::write(folder.path().join("more.json"), file).unwrap();
    let command = async |arguments: &[&str]| {
        let mut toller = toller();
        toller.arg("document-stores").args(arguments).env("TOLLER_SERVER", server.url()).current_dir(folder.path());
        run(&mut toller).await
    };
    command(&["put", PARENTS, "more.json"]).await.expect(0);
    let listed = command(&["list", PARENTS, "--json"]).await.expect(0).stdout;
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    let ids: Vec<&str> =
        listed["documents"].as_array().unwrap().iter().map(|document| document["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["p", "q", "r"]);
    assert_eq!(listed["documents"][2]["metadata"]["n"], 9_007_199_254_740_993_i64);
    // What is listed can be put again.
    fs::write(folder.path().join("again.json"), listed.to_string()).unwrap();
    command(&["put", PARENTS, "again.json"]).await.expect(0);
    command(&["get", PARENTS, "r", "nobody"]).await.expect(1);
    let deleted = command(&["delete", PARENTS, "p", "--children-of", "chunks", "--json"]).await.expect(0).stdout;
    let deleted: serde_json::Value = serde_json::from_str(&deleted).unwrap();
    assert_eq!(deleted, serde_json::json!({"deleted": 1, "deleted_children": 2}));
    assert_eq!(get(&client, &["p", "q", "r"]).await.documents.ids(), ["q", "r"]);
    command(&["delete", PARENTS, "--all", "--yes"]).await.expect(0);
    assert!(list(&client, PARENTS, 9, "").await.documents.is_empty());
}
