//! Where spans go: OTLP over gRPC or HTTP/protobuf, set up by OpenTelemetry's standard variables.
//!
//! A collector that is slow or down never slows a request: finished spans go into a bounded queue (2048 by default,
//! `OTEL_BSP_MAX_QUEUE_SIZE`) and are dropped when it is full; a thread of its own sends them.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use opentelemetry::KeyValue;
use opentelemetry_otlp::{SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{BatchSpanProcessor, Sampler, SdkTracerProvider, SpanData};

use crate::error::Error;
use crate::names::metric;

/// OTLP's port for gRPC.
const OTLP_GRPC_PORT: u16 = 4317;

/// Where a base URL has the traces, for OTLP over HTTP.
const HTTP_TRACES_PATH: &str = "/v1/traces";

/// Most attributes of a span that carries content: 32 documents of 4 attributes, and the usual ones. Without content
/// OpenTelemetry's default of 128 is enough.
const MAX_ATTRIBUTES_WITH_CONTENT: u32 = 256;

/// Least time between two log lines about a collector that stays away.
const FAILURE_LOG_INTERVAL: Duration = Duration::from_secs(60);

/// How spans travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// OTLP over gRPC.
    Grpc,
    /// OTLP over HTTP with protobuf bodies.
    HttpProtobuf,
}

/// Where spans are sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// How.
    pub protocol: Protocol,
    /// The full URL.
    pub url: String,
}

/// What OpenTelemetry's variables say about traces.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    /// False with `OTEL_SDK_DISABLED=true`: no spans at all.
    pub enabled: bool,
    /// Where spans go; none for nowhere.
    pub endpoint: Option<Endpoint>,
    /// Which traces are recorded.
    pub sampler: Sampler,
    /// Name of the service: `OTEL_SERVICE_NAME`, else none where `OTEL_RESOURCE_ATTRIBUTES` has it, else the given one.
    pub service_name: Option<String>,
    /// Most attributes of a span; none for OpenTelemetry's default or its variable.
    pub max_attributes: Option<u32>,
}

impl TraceSettings {
    /// Reads the standard variables through `variable`. Empty ones count as unset, as the specification says.
    ///
    /// Read here: `OTEL_SDK_DISABLED`, `OTEL_TRACES_EXPORTER`, `OTEL_EXPORTER_OTLP_[TRACES_]ENDPOINT` and `_PROTOCOL`,
    /// `OTEL_TRACES_SAMPLER[_ARG]`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`. The exporter reads `_HEADERS`, `_TIMEOUT`
    /// and the `OTEL_BSP_*` variables itself. Without a protocol it is `http/protobuf`, as the specification says, but
    /// gRPC for an endpoint on gRPC's port 4317.
    ///
    /// # Errors
    /// [`Error::Variable`] names the variable and what would be right.
    pub fn from_variables(
        service_name: &str,
        record_content: bool,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Error> {
        let variable =
            |name: &str| variable(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let has_name =
            |attributes: String| attributes.split(',').any(|pair| pair.trim_start().starts_with("service.name="));
        let service_name = match variable("OTEL_SERVICE_NAME") {
            Some(name) => Some(name),
            None if variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(has_name) => None,
            None => Some(service_name.to_owned()),
        };
        Ok(Self {
            enabled: !variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true")),
            endpoint: if exports_traces(&variable)? { endpoint(&variable)? } else { None },
            sampler: sampler(&variable)?,
            service_name,
            max_attributes: (record_content && variable("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT").is_none())
                .then_some(MAX_ATTRIBUTES_WITH_CONTENT),
        })
    }

    /// The provider that these settings describe; none when traces are off. Must run inside a tokio runtime with
    /// threads of its own, which then carries the connection to the collector.
    ///
    /// # Errors
    /// [`Error::Exporter`].
    pub fn provider(&self, service_version: &str) -> Result<Option<SdkTracerProvider>, Error> {
        if !self.enabled {
            return Ok(None);
        }
        let mut resource =
            Resource::builder().with_attribute(KeyValue::new("service.version", service_version.to_owned()));
        if let Some(name) = &self.service_name {
            resource = resource.with_service_name(name.clone());
        }
        let mut provider =
            SdkTracerProvider::builder().with_resource(resource.build()).with_sampler(self.sampler.clone());
        if let Some(most) = self.max_attributes {
            provider = provider.with_max_attributes_per_span(most);
        }
        if let Some(endpoint) = &self.endpoint {
            let exporter = ReportingExporter::new(endpoint)?;
            provider = provider.with_span_processor(BatchSpanProcessor::builder(exporter).build());
        }
        Ok(Some(provider.build()))
    }
}

type Variable<'a> = &'a dyn Fn(&str) -> Option<String>;

fn exports_traces(variable: Variable<'_>) -> Result<bool, Error> {
    const NAME: &str = "OTEL_TRACES_EXPORTER";
    match variable(NAME) {
        None => Ok(true),
        Some(value) if value == "otlp" => Ok(true),
        Some(value) if value == "none" => Ok(false),
        Some(value) => Err(Error::Variable { variable: NAME, value, reason: "use otlp or none".to_owned() }),
    }
}

/// The first of `names` that is set, with its name.
fn first_set(variable: Variable<'_>, names: [&'static str; 2]) -> Option<(&'static str, String)> {
    names.into_iter().find_map(|name| variable(name).map(|value| (name, value)))
}

fn endpoint(variable: Variable<'_>) -> Result<Option<Endpoint>, Error> {
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let Some((name, value)) = first_set(variable, [TRACES, ALL]) else {
        return Ok(None);
    };
    let invalid = |reason: &str| Error::Variable { variable: name, value: value.clone(), reason: reason.to_owned() };
    let url = if value.contains("://") { value.clone() } else { format!("http://{value}") };
    let uri: http::Uri = url.parse().map_err(|_| invalid("use a URL such as http://localhost:4317"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => {
            return Err(invalid("TLS to a collector is not built in; send to a collector nearby over http://"));
        }
        _ => return Err(invalid("use a URL such as http://localhost:4317")),
    }
    let protocol = match protocol(variable)? {
        Some(protocol) => protocol,
        None if uri.port_u16() == Some(OTLP_GRPC_PORT) => Protocol::Grpc,
        None => Protocol::HttpProtobuf,
    };
    // The variable for traces is the full URL; the one for all signals is a base.
    let url = match protocol {
        Protocol::HttpProtobuf if name == ALL => format!("{}{HTTP_TRACES_PATH}", url.trim_end_matches('/')),
        _ => url,
    };
    Ok(Some(Endpoint { protocol, url }))
}

fn protocol(variable: Variable<'_>) -> Result<Option<Protocol>, Error> {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
    match first_set(variable, names) {
        None => Ok(None),
        Some((_, value)) if value == "grpc" => Ok(Some(Protocol::Grpc)),
        Some((_, value)) if value == "http/protobuf" => Ok(Some(Protocol::HttpProtobuf)),
        Some((variable, value)) => {
            Err(Error::Variable { variable, value, reason: "use grpc or http/protobuf".to_owned() })
        }
    }
}

fn sampler(variable: Variable<'_>) -> Result<Sampler, Error> {
    const NAME: &str = "OTEL_TRACES_SAMPLER";
    let parent_based = |root| Sampler::ParentBased(Box::new(root));
    Ok(match variable(NAME).as_deref() {
        None | Some("parentbased_always_on") => parent_based(Sampler::AlwaysOn),
        Some("parentbased_always_off") => parent_based(Sampler::AlwaysOff),
        Some("parentbased_traceidratio") => parent_based(Sampler::TraceIdRatioBased(ratio(variable)?)),
        Some("always_on") => Sampler::AlwaysOn,
        Some("always_off") => Sampler::AlwaysOff,
        Some("traceidratio") => Sampler::TraceIdRatioBased(ratio(variable)?),
        Some(value) => {
            let reason = "use always_on, always_off, traceidratio, or one of them after parentbased_".to_owned();
            return Err(Error::Variable { variable: NAME, value: value.to_owned(), reason });
        }
    })
}

/// The share of traces that are recorded; all of them when it is not given.
fn ratio(variable: Variable<'_>) -> Result<f64, Error> {
    const NAME: &str = "OTEL_TRACES_SAMPLER_ARG";
    let Some(value) = variable(NAME) else {
        return Ok(1.0);
    };
    match value.parse::<f64>() {
        Ok(ratio) if (0.0..=1.0).contains(&ratio) => Ok(ratio),
        _ => Err(Error::Variable { variable: NAME, value, reason: "use a number from 0 to 1".to_owned() }),
    }
}

/// Sends spans, counts what cannot be delivered, and says so now and then.
#[derive(Debug)]
struct ReportingExporter {
    exporter: SpanExporter,
    endpoint: String,
    failures: Mutex<FailureLog>,
}

impl ReportingExporter {
    fn new(endpoint: &Endpoint) -> Result<Self, Error> {
        let built = match endpoint.protocol {
            Protocol::Grpc => SpanExporter::builder().with_tonic().with_endpoint(&endpoint.url).build(),
            // Makes its blocking client in a thread of its own; the batch thread uses it and drops it.
            Protocol::HttpProtobuf => SpanExporter::builder()
                .with_http()
                .with_protocol(opentelemetry_otlp::Protocol::HttpBinary)
                .with_endpoint(&endpoint.url)
                .build(),
        };
        let exporter =
            built.map_err(|error| Error::Exporter { endpoint: endpoint.url.clone(), reason: error.to_string() })?;
        Ok(Self { exporter, endpoint: endpoint.url.clone(), failures: Mutex::new(FailureLog::default()) })
    }

    fn report(&self, result: &OTelSdkResult) {
        // A poisoned lock means a panic while counting; go on with what was counted.
        let mut failures = self.failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match result {
            Ok(()) => {
                if failures.succeeded() {
                    tracing::info!(endpoint = self.endpoint, "spans are delivered to the collector again");
                }
            }
            Err(error) => {
                metrics::counter!(metric::TRACE_EXPORT_FAILURES).increment(1);
                if let Some(failed_batches) = failures.failed(Instant::now()) {
                    tracing::warn!(
                        endpoint = self.endpoint,
                        failed_batches,
                        error = %error,
                        "spans could not be delivered and are lost; check the collector, the endpoint and OTEL_EXPORTER_OTLP_PROTOCOL"
                    );
                }
            }
        }
    }
}

impl opentelemetry_sdk::trace::SpanExporter for ReportingExporter {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let result = self.exporter.export(batch).await;
        self.report(&result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Decides which failures are worth a log line: the first, and then one a minute.
#[derive(Debug, Default)]
struct FailureLog {
    last_logged: Option<Instant>,
    not_logged: u64,
}

impl FailureLog {
    /// One more failure at `now`; how many to report, if it is time to.
    fn failed(&mut self, now: Instant) -> Option<u64> {
        self.not_logged += 1;
        if self.last_logged.is_some_and(|last| now.duration_since(last) < FAILURE_LOG_INTERVAL) {
            return None;
        }
        self.last_logged = Some(now);
        Some(std::mem::take(&mut self.not_logged))
    }

    /// A success; was the one before it a failure?
    fn succeeded(&mut self) -> bool {
        self.not_logged = 0;
        self.last_logged.take().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<TraceSettings, Error> {
        TraceSettings::from_variables("toller", false, |name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn nothing_is_exported_without_an_endpoint() {
        let settings =
            settings(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap();
        assert!(settings.enabled && settings.endpoint.is_none());
        assert_eq!(settings.service_name.as_deref(), Some("toller"));
    }

    #[test]
    fn endpoints_and_protocols_follow_the_specification() {
        let grpc = |url: &str| Endpoint { protocol: Protocol::Grpc, url: url.to_owned() };
        let http = |url: &str| Endpoint { protocol: Protocol::HttpProtobuf, url: url.to_owned() };
        let cases: [(&[(&str, &str)], Endpoint); 7] = [
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317")], grpc("http://c:4317")),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/")], http("http://c:4318/v1/traces")),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/base")], http("http://c:4318/base/v1/traces")),
            (&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:9/x")], http("http://c:9/x")),
            (&[("OTEL_EXPORTER_OTLP_ENDPOINT", "c:4317")], grpc("http://c:4317")),
            (
                &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:9"), ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")],
                grpc("http://c:9"),
            ),
            (
                &[
                    ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4317"),
                    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces:4317/v1/traces"),
                    ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
                    ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
                ],
                http("http://traces:4317/v1/traces"),
            ),
        ];
        for (variables, expected) in cases {
            assert_eq!(settings(variables).unwrap().endpoint, Some(expected), "{variables:?}");
        }
    }

    #[test]
    fn a_variable_that_cannot_be_used_is_named() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318");
        for (name, value) in [
            ("OTEL_TRACES_EXPORTER", "zipkin"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "GRPC"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://c"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://"),
            ("OTEL_TRACES_SAMPLER", "sometimes"),
        ] {
            let error = settings(&[endpoint, (name, value)]).unwrap_err();
            assert!(matches!(&error, Error::Variable { variable, .. } if *variable == name), "{name}: {error}");
        }
        for ratio in ["1.5", "-0.1", "NaN", "half"] {
            let variables = [("OTEL_TRACES_SAMPLER", "traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", ratio)];
            assert!(settings(&variables).is_err(), "{ratio}");
        }
    }

    #[test]
    fn samplers_by_name_with_parent_based_as_the_default() {
        let name = |variables: &[(&str, &str)]| format!("{:?}", settings(variables).unwrap().sampler);
        assert_eq!(name(&[]), "ParentBased(AlwaysOn)");
        assert_eq!(name(&[("OTEL_TRACES_SAMPLER", "always_off")]), "AlwaysOff");
        assert_eq!(
            name(&[("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"), ("OTEL_TRACES_SAMPLER_ARG", "0.25")]),
            "ParentBased(TraceIdRatioBased(0.25))"
        );
        assert_eq!(name(&[("OTEL_TRACES_SAMPLER", "traceidratio")]), "TraceIdRatioBased(1.0)");
    }

    #[test]
    fn a_name_in_the_environment_wins() {
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other");
        let both = settings(&[("OTEL_SERVICE_NAME", "mine"), attributes]).unwrap();
        assert_eq!(both.service_name.as_deref(), Some("mine"));
        assert_eq!(settings(&[("OTEL_RESOURCE_ATTRIBUTES", "a=b, service.name=mine")]).unwrap().service_name, None);
        assert!(settings(&[("OTEL_RESOURCE_ATTRIBUTES", "x.service.name=mine")]).unwrap().service_name.is_some());
    }

    #[test]
    fn the_sdk_and_the_exporter_can_be_switched_off() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4317");
        assert!(!settings(&[endpoint, ("OTEL_SDK_DISABLED", "TRUE")]).unwrap().enabled);
        assert!(settings(&[endpoint, ("OTEL_TRACES_EXPORTER", "none")]).unwrap().endpoint.is_none());
    }

    #[test]
    fn failures_are_logged_once_a_minute_and_recovery_once() {
        let mut log = FailureLog::default();
        let start = Instant::now();
        assert_eq!(log.failed(start), Some(1));
        assert_eq!(log.failed(start + Duration::from_secs(5)), None);
        assert_eq!(log.failed(start + Duration::from_secs(10)), None);
        assert_eq!(log.failed(start + FAILURE_LOG_INTERVAL), Some(3));
        assert!(log.succeeded());
        assert!(!log.succeeded());
        assert_eq!(log.failed(start + FAILURE_LOG_INTERVAL), Some(1));
    }
}
