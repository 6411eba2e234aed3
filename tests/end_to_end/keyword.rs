//! Keyword and hybrid search through the real server, the same on both backends, and after `kill -9`.

use toller_api::v1;
use toller_api::v1::filter::Kind as FilterKind;
use toller_api::v1::retriever::Kind;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::Settings;
use tonic::Code;

use crate::expect;

async fn hits(client: &Client, query: v1::Query, kind: Kind) -> Vec<v1::ScoredDocument> {
    let request =
        v1::RetrieveRequest { retriever: Some(retriever("", kind)), query: Some(query), ..Default::default() };
    client.retrieval().retrieve(request).await.unwrap().into_inner().hits
}

fn keyword(filter: Option<v1::Filter>) -> Kind {
    Kind::Keyword(v1::KeywordRetriever { collection: "docs".to_owned(), k: Some(10), filter, with_vectors: None })
}

fn hybrid(filter: Option<v1::Filter>) -> Kind {
    Kind::Hybrid(v1::HybridRetriever { collection: "docs".to_owned(), k: Some(10), filter, ..Default::default() })
}

fn ids(hits: &[v1::ScoredDocument]) -> Vec<&str> {
    hits.iter().map(|hit| hit.document.as_ref().unwrap().id()).collect()
}

async fn fill(client: &Client) {
    client.create("docs").await;
    let documents = [
        ("short", "Naïve retrievers fetch", "en"),
        ("long", "a text in which one retriever stands among many other words about nothing", "en"),
        ("german", "der Retriever", "de"),
        ("other", "the price of tin", "en"),
        ("japanese", "東京都の天気", "ja"),
        ("empty", "", "en"),
        ("gone", "retriever retriever retriever", "en"),
    ];
    let documents = documents.map(|(id, text, lang)| document(id, text).with("lang", string(lang)));
    client.add("docs", documents.to_vec()).await;
    let selector = v1::documents_delete_request::Selector::Ids(v1::DocumentIds { ids: vec!["gone".to_owned()] });
    let delete = v1::DocumentsDeleteRequest { collection: "docs".to_owned(), selector: Some(selector) };
    client.documents().delete(delete).await.unwrap();
    // Replaced: its old words are forgotten.
    client.add("docs", vec![document("other", "the price of copper").with("lang", string("en"))]).await;
}

/// What the searches of this file give.
async fn answers(client: &Client) -> Vec<Vec<v1::ScoredDocument>> {
    let english = || Some(compare(FilterKind::Eq, "lang", string("en")));
    vec![
        hits(client, text_query("retrievers"), keyword(None)).await,
        hits(client, text_query("retrievers"), keyword(english())).await,
        hits(client, text_query("NAIVE"), keyword(None)).await,
        hits(client, text_query("東京"), keyword(None)).await,
        hits(client, text_query("tin"), keyword(None)).await,
        hits(client, text_query("the of a"), keyword(None)).await,
        hits(client, text_query("retrievers"), hybrid(english())).await,
    ]
}

#[tokio::test]
async fn both_backends_answer_the_same_also_after_kill_9() {
    let memory = Settings::new().start().await;
    let client = memory.client().await;
    fill(&client).await;
    let expected = answers(&client).await;
    let found: Vec<Vec<&str>> = expected.iter().map(|hits| ids(hits)).collect();
    assert_eq!(found[0], ["german", "short", "long"], "shorter texts first");
    assert_eq!(found[1], ["short", "long"]);
    assert_eq!(found[2], ["short"]);
    assert_eq!(found[3], ["japanese"]);
    assert_eq!(found[4], [] as [&str; 0]);
    assert_eq!(found[5], [] as [&str; 0]);
    assert_eq!(found[6].len(), 4, "all of the filter's, since every text has a vector");
    assert!(expected[6][0].sources.iter().any(|source| source.source == "keyword"));

    let server = Settings::new().on_disk().start().await;
    let settings = server.settings.clone();
    let client = server.client().await;
    fill(&client).await;
    assert_same(&answers(&client).await, &expected, "on disk");
    server.kill().await;
    let server = settings.start().await;
    assert_same(&answers(&server.client().await).await, &expected, "after kill -9");
}

fn assert_same(got: &[Vec<v1::ScoredDocument>], expected: &[Vec<v1::ScoredDocument>], when: &str) {
    for (got, expected) in got.iter().zip(expected) {
        assert_eq!(ids(got), ids(expected), "{when}");
        for (got, expected) in got.iter().zip(expected) {
            assert!((got.score - expected.score).abs() < 1e-5, "{when}: {got:?} and {expected:?}");
            assert_eq!((got.relevance, got.metric), (None, expected.metric), "{when}");
        }
    }
}

#[tokio::test]
async fn a_collection_without_the_index_says_so() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    let request = v1::CollectionsCreateRequest {
        name: "docs".to_owned(),
        keyword: Some(v1::KeywordIndex { disabled: true, ..Default::default() }),
        ..Default::default()
    };
    client.collections().create(request).await.unwrap();
    for kind in [keyword(None), hybrid(None)] {
        let request = v1::RetrieveRequest {
            retriever: Some(retriever("", kind)),
            query: Some(text_query("x")),
            ..Default::default()
        };
        let answer = client.retrieval().retrieve(request).await;
        expect::refused_with("no index", answer, Code::FailedPrecondition, "KEYWORD_NOT_INDEXED");
    }
}
