//! Stored retrievers.

use toller_api::v1;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::Settings;
use tonic::{Code, Status};

use crate::expect;

async fn put(
    client: &Client,
    retriever: v1::Retriever,
    expected_version: Option<u64>,
) -> Result<v1::StoredRetriever, Status> {
    let request = v1::RetrieversPutRequest { retriever: Some(retriever), expected_version };
    Ok(client.retrievers().put(request).await?.into_inner().stored.unwrap())
}

async fn get(client: &Client, name: &str) -> Result<v1::StoredRetriever, Status> {
    let request = v1::RetrieversGetRequest { name: name.to_owned() };
    Ok(client.retrievers().get(request).await?.into_inner().stored.unwrap())
}

async fn names(client: &Client) -> Vec<String> {
    let list = client.retrievers().list(v1::RetrieversListRequest {}).await.unwrap().into_inner().retrievers;
    list.into_iter().map(|stored| stored.retriever.unwrap().name).collect()
}

#[tokio::test]
async fn what_was_put_comes_back_until_it_is_deleted() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let mut declared = vector_store("best", mmr_in("points", 2, 9, 0.25));
    declared.tags = vec!["a".to_owned(), "b".to_owned()];
    if let Some(v1::retriever::Kind::VectorStore(search)) = &mut declared.kind {
        search.score_threshold = Some(0.0);
        search.with_vectors = Some(true);
        search.filter = Some(negate(compare(v1::filter::Kind::Eq, "lang", string("en"))));
    }
    let stored = put(&client, declared.clone(), None).await.unwrap();
    assert_eq!(stored.retriever, Some(declared.clone()));
    assert!(stored.updated_at.is_some());
    assert_eq!(get(&client, "best").await.unwrap(), stored);

    put(&client, vector_store("another", search_in("points")), None).await.unwrap();
    assert_eq!(names(&client).await, ["another", "best"]);
    let delete = || v1::RetrieversDeleteRequest { name: "best".to_owned() };
    client.retrievers().delete(delete()).await.unwrap();
    assert_eq!(names(&client).await, ["another"]);
    expect::not_found(
        "get after delete",
        client.retrievers().get(v1::RetrieversGetRequest { name: "best".into() }).await,
        "retriever",
        "best",
    );
    expect::not_found("delete after delete", client.retrievers().delete(delete()).await, "retriever", "best");
}

#[tokio::test]
async fn a_put_can_be_bound_to_the_version_that_was_read() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let declared = |k| vector_store("best", v1::VectorStoreRetriever { k: Some(k), ..search_in("points") });

    assert_eq!(put(&client, declared(1), Some(7)).await.unwrap_err().code(), Code::Aborted, "there is none");
    let first = put(&client, declared(1), Some(0)).await.unwrap();
    assert_eq!(put(&client, declared(2), Some(0)).await.unwrap_err().code(), Code::Aborted, "there is one");
    let second = put(&client, declared(2), Some(first.version)).await.unwrap();
    assert_ne!(second.version, first.version);
    assert_eq!(
        put(&client, declared(3), Some(first.version)).await.unwrap_err().code(),
        Code::Aborted,
        "it has changed"
    );
    assert_eq!(get(&client, "best").await.unwrap(), second);
    let third = put(&client, declared(3), None).await.unwrap();
    assert_eq!(get(&client, "best").await.unwrap().version, third.version);
}

#[tokio::test]
async fn references_follow_changes_and_never_lead_back() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    client.add("points", vec![point("a", &[1.0, 0.0]), point("b", &[0.0, 1.0])]).await;
    put(&client, vector_store("inner", v1::VectorStoreRetriever { k: Some(1), ..search_in("points") }), None)
        .await
        .unwrap();
    put(&client, reference("outer", "inner"), None).await.unwrap();

    let hits = async || {
        let request = v1::RetrieveRequest {
            query: Some(vector_query(&[1.0, 0.1])),
            retriever: Some(reference("", "outer")),
            ..Default::default()
        };
        client.retrieval().retrieve(request).await.unwrap().into_inner().hits.ids()
    };
    assert_eq!(hits().await, ["a"]);
    put(&client, vector_store("inner", search_in("points")), None).await.unwrap();
    assert_eq!(hits().await, ["a", "b"]);

    for (what, retriever) in [("itself", reference("self", "self")), ("a circle", reference("inner", "outer"))] {
        let request = v1::RetrieversPutRequest { retriever: Some(retriever), expected_version: None };
        let answer = client.retrievers().put(request).await;
        expect::refused_with(what, answer, Code::FailedPrecondition, "RETRIEVER_CYCLE");
    }
    assert_eq!(hits().await, ["a", "b"], "nothing was stored");
}

#[tokio::test]
async fn validation_lists_every_fault_with_its_path() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let faults = async |retriever: v1::Retriever| -> Vec<String> {
        let request = v1::RetrieversValidateRequest { retriever: Some(retriever) };
        let answer = client.retrievers().validate(request).await.unwrap().into_inner();
        answer.violations.into_iter().map(|violation| violation.field).collect()
    };
    assert_eq!(faults(vector_store("good", search_in("points"))).await, [""; 0]);
    let bad = v1::VectorStoreRetriever {
        k: Some(0),
        fetch_k: Some(5),
        score_threshold: Some(1.5),
        raw_score_threshold: Some(f64::NAN),
        ..search_in("points")
    };
    let expected = ["k", "fetch_k", "score_threshold", "raw_score_threshold"];
    assert_eq!(faults(vector_store("", bad)).await, expected.map(|field| format!("vector_store.{field}")));
    assert_eq!(faults(vector_store("", search_in("nowhere"))).await, ["vector_store.collection"]);
    assert_eq!(faults(reference("", "nowhere")).await, ["ref"]);
    assert_eq!(faults(vector_store("a/b", search_in("points"))).await, ["name"]);
    assert_eq!(names(&client).await, [""; 0], "nothing is stored");
}

#[tokio::test]
async fn what_is_listed_is_bounded_and_a_list_that_fits_no_message_says_so() {
    let server = Settings::new().without_model().set("limits.max_message_bytes", "100000").start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let of_bytes = |name: &str, bytes: usize| {
        let filter = compare(v1::filter::Kind::Eq, "n", string(&"x".repeat(bytes)));
        vector_store(name, v1::VectorStoreRetriever { filter: Some(filter), ..search_in("points") })
    };
    let request = v1::RetrieversPutRequest { retriever: Some(of_bytes("large", 65_536)), expected_version: None };
    expect::invalid("a large retriever", client.retrievers().put(request).await, "retriever");
    put(&client, of_bytes("a", 60_000), None).await.unwrap();
    assert_eq!(names(&client).await, ["a"]);
    put(&client, of_bytes("b", 60_000), None).await.unwrap();
    let answer = client.retrievers().list(v1::RetrieversListRequest {}).await;
    expect::refused_with("a large list", answer, Code::FailedPrecondition, "LIST_TOO_LARGE");

    let labels = |name: usize, value: usize, count: usize| {
        (0..count).map(|number| (format!("{number:0name$}"), "x".repeat(value))).collect()
    };
    let new = |name: &str, labels| v1::CollectionsCreateRequest {
        name: name.to_owned(),
        labels,
        vectors: Some(v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension: 2 })),
        ..Default::default()
    };
    for labels in [labels(257, 0, 1), labels(1, 1025, 1)] {
        expect::invalid("a large label", client.collections().create(new("large", labels)).await, "labels");
    }
    client.collections().create(new("large", labels(256, 1024, 64))).await.unwrap();
    client.collections().list(v1::CollectionsListRequest {}).await.unwrap();
    client.collections().create(new("larger", labels(256, 1024, 64))).await.unwrap();
    let answer = client.collections().list(v1::CollectionsListRequest {}).await;
    expect::refused_with("a large list", answer, Code::FailedPrecondition, "LIST_TOO_LARGE");
}

#[tokio::test]
async fn every_part_of_a_request_that_is_at_fault_is_named() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    let search = async |request: v1::SearchRequest| client.retrieval().search(request).await;
    expect::invalid_fields("nothing", search(v1::SearchRequest::default()).await, &["query", "search"]);
    let bad = v1::VectorStoreRetriever {
        collection: "a/b".to_owned(),
        search_type: 99,
        relevance_fn: 99,
        filter: Some(v1::Filter::default()),
        ..Default::default()
    };
    let fields = ["collection", "search_type", "filter", "relevance_fn"];
    let request = v1::SearchRequest { query: None, search: Some(bad.clone()), encoding: 99 };
    let in_search = fields.map(|field| format!("search.{field}"));
    let expected: Vec<&str> = std::iter::once("query")
        .chain(in_search.iter().map(String::as_str))
        .chain(std::iter::once("encoding"))
        .collect();
    expect::invalid_fields("all", search(request).await, &expected);
    // A collection that does not exist is another kind of error: what is wrong anyway goes first.
    let request = v1::SearchRequest { query: None, search: Some(search_in("nowhere")), encoding: 0 };
    expect::invalid("no query", search(request).await, "query");
    let request = v1::RetrieversValidateRequest { retriever: Some(vector_store("c d", bad)) };
    let faults = client.retrievers().validate(request).await;
    let found: Vec<String> = faults.unwrap().into_inner().violations.into_iter().map(|fault| fault.field).collect();
    assert_eq!(found[0], "name");
    assert_eq!(found[1..], fields.map(|field| format!("vector_store.{field}")));

    // A circle is a fault for validation as it is for storing.
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    put(&client, vector_store("a", search_in("points")), None).await.unwrap();
    put(&client, reference("d", "a"), None).await.unwrap();
    let request = v1::RetrieversValidateRequest { retriever: Some(reference("a", "d")) };
    let [fault] = client.retrievers().validate(request).await.unwrap().into_inner().violations.try_into().unwrap();
    assert_eq!(fault.field, "ref");
}
