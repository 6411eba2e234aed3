//! The embedding worker, and several models in one process.

use std::collections::BTreeMap;
use std::time::Duration;

use prost::Message;
use prost_types::FileDescriptorProto;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use toller_api::v1;
use toller_api::v1::embed_stream_response::Outcome;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use toller_tests::{PATIENCE, TINY_MODEL, TINY_RERANKER};
use tonic::{Code, Request, Status, Streaming};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_reflection::pb::v1 as reflection;

use crate::expect;

/// A file with a second model, which differs from the default one in its instruction.
fn second_model() -> String {
    format!("[[embedding.models]]\nname = \"plain\"\nmodel = \"{TINY_MODEL}\"\nquery_instruction = \"\"\n")
}

/// A worker with two embedding models and a reranker.
fn worker() -> Settings {
    Settings::embedder().file(&second_model()).set("rerank.model", TINY_RERANKER)
}

fn text(id: &str, text: &str) -> v1::EmbedStreamRequest {
    let role = v1::EmbeddingRole::Document.into();
    v1::EmbedStreamRequest { id: id.to_owned(), text: text.to_owned(), role, ..Default::default() }
}

/// Opens a stream; what is sent into the channel goes to the server.
async fn open(client: &Client) -> (mpsc::Sender<v1::EmbedStreamRequest>, Streaming<v1::EmbedStreamResponse>) {
    let (sender, receiver) = mpsc::channel(1);
    let answers = client.embedder().embed_stream(ReceiverStream::new(receiver)).await.expect("the stream opens");
    assert!(answers.metadata().contains_key("toller-queued-tokens"));
    (sender, answers.into_inner())
}

/// Sends all, and gives the outcomes by id and how the stream ended.
async fn stream(
    client: &Client,
    messages: impl Stream<Item = v1::EmbedStreamRequest> + Send + 'static,
) -> (BTreeMap<String, Outcome>, Option<Status>) {
    let mut answers = client.embedder().embed_stream(messages).await.expect("the stream opens").into_inner();
    let mut outcomes = BTreeMap::new();
    loop {
        match timeout(PATIENCE, answers.message()).await.expect("the stream goes on") {
            Ok(Some(answer)) => {
                assert!(outcomes.insert(answer.id, answer.outcome.expect("an outcome")).is_none(), "answered once");
            }
            Ok(None) => return (outcomes, None),
            Err(status) => return (outcomes, Some(status)),
        }
    }
}

fn vector(outcome: &Outcome) -> &v1::Vector {
    match outcome {
        Outcome::Embedded(embedded) => embedded.vector.as_ref().expect("a vector"),
        Outcome::Failure(failure) => panic!("a failure: {failure:?}"),
    }
}

async fn models(client: &Client) -> Vec<v1::Model> {
    client.embedder().list_models(v1::ListModelsRequest {}).await.expect("models are listed").into_inner().models
}

async fn rerank(client: &Client, request: v1::RerankRequest) -> Result<tonic::Response<v1::RerankResponse>, Status> {
    client.embedder().rerank(request).await
}

fn pairs(query: &str, documents: &[&str]) -> v1::RerankRequest {
    let documents = documents.iter().map(|document| (*document).to_owned()).collect();
    v1::RerankRequest { query: query.to_owned(), documents, ..Default::default() }
}

#[tokio::test]
async fn a_worker_serves_its_models_and_nothing_else() {
    let worker = worker().start().await;
    let client = worker.client().await;
    let listed = models(&client).await;
    let kinds: Vec<_> =
        listed.iter().map(|model| (model.name.as_str(), model.kind(), model.is_default, model.max_tokens)).collect();
    let expected = [
        ("tiny-bge", v1::ModelKind::Embedding, true, Some(512)),
        ("plain", v1::ModelKind::Embedding, false, Some(512)),
        ("tiny-reranker-bert", v1::ModelKind::Reranker, true, Some(512)),
    ];
    assert_eq!(kinds, expected);
    assert!(listed[0].fingerprint.is_some() && listed[2].fingerprint.is_none());

    let embed = async |model: Option<&str>| {
        let request =
            v1::EmbedQueryRequest { text: "one".to_owned(), model: model.map(str::to_owned), ..Default::default() };
        client.embedder().embed_query(request).await
    };
    let (default, plain) = (embed(None).await.unwrap(), embed(Some("plain")).await.unwrap());
    assert!(default.metadata().contains_key("toller-queued-tokens"));
    assert_ne!(default.get_ref().vector, plain.get_ref().vector, "the instruction differs");
    let document = v1::EmbedDocumentsRequest {
        texts: vec!["one".to_owned()],
        model: Some("plain".to_owned()),
        ..Default::default()
    };
    let document = client.embedder().embed_documents(document).await.unwrap().into_inner();
    assert_eq!(document.vectors.first(), plain.get_ref().vector.as_ref(), "without instruction roles are the same");
    let missing = embed(Some("missing")).await;
    assert!(missing.as_ref().unwrap_err().metadata().contains_key("toller-queued-tokens"), "errors are answers too");
    expect::not_found("a model", missing, "model", "missing");

    let health = async |service: &str| {
        let request = HealthCheckRequest { service: service.to_owned() };
        client.health().check(request).await.map(|answer| answer.into_inner().status())
    };
    assert_eq!(health("").await.unwrap(), ServingStatus::Serving);
    assert_eq!(health("toller.v1.Embedder").await.unwrap(), ServingStatus::Serving);
    assert_eq!(health("toller.v1.Retrieval").await.unwrap_err().code(), Code::NotFound);
    let list = client.collections().list(v1::CollectionsListRequest::default()).await;
    assert_eq!(list.unwrap_err().code(), Code::Unimplemented);

    use reflection::server_reflection_request::MessageRequest;
    use reflection::server_reflection_response::MessageResponse;
    let mut reflection = reflection::server_reflection_client::ServerReflectionClient::new(client.service());
    let ask = [
        MessageRequest::ListServices(String::new()),
        MessageRequest::FileContainingSymbol("toller.v1.Embedder".to_owned()),
        MessageRequest::FileContainingSymbol("toller.v1.Collections".to_owned()),
    ];
    let ask = ask.map(|message_request| reflection::ServerReflectionRequest {
        message_request: Some(message_request),
        ..Default::default()
    });
    let mut answers = reflection.server_reflection_info(tokio_stream::iter(ask)).await.unwrap().into_inner();
    let mut next = async || answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(services) = next().await else { panic!("no list") };
    let services: Vec<_> = services.service.iter().map(|service| service.name.as_str()).collect();
    assert_eq!(services.iter().filter(|name| name.starts_with("toller.")).collect::<Vec<_>>(), [&"toller.v1.Embedder"]);
    let MessageResponse::FileDescriptorResponse(files) = next().await else { panic!("no file") };
    let file = FileDescriptorProto::decode(files.file_descriptor_proto[0].as_slice()).unwrap();
    let methods: Vec<_> = file.service[0].method.iter().map(|method| method.name()).collect();
    assert_eq!(methods, ["EmbedDocuments", "EmbedQuery", "EmbedStream", "Rerank", "ListModels"]);
    // tonic's reflection ends the stream where others answer with an error.
    let other = answers.message().await.expect_err("no other service is described");
    assert_eq!(other.code(), Code::NotFound);
    worker.stop().await.expect(0);
}

#[tokio::test]
async fn reranking_gives_the_reference_scores_best_first() {
    let reference = std::fs::read_to_string(format!("{TINY_RERANKER}/reference.json")).unwrap();
    let reference: serde_json::Value = serde_json::from_str(&reference).unwrap();
    let worker = worker().start().await;
    let client = worker.client().await;
    for item in reference["items"].as_array().unwrap() {
        let text = |field: &str| item[field].as_str().unwrap();
        let answer = rerank(&client, pairs(text("query"), &[text("document")])).await.unwrap().into_inner();
        let [result] = answer.results.as_slice() else { panic!("one result") };
        // The reference cuts the longer text first; where the query is long, ours keeps more of the document, as FlagEmbedding
        // does.
        if ["long query truncated", "both long"].contains(&text("name")) {
            assert!(result.usage.unwrap().truncated, "{}", text("name"));
            continue;
        }
        let logit = item["logit"].as_f64().unwrap();
        assert!((result.score - logit).abs() < 1e-4, "{}: {} instead of {logit}", text("name"), result.score);
        assert!((result.relevance - 1.0 / (1.0 + (-result.score).exp())).abs() < 1e-12);
        let tokens = item["input_ids"].as_array().unwrap().len();
        assert_eq!(result.usage.unwrap().token_count, Some(u32::try_from(tokens).unwrap()), "{}", text("name"));
    }

    let documents = ["a river", "the sea at night", "a river", "", "mountains", "a river"];
    let all = rerank(&client, pairs("water", &documents)).await.unwrap().into_inner().results;
    assert_eq!(all.len(), documents.len());
    for pair in all.windows(2) {
        let [better, worse] = pair else { continue };
        assert!(better.score > worse.score || (better.score == worse.score && better.index < worse.index));
    }
    let rivers: Vec<u32> = all.iter().map(|result| result.index).filter(|index| [0, 2, 5].contains(index)).collect();
    assert_eq!(rivers, [0, 2, 5], "ties are in the order of the documents");
    let best = v1::RerankRequest { top_n: Some(2), ..pairs("water", &documents) };
    assert_eq!(rerank(&client, best).await.unwrap().into_inner().results, all[..2]);
    assert!(rerank(&client, pairs("water", &[])).await.unwrap().into_inner().results.is_empty());

    let none = v1::RerankRequest { top_n: Some(0), ..pairs("water", &documents) };
    expect::invalid("top_n 0", rerank(&client, none).await, "top_n");
    let huge = "x".repeat((1 << 20) + 1);
    expect::invalid("a huge query", rerank(&client, pairs(&huge, &["a"])).await, "query");
    expect::invalid("a huge document", rerank(&client, pairs("a", &["b", &huge])).await, "documents[1]");
    expect::invalid("too many documents", rerank(&client, pairs("a", &["b"; 1001])).await, "documents");
    let other = v1::RerankRequest { model: Some("plain".to_owned()), ..pairs("a", &["b"]) };
    expect::not_found("an embedding model", rerank(&client, other).await, "model", "plain");
    let long = rerank(&client, pairs("water", &["river ".repeat(2000).as_str()])).await.unwrap().into_inner();
    assert!(long.results[0].usage.unwrap().truncated);
}

#[tokio::test]
async fn a_server_without_reranker_says_what_to_set() {
    let server = Settings::new().start().await;
    let answer = rerank(&server.client().await, pairs("a", &["b"])).await;
    let status = expect::refused_with("a rerank", answer, Code::FailedPrecondition, "NO_RERANKER");
    assert!(status.message().contains("rerank.model"), "{}", status.message());
}

#[tokio::test]
async fn a_stream_gives_the_vectors_of_single_calls() {
    let worker = worker().start().await;
    let client = worker.client().await;
    let texts: Vec<String> = (0..700).map(|number| format!("text {number} {}", "word ".repeat(number % 40))).collect();
    let borrowed: Vec<&str> = texts.iter().map(String::as_str).collect();
    let expected = client.embed_documents(&borrowed).await.vectors;
    let messages: Vec<_> = texts.iter().enumerate().map(|(index, one)| text(&index.to_string(), one)).collect();
    let (outcomes, end) = stream(&client, tokio_stream::iter(messages)).await;
    assert!(end.is_none(), "{end:?}");
    assert_eq!(outcomes.len(), texts.len());
    for (id, outcome) in &outcomes {
        let (found, expected) = (elements(vector(outcome)), elements(&expected[id.parse::<usize>().unwrap()]));
        let distance = found.iter().zip(&expected).map(|(left, right)| (left - right).abs()).fold(0.0, f32::max);
        assert!(distance < 1e-5, "text {id} differs by {distance}");
    }

    // A stream is a conversation too: an answer comes while the client has more to say.
    let (sender, mut answers) = open(&client).await;
    let query = v1::EmbedStreamRequest {
        role: v1::EmbeddingRole::Query.into(),
        model: Some("plain".to_owned()),
        encoding: v1::VectorEncoding::Floats.into(),
        ..text("a", "one")
    };
    sender.send(query.clone()).await.unwrap();
    let first = timeout(PATIENCE, answers.message()).await.unwrap().unwrap().unwrap();
    assert_eq!(first.id, "a");
    assert_eq!(vector(first.outcome.as_ref().unwrap()).values.len(), 64, "as a list of floats");
    sender.send(v1::EmbedStreamRequest { id: "b".to_owned(), ..query }).await.unwrap();
    drop(sender);
    assert_eq!(timeout(PATIENCE, answers.message()).await.unwrap().unwrap().unwrap().id, "b");
    assert!(answers.message().await.unwrap().is_none());
}

#[tokio::test]
async fn a_stream_that_begins_or_goes_on_wrongly_ends_with_the_field() {
    let worker = worker().start().await;
    let client = worker.client().await;
    let no_role = v1::EmbedStreamRequest { role: 0, ..text("a", "one") };
    let other_model = v1::EmbedStreamRequest { model: Some("plain".to_owned()), ..text("b", "two") };
    for (messages, field, answered) in [
        (vec![no_role], "role", 0),
        (vec![text("", "one")], "id", 0),
        (vec![v1::EmbedStreamRequest { encoding: 7, ..text("a", "one") }], "encoding", 0),
        (vec![text("a", "one"), other_model], "model", 1),
        (vec![text("a", "one"), v1::EmbedStreamRequest { truncate: Some(false), ..text("b", "two") }], "truncate", 1),
    ] {
        let (outcomes, end) = stream(&client, tokio_stream::iter(messages)).await;
        assert_eq!(outcomes.len(), answered, "{field}");
        expect::invalid(field, Err::<tonic::Response<()>, _>(end.expect("an error")), field);
    }
    let unknown = v1::EmbedStreamRequest { model: Some("missing".to_owned()), ..text("a", "one") };
    let (_, end) = stream(&client, tokio_stream::iter([unknown])).await;
    expect::not_found("a model", Err::<tonic::Response<()>, _>(end.unwrap()), "model", "missing");
    assert_eq!(stream(&client, tokio_stream::iter([])).await.0.len(), 0);
}

#[tokio::test]
async fn strange_texts_are_answered_or_refused_and_the_worker_lives() {
    let worker = worker().start().await;
    let client = worker.client().await;
    let controls: String = (0_u8..32).map(char::from).collect();
    let one_word = "a".repeat(1 << 20);
    let huge = "b".repeat((1 << 20) + 1);
    let cases = [
        ("empty", ""),
        ("controls", controls.as_str()),
        ("nul", "\0"),
        ("one word of 1 MiB", one_word.as_str()),
        ("combining", &"e\u{301}\u{20dd}".repeat(5000)),
        ("emoji", &"👩‍👩‍👧‍👦".repeat(2000)),
        ("not a character", "\u{fffe}\u{ffff}\u{10ffff}"),
        ("over the limit", huge.as_str()),
    ];
    let messages: Vec<_> = cases.iter().map(|(id, content)| text(id, content)).collect();
    let (outcomes, end) = stream(&client, tokio_stream::iter(messages)).await;
    assert!(end.is_none(), "{end:?}");
    for (id, content) in cases {
        let alone = v1::EmbedDocumentsRequest { texts: vec![content.to_owned()], ..Default::default() };
        let alone = client.embedder().embed_documents(alone).await;
        match &outcomes[id] {
            Outcome::Embedded(_) => {
                assert!(elements(&alone.unwrap().into_inner().vectors[0]).iter().all(|element| element.is_finite()));
            }
            Outcome::Failure(failure) => {
                assert_eq!((id, Code::from_i32(failure.code)), ("over the limit", Code::InvalidArgument));
                expect::invalid(id, alone, "texts[0]");
            }
        }
        rerank(&client, pairs("query", &[&content[..content.floor_char_boundary(1 << 20)]])).await.unwrap();
    }
    client.embed_query("still there").await;
    worker.stop().await.expect(0);
}

#[tokio::test]
async fn a_client_that_goes_away_in_the_middle_of_a_stream_leaves_nothing_behind() {
    let mut worker = worker().set("telemetry.metrics_listen", "127.0.0.1:0").start().await;
    let metrics = worker.metrics().await;
    for _ in 0..20 {
        let client = worker.client().await;
        let (sender, mut answers) = open(&client).await;
        let sending = tokio::spawn(async move {
            for number in 0.. {
                let content = format!("{number} {}", "word ".repeat(300));
                if sender.send(text(&number.to_string(), &content)).await.is_err() {
                    return;
                }
            }
        });
        assert!(timeout(PATIENCE, answers.message()).await.unwrap().unwrap().is_some());
        // With its sender, since hyper ends a call only when both of its halves are gone.
        sending.abort();
        drop((answers, client));
    }
    metrics.until("rpc_server_active_calls", &[], |calls| calls == 0.0).await;
    metrics.until("toller_embedding_queue_tokens", &[], |tokens| tokens == 0.0).await;
    worker.client().await.embed_query("still there").await;
    worker.stop().await.expect(0);
}

/// Waits until calls are in work.
async fn in_work(server: &mut Server) {
    let metrics = server.metrics().await;
    metrics.until("rpc_server_active_calls", &[], |calls| calls >= 1.0).await;
}

#[tokio::test]
async fn a_drain_finishes_what_runs_and_ends_streams() {
    let mut worker =
        worker().set("telemetry.metrics_listen", "127.0.0.1:0").set("server.drain_timeout_ms", "300000").start().await;
    let client = worker.client().await;
    let texts: Vec<String> = (0..300).map(|number| format!("{number} {}", "word ".repeat(400))).collect();
    let mut request = Request::new(v1::EmbedDocumentsRequest { texts, ..Default::default() });
    request.set_timeout(Duration::from_secs(300));
    let running = tokio::spawn({
        let client = client.clone();
        async move { client.embedder().embed_documents(request).await }
    });
    in_work(&mut worker).await;
    let streaming = worker.client().await;
    let (sender, mut answers) = open(&streaming).await;
    // Queries go before the documents that still run.
    let query = v1::EmbedStreamRequest { role: v1::EmbeddingRole::Query.into(), ..text("a", "one") };
    sender.send(query).await.unwrap();
    assert_eq!(timeout(PATIENCE, answers.message()).await.unwrap().unwrap().unwrap().id, "a");

    worker.signal("TERM");
    let answer = timeout(PATIENCE, running).await.unwrap().unwrap().expect("what ran is finished");
    assert_eq!(answer.into_inner().vectors.len(), 300);
    let end = timeout(PATIENCE, answers.message()).await.unwrap().expect_err("a stream that rests is ended");
    assert_eq!(end.code(), Code::Unavailable, "{end:?}");
    let exit = worker.ended().await.expect(0);
    assert!(exit.stderr.contains("finishing what runs"), "{}", exit.stderr);
}

#[tokio::test]
async fn a_worker_refuses_the_settings_of_a_gateway() {
    let exit = Settings::embedder().file("[data]\ndir = \"x\"\n").run().await.expect(2);
    assert!(exit.stderr.contains("data.dir") && exit.stderr.contains("gateway"), "{}", exit.stderr);
    let nothing = Settings::embedder().without_model().run().await.expect(2);
    assert!(nothing.stderr.contains("embedding.provider"), "{}", nothing.stderr);
    let missing = worker().set("rerank.model", "/nowhere").run().await.expect(1);
    assert!(missing.stderr.contains("/nowhere"), "{}", missing.stderr);
    let beyond = worker().set("rerank.max_tokens", "100000").run().await.expect(2);
    assert!(beyond.stderr.contains("rerank.max_tokens"), "{}", beyond.stderr);
}

#[tokio::test]
async fn a_gateway_has_the_models_of_its_workers() {
    let worker = worker().start().await;
    let gateway = Settings::new()
        .without_model()
        .set("embedding.provider", "toller")
        .set("embedding.address", &worker.url())
        .start()
        .await;
    let (near, far) = (worker.client().await, gateway.client().await);
    assert_eq!(models(&far).await, models(&near).await);
    let documents = ["a river", "the sea", "mountains"];
    let (left, right) =
        (rerank(&near, pairs("water", &documents)).await, rerank(&far, pairs("water", &documents)).await);
    assert_eq!(left.unwrap().into_inner(), right.unwrap().into_inner());
    let request = v1::CollectionsCreateRequest {
        name: "plain".to_owned(),
        vectors: Some(v1::collections_create_request::Vectors::Model("plain".to_owned())),
        ..Default::default()
    };
    far.collections().create(request).await.unwrap();
    far.add("plain", vec![document("a", "one"), document("b", "two")]).await;
    let found = far.search(text_query("one"), search_in("plain")).await;
    assert_eq!(found.ids()[0], "a");
    assert!((found[0].score - 1.0).abs() < 1e-6, "the model without instruction gives both roles the same vector");
}

#[tokio::test]
async fn each_collection_keeps_its_model_over_a_restart() {
    let settings = Settings::new();
    let server = settings.clone().file(&second_model()).start().await;
    let client = server.client().await;
    client.create("usual").await;
    let of = |model: &str| v1::CollectionsCreateRequest {
        name: "plain".to_owned(),
        vectors: Some(v1::collections_create_request::Vectors::Model(model.to_owned())),
        ..Default::default()
    };
    expect::not_found("a model", client.collections().create(of("missing")).await, "model", "missing");
    client.collections().create(of("plain")).await.unwrap();
    for collection in ["usual", "plain"] {
        client.add(collection, vec![document("a", "one")]).await;
    }
    let score = async |collection: &str| client.search(text_query("one"), search_in(collection)).await[0].score;
    assert!((score("plain").await - 1.0).abs() < 1e-6 && score("usual").await < 0.999);
    server.stop().await.expect(0);

    let server = settings.start().await;
    let client = server.client().await;
    client.add("usual", vec![document("b", "two")]).await;
    let answer = client.try_search(text_query("one"), search_in("plain")).await.map(tonic::Response::new);
    let status = expect::refused_with("a search", answer, Code::FailedPrecondition, "FINGERPRINT_MISMATCH");
    let needed = status.message().find("was filled by candle/tiny-bge").expect("the model that is needed");
    let loaded = status.message().find("embeds with candle/tiny-bge").expect("the model that is loaded");
    assert!(needed < loaded, "{}", status.message());
    assert_eq!(client.count("plain").await, 1, "what needs no model goes on");
}

#[tokio::test]
async fn a_cached_vector_needs_no_forward_pass() {
    let settings = Settings::new().set("telemetry.metrics_listen", "127.0.0.1:0");
    for (bytes, passes) in [("1000000", 2.0), ("0", 4.0)] {
        let mut server = settings.clone().set("embedding.cache_bytes", bytes).start().await;
        let client = server.client().await;
        let before = server.metrics().await.sum("toller_embedding_texts_total", &[]).await;
        let first = client.embed_query("one").await;
        assert_eq!(client.embed_query("one").await, first);
        let first = client.embed_documents(&["one"]).await;
        assert_eq!(client.embed_documents(&["one"]).await, first);
        let texts = server.metrics().await.sum("toller_embedding_texts_total", &[]).await - before;
        assert_eq!(texts, passes, "with {bytes} bytes");
        server.stop().await.expect(0);
    }
}

#[tokio::test]
async fn deadlines_end_streams() {
    let worker = worker().start().await;
    let client = worker.client().await;
    let (_sender, receiver) = mpsc::channel::<v1::EmbedStreamRequest>(1);
    let mut request = Request::new(ReceiverStream::new(receiver).map(|message| message));
    request.set_timeout(Duration::from_secs(3));
    let mut answers = client.embedder().embed_stream(request).await.unwrap().into_inner();
    let end = timeout(PATIENCE, answers.message()).await.unwrap().expect_err("the deadline passes");
    assert!(matches!(end.code(), Code::DeadlineExceeded | Code::Cancelled), "{end:?}");
}
