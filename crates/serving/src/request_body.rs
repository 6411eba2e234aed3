//! Requests have a time of their own to arrive in: a caller that sends headers and no message would otherwise hold a place
//! among the concurrent calls until a deadline of its own choice.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Request, Response};
use http_body::{Body as _, Frame, SizeHint};
use toller_core::Error;
use tonic::Status;
use tonic::body::Body;

use crate::deadline::Arrival;
use crate::drain::{Drain, Phase};
use crate::middleware::{GrpcService, Middleware, call};
use crate::status::status;

/// Time that a request's first bytes have during a drain. What came before is not cut off while it is on its way: headers and
/// message may be in packets of their own.
const DRAIN_GRACE: Duration = Duration::from_secs(1);

/// Ends requests that do not arrive: all of a message where a method takes one, the beginning where it takes a stream, since a
/// stream may rest as long as its caller has nothing to say.
#[derive(Debug, Clone)]
pub struct RequestBodies {
    timeout: Duration,
    streams: Arc<HashSet<String>>,
    drain: Drain,
}

impl RequestBodies {
    /// `timeout` counts from a call's arrival. `streams` names the methods that take streams, as `package.Service/Method`.
    /// `drain` ends requests of which nothing has come.
    pub fn new(timeout: Duration, streams: Arc<HashSet<String>>, drain: Drain) -> Self {
        Self { timeout, streams, drain }
    }
}

impl Middleware for RequestBodies {
    async fn handle<S: GrpcService>(self, request: Request<Body>, next: S) -> Response<Body> {
        if request.body().is_end_stream() {
            return call(next, request).await;
        }
        let path = request.uri().path();
        let is_stream = self.streams.contains(path.strip_prefix('/').unwrap_or(path));
        let arrival = request.extensions().get().map_or_else(Instant::now, |Arrival(arrival)| *arrival);
        let body = |body| ArrivingBody { body, arrival, is_stream, has_begun: false, late: None, bounds: self };
        call(next, request.map(|inner| Body::new(body(inner)))).await
    }
}

/// Completes with the status that ends the request.
type Late = Pin<Box<dyn Future<Output = Status> + Send>>;

/// A request's body, which fails where it does not arrive in time.
struct ArrivingBody {
    body: Body,
    arrival: Instant,
    is_stream: bool,
    has_begun: bool,
    /// Made when the body first makes its reader wait.
    late: Option<Late>,
    bounds: RequestBodies,
}

impl ArrivingBody {
    fn late(&self) -> Late {
        let timeout = tokio::time::sleep_until((self.arrival + self.bounds.timeout).into());
        let timed_out = || {
            status(&Error::DeadlineExceeded(
                "before the request was complete; the server waits for that less long than for the answer",
            ))
        };
        if self.has_begun {
            return Box::pin(async move {
                timeout.await;
                timed_out()
            });
        }
        let draining = self.bounds.drain.reached(Phase::Draining);
        let earliest = tokio::time::sleep_until((self.arrival + DRAIN_GRACE).into());
        Box::pin(async move {
            let drained = async {
                draining.await;
                earliest.await;
            };
            tokio::select! {
                () = timeout => timed_out(),
                () = drained => status(&Error::Unavailable("the server stops; retry on another one".to_owned())),
            }
        })
    }
}

impl http_body::Body for ArrivingBody {
    type Data = <Body as http_body::Body>::Data;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
        let this = &mut *self;
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            if !this.has_begun {
                this.has_begun = true;
                // What follows has no more to do with a drain.
                this.late = None;
            }
            return Poll::Ready(frame);
        }
        if this.is_stream && this.has_begun {
            return Poll::Pending;
        }
        let mut late = this.late.take().unwrap_or_else(|| this.late());
        match late.as_mut().poll(context) {
            Poll::Ready(status) => Poll::Ready(Some(Err(status))),
            Poll::Pending => {
                this.late = Some(late);
                Poll::Pending
            }
        }
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
    use std::collections::VecDeque;
    use std::future::poll_fn;

    use super::*;
    use crate::drain::PhaseSwitch;
    use tonic::Code;

    type Bytes = <Body as http_body::Body>::Data;

    /// Frames, and then nothing for ever.
    struct Stalling(VecDeque<Bytes>);

    impl http_body::Body for Stalling {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Self::Data>, Status>>> {
            self.0.pop_front().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
        }
    }

    fn arriving(is_stream: bool, frames: usize, drain: Drain) -> ArrivingBody {
        let frames = (0..frames).map(|_| Bytes::from_static(b"x")).collect();
        ArrivingBody {
            body: Body::new(Stalling(frames)),
            arrival: Instant::now(),
            is_stream,
            has_begun: false,
            late: None,
            bounds: RequestBodies::new(Duration::from_millis(30), Arc::default(), drain),
        }
    }

    async fn next(body: &mut ArrivingBody) -> Result<Bytes, Code> {
        let frame = poll_fn(|context| Pin::new(&mut *body).poll_frame(context)).await.unwrap();
        frame.map(|frame| frame.into_data().unwrap()).map_err(|status| status.code())
    }

    #[tokio::test]
    async fn a_message_must_arrive_whole_and_a_stream_must_begin() {
        let (_switch, drain) = PhaseSwitch::new();
        let mut silent = arriving(true, 0, drain.clone());
        assert_eq!(next(&mut silent).await, Err(Code::DeadlineExceeded));
        let mut partial = arriving(false, 2, drain.clone());
        assert!(next(&mut partial).await.is_ok() && next(&mut partial).await.is_ok());
        assert_eq!(next(&mut partial).await, Err(Code::DeadlineExceeded));
        let mut begun = arriving(true, 1, drain);
        assert!(next(&mut begun).await.is_ok());
        let rest = tokio::time::timeout(Duration::from_millis(120), next(&mut begun)).await;
        assert!(rest.is_err(), "a stream may rest: {rest:?}");
    }

    #[tokio::test]
    async fn a_drain_ends_only_what_has_not_begun() {
        let (switch, drain) = PhaseSwitch::new();
        switch.enter(Phase::Draining);
        let long = Duration::from_secs(60);
        let old = Instant::now().checked_sub(DRAIN_GRACE).unwrap();
        let mut silent = ArrivingBody { arrival: old, ..arriving(false, 0, drain.clone()) };
        silent.bounds.timeout = long;
        assert_eq!(next(&mut silent).await, Err(Code::Unavailable));
        let mut begun = ArrivingBody { arrival: old, ..arriving(false, 1, drain) };
        begun.bounds.timeout = long;
        assert!(next(&mut begun).await.is_ok());
        assert!(tokio::time::timeout(Duration::from_millis(100), next(&mut begun)).await.is_err());
    }
}
