//! `toller spans`: a small receiver of OTLP traces that prints spans, for a first look without a collector.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tonic::codec::CompressionEncoding;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

use crate::client::block_on;
use crate::error::{Error, Outcome};
use crate::output::Output;
use crate::signals::StopSignals;
use crate::terminal::{Look, Style, one_line, say};

/// Largest batch of spans in bytes.
const MAX_BATCH_BYTES: usize = 64 << 20;

/// Longest value of an attribute in characters; document texts may be among them.
const VALUE_CHARS: usize = 500;

/// Receive OTLP traces (gRPC) and print their spans
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each span is a block: name, duration and status, then its attributes by name, then an empty line. Spans of one trace that come in one batch
are nested. Ends on SIGTERM or Ctrl-C.

Example, in two shells:
  toller spans --listen 127.0.0.1:4317 --name-prefix retrieval
  OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 OTEL_EXPORTER_OTLP_PROTOCOL=grpc toller serve

The protocol must be said, since only gRPC is spoken here and senders default to http/protobuf on ports other than 4317.")]
pub(crate) struct Args {
    /// Address to listen on; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4317")]
    listen: SocketAddr,
    /// Print only spans whose name begins with this
    #[arg(long, value_name = "PREFIX", default_value = "", hide_default_value = true)]
    name_prefix: String,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    block_on(async {
        let mut signals = StopSignals::catch()?;
        let cannot_listen = |fault| {
            Error::Failed(format!("cannot listen on {}: {fault}; choose another address with --listen", args.listen))
        };
        let listener = TcpListener::bind(args.listen).await.map_err(cannot_listen)?;
        let address = listener.local_addr().map_err(cannot_listen)?;
        say(format_args!("spans are received on http://{address}; start the sender with\n  {}", variables(address)));

        let printer = Arc::new(Printer {
            output: Mutex::new(Output::new()),
            name_prefix: args.name_prefix,
            reader_is_gone: Notify::new(),
        });
        let service = TraceServiceServer::from_arc(Arc::clone(&printer))
            .accept_compressed(CompressionEncoding::Gzip)
            .accept_compressed(CompressionEncoding::Zstd)
            .max_decoding_message_size(MAX_BATCH_BYTES);
        let stop = async {
            tokio::select! {
                _ = signals.next() => {}
                () = printer.reader_is_gone.notified() => {}
            }
        };
        Server::builder()
            .add_service(service)
            .serve_with_incoming_shutdown(TcpIncoming::from(listener), stop)
            .await
            .map_err(|fault| Error::Failed(format!("receiving spans failed: {fault}")))?;
        Ok(ExitCode::SUCCESS)
    })
}

/// What a sender must be told. The protocol too, since it is HTTP for most senders and ports, and only gRPC is spoken here.
fn variables(address: SocketAddr) -> String {
    format!("OTEL_EXPORTER_OTLP_ENDPOINT=http://{address} OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
}

struct Printer {
    output: Mutex<Output>,
    name_prefix: String,
    /// Nobody reads standard output any more.
    reader_is_gone: Notify,
}

#[tonic::async_trait]
impl TraceService for Printer {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = blocks(request.get_ref(), &self.name_prefix, output.look);
        // An empty line after each, and flushed one by one, so that whoever waits for a span in a pipe sees it at once.
        let printed =
            blocks.iter().try_for_each(|block| output.line(format_args!("{block}\n")).and_then(|()| output.flush()));
        if printed.is_err() {
            self.reader_is_gone.notify_one();
            return Err(Status::unavailable("the receiver is stopping"));
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A span with the service that sent it.
struct Received<'a> {
    span: &'a Span,
    service: &'a str,
}

/// One block of text for each span whose name begins with `name_prefix`: traces by their beginning, within each the parents
/// before their children. A span below one that is left out stands below the next one that is not.
fn blocks(request: &ExportTraceServiceRequest, name_prefix: &str, look: Look) -> Vec<String> {
    let mut received: Vec<Received<'_>> = Vec::new();
    for resource_spans in &request.resource_spans {
        let attributes = resource_spans.resource.as_ref().map(|resource| resource.attributes.as_slice());
        let service = attributes.unwrap_or_default().iter().find_map(service_name).unwrap_or("unknown");
        for scope_spans in &resource_spans.scope_spans {
            received.extend(scope_spans.spans.iter().map(|span| Received { span, service }));
        }
    }
    received.sort_by_key(|received| received.span.start_time_unix_nano);

    let key = |span: &Span| (span.trace_id.clone(), span.span_id.clone());
    let parent_key = |span: &Span| (span.trace_id.clone(), span.parent_span_id.clone());
    let known: BTreeSet<_> = received.iter().map(|received| key(received.span)).collect();
    let mut children: BTreeMap<_, Vec<&Received<'_>>> = BTreeMap::new();
    let mut roots = Vec::new();
    for one in &received {
        if known.contains(&parent_key(one.span)) {
            children.entry(parent_key(one.span)).or_default().push(one);
        } else {
            roots.push(one);
        }
    }

    let mut blocks = Vec::new();
    // Depth first with a list of its own, since a sender decides how deep spans nest. Each span is taken once.
    let mut waiting: Vec<(&Received<'_>, usize)> = roots.into_iter().rev().map(|root| (root, 0)).collect();
    while let Some((one, depth)) = waiting.pop() {
        let is_printed = one.span.name.starts_with(name_prefix);
        if is_printed {
            blocks.push(block(one, depth, look));
        }
        let below = depth + usize::from(is_printed);
        let its_children = children.remove(&key(one.span)).unwrap_or_default();
        waiting.extend(its_children.into_iter().rev().map(|child| (child, below)));
    }
    blocks
}

fn service_name(attribute: &KeyValue) -> Option<&str> {
    match attribute.value.as_ref()?.value.as_ref()? {
        Value::StringValue(name) if attribute.key == "service.name" => Some(name),
        _ => None,
    }
}

fn block(received: &Received<'_>, depth: usize, look: Look) -> String {
    let span = received.span;
    let indent = "  ".repeat(depth);
    let nanos = span.end_time_unix_nano.saturating_sub(span.start_time_unix_nano);
    let name = look.paint(Style::Bold, &one_line(&span.name, VALUE_CHARS));
    let mut lines = vec![format!("{indent}{name}  {:.3} ms{}", nanos as f64 / 1e6, status(span, look))];

    let mut ids = format!("trace {}  span {}", hexadecimal(&span.trace_id), hexadecimal(&span.span_id));
    if !span.parent_span_id.is_empty() {
        ids.push_str(&format!("  parent {}", hexadecimal(&span.parent_span_id)));
    }
    let kind = kind_name(span.kind());
    ids.push_str(&format!("  kind {kind}  service {}", one_line(received.service, VALUE_CHARS)));
    lines.push(format!("{indent}    {}", look.paint(Style::Faint, &ids)));

    lines.extend(attributes(&span.attributes).map(|line| format!("{indent}    {line}")));
    for event in &span.events {
        lines.push(format!("{indent}    event {}", one_line(&event.name, VALUE_CHARS)));
        lines.extend(attributes(&event.attributes).map(|line| format!("{indent}      {line}")));
    }
    for link in &span.links {
        let (trace, linked) = (hexadecimal(&link.trace_id), hexadecimal(&link.span_id));
        lines.push(format!("{indent}    link to trace {trace}  span {linked}"));
    }
    lines.join("\n")
}

fn status(span: &Span, look: Look) -> String {
    let Some(status) = &span.status else { return String::new() };
    match status.code() {
        StatusCode::Unset => String::new(),
        StatusCode::Ok => "  ok".to_owned(),
        StatusCode::Error if status.message.is_empty() => format!("  {}", look.paint(Style::Fault, "error")),
        StatusCode::Error => {
            let message = one_line(&status.message, VALUE_CHARS);
            format!("  {}", look.paint(Style::Fault, &format!("error: {message}")))
        }
    }
}

fn kind_name(kind: SpanKind) -> &'static str {
    match kind {
        SpanKind::Unspecified => "unspecified",
        SpanKind::Internal => "internal",
        SpanKind::Server => "server",
        SpanKind::Client => "client",
        SpanKind::Producer => "producer",
        SpanKind::Consumer => "consumer",
    }
}

/// One line for each attribute, by name.
fn attributes(attributes: &[KeyValue]) -> impl Iterator<Item = String> {
    let mut sorted: Vec<_> = attributes.iter().collect();
    sorted.sort_by(|a, b| a.key.cmp(&b.key));
    sorted.into_iter().map(|attribute| {
        let value = attribute.value.as_ref().map(json).unwrap_or_default().to_string();
        format!("{} = {}", one_line(&attribute.key, VALUE_CHARS), one_line(&value, VALUE_CHARS))
    })
}

/// The value as JSON, in which text and number cannot be mistaken for each other.
fn json(value: &AnyValue) -> serde_json::Value {
    match &value.value {
        Some(Value::StringValue(text)) => text.as_str().into(),
        Some(Value::BoolValue(flag)) => (*flag).into(),
        Some(Value::IntValue(number)) => (*number).into(),
        Some(Value::DoubleValue(number)) => (*number).into(),
        Some(Value::ArrayValue(array)) => array.values.iter().map(json).collect(),
        Some(Value::KvlistValue(list)) => list
            .values
            .iter()
            .map(|entry| (entry.key.clone(), entry.value.as_ref().map(json).unwrap_or_default()))
            .collect(),
        Some(Value::BytesValue(bytes)) => hexadecimal(bytes).into(),
        // An index into a table that OTLP sends with profiles only.
        Some(Value::StringValueStrindex(_)) | None => serde_json::Value::Null,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::resource::v1::Resource;
    use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Status as SpanStatus};

    use super::*;

    fn attribute(key: &str, value: Value) -> KeyValue {
        KeyValue { key: key.to_owned(), value: Some(AnyValue { value: Some(value) }), ..Default::default() }
    }

    fn span(id: u8, parent: u8, name: &str, start: u64) -> Span {
        Span {
            trace_id: vec![0xaa; 16],
            span_id: vec![id; 8],
            parent_span_id: if parent == 0 { vec![] } else { vec![parent; 8] },
            name: name.to_owned(),
            kind: SpanKind::Internal.into(),
            start_time_unix_nano: start,
            end_time_unix_nano: start + 1_500_000,
            ..Default::default()
        }
    }

    fn request(spans: Vec<Span>) -> ExportTraceServiceRequest {
        let attributes = vec![attribute("service.name", Value::StringValue("toller".to_owned()))];
        let resource = Some(Resource { attributes, ..Default::default() });
        let scope_spans = vec![ScopeSpans { spans, ..Default::default() }];
        ExportTraceServiceRequest {
            resource_spans: vec![ResourceSpans { resource, scope_spans, ..Default::default() }],
        }
    }

    #[test]
    fn senders_are_told_address_and_protocol() {
        assert_eq!(
            variables(SocketAddr::from(([127, 0, 0, 1], 5000))),
            "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:5000 OTEL_EXPORTER_OTLP_PROTOCOL=grpc"
        );
    }

    #[test]
    fn a_span_is_a_readable_block() {
        let mut one = span(1, 0, "retrieval docs", 10);
        one.attributes = vec![
            attribute("toller.retriever.name", Value::StringValue("docs".to_owned())),
            attribute("k", Value::IntValue(4)),
            attribute("score", Value::DoubleValue(1.0)),
        ];
        one.status = Some(SpanStatus { code: StatusCode::Error.into(), message: "no \u{1b}luck".to_owned() });
        let expected = format!(
            "retrieval docs  1.500 ms  error: no luck\n    trace {}  span {}  kind internal  service toller\n    \
             k = 4\n    score = 1.0\n    toller.retriever.name = \"docs\"",
            "aa".repeat(16),
            "01".repeat(8)
        );
        assert_eq!(blocks(&request(vec![one]), "", Look::plain()), [expected]);
    }

    fn outline(spans: Vec<Span>, name_prefix: &str) -> Vec<String> {
        let blocks = blocks(&request(spans), name_prefix, Look::plain());
        blocks.iter().filter_map(|block| block.split("  1.500").next()).map(str::to_owned).collect()
    }

    #[test]
    fn children_stand_below_their_parents_in_the_order_of_time() {
        // Exporters send children first: they end first.
        let spans = vec![
            span(3, 2, "embeddings", 12),
            span(4, 2, "store", 13),
            span(2, 1, "retrieval docs", 11),
            span(1, 9, "grpc", 10),
            span(5, 0, "other", 5),
        ];
        assert_eq!(outline(spans.clone(), ""), ["other", "grpc", "  retrieval docs", "    embeddings", "    store"]);
        assert_eq!(outline(spans.clone(), "retrieval"), ["retrieval docs"]);
        assert_eq!(outline(spans, "store"), ["store"]);
    }

    #[test]
    fn a_span_that_is_its_own_ancestor_ends_nothing() {
        let spans = vec![span(1, 1, "loop", 1), span(2, 0, "plain", 2)];
        assert_eq!(outline(spans, ""), ["plain"]);
    }
}
