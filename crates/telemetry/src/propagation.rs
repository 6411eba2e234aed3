//! W3C trace context and baggage, from and to the headers of a call.

use std::sync::LazyLock;

use opentelemetry::Context;
use opentelemetry::baggage::BaggageExt;
use opentelemetry::propagation::{Extractor, Injector, TextMapCompositePropagator, TextMapPropagator};
use opentelemetry::trace::{SpanContext, TraceContextExt};
use opentelemetry_sdk::propagation::{BaggagePropagator, TraceContextPropagator};
use toller_core::context::TraceParent;
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

static PROPAGATOR: LazyLock<TextMapCompositePropagator> = LazyLock::new(composite);

/// `traceparent`, `tracestate` and `baggage`.
pub(crate) fn composite() -> TextMapCompositePropagator {
    TextMapCompositePropagator::new(vec![Box::new(TraceContextPropagator::new()), Box::new(BaggagePropagator::new())])
}

/// The trace context and the baggage in `headers`; an empty context where there is none or it is malformed.
pub fn extract(headers: &http::HeaderMap) -> Context {
    PROPAGATOR.extract_with_context(&Context::new(), &HeaderExtractor(headers))
}

/// Writes the trace context of `span`, and the baggage that came in with it, to the headers of a call that it makes.
pub fn inject(span: &Span, headers: &mut http::HeaderMap) {
    let context = span.context();
    if context.span().span_context().is_valid() || !context.baggage().is_empty() {
        PROPAGATOR.inject_context(&context, &mut HeaderInjector(headers));
    }
}

/// The trace context of the current span, for work that goes on elsewhere; none outside of a trace.
pub fn current_trace_parent() -> Option<TraceParent> {
    trace_parent(&Span::current())
}

/// The trace context of `span`; none outside of a trace.
pub fn trace_parent(span: &Span) -> Option<TraceParent> {
    let context = span.context();
    let span_reference = context.span();
    let span_context: &SpanContext = span_reference.span_context();
    span_context.is_valid().then(|| TraceParent {
        trace_id: span_context.trace_id().to_bytes(),
        span_id: span_context.span_id().to_bytes(),
        sampled: span_context.is_sampled(),
    })
}

struct HeaderExtractor<'a>(&'a http::HeaderMap);

impl Extractor for HeaderExtractor<'_> {
    fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).and_then(|value| value.to_str().ok())
    }

    fn keys(&self) -> Vec<&str> {
        self.0.keys().map(http::HeaderName::as_str).collect()
    }

    fn get_all(&self, key: &str) -> Option<Vec<&str>> {
        let values: Vec<&str> = self.0.get_all(key).iter().filter_map(|value| value.to_str().ok()).collect();
        (!values.is_empty()).then_some(values)
    }
}

struct HeaderInjector<'a>(&'a mut http::HeaderMap);

impl Injector for HeaderInjector<'_> {
    fn set(&mut self, key: &str, value: String) {
        if let (Ok(name), Ok(value)) =
            (http::HeaderName::from_bytes(key.as_bytes()), http::HeaderValue::from_str(&value))
        {
            self.0.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE_PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn headers(pairs: &[(&'static str, &'static str)]) -> http::HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn extract_reads_trace_context_state_and_baggage() {
        let context = extract(&headers(&[
            ("traceparent", TRACE_PARENT),
            ("tracestate", "vendor=value"),
            ("baggage", "customer=7"),
        ]));
        let span = context.span();
        assert_eq!(span.span_context().trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(span.span_context().span_id().to_string(), "b7ad6b7169203331");
        assert!(span.span_context().is_sampled() && span.span_context().is_remote());
        assert_eq!(span.span_context().trace_state().get("vendor"), Some("value"));
        assert_eq!(context.baggage().get("customer").map(ToString::to_string), Some("7".to_owned()));
    }

    #[test]
    fn a_malformed_trace_parent_starts_a_new_trace() {
        for bad in ["", "00-zz-b7ad6b7169203331-01", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "x"] {
            assert!(!extract(&headers(&[("traceparent", bad)])).span().span_context().is_valid(), "{bad:?}");
        }
    }

    #[test]
    fn outside_of_a_trace_there_is_no_parent_and_no_header() {
        let mut outgoing = http::HeaderMap::new();
        inject(&Span::none(), &mut outgoing);
        assert!(outgoing.is_empty());
        assert_eq!(current_trace_parent(), None);
    }
}
