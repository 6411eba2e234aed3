//! What a server says of its calls: spans within the caller's trace, metrics by method and code, and log lines.
//!
//! Alone in its process: tracing keeps what the threads of other tests think of a span's worth.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod echo;

use std::time::Instant;

use echo::{Client, Lines, Running, SOON};
use metrics_exporter_prometheus::PrometheusBuilder;
use opentelemetry::Value;
use opentelemetry::trace::{SpanKind, Status as SpanStatus};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use toller_serving::server::ServerConfig;
use toller_telemetry::setup::trace_layer;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tracing_subscriber::layer::SubscriberExt;

/// Waits for the spans of calls that may end after their answer has arrived.
async fn finished_spans(exporter: &InMemorySpanExporter, count: usize) -> Vec<SpanData> {
    let started = Instant::now();
    loop {
        let spans = exporter.get_finished_spans().unwrap();
        if spans.len() >= count || started.elapsed() > SOON {
            return spans;
        }
        tokio::task::yield_now().await;
    }
}

fn attribute(span: &SpanData, name: &str) -> Option<Value> {
    span.attributes.iter().find(|pair| pair.key.as_str() == name).map(|pair| pair.value.clone())
}

#[tokio::test]
async fn calls_are_traced_within_the_callers_trace_measured_and_logged() {
    // The runtime has one thread, which is this one: thread-local defaults reach all of the server.
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let lines = Lines::default();
    let writer = lines.clone();
    let logs = tracing_subscriber::fmt::layer().with_writer(move || writer.clone()).with_ansi(false);
    let subscriber = tracing_subscriber::registry().with(trace_layer(&provider)).with(logs);
    let _subscriber = tracing::subscriber::set_default(subscriber);
    let recorder = PrometheusBuilder::new().build_recorder();
    let _recorder = metrics::set_default_local_recorder(&recorder);

    let mut server = Running::start(ServerConfig { max_concurrent_requests: 1, ..ServerConfig::default() }).await;
    let client = Client::connect(server.address).await.unwrap();
    let traced = client.with("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    traced.call("hello").await.unwrap();
    traced.call("missing").await.unwrap_err();
    client.call("panic").await.unwrap_err();
    client.call_path("/nobody.Knows/This", "").await.unwrap_err();
    let mut health = HealthClient::with_origin(client.connection.clone(), client.origin.clone());
    health.check(HealthCheckRequest::default()).await.unwrap();
    let unsampled = client.with("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00");
    unsampled.call("hello").await.unwrap();
    let gone = tokio::spawn({
        let client = client.clone();
        async move { client.call("hold").await }
    });
    let held = server.next_held().await;
    client.call("refused").await.unwrap_err();
    gone.abort();
    tokio::time::timeout(SOON, held.gone).await.unwrap().unwrap_err();

    let spans = finished_spans(&exporter, 6).await;
    let seen: Vec<(&str, String)> = spans
        .iter()
        .map(|span| (span.name.as_ref(), attribute(span, "rpc.status_code").unwrap().to_string()))
        .collect();
    let expected = [
        ("test.Echo/Call", "OK"),
        ("test.Echo/Call", "NOT_FOUND"),
        ("test.Echo/Call", "INTERNAL"),
        ("_OTHER", "UNIMPLEMENTED"),
        ("test.Echo/Call", "RESOURCE_EXHAUSTED"),
        ("test.Echo/Call", "CANCELLED"),
    ]
    .map(|(name, code)| (name, code.to_owned()));
    assert_eq!(seen, expected);
    for span in &spans {
        assert_eq!(span.span_kind, SpanKind::Server);
        assert_eq!(attribute(span, "rpc.system.name"), Some("grpc".into()));
        assert_eq!(attribute(span, "client.address"), Some("127.0.0.1".into()));
        assert_eq!(attribute(span, "server.port"), Some(i64::from(server.address.port()).into()));
    }
    let [ok, not_found, internal, other, ..] = spans.as_slice() else { panic!("{spans:?}") };
    for span in [ok, not_found] {
        assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(span.parent_span_id.to_string(), "b7ad6b7169203331");
    }
    assert_eq!(attribute(ok, "error.type"), None);
    assert_eq!((attribute(not_found, "error.type"), &not_found.status), (Some("NOT_FOUND".into()), &SpanStatus::Unset));
    assert!(matches!(internal.status, SpanStatus::Error { .. }));
    assert_eq!(attribute(other, "rpc.method_original"), Some("nobody.Knows/This".into()));

    let metrics = recorder.handle().render();
    let count = |method: &str, code: &str| {
        let labels = format!("{{rpc_method=\"{method}\",rpc_status_code=\"{code}\"}}");
        let prefix = format!("rpc_server_call_duration_seconds_count{labels} ");
        metrics.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
    };
    assert_eq!(count("test.Echo/Call", "OK").as_deref(), Some("2"), "{metrics}");
    assert_eq!(count("test.Echo/Call", "CANCELLED").as_deref(), Some("1"), "{metrics}");
    assert_eq!(count("_OTHER", "UNIMPLEMENTED").as_deref(), Some("1"), "{metrics}");
    assert_eq!(count("grpc.health.v1.Health/Check", "OK").as_deref(), Some("1"), "{metrics}");
    assert!(metrics.contains("rpc_server_active_calls 0"), "{metrics}");
    assert!(metrics.contains("toller_server_refused_calls_total 1"), "{metrics}");
    assert!(!metrics.contains("nobody"), "{metrics}");

    let log = lines.text();
    assert!(log.contains("a call panicked") && log.contains("as asked"), "{log}");
    assert!(log.lines().any(|line| line.contains("WARN") && line.contains("call failed")), "{log}");
}
