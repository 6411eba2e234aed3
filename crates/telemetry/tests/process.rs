//! The whole set-up in a process of its own, driven by environment variables as a deployment does.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

mod collector;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Output};
use std::time::Duration;

use collector::{Collector, attributes, string};
use toller_telemetry::metrics::RetrievalMetrics;
use toller_telemetry::spans::{self, RetrievalSpan};
use toller_telemetry::{Error, LogFormat, Telemetry, TelemetryConfig};

/// Marks the process that [`child`] shall work in.
const CHILD: &str = "TOLLER_TELEMETRY_TEST_CHILD";

/// Runs [`child`] in a process of its own with these variables.
fn run_child(variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--ignored", "--nocapture"]).env(CHILD, "1");
    for (name, value) in variables {
        command.env(name, value);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

fn scrape(address: SocketAddr, path: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

/// A small service: starts telemetry inside of an async main, retrieves once, is scraped, and stops.
#[test]
#[ignore = "run by the other tests of this file, in a process of its own"]
fn child() {
    assert_eq!(std::env::var(CHILD).as_deref(), Ok("1"), "run the other tests of this file");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = TelemetryConfig {
            service_name: "toller-child".to_owned(),
            log_format: LogFormat::Json,
            metrics_listen: Some("127.0.0.1:0".parse().unwrap()),
            ..TelemetryConfig::default()
        };
        let guard = Telemetry::start(&config).unwrap();
        let metrics = RetrievalMetrics::new("vector_store");
        let span = spans::retrieval(&RetrievalSpan { name: "r", kind: "vector_store", ..RetrievalSpan::default() });
        span.in_scope(|| tracing::info!(hits = 3, "retrieved"));
        drop(span);
        metrics.record(Duration::from_millis(7), Ok(3));

        let address = guard.metrics_address().unwrap();
        let answer = scrape(address, "/metrics");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("# HELP toller_retrieval_hits Documents that one retriever found.\n"), "{answer}");
        assert!(answer.contains("# TYPE toller_retrieval_hits histogram\n"), "{answer}");
        assert!(
            answer.contains("toller_retrieval_hits_bucket{retriever_kind=\"vector_store\",le=\"4\"} 1\n"),
            "{answer}"
        );
        assert!(scrape(address, "/").starts_with("HTTP/1.1 404"));
        assert!(guard.render_metrics().unwrap().contains("toller_retrieval_duration_seconds_sum"));

        let again = Telemetry::start(&config);
        assert!(matches!(again, Err(Error::AlreadyStarted(_))));
        guard.shutdown(Duration::from_secs(5)).unwrap();
    });
}

fn assert_delivered(collector: &Collector, protocol: &str) {
    let output = run_child(&[
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol),
        ("OTEL_EXPORTER_OTLP_HEADERS", "x-team=search,authorization=Bearer%20t"),
        ("OTEL_SERVICE_NAME", "named-by-environment"),
        ("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.name=ignored"),
    ]);
    let span = collector.span("retrieval r");
    let export = &collector.exports()[0];
    assert_eq!(export.headers["x-team"], "search");
    assert_eq!(export.headers["authorization"], "Bearer t");
    let resource = attributes(&export.request.resource_spans[0].resource.as_ref().unwrap().attributes);
    assert_eq!(resource["service.name"], string("named-by-environment"));
    assert_eq!(resource["deployment.environment.name"], string("test"));

    let logs = String::from_utf8(output.stderr).unwrap();
    let line = logs.lines().find(|line| line.contains("\"retrieved\"")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    let trace_id: String = span.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(line["trace_id"], trace_id);
    assert_eq!(line["hits"], 3);
}

#[test]
fn spans_are_delivered_over_grpc() {
    assert_delivered(&Collector::grpc(), "grpc");
}

#[test]
fn spans_are_delivered_over_http() {
    assert_delivered(&Collector::http(), "http/protobuf");
}

#[test]
fn the_sdk_can_be_switched_off_and_samplers_are_obeyed() {
    let collector = Collector::grpc();
    let url = collector.url();
    let export = [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
    run_child(&[export.as_slice(), &[("OTEL_SDK_DISABLED", "true")]].concat());
    run_child(&[export.as_slice(), &[("OTEL_TRACES_SAMPLER", "always_off")]].concat());
    assert!(collector.spans().is_empty());
}

#[test]
fn a_metrics_address_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let config = TelemetryConfig { metrics_listen: Some(address), ..TelemetryConfig::default() };
    let error = Telemetry::start(&config).err().unwrap();
    assert!(matches!(error, Error::MetricsListen { .. }));
    assert!(error.to_string().contains(&address.to_string()), "{error}");
}
