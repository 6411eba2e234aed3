//! The connections of a server: accepted with a pause where that fails, bounded in number, and closable from outside.
//!
//! tonic's own loop takes the next connection at once after a failure. Out of file descriptors that is a busy loop, and nobody
//! is told.

use std::convert::Infallible;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::{Connected, TcpConnectInfo, TcpIncoming};

/// Pause after the first failure to accept; doubled with each further one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);

/// Longest pause: so long a connection may wait once there are file descriptors again.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Least time between two warnings of one kind.
const WARNING_INTERVAL: Duration = Duration::from_secs(30);

/// The connections to `listener`, of which at most `most` are open at a time. Further ones are closed at once, so that their
/// clients turn to another server instead of waiting in a backlog where nobody sees them.
pub(crate) fn connections(
    listener: TcpListener,
    keepalive: Duration,
    most: usize,
) -> impl Stream<Item = Result<Connection, Infallible>> + Send {
    let most = most.min(Semaphore::MAX_PERMITS);
    let acceptor = Acceptor {
        incoming: TcpIncoming::from(listener).with_nodelay(Some(true)).with_keepalive(Some(keepalive)),
        places: Arc::new(Semaphore::new(most)),
        most,
        failed: Occasions::default(),
        closed: Occasions::default(),
    };
    futures::stream::unfold(acceptor, async |mut acceptor| Some((Ok(acceptor.accept().await?), acceptor)))
}

struct Acceptor {
    incoming: TcpIncoming,
    places: Arc<Semaphore>,
    most: usize,
    failed: Occasions,
    closed: Occasions,
}

impl Acceptor {
    /// The next connection; none when the listener has ended.
    async fn accept(&mut self) -> Option<Connection> {
        let mut pause = FIRST_PAUSE;
        loop {
            let stream = match self.incoming.next().await? {
                Ok(stream) => stream,
                Err(error) if is_of_one_connection(&error) => continue,
                Err(error) => {
                    if let Some(times) = self.failed.count(Instant::now()) {
                        tracing::warn!(
                            error = %error,
                            times,
                            "connections cannot be accepted; raise the limit of open files (ulimit -n) if it is reached"
                        );
                    }
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    continue;
                }
            };
            if let Ok(place) = Arc::clone(&self.places).try_acquire_owned() {
                return Some(Connection { stream, switch: Arc::default(), _place: place });
            }
            // It is closed here, by being dropped.
            if let Some(times) = self.closed.count(Instant::now()) {
                let most = self.most;
                tracing::warn!(most, times, "new connections are closed at once: as many as allowed are open");
            }
        }
    }
}

/// Did a connection fail before it was accepted, rather than the accepting?
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}

/// Counts what may happen often and is told rarely.
#[derive(Default)]
struct Occasions {
    untold: u64,
    told: Option<Instant>,
}

impl Occasions {
    /// Counts one more. How many there were since it was told last, when it is time to tell again.
    fn count(&mut self, now: Instant) -> Option<u64> {
        self.untold = self.untold.saturating_add(1);
        if self.told.is_some_and(|told| now.saturating_duration_since(told) < WARNING_INTERVAL) {
            return None;
        }
        self.told = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

/// An accepted connection.
pub(crate) struct Connection {
    stream: TcpStream,
    switch: Arc<Switch>,
    _place: OwnedSemaphorePermit,
}

/// Is a connection to end?
#[derive(Default)]
struct Switch {
    is_closed: AtomicBool,
    /// The task of the connection, when it waits.
    task: AtomicWaker,
}

/// Closes one connection, with all that is left of its calls.
#[derive(Clone)]
pub(crate) struct Closer(Arc<Switch>);

impl Closer {
    /// Closes the connection without a farewell: its client does not read.
    pub(crate) fn close(&self) {
        self.0.is_closed.store(true, Ordering::Release);
        self.0.task.wake();
    }
}

/// What the requests of a connection carry of it in their extensions.
#[derive(Clone)]
pub(crate) struct ConnectionInfo {
    /// Its addresses.
    pub(crate) addresses: TcpConnectInfo,
    /// Ends it.
    pub(crate) closer: Closer,
}

impl Connected for Connection {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        ConnectionInfo { addresses: self.stream.connect_info(), closer: Closer(Arc::clone(&self.switch)) }
    }
}

impl Connection {
    /// What `poll` does with the stream, or an error once the connection is closed.
    fn unless_closed<T>(
        &mut self,
        context: &mut Context<'_>,
        poll: impl FnOnce(Pin<&mut TcpStream>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let closed = || Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        if self.switch.is_closed.load(Ordering::Acquire) {
            return closed();
        }
        let polled = poll(Pin::new(&mut self.stream), context);
        if polled.is_pending() {
            // Reads and writes are polled by one task, so that one waker is enough.
            self.switch.task.register(context.waker());
            // It may have been closed just before there was anybody to wake.
            if self.switch.is_closed.load(Ordering::Acquire) {
                return closed();
            }
        }
        polled
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.unless_closed(context, |stream, context| stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.unless_closed(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.unless_closed(context, |stream, context| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.unless_closed(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_happens_often_is_told_rarely_and_counted() {
        let mut occasions = Occasions::default();
        let start = Instant::now();
        assert_eq!(occasions.count(start), Some(1));
        for second in 1..30 {
            assert_eq!(occasions.count(start + Duration::from_secs(second)), None);
        }
        assert_eq!(occasions.count(start + WARNING_INTERVAL), Some(30));
        assert_eq!(occasions.count(start + WARNING_INTERVAL), None);
    }

    #[test]
    fn only_what_concerns_the_listener_makes_it_pause() {
        for kind in [io::ErrorKind::ConnectionAborted, io::ErrorKind::ConnectionReset, io::ErrorKind::Interrupted] {
            assert!(is_of_one_connection(&kind.into()), "{kind}");
        }
        // EMFILE and ENFILE.
        for number in [24, 23] {
            assert!(!is_of_one_connection(&io::Error::from_raw_os_error(number)), "{number}");
        }
    }
}
