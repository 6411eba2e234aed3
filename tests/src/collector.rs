//! A real OTLP collector in the test's own process, over gRPC or over HTTP with protobuf bodies.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;

use crate::server::Settings;

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<ExportTraceServiceRequest>>>);

/// Listens until it is dropped.
pub struct Collector {
    address: SocketAddr,
    protocol: &'static str,
    received: Received,
    serving: JoinHandle<()>,
}

impl Collector {
    /// A collector that speaks gRPC.
    pub async fn grpc() -> Self {
        let (listener, address) = listen().await;
        let received = Received::default();
        let server = tonic::transport::Server::builder().add_service(TraceServiceServer::new(received.clone()));
        let serving = tokio::spawn(async move {
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.expect("the collector serves");
        });
        Self { address, protocol: "grpc", received, serving }
    }

    /// A collector that speaks HTTP/1.1 with protobuf bodies.
    pub async fn http() -> Self {
        let (listener, address) = listen().await;
        let received = Received::default();
        let serving = tokio::spawn(serve_http(listener, received.clone()));
        Self { address, protocol: "http/protobuf", received, serving }
    }

    /// The settings of a server that exports here.
    pub fn settings(&self) -> Settings {
        Settings::new()
            .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{}", self.address))
            .variable("OTEL_EXPORTER_OTLP_PROTOCOL", self.protocol)
    }

    /// What arrived. A server delivers its last spans before it ends, so ask after that.
    pub fn exports(&self) -> Vec<ExportTraceServiceRequest> {
        self.received.0.lock().expect("nobody panicked with the lock").clone()
    }

    /// Every span that arrived.
    pub fn spans(&self) -> Vec<Span> {
        let resources = self.exports().into_iter().flat_map(|export| export.resource_spans);
        resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
    }

    /// The spans of a name, in the order of their start.
    pub fn named(&self, name: &str) -> Vec<Span> {
        let mut spans: Vec<Span> = self.spans().into_iter().filter(|span| span.name == name).collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }

    /// The one span of a name.
    pub fn span(&self, name: &str) -> Span {
        let mut spans = self.named(name);
        let all: Vec<String> = self.spans().into_iter().map(|span| span.name).collect();
        assert_eq!(spans.len(), 1, "spans named {name:?} among {all:?}");
        spans.remove(0)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("its address");
    (listener, address)
}

async fn serve_http(listener: TcpListener, received: Received) {
    while let Ok((connection, _)) = listener.accept().await {
        let received = received.clone();
        tokio::spawn(async move {
            let service = service_fn(move |request| {
                let received = received.clone();
                async move { Ok::<_, Infallible>(answer_http(request, &received).await) }
            });
            let _ =
                hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(connection), service).await;
        });
    }
}

async fn answer_http(request: hyper::Request<Incoming>, received: &Received) -> hyper::Response<Full<Bytes>> {
    assert_eq!(request.uri().path(), "/v1/traces");
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    let body = request.into_body().collect().await.expect("the body arrives").to_bytes();
    received.take(ExportTraceServiceRequest::decode(body).expect("the body is an export"));
    hyper::Response::new(Full::new(Bytes::from(ExportTraceServiceResponse::default().encode_to_vec())))
}

impl Received {
    fn take(&self, export: ExportTraceServiceRequest) {
        self.0.lock().expect("nobody panicked with the lock").push(export);
    }
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        self.take(request.into_inner());
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

/// Attributes by key, each with its type and value as in `IntValue(4)`; a key must not stand twice.
pub fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let map: BTreeMap<_, _> = pairs
        .iter()
        .map(|pair| {
            let value = pair.value.as_ref().and_then(|value| value.value.as_ref());
            (pair.key.clone(), format!("{:?}", value.expect("an attribute has a value")))
        })
        .collect();
    assert_eq!(map.len(), pairs.len(), "a key stands twice among {pairs:?}");
    map
}

/// How [`attributes`] writes a string.
pub fn string_attribute(value: &str) -> String {
    format!("StringValue({value:?})")
}

/// How [`attributes`] writes an integer.
pub fn int_attribute(value: i64) -> String {
    format!("IntValue({value})")
}

/// How [`attributes`] writes a double.
pub fn double_attribute(value: f64) -> String {
    format!("DoubleValue({value:?})")
}
