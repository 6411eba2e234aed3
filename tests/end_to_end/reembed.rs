//! A collection gets another model behind the real server: it is searched meanwhile, and no end of the process loses anything.

use std::time::Duration;

use serde_json::{Value, json};
use toller_api::v1;
use toller_tests::client::Client;
use toller_tests::command::{run, toller};
use toller_tests::request::*;
use toller_tests::scene::in_time;
use toller_tests::server::{Server, Settings};
use toller_tests::{PATIENCE, TINY_MODEL};
use tonic::{Code, Request};

use crate::expect;

/// Enough that it takes a while, in one page.
const DOCUMENTS: usize = 900;

/// A server on disk with a second model, which gives documents other vectors.
fn two_models() -> Settings {
    let second = format!(
        "[[embedding.models]]\nname = \"other\"\nmodel = \"{TINY_MODEL}\"\ndocument_instruction = \"passage: \"\nquery_instruction = \"query: \"\n"
    );
    Settings::new().on_disk().file(&second)
}

fn text(number: usize) -> String {
    format!("{number} {} ", ["a dog", "a duck", "the water", "a boat"][number % 4]).repeat(8 + number % 9)
}

async fn fill(client: &Client, name: &str, documents: usize) {
    for first in (0..documents).step_by(300) {
        let batch = first..documents.min(first + 300);
        client.add(name, batch.map(|number| document(&format!("{number:04}"), &text(number))).collect()).await;
    }
}

async fn create_with(client: &Client, name: &str, model: &str) -> v1::Collection {
    let vectors = Some(v1::collections_create_request::Vectors::Model(model.to_owned()));
    let request = v1::CollectionsCreateRequest { name: name.to_owned(), vectors, ..Default::default() };
    client.collections().create(request).await.unwrap().into_inner().collection.unwrap()
}

async fn collection(client: &Client, name: &str) -> v1::Collection {
    let request = v1::CollectionsGetRequest { name: name.to_owned() };
    client.collections().get(request).await.unwrap().into_inner().collection.unwrap()
}

async fn reembed(client: &Client, name: &str, model: &str) -> v1::Operation {
    let request = v1::CollectionsReembedRequest { name: name.to_owned(), model: Some(model.to_owned()) };
    client.collections().reembed(request).await.unwrap().into_inner().operation.unwrap()
}

async fn get(client: &Client, id: &str) -> v1::Operation {
    let request = v1::OperationsGetRequest { id: id.to_owned() };
    client.operations().get(request).await.unwrap().into_inner().operation.unwrap()
}

async fn wait(client: &Client, id: &str) -> v1::Operation {
    let request = v1::OperationsWaitRequest { id: id.to_owned() };
    client.operations().wait(request).await.unwrap().into_inner().operation.unwrap()
}

/// A collection that is given the other model, after which the process is killed in the middle of that: the settings of the
/// server, and the operation as it was last seen. None where it had succeeded before.
async fn killed_in_the_middle() -> Option<(Settings, v1::Operation)> {
    let settings = two_models();
    let server = settings.start().await;
    let client = server.client().await;
    client.create("docs").await;
    fill(&client, "docs", DOCUMENTS).await;
    let before = client.search(text_query(&text(7)), search_in("docs")).await;

    let started = reembed(&client, "docs", "other").await;
    assert_eq!((started.state(), started.kind.as_str()), (v1::OperationState::Running, "reembed"));
    assert_eq!(started.subject, "docs");
    let again = v1::CollectionsReembedRequest { name: "docs".to_owned(), model: None };
    // The default model is the present one, but that is no answer while another one is on its way.
    let answer = client.collections().reembed(again).await;
    if answer.is_ok() && get(&client, &started.id).await.state() == v1::OperationState::Succeeded {
        return None;
    }
    let status = expect::refused_with("a second one", answer, Code::FailedPrecondition, "REEMBED_RUNNING");
    assert!(status.message().contains(&started.id), "{}", status.message());
    // Reads and writes go on.
    assert_eq!(client.search(text_query(&text(7)), search_in("docs")).await, before);
    client.add("docs", vec![document("0003", "changed meanwhile"), document("zzz", "new meanwhile")]).await;
    let selector = v1::documents_delete_request::Selector::Ids(v1::DocumentIds { ids: vec!["0005".to_owned()] });
    let delete = v1::DocumentsDeleteRequest { collection: "docs".to_owned(), selector: Some(selector) };
    assert_eq!(client.documents().delete(delete).await.unwrap().into_inner().deleted, 1);
    let mut now = started;
    while now.done == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        now = get(&client, &now.id).await;
    }
    assert!(now.total.unwrap() >= now.done);
    server.kill().await;
    if now.state() == v1::OperationState::Succeeded {
        return None;
    }
    assert_eq!(now.state(), v1::OperationState::Running, "{now:?}");
    Some((settings, now))
}

#[tokio::test]
async fn kill_9_in_the_middle_only_delays_the_other_model() {
    let (settings, started) = in_time(killed_in_the_middle).await;
    let server = settings.start().await;
    let client = server.client().await;
    let resumed = get(&client, &started.id).await;
    let (before, after) = (started.done, resumed.done);
    assert!(after >= before, "{} of {before} are done again", before - after);
    let ended = wait(&client, &started.id).await;
    assert_eq!((ended.state(), ended.error_message.as_str()), (v1::OperationState::Succeeded, ""));
    assert_eq!((ended.done, ended.total), (DOCUMENTS as u64, Some(DOCUMENTS as u64)));

    let fresh = create_with(&client, "fresh", "other").await;
    assert_eq!(collection(&client, "docs").await.fingerprint, fresh.fingerprint);
    fill(&client, "fresh", DOCUMENTS).await;
    client.add("fresh", vec![document("0003", "changed meanwhile"), document("zzz", "new meanwhile")]).await;
    let selector = v1::documents_delete_request::Selector::Ids(v1::DocumentIds { ids: vec!["0005".to_owned()] });
    let delete = v1::DocumentsDeleteRequest { collection: "fresh".to_owned(), selector: Some(selector) };
    client.documents().delete(delete).await.unwrap();
    let (docs, fresh) = (client.all("docs").await, client.all("fresh").await);
    assert_eq!(docs.len(), DOCUMENTS);
    for (left, right) in docs.iter().zip(&fresh) {
        assert_eq!((&left.id, &left.page_content), (&right.id, &right.page_content));
        assert_same_vectors(left, right);
    }
    for query in [text(7), "changed meanwhile".to_owned(), "a duck in the water".to_owned()] {
        let found = client.find(&query, search_in("docs")).await;
        assert_eq!(found, client.find(&query, search_in("fresh")).await, "{query}");
    }
    // The operation is kept, and so is the new model, after an orderly stop too.
    let server = server.restart().await;
    let client = server.client().await;
    assert_eq!(get(&client, &started.id).await, ended);
    assert_eq!(client.all("docs").await, docs);
}

/// Other batches round in another way.
fn assert_same_vectors(left: &v1::Document, right: &v1::Document) {
    let elements = |document: &v1::Document| elements(document.vectors.as_ref().unwrap().dense.as_ref().unwrap());
    let (left_vector, right_vector) = (elements(left), elements(right));
    assert_eq!(left_vector.len(), right_vector.len());
    for (l, r) in left_vector.iter().zip(&right_vector) {
        assert!((l - r).abs() < 1e-4, "{:?}: {l} is not {r}", left.id);
    }
}

/// A collection that is given the other model, a stop in the middle of that, and a start without that model: the settings of
/// before, the server, and the operation as it is now. None where it had succeeded before the stop.
async fn stopped_in_the_middle() -> Option<(Settings, Server, v1::Operation)> {
    // Also in memory, whose data is dumped at a stop.
    let settings = two_models().set("store.backend", "memory").set("telemetry.metrics_listen", "127.0.0.1:0");
    let mut server = settings.start().await;
    let metrics = server.metrics().await;
    let client = server.client().await;
    client.create("docs").await;
    fill(&client, "docs", DOCUMENTS).await;
    let before = client.find(&text(7), search_in("docs")).await;
    let started = reembed(&client, "docs", "other").await;
    // Whoever waits does not keep the server from stopping.
    let waiting = tokio::spawn({
        let (client, id) = (client.clone(), started.id.clone());
        async move { wait(&client, &id).await }
    });
    while !waiting.is_finished() && metrics.sum("rpc_server_active_calls", &[]).await < 1.0 {}
    server.stop().await.expect(0);
    assert!(waiting.await.unwrap().id == started.id);

    let server = settings.clone().file("").start().await;
    let client = server.client().await;
    let failed = get(&client, &started.id).await;
    if failed.state() == v1::OperationState::Succeeded {
        return None;
    }
    assert_eq!((failed.state(), failed.error_code), (v1::OperationState::Failed, Code::FailedPrecondition as i32));
    assert!(failed.error_message.contains("passage: ") && failed.ended_at.is_some(), "{}", failed.error_message);
    assert_eq!(client.find(&text(7), search_in("docs")).await, before);
    client.add("docs", vec![document("new", "can be written")]).await;
    Some((settings, server, failed))
}

#[tokio::test]
async fn an_operation_goes_on_after_an_orderly_stop_and_fails_without_its_model() {
    let (settings, server, failed) = in_time(stopped_in_the_middle).await;
    server.stop().await.expect(0);

    let server = settings.start().await;
    let client = server.client().await;
    let started = reembed(&client, "docs", "other").await;
    let request = v1::OperationsCancelRequest { id: started.id.clone() };
    client.operations().cancel(request).await.unwrap();
    let ended = wait(&client, &started.id).await;
    assert!(matches!(ended.state(), v1::OperationState::Cancelled | v1::OperationState::Succeeded), "{ended:?}");
    let listed = client.operations().list(v1::OperationsListRequest {}).await.unwrap().into_inner().operations;
    assert_eq!(listed.iter().map(|operation| &operation.id).collect::<Vec<_>>(), [&ended.id, &failed.id]);
}

#[tokio::test]
async fn what_cannot_be_embedded_anew_is_refused() {
    let server = two_models().start().await;
    let client = server.client().await;
    client.create("docs").await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let call = async |name: &str, model: Option<&str>| {
        let request = v1::CollectionsReembedRequest { name: name.to_owned(), model: model.map(str::to_owned) };
        client.collections().reembed(request).await
    };
    expect::refused_with("client vectors", call("points", None).await, Code::FailedPrecondition, "CLIENT_VECTORS_ONLY");
    expect::refused_with("no collection", call("none", None).await, Code::NotFound, "NOT_FOUND");
    expect::refused_with("no model", call("docs", Some("third")).await, Code::NotFound, "NOT_FOUND");
    expect::refused_with("a generation", call("docs@v2", None).await, Code::InvalidArgument, "INVALID_ARGUMENT");
    let nothing = call("docs", None).await.unwrap().into_inner().operation.unwrap();
    assert_eq!((nothing.state(), nothing.done, nothing.total), (v1::OperationState::Succeeded, 0, Some(0)));
    let missing = client.operations().get(v1::OperationsGetRequest { id: "none".to_owned() }).await;
    expect::refused_with("no operation", missing, Code::NotFound, "NOT_FOUND");
    // A wait that is too short says how far it is.
    let mut request = Request::new(v1::OperationsWaitRequest { id: nothing.id.clone() });
    request.set_timeout(PATIENCE);
    let waited = client.operations().wait(request).await.unwrap().into_inner().operation.unwrap();
    assert_eq!(waited, nothing);
}

#[tokio::test]
async fn the_command_line_starts_waits_and_tells() {
    let server = two_models().start().await;
    let client = server.client().await;
    client.create("docs").await;
    fill(&client, "docs", 100).await;
    let command = async |arguments: &[&str]| run(toller().args(arguments).env("TOLLER_SERVER", server.url())).await;
    let exit = command(&["collections", "reembed", "docs", "--model", "other", "--wait", "--json"]).await.expect(0);
    let ended: Value = serde_json::from_str(&exit.stdout).unwrap();
    assert_eq!((&ended["state"], &ended["done"]), (&json!("succeeded"), &json!(100)), "{ended}");
    let id = ended["id"].as_str().unwrap();
    let exit = command(&["operations", "list", "--json"]).await.expect(0);
    let listed: Value = serde_json::from_str(&exit.stdout).unwrap();
    assert_eq!(listed["operations"], json!([ended]));
    let exit = command(&["operations", "list"]).await.expect(0);
    assert!(exit.stdout.contains(id) && exit.stdout.contains("100 of 100"), "{}", exit.stdout);
    let exit = command(&["operations", "get", id]).await.expect(0);
    assert!(exit.stdout.contains("succeeded") && exit.stdout.contains("docs"), "{}", exit.stdout);
    let exit = command(&["operations", "wait", id]).await.expect(0);
    assert!(exit.stderr.contains("reembed of \"docs\" succeeded: 100 documents"), "{}", exit.stderr);
    let exit = command(&["operations", "cancel", id]).await.expect(0);
    assert!(exit.stderr.contains("succeeded"), "{}", exit.stderr);
    let exit = command(&["collections", "reembed", "docs", "--model", "other"]).await.expect(0);
    assert!(exit.stderr.contains("nothing to do"), "{}", exit.stderr);
    let exit = command(&["operations", "get", "none"]).await.expect(1);
    assert!(exit.stderr.contains("operation \"none\" does not exist"), "{}", exit.stderr);
}
