//! The Qdrant backend behind real servers: gateways share everything and keep nothing, so that any of them may go at any time.

use toller_api::v1;
use toller_api::v1::filter::Kind as FilterKind;
use toller_api::v1::retriever::Kind;
use toller_test_qdrant::{TestQdrant, TestQdrantConfig};
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::Settings;

async fn keyword(client: &Client, text: &str) -> Vec<v1::ScoredDocument> {
    let kind = Kind::Keyword(v1::KeywordRetriever { collection: "docs".to_owned(), k: Some(10), ..Default::default() });
    let request = v1::RetrieveRequest {
        retriever: Some(retriever("", kind)),
        query: Some(text_query(text)),
        ..Default::default()
    };
    client.retrieval().retrieve(request).await.unwrap().into_inner().hits
}

/// Everything that a caller can see.
async fn everything(
    client: &Client,
) -> (Vec<v1::Collection>, Vec<v1::StoredRetriever>, Vec<v1::Document>, Vec<v1::ScoredDocument>, Vec<v1::ScoredDocument>)
{
    (
        client.collections().list(v1::CollectionsListRequest {}).await.unwrap().into_inner().collections,
        client.retrievers().list(v1::RetrieversListRequest {}).await.unwrap().into_inner().retrievers,
        client.all("docs").await,
        client.search(text_query("dogs"), search_in("docs")).await,
        keyword(client, "smallest dog").await,
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn gateways_share_everything_and_any_of_them_may_go() {
    let qdrant = TestQdrant::start().await.unwrap();
    let settings = Settings::new().on_qdrant(&qdrant.url());
    let (one, other) = (settings.start().await, settings.start().await);
    let (first, second) = (one.client().await, other.client().await);
    first.create("docs").await;
    let text = |id: &str, text: &str, kind: &str| document(id, text).with("kind", string(kind));
    first.add("docs", vec![text("x", "the smallest dog", "animal"), text("y", "a price of tin", "metal")]).await;
    second.add("docs", vec![text("z", "another dog", "animal").with("big", int((1 << 53) + 1))]).await;
    let put = v1::RetrieversPutRequest {
        retriever: Some(vector_store("best", mmr_in("docs", 2, 9, 0.25))),
        expected_version: None,
    };
    second.retrievers().put(put).await.unwrap();

    let before = everything(&first).await;
    assert_eq!(everything(&second).await, before);
    assert_eq!(before.0[0].durability(), v1::Durability::Process);
    assert_eq!(before.1.len(), 1);
    assert_eq!(before.2.ids(), ["x", "y", "z"]);
    assert_eq!(before.3.len(), 3);
    assert_eq!(before.4.ids(), ["x", "z"]);
    let animals = || Some(compare(FilterKind::Eq, "kind", string("animal")));
    assert_eq!(second.count_matching("docs", animals()).await, 2);

    one.kill().await;
    assert_eq!(everything(&second).await, before, "the other goes on");
    second.add("docs", vec![text("x", "replaced", "animal"), text("w", "a new dog", "animal")]).await;
    assert_eq!(second.count_matching("docs", animals()).await, 3);
    let after = everything(&second).await;
    assert_eq!(after.4.ids(), ["w", "z"]);

    let again = settings.start().await;
    assert_eq!(everything(&again.client().await).await, after);
    again.stop().await.expect(0);
    other.stop().await.expect(0);
    assert_eq!(everything(&settings.start().await.client().await).await, after, "after all were stopped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_in_the_midst_of_writes_leaves_whole_writes() {
    let qdrant = TestQdrant::start().await.unwrap();
    let settings = Settings::new().without_model().on_qdrant(&qdrant.url()).set("store.qdrant.timeout_ms", "4000");
    let (one, other) = (settings.start().await, settings.start().await);
    let (writer, reader) = (one.client().await, other.client().await);
    writer.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let (sender, mut acknowledged) = tokio::sync::watch::channel(0_u64);
    let writing = tokio::spawn(async move {
        loop {
            let round = *sender.borrow();
            let documents = (0..20).map(|n| point(&format!("{round:04}-{n}"), &[1.0, n as f32])).collect();
            let add = v1::DocumentsAddRequest { collection: "points".to_owned(), documents, ..Default::default() };
            if writer.documents().add(add).await.is_err() {
                return;
            }
            sender.send_modify(|rounds| *rounds += 1);
        }
    });
    acknowledged.wait_for(|rounds| *rounds >= 10).await.unwrap();
    one.kill().await;
    writing.await.unwrap();
    let rounds = *acknowledged.borrow();
    let found = reader.count("points").await;
    assert!(found == rounds * 20 || found == (rounds + 1) * 20, "{found} documents of {rounds} acknowledged calls");
    // The turn of the one that is gone comes to an end.
    reader.add("points", vec![point("later", &[1.0, 0.0])]).await;
    assert_eq!(reader.count("points").await, found + 1);
    assert_eq!(reader.all("points").await.len() as u64, found + 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_qdrant_says_what_is_wrong() {
    let nobody = "http://127.0.0.1:9";
    let exit = Settings::new().without_model().on_qdrant(nobody).run().await;
    assert_ne!(exit.code, Some(0));
    assert!(exit.stderr.contains(nobody) && exit.stderr.contains("store.qdrant"), "{}", exit.stderr);

    let keys = TestQdrantConfig { api_keys: vec!["sesame".to_owned()], ..TestQdrantConfig::default() };
    let qdrant = TestQdrant::start_with(keys).await.unwrap();
    let settings = Settings::new().without_model().on_qdrant(&qdrant.url());
    let exit = settings.clone().variable("TOLLER_STORE_QDRANT_API_KEY", "wrong-word").run().await;
    assert_ne!(exit.code, Some(0));
    assert!(exit.stderr.contains("key") && !exit.stderr.contains("wrong-word"), "{}", exit.stderr);
    let server = settings.variable("TOLLER_STORE_QDRANT_API_KEY", "sesame").start().await;
    server.client().await.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    server.stop().await.expect(0);
}
