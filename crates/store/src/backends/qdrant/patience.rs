//! Who waits for a call, and for how long.

use std::time::{Duration, Instant};

use toller_core::RequestContext;
use toller_core::error::{Error, Result};

/// How long calls may go on.
#[derive(Debug, Clone, Copy)]
pub(super) enum Patience<'a> {
    /// As long as a caller waits.
    Of(&'a RequestContext),
    /// Until a lease ends: a call that could still be under way by then is not made.
    Until(Instant),
    /// Work that nobody waits for.
    Background,
}

impl Patience<'_> {
    /// How long the next call may take, of at most `timeout`.
    pub(super) fn time_for_a_call(self, timeout: Duration) -> Result<Duration> {
        match self {
            Self::Of(context) => {
                context.check("before Qdrant was asked")?;
                Ok(context.remaining().map_or(timeout, |remaining| remaining.min(timeout)))
            }
            Self::Until(end) if end.saturating_duration_since(Instant::now()) < timeout => {
                Err(Error::Unavailable("Qdrant took so long that the turn to write was over; retry".to_owned()))
            }
            Self::Until(_) | Self::Background => Ok(timeout),
        }
    }

    /// The error of a call that took too long.
    pub(super) fn too_long(self, call: &'static str, waited: Duration) -> Error {
        match self {
            Self::Of(context) if context.remaining().is_some_and(|remaining| remaining.is_zero()) => {
                Error::DeadlineExceeded("while Qdrant was asked")
            }
            _ => Error::Unavailable(format!("Qdrant, {call}: no answer within {} ms", waited.as_millis())),
        }
    }
}
