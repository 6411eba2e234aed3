//! The start and the end of telemetry: one call at the beginning of a process, one at its end.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::time::Duration;

use metrics_exporter_prometheus::PrometheusHandle;
use opentelemetry::global;
use opentelemetry::trace::TracerProvider;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Runtime;
use tracing::level_filters::LevelFilter;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::content::ContentPolicy;
use crate::error::Error;
use crate::logs::{LogFormat, LogLine, NoSpanFields};
use crate::traces::TraceSettings;
use crate::{metrics, metrics_listener, propagation};

/// Name of the tracer, and the beginning of every target whose spans are exported.
const SCOPE: &str = "toller";

/// What the OpenTelemetry crates say about themselves is kept out of the logs unless it is asked for: the exporter reports
/// its failures itself, sparsely, while they report each.
const QUIET_TARGET: &str = "opentelemetry";

/// What telemetry shall do.
#[derive(Debug, Clone)]
pub struct TelemetryConfig {
    /// `service.name` of the traces, unless the environment says another.
    pub service_name: String,
    /// `service.version` of the traces.
    pub service_version: String,
    /// How log lines look.
    pub log_format: LogFormat,
    /// Least level of log lines, such as `info`, or `target=level` pairs such as `info,toller_store=debug`.
    pub log_level: String,
    /// Where Prometheus scrapes; port 0 for a free one; none for no metrics.
    pub metrics_listen: Option<SocketAddr>,
    /// May spans carry query texts, document texts and vectors?
    pub record_content: bool,
}

impl Default for TelemetryConfig {
    fn default() -> Self {
        Self {
            service_name: SCOPE.to_owned(),
            service_version: env!("CARGO_PKG_VERSION").to_owned(),
            log_format: LogFormat::default(),
            log_level: "info".to_owned(),
            metrics_listen: None,
            record_content: false,
        }
    }
}

/// The way to start telemetry.
pub struct Telemetry;

impl Telemetry {
    /// Starts logs on standard error, traces by OpenTelemetry's standard variables (see [`TraceSettings::from_variables`]),
    /// and metrics. Once per process, before any handle of [`crate::metrics`] is made; inside or outside of an async runtime.
    ///
    /// # Errors
    /// A configuration that cannot be used, an address in use, or telemetry that runs already.
    pub fn start(config: &TelemetryConfig) -> Result<TelemetryGuard, Error> {
        let variable = |name: &str| std::env::var(name).ok();
        let settings = TraceSettings::from_variables(&config.service_name, config.record_content, variable)?;
        let filter = log_filter(&config.log_level)?;

        // A runtime of its own: exports and scrapes go on while the service's threads are busy, and it may be started,
        // flushed and stopped wherever the service is in its life.
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("toller-telemetry")
            .enable_all()
            .build()
            .map_err(Error::Threads)?;
        let guard_parts = start_on(&runtime, config, &settings);
        let (provider, metrics_address, metrics) = match guard_parts {
            Ok(parts) => parts,
            Err(error) => {
                runtime.shutdown_background();
                return Err(error);
            }
        };
        ContentPolicy::from_variables(config.record_content, variable).install();
        global::set_text_map_propagator(propagation::composite());
        let installed =
            subscriber(provider.as_ref(), config.log_format, filter, std::io::stderr, std::io::stderr().is_terminal())
                .try_init();
        let guard = TelemetryGuard { runtime: Some(runtime), provider, metrics_address, metrics };
        installed.map_err(|_| Error::AlreadyStarted("log subscriber"))?;
        if let Some(endpoint) = &settings.endpoint
            && settings.enabled
        {
            tracing::info!(endpoint = endpoint.url, protocol = ?endpoint.protocol, "traces are exported");
        }
        if let Some(address) = guard.metrics_address {
            tracing::info!(%address, path = metrics_listener::METRICS_PATH, "metrics are served");
        }
        Ok(guard)
    }
}

type Parts = (Option<SdkTracerProvider>, Option<SocketAddr>, Option<PrometheusHandle>);

fn start_on(runtime: &Runtime, config: &TelemetryConfig, settings: &TraceSettings) -> Result<Parts, Error> {
    // A thread of its own, since the caller may be inside of a runtime and must not block on another.
    std::thread::scope(|scope| {
        let started = scope.spawn(|| {
            runtime.block_on(async {
                let listener = match config.metrics_listen {
                    Some(address) => Some((metrics_listener::bind(address).await?, address)),
                    None => None,
                };
                let provider = settings.provider(&config.service_version)?;
                let Some((listener, address)) = listener else {
                    return Ok((provider, None, None));
                };
                let bound = listener.local_addr().map_err(|source| Error::MetricsListen { address, source })?;
                let recorder = metrics_listener::recorder()?;
                let handle = recorder.handle();
                ::metrics::set_global_recorder(recorder).map_err(|_| Error::AlreadyStarted("metrics recorder"))?;
                metrics::describe();
                tokio::spawn(metrics_listener::serve(listener, handle.clone()));
                Ok((provider, Some(bound), Some(handle)))
            })
        });
        started.join().unwrap_or_else(|_| Err(Error::Threads(std::io::Error::other("a thread of the set-up panicked"))))
    })
}

/// Reads the log level, and keeps OpenTelemetry's own lines out where it does not name them.
fn log_filter(level: &str) -> Result<EnvFilter, Error> {
    let directives =
        if level.contains(QUIET_TARGET) { level.to_owned() } else { format!("{level},{QUIET_TARGET}=off") };
    EnvFilter::builder()
        .parse(directives)
        .map_err(|error| Error::LogFilter { filter: level.to_owned(), reason: error.to_string() })
}

/// The subscriber that turns spans into traces and events into log lines.
fn subscriber<W>(
    provider: Option<&SdkTracerProvider>,
    format: LogFormat,
    filter: EnvFilter,
    writer: W,
    ansi: bool,
) -> impl Subscriber + Send + Sync
where
    W: for<'writer> MakeWriter<'writer> + Send + Sync + 'static,
{
    let logs = tracing_subscriber::fmt::layer()
        .event_format(LogLine(format))
        .fmt_fields(NoSpanFields)
        .with_ansi(ansi && format == LogFormat::Human)
        .with_writer(writer)
        .with_filter(filter);
    Registry::default().with(provider.map(trace_layer)).with(logs)
}

/// The layer that exports Toller's spans through `provider`; what other crates say stays out of them, the exporter's own
/// calls first of all, which would export themselves for ever.
pub fn trace_layer<S>(provider: &SdkTracerProvider) -> impl Layer<S> + Send + Sync + use<S>
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup> + Send + Sync,
{
    tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(SCOPE))
        .with_location(false)
        .with_threads(false)
        .with_level(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(FilterFn::new(is_exported).with_max_level_hint(LevelFilter::INFO))
}

/// Toller's spans, and its warnings and errors within them.
fn is_exported(metadata: &Metadata<'_>) -> bool {
    let least = if metadata.is_span() { LevelFilter::INFO } else { LevelFilter::WARN };
    metadata.target().starts_with(SCOPE) && *metadata.level() <= least
}

/// Holds what telemetry runs on. Dropped without [`TelemetryGuard::shutdown`], the last spans may be lost.
#[must_use = "telemetry ends when the guard is dropped"]
pub struct TelemetryGuard {
    runtime: Option<Runtime>,
    provider: Option<SdkTracerProvider>,
    metrics_address: Option<SocketAddr>,
    metrics: Option<PrometheusHandle>,
}

impl TelemetryGuard {
    /// Where metrics are served; none when they are off.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// The metrics in Prometheus' text format; none when they are off.
    pub fn render_metrics(&self) -> Option<String> {
        self.metrics.as_ref().map(PrometheusHandle::render)
    }

    /// Delivers the last spans and stops. Blocks for `limit` at most, on threads of its own, so that it may be called
    /// from an async main at its end.
    ///
    /// # Errors
    /// [`Error::Flush`] when the collector did not take them in time.
    pub fn shutdown(mut self, limit: Duration) -> Result<(), Error> {
        let flushed = match self.provider.take() {
            Some(provider) => provider.shutdown_with_timeout(limit).map_err(|error| Error::Flush(error.to_string())),
            None => Ok(()),
        };
        self.stop();
        flushed
    }

    fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Not a plain drop, which waits and must not happen on an async thread.
            runtime.shutdown_background();
        }
    }
}

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn logged(format: LogFormat, level: &str, log: impl FnOnce()) -> String {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let provider = SdkTracerProvider::builder().build();
        let subscriber = subscriber(Some(&provider), format, log_filter(level).unwrap(), move || writer.clone(), false);
        tracing::subscriber::with_default(subscriber, log);
        let bytes = buffer.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn json_lines_carry_fields_and_the_ids_of_their_trace() {
        let mut expected = None;
        let text = logged(LogFormat::Json, "info", || {
            let span = crate::spans::mmr(20, 4, 0.5);
            let _entered = span.enter();
            expected = crate::current_trace_parent();
            tracing::info!(answer = 42, ratio = 0.5, name = "a \"b\"\n", level = "mine", "it {}", "works");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        let parent = expected.unwrap();
        assert_eq!(line["message"], "it works");
        assert_eq!(line["level"], "INFO");
        assert_eq!(line["target"], "toller_telemetry::setup::tests");
        assert_eq!(line["answer"], 42);
        assert_eq!(line["ratio"], 0.5);
        assert_eq!(line["name"], "a \"b\"\n");
        let hexadecimal = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(line["trace_id"], hexadecimal(&parent.trace_id));
        assert_eq!(line["span_id"], hexadecimal(&parent.span_id));
        assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    }

    #[test]
    fn a_text_cannot_forge_a_human_line() {
        let text = logged(LogFormat::Human, "info", || {
            tracing::warn!(query = "x\n2026 ERROR forged", plain = "word", "first\nsecond\u{1b}[31m");
        });
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(text.contains("WARN toller_telemetry::setup::tests: first\\nsecond\\u{1b}[31m"), "{text}");
        assert!(text.contains("query=\"x\\n2026 ERROR forged\" plain=word"), "{text}");
        assert!(!text.contains("trace_id"), "{text}");
    }

    #[test]
    fn levels_filter_by_target_and_a_wrong_one_is_refused() {
        let text = logged(LogFormat::Human, "warn,toller_telemetry=debug", || {
            tracing::debug!("seen");
            tracing::info!(target: "other", "unseen");
            tracing::error!(target: "opentelemetry_sdk", "unseen");
        });
        assert!(text.contains("seen") && !text.contains("unseen"), "{text}");
        assert!(matches!(log_filter("toller=loud"), Err(Error::LogFilter { .. })));
    }

    #[test]
    fn only_our_spans_are_exported() {
        let buffer = Buffer::default();
        let provider = SdkTracerProvider::builder().build();
        let writer = move || buffer.clone();
        let subscriber = subscriber(Some(&provider), LogFormat::Human, log_filter("trace").unwrap(), writer, false);
        tracing::subscriber::with_default(subscriber, || {
            let foreign = tracing::info_span!(target: "hyper", "foreign");
            assert_eq!(propagation::trace_parent(&foreign), None);
            let debug = tracing::debug_span!("too fine");
            assert_eq!(propagation::trace_parent(&debug), None);
            assert!(propagation::trace_parent(&tracing::info_span!("ours")).is_some());
        });
    }
}
