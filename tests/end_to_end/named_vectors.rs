//! Vectors beside the main one, and vectors in fewer bits, over the wire and over restarts.

use std::collections::BTreeMap;

use toller_api::v1;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::Settings;

use crate::expect;

fn space(dimension: u32, metric: v1::Metric) -> v1::VectorSpace {
    v1::VectorSpace { dimension, metric: metric.into() }
}

/// A collection of the server's model, beside whose vectors the client brings two of its own.
fn articles() -> v1::CollectionsCreateRequest {
    v1::CollectionsCreateRequest {
        name: "articles".to_owned(),
        named_vectors: BTreeMap::from([
            ("title".to_owned(), space(3, v1::Metric::Euclidean)),
            ("image".to_owned(), space(1, v1::Metric::Dot)),
        ]),
        ..Default::default()
    }
}

fn by(name: &str) -> v1::VectorStoreRetriever {
    v1::VectorStoreRetriever { vector_name: Some(name.to_owned()), ..search_in("articles") }
}

async fn get(client: &Client) -> v1::Collection {
    let request = v1::CollectionsGetRequest { name: "articles".to_owned() };
    client.collections().get(request).await.unwrap().into_inner().collection.unwrap()
}

async fn search(client: &Client, query: v1::Query, search: v1::VectorStoreRetriever) -> tonic::Result<()> {
    let request = v1::SearchRequest { query: Some(query), search: Some(search), encoding: 0 };
    client.retrieval().search(request).await.map(drop)
}

#[tokio::test]
async fn named_vectors_are_written_searched_and_kept() {
    for settings in [Settings::new(), Settings::new().on_disk()] {
        let server = settings.start().await;
        let settings = server.settings.clone();
        let client = server.client().await;
        let made = client.collections().create(articles()).await.unwrap().into_inner().collection.unwrap();
        assert_eq!(made.named_vectors, articles().named_vectors);
        // The text is embedded beside the vectors that the client brings.
        let documents = vec![
            document("a", "one").named_vector("title", &[0.0, 3.0, 0.0]).named_vector("image", &[2.0]),
            document("b", "two").named_vector("title", &[0.0, 1.0, 0.0]),
            document("c", "three"),
        ];
        client.add("articles", documents).await;
        check(&client, &made, "at first").await;
        server.stop().await.expect(0);
        let server = settings.start().await;
        check(&server.client().await, &made, "after a restart").await;
    }
}

async fn check(client: &Client, made: &v1::Collection, when: &str) {
    assert_eq!(get(client).await, *made, "{when}");
    let hits = client.search(vector_query(&[0.0, 0.0, 0.0]), by("title")).await;
    assert_eq!(hits.ids(), ["b", "a"], "{when}");
    assert_eq!((hits[1].score, hits[1].metric()), (3.0, v1::Metric::Euclidean), "{when}");
    let with_vectors = v1::VectorStoreRetriever { with_vectors: Some(true), ..by("image") };
    let hits = client.search(vector_query(&[1.0]), with_vectors).await;
    assert_eq!(hits.ids(), ["a"], "{when}");
    assert_eq!(elements(hits[0].vector.as_ref().unwrap()), [2.0], "{when}: the vector that was compared");
    let mmr = v1::VectorStoreRetriever { vector_name: Some("title".to_owned()), ..mmr_in("articles", 5, 5, 0.5) };
    assert_eq!(client.search(vector_query(&[0.0, 1.0, 0.0]), mmr).await.len(), 2, "{when}");
    assert_eq!(client.search(text_query("three"), search_in("articles")).await.len(), 3, "{when}");
    let documents = client.get("articles", &["a", "c"]).await;
    let vectors = documents[0].vectors.as_ref().unwrap();
    assert_eq!(elements(&vectors.named["title"]), [0.0, 3.0, 0.0], "{when}");
    assert!(vectors.dense.is_some() && vectors.named.len() == 2, "{when}");
    assert!(documents[1].vectors.as_ref().unwrap().named.is_empty(), "{when}");
}

#[tokio::test]
async fn what_does_not_fit_is_named() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    let create = async |change: fn(&mut v1::CollectionsCreateRequest)| {
        let mut request = articles();
        change(&mut request);
        client.collections().create(request).await
    };
    let wrong_name =
        create(|request| request.named_vectors.extend([("a.b".to_owned(), space(1, v1::Metric::Dot))])).await;
    expect::invalid("a name with a dot", wrong_name, "named_vectors");
    let no_dimension = create(|request| request.named_vectors.get_mut("title").unwrap().dimension = 0).await;
    expect::invalid("no dimension", no_dimension, "named_vectors[\"title\"].dimension");
    let metric = create(|request| request.named_vectors.get_mut("title").unwrap().metric = 9).await;
    expect::invalid("an unknown metric", metric, "named_vectors[\"title\"].metric");
    let kind = create(|request| request.quantization = Some(v1::Quantization::default())).await;
    expect::invalid("a quantisation of no kind", kind, "quantization.kind");
    let int8 = create(|request| {
        let kind = v1::QuantizationKind::Int8.into();
        request.quantization = Some(v1::Quantization { kind, oversampling: None });
    });
    expect::invalid("a quantisation in RAM", int8.await, "quantization");
    client.collections().create(articles()).await.expect("what was refused left nothing behind");

    let add = async |document: v1::Document| {
        let request = v1::DocumentsAddRequest {
            collection: "articles".to_owned(),
            documents: vec![document],
            ..Default::default()
        };
        client.documents().add(request).await
    };
    let short = add(document("a", "").named_vector("title", &[1.0])).await;
    expect::invalid("a wrong dimension", short, "documents[0].vectors.named[\"title\"]");
    let other = add(document("a", "").named_vector("other", &[1.0])).await;
    expect::invalid("an unknown name", other, "documents[0].vectors.named[\"other\"]");
    let nothing = add(v1::Document { vectors: Some(v1::Vectors::default()), ..document("a", "") }).await;
    expect::invalid("no vectors at all", nothing, "documents[0].vectors.dense");

    let answer = async |query, by| search(&client, query, by).await.map(tonic::Response::new);
    expect::invalid("a text", answer(text_query("x"), by("title")).await, "query.text");
    expect::invalid("a short query", answer(vector_query(&[1.0]), by("title")).await, "query.vector");
    expect::invalid("an unknown space", answer(vector_query(&[1.0]), by("other")).await, "search.vector_name");
    expect::invalid("an empty name", answer(vector_query(&[1.0]), by("")).await, "search.vector_name");
    let sigmoid = v1::VectorStoreRetriever { relevance_fn: v1::RelevanceFunction::Sigmoid.into(), ..by("title") };
    expect::invalid("a relevance", answer(vector_query(&[0.0; 3]), sigmoid).await, "search.relevance_fn");
}

#[tokio::test]
async fn quantised_collections_are_searched_with_full_scores() {
    let server = Settings::new().without_model().on_disk().start().await;
    let client = server.client().await;
    for (name, kind) in [("int8", v1::QuantizationKind::Int8), ("binary", v1::QuantizationKind::Binary)] {
        let request = v1::CollectionsCreateRequest {
            name: name.to_owned(),
            metric: v1::Metric::Euclidean.into(),
            vectors: Some(v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension: 2 })),
            quantization: Some(v1::Quantization { kind: kind.into(), oversampling: None }),
            ..Default::default()
        };
        let made = client.collections().create(request).await.unwrap().into_inner().collection.unwrap();
        let quantization = made.quantization.unwrap();
        assert!(quantization.kind() == kind && quantization.oversampling > Some(1.0));
        client.add(name, (0..50).map(|n| point(&format!("{n:02}"), &[n as f32, 0.25])).collect()).await;
        let hits = client
            .search(vector_query(&[0.0, 0.25]), v1::VectorStoreRetriever { k: Some(50), ..search_in(name) })
            .await;
        let scores: Vec<f64> = hits.iter().map(|hit| hit.score).collect();
        assert_eq!(scores, (0..50).map(f64::from).collect::<Vec<_>>(), "{name}");
    }
}
