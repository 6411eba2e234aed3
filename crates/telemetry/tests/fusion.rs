//! The span of making one list of several.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

mod collector;

use collector::{Collector, attributes, int, string};
use toller_telemetry::setup::trace_layer;
use toller_telemetry::spans::{self, RetrievalSpan};
use toller_telemetry::traces::TraceSettings;
use tracing_subscriber::layer::SubscriberExt;

#[test]
fn a_fusion_is_a_child_span_with_its_lists_and_what_became_of_them() {
    let collector = Collector::grpc();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let url = collector.url();
    let settings = TraceSettings::from_variables("test", false, |name| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(url.clone()),
        "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("grpc".to_owned()),
        _ => None,
    });
    let settings = settings.unwrap();
    let entered = runtime.enter();
    let provider = settings.provider("0").unwrap().unwrap();
    drop(entered);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(trace_layer(&provider)), || {
        let retrieval = RetrievalSpan { name: "both", kind: "ensemble", ..RetrievalSpan::default() };
        spans::retrieval(&retrieval).in_scope(|| {
            let span = spans::fusion("rrf", 2, 7);
            span.in_scope(|| ());
            spans::record_fused(&span, 5);
        });
    });
    provider.force_flush().unwrap();

    let fusion = collector.span("fusion rrf");
    assert_eq!(fusion.parent_span_id, collector.span("retrieval both").span_id);
    let found = attributes(&fusion.attributes);
    for (name, expected) in [
        ("toller.fusion.method", string("rrf")),
        ("toller.fusion.lists", int(2)),
        ("toller.fusion.candidates", int(7)),
        ("toller.fusion.hits", int(5)),
    ] {
        assert_eq!(found[name], expected, "{name}");
    }
}
