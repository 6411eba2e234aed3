//! Data that an earlier version of Toller left opens with all that was in it. `tests/fixtures/formats` has what each version of
//! a format looked like: three files ingested with the tiny model, an empty collection, a stored retriever, and for the edge
//! store `kill -9`, so that some of it is in the log alone.

use std::fs;
use std::process::Command;

use toller_api::v1;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::Settings;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/formats");

/// The three files' chunks are there, and found by vector, by keyword and through the stored retriever.
async fn all_is_there(client: &Client) {
    assert_eq!(client.all("docs").await.ids(), ["docs/one.md#0", "docs/three.txt#0", "docs/two.md#0"]);
    assert_eq!(client.count("notes").await, 0);
    let document = client.get("docs", &["docs/one.md#0"]).await.remove(0);
    assert_eq!(document.page_content, "# One\n\nThe retriever fetches a naive text.");
    assert_eq!(document.metadata["chunk"], int(0));
    assert_eq!(document.metadata["source"], string("docs/one.md"));
    // The vectors are those of the model: the fingerprint is the same, and a text is nearest to itself.
    let own = client.embed_documents(&[&document.page_content]).await.vectors.remove(0);
    let hits = client.search(vector_query(&elements(&own)), search_in("docs")).await;
    assert_eq!(hits[0].document.as_ref().unwrap().id_text(), "docs/one.md#0");
    assert!((hits[0].score - 1.0).abs() < 1e-5, "{}", hits[0].score);
    assert_eq!(hits.len(), 3);
    let keyword = v1::KeywordRetriever { collection: "docs".to_owned(), ..Default::default() };
    for (query, found, retriever) in [
        ("prices", vec!["docs/two.md#0"], retriever("", v1::retriever::Kind::Keyword(keyword))),
        ("naive", vec!["docs/three.txt#0", "docs/two.md#0"], reference("", "best")),
    ] {
        let request =
            v1::RetrieveRequest { query: Some(text_query(query)), retriever: Some(retriever), ..Default::default() };
        let hits = client.retrieval().retrieve(request).await.unwrap().into_inner().hits;
        assert_eq!(hits.ids(), found, "{query}");
    }
    // And it can be written to.
    client.add("docs", vec![toller_tests::request::document("new", "a new text about prices")]).await;
    assert_eq!(client.count("docs").await, 4);
}

#[tokio::test]
async fn the_edge_store_opens_its_first_format() {
    let settings = Settings::new().on_disk();
    fs::create_dir_all(settings.data_dir()).unwrap();
    let archive = format!("{FIXTURES}/edge-1.tar.gz");
    let unpacked = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(settings.data_dir()).status().unwrap();
    assert!(unpacked.success());
    all_is_there(&settings.start().await.client().await).await;
}

#[tokio::test]
async fn the_memory_store_loads_its_first_format() {
    let settings = Settings::new();
    fs::create_dir_all(settings.data_dir()).unwrap();
    fs::copy(format!("{FIXTURES}/memory-1.dump"), settings.dump_file()).unwrap();
    all_is_there(&settings.start().await.client().await).await;
}
