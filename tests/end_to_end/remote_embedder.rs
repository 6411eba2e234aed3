//! A gateway whose texts are embedded by another process.

use std::net::TcpListener;
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio::time::Instant;
use toller_api::v1;
use toller_tests::PATIENCE;
use toller_tests::client::embedder_without_clock;
use toller_tests::collector::Collector;
use toller_tests::request::*;
use toller_tests::server::Settings;
use tonic::{Code, Request};

use crate::expect;

/// The settings of a gateway that asks the embedder at `url`.
pub(crate) fn remote(settings: Settings, url: &str) -> Settings {
    settings
        .unset("embedding.model")
        .unset("embedding.threads")
        .set("embedding.provider", "toller")
        .set("embedding.address", url)
}

#[tokio::test]
async fn vectors_and_fingerprint_are_those_of_the_model_itself() {
    let embedder = Settings::new().start().await;
    let gateway = remote(Settings::new(), &embedder.url()).start().await;
    let (near, far) = (embedder.client().await, gateway.client().await);
    let texts = ["a text", "", "ünï 👩‍👩‍👧", &"long ".repeat(600)];
    let (local, remote) = (near.embed_documents(&texts).await, far.embed_documents(&texts).await);
    assert_eq!(remote.fingerprint, local.fingerprint);
    assert_eq!(remote.usage, local.usage);
    assert!(remote.usage[3].truncated);
    assert_eq!(remote.vectors, local.vectors);
    assert_eq!(far.embed_query("a text").await, near.embed_query("a text").await);
    assert_ne!(far.embed_query("a text").await.vector, remote.vectors.first().cloned(), "roles are kept apart");
    let models = |client: toller_tests::client::Client| async move {
        client.embedder().list_models(v1::ListModelsRequest {}).await.unwrap().into_inner()
    };
    assert_eq!(models(far).await, models(near).await);
}

#[tokio::test]
async fn a_collection_opens_with_the_model_near_or_far() {
    let settings = Settings::new();
    let server = settings.start().await;
    let client = server.client().await;
    client.create("docs").await;
    client.add("docs", (0..20).map(|number| document(&number.to_string(), &format!("text {number}"))).collect()).await;
    let found = client.search(text_query("text 7"), search_in("docs")).await;
    server.stop().await.expect(0);

    let embedder = Settings::new().start().await;
    let gateway = remote(settings.clone(), &embedder.url()).start().await;
    let client = gateway.client().await;
    assert_eq!(client.search(text_query("text 7"), search_in("docs")).await, found);
    client.add("docs", vec![document("far", "text 7, embedded elsewhere")]).await;
    gateway.stop().await.expect(0);

    let server = settings.start().await;
    assert_eq!(server.client().await.count("docs").await, 21);
    assert_eq!(server.client().await.get("docs", &["far"]).await.len(), 1);
}

#[tokio::test]
async fn a_dead_embedder_is_unavailable_within_the_deadline_and_is_found_again() {
    let embedder = Settings::new().start().await;
    let again = embedder.settings.clone().set("server.listen", &embedder.address.to_string());
    let gateway = remote(Settings::new(), &embedder.url()).start().await;
    let client = gateway.client().await;
    client.create("docs").await;
    client.add("docs", vec![document("a", "one")]).await;
    embedder.kill().await;

    let search =
        v1::SearchRequest { query: Some(text_query("one")), search: Some(search_in("docs")), ..Default::default() };
    let started = Instant::now();
    let mut request = Request::new(search);
    request.set_timeout(Duration::from_secs(10));
    let answer = client.retrieval().search(request).await;
    expect::refused_with("a search", answer, Code::Unavailable, "UNAVAILABLE");
    let add = v1::DocumentsAddRequest {
        collection: "docs".to_owned(),
        documents: vec![document("b", "two")],
        ..Default::default()
    };
    expect::refused_with("a write", client.documents().add(add.clone()).await, Code::Unavailable, "UNAVAILABLE");
    assert!(started.elapsed() < Duration::from_secs(10));
    // What asks nothing of the model goes on.
    assert_eq!(client.count("docs").await, 1);
    assert_eq!(client.search(vector_query(&[1.0; 64]), search_in("docs")).await.ids(), ["a"]);

    let _embedder = again.start().await;
    let give_up = Instant::now() + PATIENCE;
    loop {
        match client.documents().add(add.clone()).await {
            Ok(_) => break,
            Err(status) => assert_eq!(status.code(), Code::Unavailable, "{status:?}"),
        }
        assert!(Instant::now() < give_up, "the gateway finds the embedder again");
    }
    assert_eq!(client.find("one", search_in("docs")).await.len(), 2);
}

#[tokio::test]
async fn another_model_behind_the_same_address_is_noticed() {
    let embedder = Settings::new().start().await;
    let again = embedder.settings.clone().set("server.listen", &embedder.address.to_string());
    let gateway = remote(Settings::new(), &embedder.url()).start().await;
    let client = gateway.client().await;
    client.create("docs").await;
    embedder.stop().await.expect(0);
    let _embedder = again.set("embedding.query_instruction", "find: ").start().await;

    let give_up = Instant::now() + PATIENCE;
    loop {
        let status = client.try_search(text_query("one"), search_in("docs")).await.expect_err("vectors of two models");
        if status.code() == Code::FailedPrecondition {
            assert!(status.message().contains("find: ") && status.message().contains("Represent"), "{status:?}");
            break;
        }
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(Instant::now() < give_up);
    }
}

#[tokio::test]
async fn deadlines_and_traces_go_on_to_the_embedder() {
    let collector = Collector::grpc().await;
    let embedder = collector.settings().start().await;
    let settings = collector.settings().set("data.dir", &Settings::new().data_dir().display().to_string());
    let gateway = remote(settings, &embedder.url()).start().await;
    let texts = (0..400).map(|index| format!("{index} {}", "word ".repeat(499))).collect();
    let mut request = Request::new(v1::EmbedDocumentsRequest { texts, ..Default::default() });
    request.set_timeout(Duration::from_millis(50));
    let started = Instant::now();
    let answer = embedder_without_clock(gateway.address).embed_documents(request).await;
    let status = expect::refused("a short deadline", answer);
    // The parts that find others before them are refused as soon as it is clear that they would be late.
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::ResourceExhausted), "{status:?}");
    assert!(status.message().contains("deadline"), "{status:?}");
    assert!(started.elapsed() < Duration::from_secs(15));

    let client = gateway.client().await;
    let query = client.embed_query("one").await;
    let model = query.fingerprint.unwrap().model;
    gateway.stop().await.expect(0);
    embedder.stop().await.expect(0);
    let rpcs = collector.named("toller.v1.Embedder/EmbedQuery");
    let [outer, inner] = rpcs.as_slice() else { panic!("two calls, not {}", rpcs.len()) };
    assert_eq!(inner.trace_id, outer.trace_id);
    let between = collector.named(&format!("embeddings {model}"));
    assert!(between.iter().any(|span| span.span_id == inner.parent_span_id && span.parent_span_id == outer.span_id));
}

#[tokio::test]
async fn a_gateway_waits_for_an_embedder_that_is_still_starting() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let starting = Settings::new().set("server.listen", &address.to_string());
    let waiting = remote(Settings::new(), &format!("http://{address}"));
    let (gateway, _embedder) = tokio::join!(waiting.start(), starting.start());
    gateway.client().await.embed_query("one").await;
}

#[tokio::test]
async fn an_embedder_that_wants_a_key_gets_one() {
    let digest: String = Sha256::digest("the-key").iter().map(|byte| format!("{byte:02x}")).collect();
    let keys = format!("[[auth.keys]]\nname = \"gateway\"\nsha256 = \"{digest}\"\nrole = \"reader\"\n");
    let embedder = Settings::new().file(&keys).start().await;
    let without = remote(Settings::new(), &embedder.url());
    let exit = without.run().await.expect(1);
    assert!(
        exit.stderr.contains(&embedder.url()) && exit.stderr.to_lowercase().contains("unauthenticated"),
        "{}",
        exit.stderr
    );
    let gateway = without.set("embedding.api_key", "the-key").start().await;
    gateway.client().await.embed_query("one").await;
    let log = gateway.stop().await.expect(0).stderr;
    assert!(!log.contains("the-key"), "{log}");
}
