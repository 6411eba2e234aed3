//! gRPC as others expect it: health, reflection, deadlines, limits, compression, cancelled calls.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use tokio_stream::StreamExt;
use toller_api::v1;
use toller_tests::PATIENCE;
use toller_tests::client::{Client, embedder_without_clock};
use toller_tests::request::*;
use toller_tests::scene::in_time;
use toller_tests::server::Settings;
use tonic::codec::CompressionEncoding;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_reflection::pb::{v1 as reflection, v1alpha};
use tonic_types::StatusExt;

use crate::expect;
use crate::lifecycle::HeldCall;

/// What is built, as the user guide says it.
const SERVICES: [(&str, &[&str]); 8] = [
    ("toller.v1.Backups", &["Restore", "Save"]),
    ("toller.v1.Collections", &["Create", "Delete", "Get", "List", "Reembed", "Stats", "Update"]),
    ("toller.v1.DocumentStores", &["Delete", "Get", "List", "Put"]),
    ("toller.v1.Documents", &["Add", "Count", "Delete", "Get", "Index", "List"]),
    ("toller.v1.Embedder", &["EmbedDocuments", "EmbedQuery", "EmbedStream", "ListModels", "Rerank"]),
    ("toller.v1.Operations", &["Cancel", "Get", "List", "Wait"]),
    ("toller.v1.Retrieval", &["BatchRetrieve", "Retrieve", "Search"]),
    ("toller.v1.Retrievers", &["Delete", "Get", "List", "Put", "Validate"]),
];

#[tokio::test]
async fn health_answers_for_the_server_and_for_each_service() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    let check = async |service: &str| {
        let request = HealthCheckRequest { service: service.to_owned() };
        client.health().check(request).await.map(|answer| answer.into_inner().status())
    };
    for service in [
        "",
        "toller.v1.Backups",
        "toller.v1.Collections",
        "toller.v1.DocumentStores",
        "toller.v1.Documents",
        "toller.v1.Embedder",
        "toller.v1.Operations",
        "toller.v1.Retrieval",
        "toller.v1.Retrievers",
    ] {
        assert_eq!(check(service).await.unwrap(), ServingStatus::Serving, "{service:?}");
    }
    assert_eq!(check("nobody").await.unwrap_err().code(), Code::NotFound);
}

/// Services and their methods, from the files that a reflection service gives.
fn services_of(files: impl IntoIterator<Item = Vec<u8>>) -> BTreeMap<String, Vec<String>> {
    let mut services = BTreeMap::new();
    for file in files {
        let file = FileDescriptorProto::decode(file.as_slice()).unwrap();
        for service in &file.service {
            let mut methods: Vec<String> = service.method.iter().map(|method| method.name().to_owned()).collect();
            methods.sort();
            services.insert(format!("{}.{}", file.package(), service.name()), methods);
        }
    }
    services
}

/// Asks one version of the reflection service for its services, and for the file of each of Toller's.
macro_rules! reflect {
    ($version:ident, $client:expr) => {{
        use $version::server_reflection_request::MessageRequest;
        use $version::server_reflection_response::MessageResponse;
        let mut client = $version::server_reflection_client::ServerReflectionClient::new($client.service());
        let ask = |message| $version::ServerReflectionRequest { host: String::new(), message_request: Some(message) };
        let list = tokio_stream::once(ask(MessageRequest::ListServices(String::new())));
        let answer = client.server_reflection_info(list).await.unwrap().into_inner().next().await.unwrap().unwrap();
        let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else { panic!("{answer:?}") };
        let mut names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();
        names.sort();
        let mut files = Vec::new();
        for name in names.iter().filter(|name| name.starts_with("toller")) {
            let request = tokio_stream::once(ask(MessageRequest::FileContainingSymbol(name.clone())));
            let answer =
                client.server_reflection_info(request).await.unwrap().into_inner().next().await.unwrap().unwrap();
            let Some(MessageResponse::FileDescriptorResponse(file)) = answer.message_response else {
                panic!("{answer:?}")
            };
            files.extend(file.file_descriptor_proto);
        }
        (names, services_of(files))
    }};
}

#[tokio::test]
async fn reflection_shows_what_is_built_and_nothing_else() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    let built: BTreeMap<String, Vec<String>> = SERVICES
        .iter()
        .map(|(service, methods)| ((*service).to_owned(), methods.iter().map(|method| (*method).to_owned()).collect()))
        .collect();
    let (names, services) = reflect!(reflection, client);
    let (names_alpha, services_alpha) = reflect!(v1alpha, client);
    for (names, services) in [(names, services), (names_alpha, services_alpha)] {
        let ours: Vec<&String> = names.iter().filter(|name| name.starts_with("toller")).collect();
        assert_eq!(ours, built.keys().collect::<Vec<_>>());
        assert!(names.contains(&"grpc.health.v1.Health".to_owned()), "{names:?}");
        assert_eq!(services, built);
    }
    // The client's own copy of the contract agrees, so that no method is left untested.
    let descriptors = FileDescriptorSet::decode(toller_api::DESCRIPTORS).unwrap();
    let ours = descriptors.file.iter().filter(|file| file.package() == "toller.v1").map(Message::encode_to_vec);
    assert_eq!(services_of(ours), built);
}

#[tokio::test]
async fn what_is_not_there_is_not_implemented() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    let mut grpc = tonic::client::Grpc::new(client.service());
    for path in ["/toller.v1.Documents/Method", "/nobody.Service/Method"] {
        let codec = tonic_prost::ProstCodec::<v1::ListModelsRequest, v1::ListModelsResponse>::default();
        grpc.ready().await.unwrap();
        let request = Request::new(v1::ListModelsRequest {});
        let answer = grpc.unary(request, path.parse().unwrap(), codec).await;
        assert_eq!(answer.unwrap_err().code(), Code::Unimplemented, "{path}");
    }
}

/// A request that takes the model well over a second.
fn long_request() -> v1::EmbedDocumentsRequest {
    // Each of its own: the same text would be computed once.
    let texts = (0..400).map(|index| format!("{index} {}", "word ".repeat(499))).collect();
    v1::EmbedDocumentsRequest { texts, ..Default::default() }
}

/// The same, in a time that is enough on every machine.
fn long_request_with_time() -> Request<v1::EmbedDocumentsRequest> {
    let mut request = Request::new(long_request());
    request.set_timeout(Duration::from_secs(300));
    request
}

fn with_timeout<T>(message: T, timeout: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("grpc-timeout", timeout.parse().unwrap());
    request
}

#[tokio::test]
async fn a_deadline_that_passes_is_answered_as_such_and_at_once() {
    let mut server = Settings::new().set("telemetry.metrics_listen", "127.0.0.1:0").start().await;
    let metrics = server.metrics().await;
    let before = metrics.sum("toller_embedding_batch_texts_sum", &[]).await;
    // A client without a clock of its own, so that the answer is the server's.
    let mut client = embedder_without_clock(server.address);
    for timeout in ["5m", "5000u", "1n"] {
        let started = Instant::now();
        let answer = client.embed_documents(with_timeout(long_request(), timeout)).await;
        expect::refused_with(timeout, answer, Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
        assert!(started.elapsed() < Duration::from_secs(15), "{timeout} took {:?}", started.elapsed());
    }
    let computed = metrics.sum("toller_embedding_batch_texts_sum", &[]).await - before;
    assert!(computed < 400.0, "three answers waited for {computed} of 1200 texts");
    // Enough time is enough.
    let request = v1::EmbedDocumentsRequest { texts: vec!["short".to_owned()], ..Default::default() };
    assert_eq!(client.embed_documents(with_timeout(request, "30S")).await.unwrap().into_inner().vectors.len(), 1);
}

#[tokio::test]
async fn the_server_gives_calls_a_deadline_where_they_have_none_or_too_late_a_one() {
    let impatient = Settings::new().set("limits.default_deadline_ms", "5").set("limits.max_deadline_ms", "10");
    let server = impatient.start().await;
    let mut client = embedder_without_clock(server.address);
    let answer = client.embed_documents(long_request()).await;
    expect::refused_with("no deadline", answer, Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
    let answer = client.embed_documents(with_timeout(long_request(), "99H")).await;
    expect::refused_with("a late deadline", answer, Code::DeadlineExceeded, "DEADLINE_EXCEEDED");
}

#[tokio::test]
async fn a_malformed_timeout_is_refused() {
    let server = Settings::new().start().await;
    let mut client = embedder_without_clock(server.address);
    for timeout in ["5", "m", "5 m", "-5m", "123456789S", "5x", "1.5S"] {
        let request = v1::EmbedDocumentsRequest { texts: vec!["short".to_owned()], ..Default::default() };
        let status = expect::refused(timeout, client.embed_documents(with_timeout(request, timeout)).await);
        assert_eq!(status.code(), Code::InvalidArgument, "{timeout}: {status:?}");
        assert!(status.message().contains("grpc-timeout"), "{timeout}: {status:?}");
    }
}

/// A queue that one request fills; none where that was done before another one came, or before a query was answered.
async fn another_request_and_a_query_at_a_full_queue() -> Option<()> {
    let mut server = Settings::new()
        .set("embedding.queue_tokens", "1024")
        .set("telemetry.metrics_listen", "127.0.0.1:0")
        .start()
        .await;
    let metrics = server.metrics().await;
    let client = server.client().await;
    // One request may be larger than the queue when nothing waits; then there is room for no other.
    let mut embedder = client.embedder();
    let first = tokio::spawn(async move { embedder.embed_documents(long_request_with_time()).await });
    while metrics.sum("toller_embedding_queue_tokens", &[]).await <= 1024.0 {
        if first.is_finished() {
            return None;
        }
    }
    let answer = client.embedder().embed_documents(long_request_with_time()).await;
    if answer.is_ok() {
        return None;
    }
    let status = expect::refused_with("a second one", answer, Code::ResourceExhausted, "RESOURCE_EXHAUSTED");
    let delay = status.get_details_retry_info().and_then(|info| info.retry_delay).expect("RetryInfo");
    assert!(delay > Duration::ZERO && delay <= Duration::from_secs(60), "{delay:?}");
    // Queries have a share of their own, and pass the waiting documents.
    client.embed_query("a query").await;
    let was_in_time = !first.is_finished();
    assert_eq!(first.await.unwrap().unwrap().into_inner().vectors.len(), 400);
    was_in_time.then_some(())
}

#[tokio::test]
async fn a_full_queue_says_when_to_come_back() {
    in_time(another_request_and_a_query_at_a_full_queue).await;
}

#[tokio::test]
async fn more_calls_than_allowed_are_refused_at_once() {
    let one_at_a_time =
        Settings::new().set("limits.max_concurrent_requests", "1").set("telemetry.metrics_listen", "127.0.0.1:0");
    let mut held = HeldCall::servers(one_at_a_time).await;
    let metrics = held.gateway.metrics().await;
    let client = held.client.clone();
    let first = held.start();
    metrics.until("rpc_server_active_calls", &[], |active| active >= 1.0).await;
    let answer = client.collections().list(v1::CollectionsListRequest {}).await;
    let status = expect::refused_with("a second one", answer, Code::ResourceExhausted, "RESOURCE_EXHAUSTED");
    assert!(status.get_details_retry_info().is_some(), "{status:?}");
    // A busy server is alive.
    let health = client.health().check(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(health.status(), ServingStatus::Serving);
    held.embedder.signal("CONT");
    first.await.unwrap().unwrap();
    // The place of a call is free a moment after its answer.
    let give_up = Instant::now() + PATIENCE;
    while let Err(status) = client.collections().list(v1::CollectionsListRequest {}).await {
        assert!(status.code() == Code::ResourceExhausted && Instant::now() < give_up, "{status:?}");
    }
    assert!(metrics.sum("toller_server_refused_calls_total", &[]).await >= 1.0);
}

/// Texts whose caller goes, few of which are embedded; none where many were, as they are before it goes when that comes late.
async fn few_texts_embedded_for_nobody() -> Option<()> {
    let mut server = Settings::new().set("telemetry.metrics_listen", "127.0.0.1:0").start().await;
    let metrics = server.metrics().await;
    let client = server.client().await;
    let before = metrics.sum("toller_embedding_batch_texts_sum", &[]).await;

    let mut embedder = client.embedder();
    let running = tokio::spawn(async move { embedder.embed_documents(long_request_with_time()).await });
    while metrics.sum("toller_embedding_queue_tokens", &[]).await == 0.0 {
        if running.is_finished() {
            return None;
        }
    }
    running.abort();
    if running.await.is_ok() {
        return None;
    }
    metrics.until("toller_embedding_queue_tokens", &[], |tokens| tokens == 0.0).await;
    metrics.until("rpc_server_active_calls", &[], |active| active == 0.0).await;

    client.embed_query("the next one").await;
    let computed = metrics.sum("toller_embedding_batch_texts_sum", &[]).await - before;
    (computed < 200.0).then_some(())
}

#[tokio::test]
async fn work_that_nobody_waits_for_is_dropped() {
    in_time(few_texts_embedded_for_nobody).await;
}

#[tokio::test]
async fn messages_travel_compressed_where_both_sides_want_it() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let text = "a text that compresses well ".repeat(200);
    for (encoding, name) in [(CompressionEncoding::Gzip, "gzip"), (CompressionEncoding::Zstd, "zstd")] {
        let mut documents = client.documents().send_compressed(encoding).accept_compressed(encoding);
        let document = document(name, &text).vector(&[1.0, 0.0]);
        let add = v1::DocumentsAddRequest {
            collection: "points".to_owned(),
            documents: vec![document.clone()],
            ..Default::default()
        };
        documents.add(add).await.unwrap();
        let get = v1::DocumentsGetRequest {
            collection: "points".to_owned(),
            ids: vec![name.to_owned()],
            with_vectors: Some(true),
            ..Default::default()
        };
        let answer = documents.get(get.clone()).await.unwrap();
        assert_eq!(answer.metadata().get("grpc-encoding").map(|value| value.to_str().unwrap()), Some(name));
        assert_eq!(answer.into_inner().documents, [document]);
        // Who does not ask for it gets none.
        let answer = client.documents().get(get).await.unwrap();
        assert_eq!(answer.metadata().get("grpc-encoding"), None);
    }
    let mut documents = client.documents().send_compressed(CompressionEncoding::Gzip);
    let list = v1::DocumentsListRequest { collection: "points".to_owned(), ..Default::default() };
    assert_eq!(documents.list(list).await.unwrap().into_inner().documents.len(), 2);
}

/// Many callers at a time, each with a connection of its own.
#[tokio::test]
async fn callers_side_by_side_get_their_own_answers() {
    let server = Settings::new().start().await;
    server.client().await.create("docs").await;
    let url = server.url();
    let callers = (0..8).map(|caller| {
        let url = url.clone();
        tokio::spawn(async move {
            let client = Client::connect(&url, None).await;
            for round in 0..10 {
                let id = format!("{caller}-{round}");
                client.add("docs", vec![document(&id, &format!("text {id}")).with("caller", int(caller))]).await;
                let own = compare(v1::filter::Kind::Eq, "caller", int(caller));
                let search = v1::VectorStoreRetriever { k: Some(100), filter: Some(own), ..search_in("docs") };
                let hits = client.search(text_query(&id), search).await;
                assert_eq!(hits.len(), round + 1, "a write is seen by the next read");
            }
            Ok::<_, Status>(())
        })
    });
    for caller in callers.collect::<Vec<_>>() {
        caller.await.unwrap().unwrap();
    }
    assert_eq!(server.client().await.count("docs").await, 80);
}
