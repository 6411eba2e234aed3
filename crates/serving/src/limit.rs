//! A bound on concurrent calls, and a lower one on the bulk calls among them. One over it is refused at once, with the time
//! after which to retry, instead of waiting where nobody sees it.
//!
//! Bulk calls wait for one another, since the work on documents has one queue, and would in time hold every permit: queries
//! would be refused though the server has time for them.

use std::collections::HashSet;
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
    all: Bound,
    bulk: Bound,
    bulk_methods: Arc<HashSet<String>>,
    metrics: Arc<RpcMetrics>,
}

impl ConcurrencyLimit {
    /// At most `most` calls at a time, the streaming of their answers included, and at most three quarters of that many calls
    /// of `bulk_methods`, named as `package.Service/Method`: at least 1, and less than `most` where that is 2 or more.
    pub fn new(most: usize, bulk_methods: Arc<HashSet<String>>, metrics: Arc<RpcMetrics>) -> Self {
        let most = most.min(Semaphore::MAX_PERMITS);
        Self { all: Bound::new(most), bulk: Bound::new(most_bulk(most)), bulk_methods, metrics }
    }

    /// What a call to `path` holds while it runs, or why it may not.
    fn admit(&self, path: &str) -> Result<Permits, Error> {
        let is_bulk = self.bulk_methods.contains(path.strip_prefix('/').unwrap_or(path));
        let refused = |what| Error::ResourceExhausted { what, retry_after: Some(RETRY_AFTER) };
        let bulk = match is_bulk.then(|| self.bulk.take()) {
            None => None,
            Some(Some(permit)) => Some(permit),
            Some(None) => {
                let most = self.bulk.most;
                return Err(refused(format!("the server works on {most} bulk calls already, which is their limit")));
            }
        };
        let Some(permit) = self.all.take() else {
            let most = self.all.most;
            return Err(refused(format!("the server works on {most} calls already, which is its limit")));
        };
        Ok(Permits { _all: permit, _bulk: bulk })
    }
}

/// How many of `most` calls may be bulk calls.
fn most_bulk(most: usize) -> usize {
    // As a difference, which cannot overflow.
    (most - most.div_ceil(4)).max(1)
}

/// Permits, and how many there are.
#[derive(Clone)]
struct Bound {
    permits: Arc<Semaphore>,
    most: usize,
}

impl Bound {
    fn new(most: usize) -> Self {
        Self { permits: Arc::new(Semaphore::new(most)), most }
    }

    fn take(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.permits).try_acquire_owned().ok()
    }
}

/// What a running call holds.
struct Permits {
    _all: OwnedSemaphorePermit,
    _bulk: Option<OwnedSemaphorePermit>,
}

impl Middleware for ConcurrencyLimit {
    async fn handle<S: GrpcService>(self, request: Request<Body>, next: S) -> Response<Body> {
        if is_open(request.uri().path()) {
            return call(next, request).await;
        }
        let permits = match self.admit(request.uri().path()) {
            Ok(permits) => permits,
            Err(refusal) => {
                self.metrics.refuse();
                return status(&refusal).into_http();
            }
        };
        call(next, request).await.map(|body| Body::new(PermittedBody { body, _permits: permits }))
    }
}

/// A body that holds its call's permits until it is dropped.
struct PermittedBody {
    body: Body,
    _permits: Permits,
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bulk_calls_have_three_quarters() {
        for (most, bulk) in [(0, 1), (1, 1), (2, 1), (3, 2), (4, 3), (5, 3), (8, 6), (256, 192)] {
            assert_eq!(most_bulk(most), bulk, "of {most}");
        }
    }

    proptest! {
        #[test]
        fn bulk_calls_leave_room(most in 2..=Semaphore::MAX_PERMITS) {
            prop_assert!(most_bulk(most) >= 1 && most_bulk(most) < most);
            prop_assert!(most_bulk(most) <= most / 4 * 3 + most % 4);
        }
    }
}
