//! A bound on concurrent calls. One over it is refused at once, with the time after which to retry, instead of waiting where
//! nobody sees it.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{Request, Response};
use http_body::{Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use toller_core::Error;
use toller_telemetry::metrics::RpcMetrics;
use tonic::Status;
use tonic::body::Body;

use crate::middleware::{GrpcService, Middleware, call};
use crate::open::is_open;
use crate::status::status;

/// What a refused caller is told to wait: about as long as a batch of work takes, so that the retry likely finds room.
const RETRY_AFTER: Duration = Duration::from_millis(250);

/// Refuses calls over the limit. Health and reflection are not counted.
#[derive(Clone)]
pub struct ConcurrencyLimit {
    permits: Arc<Semaphore>,
    most: usize,
    metrics: Arc<RpcMetrics>,
}

impl ConcurrencyLimit {
    /// At most `most` calls at a time, the streaming of their answers included.
    pub fn new(most: usize, metrics: Arc<RpcMetrics>) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self { permits: Arc::new(Semaphore::new(most)), most, metrics }
    }
}

impl Middleware for ConcurrencyLimit {
    async fn handle<S: GrpcService>(self, request: Request<Body>, next: S) -> Response<Body> {
        if is_open(request.uri().path()) {
            return call(next, request).await;
        }
        let Ok(permit) = self.permits.try_acquire_owned() else {
            self.metrics.refuse();
            let what = format!("the server works on {} calls already, which is its limit", self.most);
            return status(&Error::ResourceExhausted { what, retry_after: Some(RETRY_AFTER) }).into_http();
        };
        call(next, request).await.map(|body| Body::new(PermittedBody { body, _permit: permit }))
    }
}

/// A body that holds its call's permit until it is dropped.
struct PermittedBody {
    body: Body,
    _permit: OwnedSemaphorePermit,
}

impl http_body::Body for PermittedBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
