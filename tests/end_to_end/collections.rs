//! Collections: made, found, changed and deleted.

use std::collections::BTreeMap;

use toller_api::v1;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::Settings;
use tonic::Code;

use crate::expect;

async fn get(client: &Client, name: &str) -> v1::Collection {
    let request = v1::CollectionsGetRequest { name: name.to_owned() };
    client.collections().get(request).await.unwrap().into_inner().collection.unwrap()
}

#[tokio::test]
async fn a_collection_says_what_fills_it_and_what_its_writes_survive() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    let labels: BTreeMap<String, String> =
        [("team".to_owned(), "search".to_owned()), ("empty".to_owned(), String::new())].into();
    let request = v1::CollectionsCreateRequest {
        name: "docs".to_owned(),
        description: "for people".to_owned(),
        labels: labels.clone(),
        metric: v1::Metric::Dot.into(),
        vectors: None,
        keyword: None,
        ..Default::default()
    };
    let made = client.collections().create(request).await.unwrap().into_inner().collection.unwrap();
    assert_eq!(get(&client, "docs").await, made);
    assert_eq!((made.name.as_str(), made.description.as_str(), &made.labels), ("docs", "for people", &labels));
    assert_eq!((made.metric(), made.store.as_str()), (v1::Metric::Dot, "memory"));
    assert_eq!(made.durability(), v1::Durability::None, "data in RAM does not survive a crash, and says so");
    assert!(made.created_at.is_some());
    let english = v1::KeywordIndex { language: v1::Language::English.into(), disabled: false };
    assert_eq!(made.keyword, Some(english));
    let fingerprint = made.fingerprint.unwrap();
    assert_eq!((fingerprint.provider.as_str(), fingerprint.dimension), ("candle", 64));
    assert!(fingerprint.model.contains("tiny-bge"), "{}", fingerprint.model);
    assert_eq!((fingerprint.pooling(), fingerprint.normalized, fingerprint.max_tokens), (v1::Pooling::Cls, true, 512));
    assert_eq!(fingerprint.weights_sha256.len(), 64);

    // The model can be named, and only one that is loaded.
    let models = client.embedder().list_models(v1::ListModelsRequest {}).await.unwrap().into_inner().models;
    let [model] = models.as_slice() else { panic!("one model, not {models:?}") };
    assert!(model.is_default);
    assert_eq!(model.fingerprint.as_ref(), Some(&fingerprint));
    let with_model = |name: &str, model: &str| v1::CollectionsCreateRequest {
        name: name.to_owned(),
        vectors: Some(v1::collections_create_request::Vectors::Model(model.to_owned())),
        ..Default::default()
    };
    let named = client.collections().create(with_model("named", &model.name)).await.unwrap().into_inner();
    assert_eq!(named.collection.unwrap().fingerprint, Some(fingerprint));
    let answer = client.collections().create(with_model("other", "nowhere/nothing")).await;
    expect::not_found("unknown model", answer, "model", "nowhere/nothing");

    // So can the language of the texts, and there may be no index of them at all.
    let with_keyword = |name: &str, keyword| v1::CollectionsCreateRequest {
        name: name.to_owned(),
        keyword: Some(keyword),
        ..Default::default()
    };
    let german = v1::KeywordIndex { language: v1::Language::German.into(), disabled: false };
    client.collections().create(with_keyword("german", german)).await.unwrap();
    assert_eq!(get(&client, "german").await.keyword, Some(german));
    let disabled = v1::KeywordIndex { language: 0, disabled: true };
    client.collections().create(with_keyword("plain", disabled)).await.unwrap();
    assert_eq!(get(&client, "plain").await.keyword, None);
}

#[tokio::test]
async fn names_are_unique_and_can_be_used_again() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    client.add("points", vec![point("a", &[1.0, 0.0])]).await;
    let again = v1::CollectionsCreateRequest {
        name: "points".to_owned(),
        vectors: Some(v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension: 3 })),
        ..Default::default()
    };
    let status = expect::refused_with(
        "same name",
        client.collections().create(again).await,
        Code::AlreadyExists,
        "ALREADY_EXISTS",
    );
    assert!(status.message().contains("points"), "{status:?}");
    assert_eq!(client.count("points").await, 1);

    let delete = || v1::CollectionsDeleteRequest { name: "points".to_owned() };
    client.collections().delete(delete()).await.unwrap();
    expect::not_found("deleted twice", client.collections().delete(delete()).await, "collection", "points");
    client.create_for_vectors("points", 3, v1::Metric::Euclidean).await;
    assert_eq!(client.count("points").await, 0, "a new collection never finds the documents of its predecessor");
    assert_eq!(get(&client, "points").await.fingerprint.unwrap().dimension, 3);
}

#[tokio::test]
async fn an_update_changes_what_it_names_and_nothing_else() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let before = get(&client, "points").await;
    let update = async |description: Option<&str>, labels: Option<&[(&str, &str)]>| {
        let labels = labels.map(|labels| v1::Labels {
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        });
        let description = description.map(str::to_owned);
        let request = v1::CollectionsUpdateRequest { name: "points".to_owned(), description, labels };
        client.collections().update(request).await.unwrap().into_inner().collection.unwrap()
    };
    update(Some("new"), None).await;
    let labelled = update(None, Some(&[("a", "1")])).await;
    assert_eq!((labelled.description.as_str(), labelled.labels.len()), ("new", 1));
    update(None, Some(&[])).await;
    update(Some(""), None).await;
    assert_eq!(get(&client, "points").await, before, "empty removes, and all else is as it was");
}

#[tokio::test]
async fn the_list_is_by_name_and_stats_count() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    let list = async || {
        let answer = client.collections().list(v1::CollectionsListRequest {}).await.unwrap().into_inner();
        answer.collections.into_iter().map(|collection| collection.name).collect::<Vec<_>>()
    };
    assert_eq!(list().await, [""; 0]);
    for name in ["b", "a.c", "a", "B"] {
        client.create_for_vectors(name, 1, v1::Metric::Dot).await;
    }
    assert_eq!(list().await, ["B", "a", "a.c", "b"]);
    client.add("b", vec![point("x", &[1.0]), point("y", &[2.0])]).await;
    for (name, count) in [("a", 0), ("b", 2)] {
        let request = v1::CollectionsStatsRequest { name: name.to_owned() };
        assert_eq!(client.collections().stats(request).await.unwrap().into_inner().document_count, count);
    }
}

#[tokio::test]
async fn a_collection_for_the_client_s_vectors_refuses_texts() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let fingerprint = get(&client, "points").await.fingerprint.unwrap();
    assert_eq!((fingerprint.provider.as_str(), fingerprint.model.as_str(), fingerprint.dimension), ("client", "", 2));

    let documents = vec![point("a", &[1.0, 0.0]), document("b", "a text alone")];
    let request = v1::DocumentsAddRequest { collection: "points".to_owned(), documents, ..Default::default() };
    let answer = client.documents().add(request).await;
    expect::refused_with("a text to write", answer, Code::FailedPrecondition, "CLIENT_VECTORS_ONLY");
    assert_eq!(client.count("points").await, 0, "nothing is half-written");
    let request = v1::SearchRequest {
        query: Some(text_query("a text")),
        search: Some(search_in("points")),
        ..Default::default()
    };
    let answer = client.retrieval().search(request).await;
    expect::refused_with("a text to find", answer, Code::FailedPrecondition, "CLIENT_VECTORS_ONLY");
}

#[tokio::test]
async fn a_server_without_a_model_says_so() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    let request = v1::CollectionsCreateRequest { name: "docs".to_owned(), ..Default::default() };
    let answer = client.collections().create(request).await;
    expect::refused_with("a collection of the model", answer, Code::FailedPrecondition, "NO_EMBEDDING_MODEL");
    let request = v1::EmbedQueryRequest { text: "x".to_owned(), ..Default::default() };
    let answer = client.embedder().embed_query(request).await;
    expect::refused_with("a query", answer, Code::FailedPrecondition, "NO_EMBEDDING_MODEL");
    assert_eq!(client.embedder().list_models(v1::ListModelsRequest {}).await.unwrap().into_inner().models, []);
}
