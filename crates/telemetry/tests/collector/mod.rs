//! A real OTLP collector in a thread of its own, over gRPC or over HTTP with protobuf bodies.
#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

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
use tokio::runtime::Runtime;
use tokio_stream::wrappers::TcpListenerStream;

/// What one export brought.
#[derive(Clone)]
pub struct Export {
    pub request: ExportTraceServiceRequest,
    pub headers: http::HeaderMap,
}

#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<Export>>>);

/// Listens until it is dropped.
pub struct Collector {
    pub address: SocketAddr,
    received: Received,
    _runtime: Runtime,
}

impl Collector {
    pub fn grpc() -> Self {
        Self::start(|listener, received| async move {
            let service = TraceServiceServer::new(received);
            let server = tonic::transport::Server::builder().add_service(service);
            server.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
        })
    }

    pub fn http() -> Self {
        Self::start(|listener, received| async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                let received = received.clone();
                tokio::spawn(async move {
                    let service = service_fn(move |request| {
                        let received = received.clone();
                        async move { Ok::<_, Infallible>(answer_http(request, &received).await) }
                    });
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(connection), service)
                        .await;
                });
            }
        })
    }

    fn start<F, S>(serve: F) -> Self
    where
        F: FnOnce(TcpListener, Received) -> S,
        S: Future<Output = ()> + Send + 'static,
    {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let received = Received::default();
        runtime.spawn(serve(listener, received.clone()));
        Self { address, received, _runtime: runtime }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn exports(&self) -> Vec<Export> {
        self.received.0.lock().unwrap().clone()
    }

    /// All spans so far.
    pub fn spans(&self) -> Vec<Span> {
        self.exports()
            .into_iter()
            .flat_map(|export| export.request.resource_spans)
            .flat_map(|resource| resource.scope_spans)
            .flat_map(|scope| scope.spans)
            .collect()
    }

    /// The one span of that name.
    pub fn span(&self, name: &str) -> Span {
        let spans = self.spans();
        let names: Vec<_> = spans.iter().map(|span| span.name.clone()).collect();
        let mut named: Vec<_> = spans.into_iter().filter(|span| span.name == name).collect();
        assert_eq!(named.len(), 1, "spans named {name:?} among {names:?}");
        named.remove(0)
    }
}

#[tonic::async_trait]
impl TraceService for Received {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let headers = request.metadata().clone().into_headers();
        self.0.lock().unwrap().push(Export { request: request.into_inner(), headers });
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

async fn answer_http(request: http::Request<Incoming>, received: &Received) -> http::Response<Full<Bytes>> {
    assert_eq!(request.uri().path(), "/v1/traces");
    assert_eq!(request.headers()["content-type"], "application/x-protobuf");
    let headers = request.headers().clone();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    received.0.lock().unwrap().push(Export { request, headers });
    http::Response::new(Full::new(Bytes::from(ExportTraceServiceResponse::default().encode_to_vec())))
}

/// Attributes by key, each with its type and value as in `IntValue(4)`; a key must not stand twice.
pub fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let map: BTreeMap<_, _> = pairs
        .iter()
        .map(|pair| {
            let value = pair.value.as_ref().and_then(|value| value.value.as_ref()).unwrap();
            (pair.key.clone(), format!("{value:?}"))
        })
        .collect();
    assert_eq!(map.len(), pairs.len(), "a key stands twice among {pairs:?}");
    map
}

/// How [`attributes`] writes a string.
pub fn string(value: &str) -> String {
    format!("StringValue({value:?})")
}

/// How [`attributes`] writes an integer.
pub fn int(value: i64) -> String {
    format!("IntValue({value})")
}

/// How [`attributes`] writes a double.
pub fn double(value: f64) -> String {
    format!("DoubleValue({value:?})")
}
