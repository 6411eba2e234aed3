//! Log lines, for people or as JSON, each with the ids of the trace that it belongs to.
//!
//! Span fields are not repeated in log lines: the trace has them, and formatting them would cost every request.

use std::fmt;

use opentelemetry::trace::TraceContextExt;
use serde::Deserialize;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// One line for people.
    #[default]
    Human,
    /// One JSON object per line: `timestamp`, `level`, `target`, `message`, `trace_id`, `span_id`, and the event's fields.
    Json,
}

/// Writes one event.
pub(crate) struct LogLine(pub(crate) LogFormat);

/// Writes nothing for the fields of spans.
pub(crate) struct NoSpanFields;

impl<'writer> FormatFields<'writer> for NoSpanFields {
    fn format_fields<R: RecordFields>(&self, _: Writer<'writer>, _: R) -> fmt::Result {
        Ok(())
    }
}

impl<S, N> FormatEvent<S, N> for LogLine
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut timestamp = String::with_capacity(32);
        SystemTime.format_time(&mut Writer::new(&mut timestamp))?;
        let metadata = event.metadata();
        match self.0 {
            LogFormat::Human => write_human(&mut writer, &timestamp, metadata.level(), metadata.target(), fields),
            LogFormat::Json => write_json(&mut writer, timestamp, metadata.level(), metadata.target(), fields),
        }
    }
}

/// The message and the other fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn insert(&mut self, field: &Field, value: Value) {
        // Fields that begin with `log.` repeat the metadata of events that came from the `log` crate.
        if !field.name().starts_with("log.") {
            self.others.insert(field.name().to_owned(), value);
        }
    }
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            value.clone_into(&mut self.message);
        } else {
            self.insert(field, Value::from(value));
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, Value::from(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, Value::from(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, Value::from(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, Value::from(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.insert(field, Value::from(value.to_string()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.record_str(field, &format!("{value:?}"));
    }
}

fn write_json(writer: &mut Writer<'_>, timestamp: String, level: &Level, target: &str, fields: Fields) -> fmt::Result {
    let mut line = Map::new();
    line.insert("timestamp".to_owned(), Value::from(timestamp));
    line.insert("level".to_owned(), Value::from(level.as_str()));
    line.insert("target".to_owned(), Value::from(target));
    line.insert("message".to_owned(), Value::from(fields.message));
    if let Some((trace_id, span_id)) = current_ids() {
        line.insert("trace_id".to_owned(), Value::from(trace_id));
        line.insert("span_id".to_owned(), Value::from(span_id));
    }
    for (name, value) in fields.others {
        line.entry(name).or_insert(value);
    }
    writeln!(writer, "{}", Value::Object(line))
}

fn write_human(writer: &mut Writer<'_>, timestamp: &str, level: &Level, target: &str, fields: Fields) -> fmt::Result {
    if writer.has_ansi_escapes() {
        let colour = match *level {
            Level::ERROR => 31,
            Level::WARN => 33,
            Level::INFO => 32,
            Level::DEBUG => 34,
            Level::TRACE => 35,
        };
        write!(
            writer,
            "\u{1b}[2m{timestamp}\u{1b}[0m \u{1b}[{colour}m{level:>5}\u{1b}[0m \u{1b}[2m{target}:\u{1b}[0m "
        )?;
    } else {
        write!(writer, "{timestamp} {level:>5} {target}: ")?;
    }
    write_escaped(writer, &fields.message)?;
    for (name, value) in &fields.others {
        match value {
            Value::String(text) if is_plain(text) => write!(writer, " {name}={text}")?,
            Value::String(text) => write!(writer, " {name}={text:?}")?,
            other => write!(writer, " {name}={other}")?,
        }
    }
    if let Some((trace_id, _)) = current_ids() {
        write!(writer, " trace_id={trace_id}")?;
    }
    writeln!(writer)
}

/// Control characters are escaped, so that no text can forge a line or steer a terminal.
fn write_escaped(writer: &mut Writer<'_>, text: &str) -> fmt::Result {
    for character in text.chars() {
        if character.is_control() {
            write!(writer, "{}", character.escape_default())?;
        } else {
            writer.write_char(character)?;
        }
    }
    Ok(())
}

/// Can it stand without quotes?
fn is_plain(text: &str) -> bool {
    !text.is_empty()
        && !text
            .chars()
            .any(|character| character.is_control() || character.is_whitespace() || "\"=".contains(character))
}

/// Trace id and span id in hexadecimal; none outside of a trace.
fn current_ids() -> Option<(String, String)> {
    // The OpenTelemetry layer makes the context of an entered span the current one.
    let context = opentelemetry::Context::current();
    let span = context.span();
    let span_context = span.span_context();
    span_context.is_valid().then(|| (span_context.trace_id().to_string(), span_context.span_id().to_string()))
}
