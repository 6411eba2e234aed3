//! The edge backend behind the real server: what was acknowledged is there after any end, and a data folder has one backend.

use std::fs;

use toller_api::v1;
use toller_api::v1::filter::Kind as FilterKind;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::Settings;

async fn collections(client: &Client) -> Vec<v1::Collection> {
    client.collections().list(v1::CollectionsListRequest {}).await.unwrap().into_inner().collections
}

async fn retrievers(client: &Client) -> Vec<v1::StoredRetriever> {
    client.retrievers().list(v1::RetrieversListRequest {}).await.unwrap().into_inner().retrievers
}

/// Everything that a caller can see.
async fn everything(
    client: &Client,
) -> (Vec<v1::Collection>, Vec<v1::StoredRetriever>, Vec<v1::Document>, Vec<v1::Document>, Vec<v1::ScoredDocument>) {
    (
        collections(client).await,
        retrievers(client).await,
        client.all("docs").await,
        client.all("points").await,
        client.search(text_query("dogs"), search_in("docs")).await,
    )
}

#[tokio::test]
async fn everything_acknowledged_is_there_after_kill_9_and_after_an_orderly_stop() {
    let server = Settings::new().on_disk().start().await;
    let settings = server.settings.clone();
    let client = server.client().await;
    client.create("docs").await;
    client.create_for_vectors("points", 2, v1::Metric::Euclidean).await;
    client.create_for_vectors("dropped", 2, v1::Metric::Dot).await;
    let typed = point("typed", &[-0.0, f32::MIN_POSITIVE])
        .with("null", null())
        .with("int", int((1 << 53) + 1))
        .with("double", double(1.0))
        .with("text", string("\u{0}\n\"👩‍👩‍👧"))
        .with("list", list([null(), list([]), map([("k", int(i64::MIN))])]));
    client.add("points", vec![point("b", &[1.0, 0.0]), point("a", &[0.0, 1.0]), typed]).await;
    client.add("docs", vec![document("x", "the smallest dog"), document("y", ""), document("gone", "")]).await;
    let selector = v1::documents_delete_request::Selector::Ids(v1::DocumentIds { ids: vec!["gone".to_owned()] });
    let delete = v1::DocumentsDeleteRequest { collection: "docs".to_owned(), selector: Some(selector) };
    client.documents().delete(delete).await.unwrap();
    let drop = v1::CollectionsDeleteRequest { name: "dropped".to_owned() };
    client.collections().delete(drop).await.unwrap();
    let put = v1::RetrieversPutRequest {
        retriever: Some(vector_store("best", mmr_in("points", 2, 9, 0.25))),
        expected_version: None,
    };
    client.retrievers().put(put).await.unwrap();
    let before = everything(&client).await;
    assert_eq!(before.0.len(), 2);
    let durabilities: Vec<v1::Durability> = before.0.iter().map(v1::Collection::durability).collect();
    assert_eq!(durabilities, [v1::Durability::Fsync; 2]);
    assert_eq!(before.2.ids(), ["x", "y"]);
    assert_eq!(before.3.ids(), ["a", "b", "typed"]);

    server.kill().await;
    let server = settings.start().await;
    assert_eq!(everything(&server.client().await).await, before, "after kill -9");
    let server = server.restart().await;
    let client = server.client().await;
    assert_eq!(everything(&client).await, before, "after an orderly stop");
    client.add("docs", vec![document("new", "can be written")]).await;
    assert_eq!(client.count("docs").await, 3);
    assert!(!settings.dump_file().exists());
}

#[tokio::test]
async fn a_kill_in_the_midst_of_writes_loses_none_that_was_acknowledged() {
    let server = Settings::new().without_model().on_disk().set("store.durability", "process").start().await;
    let settings = server.settings.clone();
    let client = server.client().await;
    client.create_for_vectors("points", 4, v1::Metric::Cosine).await;
    assert_eq!(collections(&client).await[0].durability(), v1::Durability::Process);
    let (sender, mut acknowledged) = tokio::sync::watch::channel(0_usize);
    let writer = tokio::spawn(async move {
        loop {
            let round = *sender.borrow();
            let of_round = |n: usize| point(&format!("{round:04}-{n}"), &[1.0, round as f32, n as f32, 0.0]);
            let documents = (0..20).map(|n| of_round(n).with("even", boolean(n % 2 == 0))).collect();
            let add = v1::DocumentsAddRequest { collection: "points".to_owned(), documents, ..Default::default() };
            if client.documents().add(add).await.is_err() {
                return;
            }
            sender.send_modify(|rounds| *rounds += 1);
        }
    });
    acknowledged.wait_for(|rounds| *rounds >= 30).await.unwrap();
    server.kill().await;
    writer.await.unwrap();
    let rounds = *acknowledged.borrow() as u64;

    let server = settings.start().await;
    let client = server.client().await;
    let found = client.count("points").await;
    // The write that was under way is there as a whole, or not at all.
    assert!(found == rounds * 20 || found == (rounds + 1) * 20, "{found} documents of {rounds} acknowledged calls");
    let even = compare(FilterKind::Eq, "even", boolean(true));
    assert_eq!(client.count_matching("points", Some(even)).await, found / 2);
}

#[tokio::test]
async fn a_data_folder_has_one_backend() {
    let in_memory = Settings::new().without_model();
    let server = in_memory.start().await;
    server.client().await.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    server.stop().await.expect(0);
    let dump = fs::read(in_memory.dump_file()).unwrap();
    let exit = in_memory.clone().on_disk().run().await.expect(2);
    for part in ["store.backend", "memory.dump", "store.backend = \"memory\""] {
        assert!(exit.stderr.contains(part), "{part} is named: {}", exit.stderr);
    }
    assert_eq!(fs::read(in_memory.dump_file()).unwrap(), dump, "it is left as it was");
    assert!(!in_memory.edge_folder().exists());

    let on_disk = Settings::new().without_model().on_disk();
    on_disk.start().await.stop().await.expect(0);
    let exit = on_disk.clone().set("store.backend", "memory").run().await.expect(2);
    assert!(exit.stderr.contains("store.backend = \"edge\""), "{}", exit.stderr);
    on_disk.start().await.stop().await.expect(0);
}
