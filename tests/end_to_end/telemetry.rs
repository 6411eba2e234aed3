//! Spans as a collector receives them, metrics as Prometheus reads them, logs as a shipper parses them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use toller_api::v1;
use toller_tests::client::Client;
use toller_tests::collector::{Collector, attributes, double_attribute, int_attribute, string_attribute};
use toller_tests::request::*;
use toller_tests::server::Settings;
use tonic::{Code, Request};

const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER_SPAN_ID: &str = "b7ad6b7169203331";

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn within_trace<T>(message: T, flags: &str) -> Request<T> {
    let mut request = Request::new(message);
    let parent = format!("00-{TRACE_ID}-{CALLER_SPAN_ID}-{flags}");
    request.metadata_mut().insert("traceparent", parent.parse().unwrap());
    request
}

fn expected(pairs: Vec<(&str, String)>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

async fn model_name(client: &Client) -> String {
    client.embedder().list_models(v1::ListModelsRequest {}).await.unwrap().into_inner().models[0].name.clone()
}

async fn fill(client: &Client) {
    client.create("docs").await;
    let documents = vec![document("a", "a secret text"), document("b", "another secret"), document("c", "")];
    client.add("docs", documents).await;
}

fn support_retriever() -> v1::Retriever {
    let mut retriever = vector_store("support", mmr_in("docs", 2, 20, 0.5));
    retriever.tags = vec!["a".to_owned(), "b".to_owned()];
    retriever
}

/// One retrieval within a caller's trace, as `collector` receives it.
async fn assert_the_tree_of_a_retrieval(collector: Collector) {
    let server = collector.settings().variable("OTEL_SERVICE_NAME", "toller-test").start().await;
    let client = server.client().await;
    fill(&client).await;
    let model = model_name(&client).await;
    let request = v1::RetrieveRequest {
        query: Some(text_query("what is secret?")),
        retriever: Some(support_retriever()),
        ..Default::default()
    };
    let hits = client.retrieval().retrieve(within_trace(request, "01")).await.unwrap().into_inner().hits;
    assert_eq!(hits.len(), 2);
    let port = i64::from(server.address.port());
    server.stop().await.expect(0);

    let in_trace: Vec<Span> =
        collector.spans().into_iter().filter(|span| hexadecimal(&span.trace_id) == TRACE_ID).collect();
    let named = |name: &str| -> Span {
        let all: Vec<&str> = in_trace.iter().map(|span| span.name.as_str()).collect();
        let found = in_trace.iter().find(|span| span.name == name);
        found.unwrap_or_else(|| panic!("{name:?} is not among {all:?}")).clone()
    };
    let rpc = named("toller.v1.Retrieval/Retrieve");
    let retrieval = named("retrieval support");
    let embeddings = named(&format!("embeddings {model}"));
    let search = named("search docs");
    let mmr = named("mmr");
    assert_eq!(in_trace.len(), 5, "no other span is in the caller's trace");

    assert_eq!(hexadecimal(&rpc.parent_span_id), CALLER_SPAN_ID);
    assert_eq!(retrieval.parent_span_id, rpc.span_id);
    for child in [&embeddings, &search, &mmr] {
        assert_eq!(child.parent_span_id, retrieval.span_id, "{}", child.name);
    }
    for (span, kind) in [
        (&rpc, SpanKind::Server),
        (&retrieval, SpanKind::Internal),
        (&embeddings, SpanKind::Internal),
        (&search, SpanKind::Client),
        (&mmr, SpanKind::Internal),
    ] {
        assert_eq!(span.kind, kind as i32, "{}", span.name);
        assert_eq!(span.status.clone().unwrap_or_default().code, StatusCode::Unset as i32, "{}", span.name);
    }

    // The forward pass is a trace of its own, which the request links to.
    let [link] = embeddings.links.as_slice() else { panic!("one link, not {:?}", embeddings.links) };
    let batches = collector.named(&format!("embedding batch {model}"));
    let batch = batches.iter().find(|batch| batch.span_id == link.span_id).expect("the batch is exported");
    assert_eq!(batch.trace_id, link.trace_id);
    assert_ne!(hexadecimal(&batch.trace_id), TRACE_ID);
    assert!(batch.parent_span_id.is_empty());

    let mut rpc_attributes = attributes(&rpc.attributes);
    assert!(rpc_attributes.remove("network.peer.port").unwrap().starts_with("IntValue("));
    let local = || string_attribute("127.0.0.1");
    let rpc_expected = vec![
        ("rpc.system.name", string_attribute("grpc")),
        ("rpc.method", string_attribute("toller.v1.Retrieval/Retrieve")),
        ("rpc.status_code", string_attribute("OK")),
        ("client.address", local()),
        ("network.peer.address", local()),
        ("server.address", local()),
        ("server.port", int_attribute(port)),
    ];
    assert_eq!(rpc_attributes, expected(rpc_expected));

    let mut retrieval_attributes = attributes(&retrieval.attributes);
    let tags = retrieval_attributes.remove("tag.tags").unwrap();
    assert!(tags.starts_with("ArrayValue") && tags.contains("\"a\"") && tags.contains("\"b\""), "{tags}");
    let name = || string_attribute("support");
    let collection = || string_attribute("docs");
    let memory = || string_attribute("memory");
    let candle = || string_attribute("candle");
    let model_attribute = || string_attribute(&model);
    let retrieval_expected = vec![
        ("toller.retriever.name", name()),
        ("toller.retriever.kind", string_attribute("vector_store")),
        ("toller.retriever.search_type", string_attribute("mmr")),
        ("toller.retriever.k", int_attribute(2)),
        ("toller.retriever.hits", int_attribute(2)),
        ("toller.retriever.top_score", double_attribute(hits[0].score)),
        ("toller.retriever.top_relevance", double_attribute(hits[0].relevance.unwrap())),
        ("toller.store", memory()),
        ("toller.collection", collection()),
        ("toller.embedding.provider", candle()),
        ("toller.embedding.model", model_attribute()),
        ("gen_ai.operation.name", string_attribute("retrieval")),
        ("gen_ai.provider.name", memory()),
        ("gen_ai.request.model", model_attribute()),
        ("gen_ai.data_source.id", collection()),
        ("gen_ai.retrieval.top_k", int_attribute(2)),
        ("gen_ai.request.top_k", double_attribute(2.0)),
        ("openinference.span.kind", string_attribute("RETRIEVER")),
        ("langsmith.span.kind", string_attribute("retriever")),
        ("langsmith.span.tags", string_attribute("a,b")),
        ("langsmith.metadata.ls_retriever_name", name()),
        ("langsmith.metadata.ls_vector_store_provider", memory()),
        ("langsmith.metadata.ls_embedding_provider", candle()),
        ("langsmith.metadata.ls_embedding_model", model_attribute()),
    ];
    assert_eq!(retrieval_attributes, expected(retrieval_expected));

    let mut embeddings_attributes = attributes(&embeddings.attributes);
    let tokens = embeddings_attributes.remove("gen_ai.usage.input_tokens").unwrap();
    assert_eq!(embeddings_attributes.remove("llm.token_count.prompt"), Some(tokens.clone()));
    assert!(tokens.starts_with("IntValue(") && tokens != "IntValue(0)", "{tokens}");
    let embeddings_expected = vec![
        ("toller.embedding.provider", candle()),
        ("toller.embedding.model", model_attribute()),
        ("toller.embedding.role", string_attribute("query")),
        ("toller.embedding.texts", int_attribute(1)),
        ("toller.embedding.truncated", int_attribute(0)),
        ("gen_ai.operation.name", string_attribute("embeddings")),
        ("gen_ai.provider.name", candle()),
        ("gen_ai.request.model", model_attribute()),
        ("gen_ai.embeddings.dimension.count", int_attribute(64)),
        ("openinference.span.kind", string_attribute("EMBEDDING")),
        ("embedding.model_name", model_attribute()),
        ("langsmith.span.kind", string_attribute("embedding")),
        ("langsmith.metadata.ls_embedding_provider", candle()),
        ("langsmith.metadata.ls_embedding_model", model_attribute()),
    ];
    assert_eq!(embeddings_attributes, expected(embeddings_expected));

    let search_expected = vec![
        ("toller.store", memory()),
        ("toller.collection", collection()),
        ("toller.retriever.k", int_attribute(20)),
        ("db.system.name", memory()),
        ("db.collection.name", collection()),
        ("db.operation.name", string_attribute("search")),
        ("db.response.returned_rows", int_attribute(3)),
    ];
    assert_eq!(attributes(&search.attributes), expected(search_expected));
    let mmr_expected = vec![
        ("toller.mmr.candidates", int_attribute(3)),
        ("toller.mmr.k", int_attribute(2)),
        ("toller.mmr.lambda_mult", double_attribute(0.5)),
    ];
    assert_eq!(attributes(&mmr.attributes), expected(mmr_expected));

    let exports = collector.exports();
    let resource = attributes(&exports[0].resource_spans[0].resource.as_ref().unwrap().attributes);
    assert_eq!(resource["service.name"], string_attribute("toller-test"));
    assert!(resource.contains_key("service.version"));
    // Texts leave the process only when that is turned on.
    assert!(!format!("{exports:?}").contains("secret"));
}

#[tokio::test]
async fn a_retrieval_is_a_tree_of_spans_over_grpc() {
    assert_the_tree_of_a_retrieval(Collector::grpc().await).await;
}

#[tokio::test]
async fn a_retrieval_is_a_tree_of_spans_over_http() {
    assert_the_tree_of_a_retrieval(Collector::http().await).await;
}

#[tokio::test]
async fn a_caller_that_does_not_sample_leaves_no_span() {
    let collector = Collector::grpc().await;
    let server = collector.settings().start().await;
    let client = server.client().await;
    let search =
        |query| v1::SearchRequest { query: Some(query), search: Some(search_in("docs")), ..Default::default() };
    let create = v1::CollectionsCreateRequest { name: "docs".to_owned(), ..Default::default() };
    client.collections().create(within_trace(create, "00")).await.unwrap();
    client.retrieval().search(within_trace(search(text_query("x")), "00")).await.unwrap();
    client.retrieval().search(within_trace(search(vector_query(&[1.0; 64])), "01")).await.unwrap();
    server.stop().await.expect(0);

    let names: BTreeSet<String> = collector.spans().into_iter().map(|span| span.name).collect();
    assert!(names.contains("toller.v1.Retrieval/Search"), "{names:?}");
    assert!(!names.contains("toller.v1.Collections/Create"), "{names:?}");
    assert!(!names.iter().any(|name| name.starts_with("embeddings ")), "{names:?}");
    assert_eq!(collector.named("retrieval vector_store").len(), 1);
}

#[tokio::test]
async fn a_trace_begins_here_where_the_caller_has_none() {
    let collector = Collector::grpc().await;
    let server = collector.settings().start().await;
    let client = server.client().await;
    fill(&client).await;
    client.find("x", search_in("docs")).await;
    let stored = v1::RetrieversPutRequest { retriever: Some(support_retriever()), expected_version: None };
    client.retrievers().put(stored).await.unwrap();
    let request = v1::BatchRetrieveRequest {
        queries: vec![text_query("one"), text_query("two")],
        retriever: Some(reference("alias", "support")),
        ..Default::default()
    };
    client.retrieval().batch_retrieve(request).await.unwrap();
    server.stop().await.expect(0);

    let rpc = collector.span("toller.v1.Retrieval/Search");
    assert!(rpc.parent_span_id.is_empty());
    assert_eq!(rpc.trace_id.len(), 16);
    // An inline retriever without a name is named after its kind, and a reference after itself.
    let retrieval = collector.span("retrieval vector_store");
    assert_eq!(retrieval.parent_span_id, rpc.span_id);
    let both = collector.named("retrieval alias");
    assert_eq!(both.len(), 2, "one span for each query");
    let batch = collector.span("toller.v1.Retrieval/BatchRetrieve");
    assert!(both.iter().all(|span| span.parent_span_id == batch.span_id));
    // A write nests alike.
    let add = collector.span("toller.v1.Documents/Add");
    let upsert = collector.span("upsert docs");
    assert_eq!(upsert.parent_span_id, add.span_id);
    assert_eq!(attributes(&upsert.attributes)["db.operation.batch.size"], int_attribute(3));
}

#[tokio::test]
async fn an_error_is_on_its_span_and_the_client_s_faults_are_not_the_server_s() {
    let collector = Collector::grpc().await;
    let server = collector.settings().start().await;
    let client = server.client().await;
    let answer = client.try_search(text_query("x"), search_in("nowhere")).await;
    assert_eq!(answer.unwrap_err().code(), Code::NotFound);
    server.stop().await.expect(0);
    let rpc = collector.span("toller.v1.Retrieval/Search");
    let found = attributes(&rpc.attributes);
    assert_eq!(found["rpc.status_code"], string_attribute("NOT_FOUND"));
    assert_eq!(found["error.type"], string_attribute("NOT_FOUND"));
    assert_eq!(rpc.status.unwrap_or_default().code, StatusCode::Unset as i32);
}

#[tokio::test]
async fn texts_are_recorded_where_that_is_turned_on() {
    let collector = Collector::grpc().await;
    let settings = collector.settings().set("telemetry.record_content", "true");
    let server = settings.variable("OPENINFERENCE_HIDE_EMBEDDINGS_VECTORS", "true").start().await;
    let client = server.client().await;
    fill(&client).await;
    let hits = client.search(text_query("what is secret?"), search_in("docs")).await;
    server.stop().await.expect(0);

    let found = attributes(&collector.span("retrieval vector_store").attributes);
    assert_eq!(found["input.value"], string_attribute("what is secret?"));
    assert_eq!(found["gen_ai.retrieval.query.text"], string_attribute("what is secret?"));
    for (index, hit) in hits.iter().enumerate() {
        let attribute = |name: &str| &found[&format!("retrieval.documents.{index}.document.{name}")];
        let document = hit.document.as_ref().unwrap();
        assert_eq!(*attribute("id"), string_attribute(document.id_text()));
        assert_eq!(*attribute("content"), string_attribute(&document.page_content));
        assert_eq!(*attribute("score"), double_attribute(hit.score));
        assert!(attribute("metadata").contains("score"), "LangSmith reads the score from the metadata");
    }
    assert!(found["gen_ai.retrieval.documents"].contains("\\\"id\\\""), "{}", found["gen_ai.retrieval.documents"]);
    let vectors: Vec<String> = collector
        .spans()
        .iter()
        .flat_map(|span| attributes(&span.attributes))
        .filter(|(key, _)| key.starts_with("embedding.embeddings.") && key.ends_with(".vector"))
        .map(|(_, value)| value)
        .collect();
    assert!(
        !vectors.is_empty() && vectors.iter().all(|vector| *vector == string_attribute("__REDACTED__")),
        "{vectors:?}"
    );
}

#[tokio::test]
async fn a_collector_that_is_not_there_slows_nobody() {
    let refusing = TcpListener::bind("127.0.0.1:0").unwrap();
    let refusing_url = format!("http://{}", refusing.local_addr().unwrap());
    drop(refusing);
    // Takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_url = format!("http://{}", silent.local_addr().unwrap());
    for (url, protocol) in [
        (&refusing_url, "grpc"),
        (&refusing_url, "http/protobuf"),
        (&silent_url, "grpc"),
        (&silent_url, "http/protobuf"),
    ] {
        let settings = Settings::new()
            .without_model()
            .variable("OTEL_EXPORTER_OTLP_ENDPOINT", url)
            .variable("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
        let server = settings.start().await;
        let client = server.client().await;
        client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
        let started = Instant::now();
        for _ in 0..200 {
            client.search(vector_query(&[1.0, 0.0]), search_in("points")).await;
        }
        let each = started.elapsed() / 200;
        assert!(each < Duration::from_millis(50), "{each:?} for each search, with {protocol} to {url}");
        if *url == refusing_url {
            server.stop().await.expect(0);
        } else {
            server.kill().await;
        }
    }
}

#[tokio::test]
async fn prometheus_finds_every_metric() {
    let mut server = Settings::new().set("telemetry.metrics_listen", "127.0.0.1:0").start().await;
    let metrics = server.metrics().await;
    let client = server.client().await;
    fill(&client).await;
    client.find("x", search_in("docs")).await;
    client.try_search(text_query("x"), search_in("nowhere")).await.unwrap_err();

    let text = metrics.text().await;
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(metrics.request("/").await.starts_with("HTTP/1.1 404"));
    for (name, kind) in [
        ("rpc_server_call_duration_seconds", "histogram"),
        ("rpc_server_active_calls", "gauge"),
        ("gen_ai_client_operation_duration_seconds", "histogram"),
        ("toller_embedding_tokens_total", "counter"),
        ("toller_embedding_texts_total", "counter"),
        ("toller_embedding_queue_tokens", "gauge"),
        ("toller_embedding_queue_wait_seconds", "histogram"),
        ("toller_embedding_batch_texts", "histogram"),
        ("toller_embedding_batch_tokens", "histogram"),
        ("toller_embedding_batch_duration_seconds", "histogram"),
        ("db_client_operation_duration_seconds", "histogram"),
        ("toller_store_written_records_total", "counter"),
        ("toller_retrieval_duration_seconds", "histogram"),
        ("toller_retrieval_hits", "histogram"),
    ] {
        assert!(text.contains(&format!("# TYPE {name} {kind}\n")), "{name} is missing:\n{text}");
        assert!(text.contains(&format!("# HELP {name} ")), "{name} has no help");
    }
    let search = ("rpc_method", "toller.v1.Retrieval/Search");
    let calls = "rpc_server_call_duration_seconds_count";
    assert_eq!(metrics.sum(calls, &[search, ("rpc_status_code", "OK")]).await, 1.0);
    assert_eq!(metrics.sum(calls, &[search, ("rpc_status_code", "NOT_FOUND")]).await, 1.0);
    assert_eq!(metrics.sum("toller_store_written_records_total", &[("db_system_name", "memory")]).await, 3.0);
    assert_eq!(metrics.sum("toller_retrieval_hits_sum", &[("retriever_kind", "vector_store")]).await, 3.0);
    assert_eq!(metrics.sum("toller_embedding_texts_total", &[("gen_ai_provider_name", "candle")]).await, 4.0);
    let embedding_calls = "gen_ai_client_operation_duration_seconds_count";
    assert_eq!(metrics.sum(embedding_calls, &[("role", "document")]).await, 1.0);
    assert_eq!(metrics.sum(embedding_calls, &[("role", "query")]).await, 1.0);
    assert_eq!(metrics.sum("toller_embedding_queue_tokens", &[]).await, 0.0);
    // Names that callers choose are no labels: they would grow without bound.
    assert!(!text.contains("nowhere") && !text.contains("docs"), "{text}");
}

#[tokio::test]
async fn json_logs_are_one_object_a_line_and_never_show_texts() {
    let server = Settings::new().set("telemetry.log_format", "json").set("telemetry.log_level", "debug").start().await;
    let client = server.client().await;
    fill(&client).await;
    client.find("what is secret?", search_in("docs")).await;
    client.try_search(text_query("a secret query"), search_in("nowhere")).await.unwrap_err();
    let log = server.stop().await.expect(0).stderr;
    for line in log.lines() {
        let entry: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|fault| panic!("{line:?} is no JSON: {fault}"));
        for key in ["timestamp", "level", "target", "message"] {
            assert!(entry[key].is_string(), "{key} is missing: {line}");
        }
    }
    assert!(!log.contains("secret"), "{log}");
}
