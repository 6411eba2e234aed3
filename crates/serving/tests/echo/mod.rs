//! A small service that does what its messages say, a server around it, and a client without timers of its own.
#![allow(clippy::unwrap_used, clippy::panic, dead_code, unreachable_pub, reason = "a part of tests, which may panic")]

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use http::{Request, Response, Uri};
use http_body::Frame;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use prost_types::{FileDescriptorProto, FileDescriptorSet, MethodDescriptorProto, ServiceDescriptorProto};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use toller_core::context::Cancellation;
use toller_core::error::ResourceKind;
use toller_core::{Error, RequestContext, Role};
use toller_serving::context::answer;
use toller_serving::server::{Server, ServerConfig, bind};
use toller_serving::status::status;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::BoxFuture;
use tonic::server::{Grpc, NamedService, ServerStreamingService, UnaryService};
use tonic_prost::ProstCodec;
use tower::Service;

/// How long a test waits for what must happen.
pub const SOON: Duration = Duration::from_secs(60);

/// A call that its test holds.
pub struct Held {
    pub cancellation: Cancellation,
    /// Lets the call answer.
    pub release: oneshot::Sender<()>,
    /// Completes when the handler is gone, answered or not.
    pub gone: oneshot::Receiver<()>,
}

#[derive(Clone)]
pub struct Echo {
    held: mpsc::UnboundedSender<Held>,
}

impl Echo {
    /// `whoami` names the principal, `missing` fails, `panic` panics, `hold` waits for the test; everything else comes back.
    async fn answer(&self, context: RequestContext, message: String) -> Result<String, Error> {
        match message.as_str() {
            "whoami" => {
                let principal = context.principal();
                Ok(format!("{} {} {}", principal.name, principal.tenant, principal.role))
            }
            "missing" => Err(Error::NotFound { kind: ResourceKind::Collection, name: "docs".to_owned() }),
            "panic" => panic!("as asked"),
            "hold" => {
                let (release, released) = oneshot::channel();
                let (_gone_when_dropped, gone) = oneshot::channel();
                let held = Held { cancellation: context.cancellation().clone(), release, gone };
                self.held.send(held).map_err(|_| Error::Internal("the test is over".to_owned()))?;
                let _ = released.await;
                Ok("released".to_owned())
            }
            _ => Ok(message),
        }
    }
}

impl UnaryService<String> for Echo {
    type Response = String;
    type Future = BoxFuture<tonic::Response<String>, Status>;

    fn call(&mut self, request: tonic::Request<String>) -> Self::Future {
        let echo = self.clone();
        Box::pin(answer(request, Role::Reader, async move |context, message| echo.answer(context, message).await))
    }
}

/// Answers the message once, and then `panic` panics, and everything else goes on for ever.
#[derive(Clone)]
struct EchoStream;

impl ServerStreamingService<String> for EchoStream {
    type Response = String;
    type ResponseStream = BoxStream<'static, Result<String, Status>>;
    type Future = BoxFuture<tonic::Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: tonic::Request<String>) -> Self::Future {
        let message = request.into_inner();
        let first = futures::stream::iter([Ok(message.clone())]);
        let mut is_first_out = false;
        let rest = futures::stream::poll_fn(move |context| {
            if std::mem::replace(&mut is_first_out, true) {
                assert_ne!(message, "panic", "as asked");
            } else {
                // tonic sends what it has when the stream has no more for now.
                context.waker().wake_by_ref();
            }
            Poll::Pending
        });
        Box::pin(async move { Ok(tonic::Response::new(first.chain(rest).boxed())) })
    }
}

impl NamedService for Echo {
    const NAME: &'static str = "test.Echo";
}

impl Service<Request<Body>> for Echo {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let echo = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(ProstCodec::<String, String>::default());
            Ok(match request.uri().path() {
                "/test.Echo/Call" => grpc.unary(echo, request).await,
                "/test.Echo/Stream" => grpc.server_streaming(EchoStream, request).await,
                _ => Status::unimplemented("no such method").into_http(),
            })
        })
    }
}

/// The descriptors of [`Echo`].
fn descriptors() -> &'static [u8] {
    let method = |name: &str| MethodDescriptorProto {
        name: Some(name.to_owned()),
        input_type: Some(".test.Text".to_owned()),
        output_type: Some(".test.Text".to_owned()),
        ..MethodDescriptorProto::default()
    };
    let service = ServiceDescriptorProto {
        name: Some("Echo".to_owned()),
        method: vec![method("Call"), method("Stream")],
        ..ServiceDescriptorProto::default()
    };
    let text =
        prost_types::DescriptorProto { name: Some("Text".to_owned()), ..prost_types::DescriptorProto::default() };
    let file = FileDescriptorProto {
        name: Some("test/echo.proto".to_owned()),
        package: Some("test".to_owned()),
        message_type: vec![text],
        service: vec![service],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    };
    Box::leak(FileDescriptorSet { file: vec![file] }.encode_to_vec().into_boxed_slice())
}

/// A running server.
pub struct Running {
    pub address: SocketAddr,
    /// Calls that said `hold`.
    pub held: mpsc::UnboundedReceiver<Held>,
    shutdown: Option<oneshot::Sender<()>>,
    served: JoinHandle<Result<(), toller_serving::Error>>,
}

impl Running {
    pub async fn start(config: ServerConfig) -> Self {
        let (sender, held) = mpsc::unbounded_channel();
        let (shutdown, shutdown_requested) = oneshot::channel();
        let (ready, is_ready) = oneshot::channel();
        let listener = bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let address = listener.address();
        let server = Server::new(config)
            .reflection(descriptors())
            .bulk_methods(&["test.Echo/Stream"])
            .add_service(Echo { held: sender });
        let served = tokio::spawn(async move {
            let shutdown = async { shutdown_requested.await.unwrap() };
            server.serve(listener, shutdown, || ready.send(()).unwrap()).await
        });
        is_ready.await.unwrap();
        Self { address, held, shutdown: Some(shutdown), served }
    }

    /// The next call that holds.
    pub async fn next_held(&mut self) -> Held {
        tokio::time::timeout(SOON, self.held.recv()).await.unwrap().unwrap()
    }

    pub fn request_shutdown(&mut self) {
        self.shutdown.take().unwrap().send(()).unwrap();
    }

    /// Waits until the server has ended.
    pub async fn ended(self) {
        tokio::time::timeout(SOON, self.served).await.unwrap().unwrap().unwrap();
    }
}

/// One HTTP/2 connection. Unlike tonic's channel it has no timer for `grpc-timeout`, so that all answers are the server's.
#[derive(Clone)]
pub struct Connection(hyper::client::conn::http2::SendRequest<Body>);

impl Service<Request<Body>> for Connection {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Incoming>, hyper::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), hyper::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

type Bytes = <Body as http_body::Body>::Data;

/// A request's body, which may begin and not end.
struct Parts {
    parts: VecDeque<Bytes>,
    is_finished: bool,
}

impl http_body::Body for Parts {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match self.parts.pop_front() {
            Some(part) => Poll::Ready(Some(Ok(Frame::data(part)))),
            None if self.is_finished => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

/// A client of [`Echo`].
#[derive(Clone)]
pub struct Client {
    pub connection: Connection,
    pub origin: Uri,
    headers: HashMap<&'static str, String>,
}

impl Client {
    pub async fn connect(address: SocketAddr) -> std::io::Result<Self> {
        Self::connect_as(address, &hyper::client::conn::http2::Builder::new(TokioExecutor::new())).await
    }

    /// A client that reads the headers of answers and never grants a window for more.
    pub async fn connect_without_reading(address: SocketAddr) -> std::io::Result<Self> {
        let mut settings = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        settings.initial_stream_window_size(0);
        Self::connect_as(address, &settings).await
    }

    async fn connect_as(
        address: SocketAddr,
        settings: &hyper::client::conn::http2::Builder<TokioExecutor>,
    ) -> std::io::Result<Self> {
        let socket = TcpStream::connect(address).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = settings.handshake(TokioIo::new(socket)).await.unwrap();
        tokio::spawn(connection);
        let origin = format!("http://{address}").parse().unwrap();
        Ok(Self { connection: Connection(sender), origin, headers: HashMap::new() })
    }

    /// The same client, which sends a header more.
    pub fn with(&self, name: &'static str, value: &str) -> Self {
        let mut client = self.clone();
        client.headers.insert(name, value.to_owned());
        client
    }

    fn request(&self, message: &str) -> tonic::Request<String> {
        let mut request = tonic::Request::new(message.to_owned());
        for (name, value) in &self.headers {
            request.metadata_mut().insert(*name, value.parse().unwrap());
        }
        request
    }

    fn grpc(&self) -> tonic::client::Grpc<Connection> {
        tonic::client::Grpc::with_origin(self.connection.clone(), self.origin.clone())
    }

    pub async fn call(&self, message: &str) -> Result<String, Status> {
        self.call_path("/test.Echo/Call", message).await
    }

    pub async fn call_path(&self, path: &'static str, message: &str) -> Result<String, Status> {
        let mut grpc = self.grpc();
        grpc.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static(path);
        let codec = ProstCodec::<String, String>::default();
        tokio::time::timeout(SOON, grpc.unary(self.request(message), path, codec))
            .await
            .unwrap()
            .map(tonic::Response::into_inner)
    }

    /// Sends headers and parts of a message, without an end. The answer's body is still to be read.
    pub async fn send_unfinished(
        &self,
        path: &str,
        parts: &[&'static [u8]],
    ) -> Result<Response<Incoming>, hyper::Error> {
        let parts = parts.iter().map(|part| Bytes::from_static(part)).collect();
        self.send_body(path, Body::new(Parts { parts, is_finished: false })).await
    }

    /// Sends a whole message as it is on the wire. The answer's body is still to be read.
    pub async fn send(&self, path: &str, message: &'static [u8]) -> Result<Response<Incoming>, hyper::Error> {
        let parts = VecDeque::from([Bytes::from_static(message)]);
        self.send_body(path, Body::new(Parts { parts, is_finished: true })).await
    }

    async fn send_body(&self, path: &str, body: Body) -> Result<Response<Incoming>, hyper::Error> {
        let mut request = Request::post(format!("{}{path}", self.origin.to_string().trim_end_matches('/')))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        self.connection.clone().call(request.body(body).unwrap()).await
    }

    pub async fn stream(&self, message: &str) -> Result<tonic::Streaming<String>, Status> {
        let mut grpc = self.grpc();
        grpc.ready().await.unwrap();
        let path = http::uri::PathAndQuery::from_static("/test.Echo/Stream");
        let codec = ProstCodec::<String, String>::default();
        grpc.server_streaming(self.request(message), path, codec).await.map(tonic::Response::into_inner)
    }
}

/// A place that log lines are written to.
#[derive(Clone, Default)]
pub struct Lines(Arc<Mutex<Vec<u8>>>);

impl Lines {
    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The status that the service's own `missing` error becomes.
pub fn missing() -> Status {
    status(&Error::NotFound { kind: ResourceKind::Collection, name: "docs".to_owned() })
}
