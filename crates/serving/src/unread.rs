//! An answer that its caller does not read ends with its connection.
//!
//! Nobody polls a body that cannot be sent, as HTTP/2 has it when the caller grants no window: neither a deadline nor a drain
//! reaches it, and its call keeps its permit and its memory. A caller whose deadline has passed resets its stream, as gRPC
//! asks; one that neither reads nor resets is broken or hostile, and a proxy in between has done both for its callers.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::body::Body;

use crate::connections::Closer;

/// Time after its deadline in which a caller may still take what it is sent, or reset the stream: longer than a round trip
/// around the world on a bad day.
const GRACE: Duration = Duration::from_secs(2);

/// The same answer, whose connection is closed when it is neither sent nor given up a little after `deadline`.
///
/// Costs a task with a timer for an answer that has a body, and nothing for others.
pub(crate) fn close_when_unread(answer: Response<Body>, deadline: Instant, closer: Closer) -> Response<Body> {
    let Some(latest) = deadline.checked_add(GRACE).filter(|_| !answer.body().is_end_stream()) else {
        return answer;
    };
    let timer = tokio::spawn(async move {
        tokio::time::sleep_until(latest.into()).await;
        tracing::debug!("a caller did not read its answer in time; its connection is closed");
        closer.close();
    });
    answer.map(|body| Body::new(TimedBody { body, timer }))
}

/// A body whose timer ends with it.
struct TimedBody {
    body: Body,
    timer: JoinHandle<()>,
}

impl Drop for TimedBody {
    fn drop(&mut self) {
        self.timer.abort();
    }
}

impl http_body::Body for TimedBody {
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
