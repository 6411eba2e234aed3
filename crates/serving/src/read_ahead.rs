//! Reading a stream of messages ahead of whoever works on them.
//!
//! HTTP/2 holds up a caller who sends faster than its messages are taken, by bytes. Messages that are small for their frames are
//! counted too, and a connection on which too many of them lie unread is closed with all that is on it. So messages are taken off the
//! connection as they come, up to a bound in bytes, and only then is the caller held up.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::Stream;
use prost::Message;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::{Status, Streaming};
use tracing::Instrument;

/// What a message takes besides its own bytes, rounded up.
const OVERHEAD: usize = 256;

/// The messages of a stream, up to `bytes` of which are read ahead; a larger one goes alone. Dropping it ends the reading.
pub fn read_ahead<M: Message + Default + 'static>(mut messages: Streaming<M>, bytes: u32) -> ReadAhead<M> {
    let room = Arc::new(Semaphore::new(bytes as usize));
    let (sender, receiver) = unbounded_channel();
    let reading = async move {
        loop {
            let message = tokio::select! {
                message = messages.message() => message.transpose(),
                () = sender.closed() => return,
            };
            let Some(message) = message else { return };
            let size = message.as_ref().map_or(0, Message::encoded_len).saturating_add(OVERHEAD);
            let size = u32::try_from(size).unwrap_or(u32::MAX).min(bytes);
            let permit = tokio::select! {
                permit = Arc::clone(&room).acquire_many_owned(size) => permit,
                () = sender.closed() => return,
            };
            let (Ok(permit), is_last) = (permit, message.is_err()) else { return };
            if sender.send((message, permit)).is_err() || is_last {
                return;
            }
        }
    };
    tokio::spawn(reading.in_current_span());
    ReadAhead(receiver)
}

/// See [`read_ahead`].
#[derive(Debug)]
pub struct ReadAhead<M>(UnboundedReceiver<(Result<M, Status>, OwnedSemaphorePermit)>);

impl<M> Stream for ReadAhead<M> {
    type Item = Result<M, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        // Taking a message gives back its room.
        self.0.poll_recv(context).map(|taken| taken.map(|(message, _permit)| message))
    }
}
