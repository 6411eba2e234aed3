//! A panic in a handler ends its call with INTERNAL and a log line; the server goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::FutureExt;
use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use toller_core::Error;
use tonic::Status;
use tonic::body::Body;

use crate::middleware::{GrpcService, Middleware, call};
use crate::status::{status, trailers};

/// Answers INTERNAL where everything within it panics.
#[derive(Debug, Clone, Copy, Default)]
pub struct PanicCatcher;

impl Middleware for PanicCatcher {
    async fn handle<S: GrpcService>(self, request: Request<Body>, next: S) -> Response<Body> {
        let path = request.uri().path().to_owned();
        // Unwind safe: what panicked is dropped and never touched again.
        match AssertUnwindSafe(call(next, request)).catch_unwind().await {
            Ok(answer) if answer.body().is_end_stream() => answer,
            Ok(answer) => answer.map(|body| Body::new(CaughtBody { body: Some(body), path })),
            Err(panic) => report(&path, panic.as_ref()).into_http(),
        }
    }
}

/// Logs a panic; the status tells its caller no more than that there was one.
fn report(path: &str, panic: &(dyn Any + Send)) -> Status {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    tracing::error!(path, panic = message, "a call panicked, please report this");
    status(&Error::Internal("the call failed unexpectedly; the server's log has the reason".to_owned()))
}

/// A body whose stream ends with INTERNAL where it panics.
struct CaughtBody {
    /// None once it has panicked.
    body: Option<Body>,
    path: String,
}

impl http_body::Body for CaughtBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let Some(body) = &mut self.body else {
            return Poll::Ready(None);
        };
        match catch_unwind(AssertUnwindSafe(|| Pin::new(body).poll_frame(context))) {
            Ok(polled) => polled,
            Err(panic) => {
                self.body = None;
                Poll::Ready(Some(trailers(&report(&self.path, panic.as_ref())).map(Frame::trailers)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}
