//! The outermost layer: a call's span with the caller's trace context, its duration by method and code, and its log line.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use http::{Request, Response};
use http_body::{Frame, SizeHint};
use toller_telemetry::metrics::{ActiveCall, RpcMetrics, rpc_code_name};
use toller_telemetry::spans::{self, RpcServerSpan};
use tonic::body::Body;
use tonic::transport::server::TcpConnectInfo;
use tonic::{Code, Status};
use tracing::{Instrument, Span};

use crate::middleware::{GrpcService, Middleware, call};
use crate::open::is_open;

/// Records every call. Health and reflection have metrics but no span: probes would bury everything else.
#[derive(Clone)]
pub struct Tracing(pub Arc<RpcMetrics>);

impl Middleware for Tracing {
    async fn handle<S: GrpcService>(self, request: Request<Body>, next: S) -> Response<Body> {
        let path = request.uri().path();
        let original = path.strip_prefix('/').unwrap_or(path);
        let connection = request.extensions().get::<TcpConnectInfo>();
        let peer = connection.and_then(TcpConnectInfo::remote_addr);
        let span = if is_open(path) {
            Span::none()
        } else {
            spans::rpc_server(&RpcServerSpan {
                method: self.0.knows(original).then_some(original),
                original,
                peer,
                local: connection.and_then(TcpConnectInfo::local_addr),
                headers: request.headers(),
            })
        };
        let mut record = CallRecord {
            method: original.to_owned(),
            started: Instant::now(),
            span: span.clone(),
            _active: self.0.begin(),
            metrics: self.0,
            is_over: false,
        };
        let answer = call(next, request).instrument(span).await;
        if let Some(status) = Status::from_header_map(answer.headers()) {
            record.end(&status);
            return answer;
        }
        answer.map(|body| Body::new(RecordedBody { body, record }))
    }
}

/// What is to be said of a call once it is over.
struct CallRecord {
    method: String,
    started: Instant,
    span: Span,
    metrics: Arc<RpcMetrics>,
    is_over: bool,
    _active: ActiveCall,
}

impl CallRecord {
    fn end(&mut self, status: &Status) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        let elapsed = self.started.elapsed();
        let code = status.code();
        let name = rpc_code_name(code.into());
        self.metrics.record(&self.method, code.into(), elapsed);
        spans::record_rpc_status(&self.span, name, is_fault(code), status.message());
        let _entered = self.span.enter();
        let elapsed_ms = elapsed.as_secs_f64() * 1e3;
        match code {
            Code::Internal | Code::Unknown | Code::DataLoss => {
                tracing::warn!(method = self.method, code = name, elapsed_ms, reason = status.message(), "call failed");
            }
            _ => tracing::debug!(method = self.method, code = name, elapsed_ms, "call answered"),
        }
    }
}

impl Drop for CallRecord {
    /// A call that is dropped before its end was given up by its caller.
    fn drop(&mut self) {
        self.end(&Status::cancelled("the caller went away"));
    }
}

/// Is the server to blame? The list is that of OpenTelemetry's conventions for gRPC servers.
fn is_fault(code: Code) -> bool {
    matches!(
        code,
        Code::Unknown
            | Code::DeadlineExceeded
            | Code::Unimplemented
            | Code::Internal
            | Code::Unavailable
            | Code::DataLoss
    )
}

/// A body that is polled within its call's span, and records the call when it ends.
struct RecordedBody {
    body: Body,
    record: CallRecord,
}

impl http_body::Body for RecordedBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let this = &mut *self;
        let polled = {
            let _entered = this.record.span.enter();
            Pin::new(&mut this.body).poll_frame(context)
        };
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(trailers) = frame.trailers_ref() {
                    let missing = || Status::unknown("the answer has no status");
                    this.record.end(&Status::from_header_map(trailers).unwrap_or_else(missing));
                }
            }
            Poll::Ready(Some(Err(status))) => this.record.end(status),
            Poll::Ready(None) => this.record.end(&Status::unknown("the answer has no status")),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
