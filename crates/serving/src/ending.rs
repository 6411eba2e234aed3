//! A call that can be ended from outside, while its handler works or while its answer streams.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use crate::middleware::{GrpcService, call};
use crate::status::trailers;

/// Completes with the status that ends the call.
pub(crate) type Ending = Pin<Box<dyn Future<Output = Status> + Send>>;

/// The answer of `next`, or the status of `ending` when that comes first. Whatever is ended is dropped.
pub(crate) async fn call_until<S: GrpcService>(next: S, request: Request<Body>, mut ending: Ending) -> Response<Body> {
    let answer = tokio::select! {
        biased;
        status = &mut ending => return status.into_http(),
        answer = call(next, request) => answer,
    };
    if answer.body().is_end_stream() {
        return answer;
    }
    answer.map(|body| Body::new(EndedBody { body: Some(body), ending }))
}

/// A body whose stream ends with a status when its ending comes first.
struct EndedBody {
    /// None once it is over.
    body: Option<Body>,
    ending: Ending,
}

impl http_body::Body for EndedBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let this = &mut *self;
        let Some(body) = &mut this.body else {
            return Poll::Ready(None);
        };
        // First, since a body that always has more would never let it come.
        if let Poll::Ready(status) = this.ending.as_mut().poll(context) {
            this.body = None;
            return Poll::Ready(Some(trailers(&status).map(Frame::trailers)));
        }
        let frame = ready!(Pin::new(body).poll_frame(context));
        if frame.as_ref().is_none_or(|frame| frame.as_ref().is_ok_and(Frame::is_trailers)) {
            this.body = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        // Not the inner one's: the body may end early.
        SizeHint::default()
    }
}
