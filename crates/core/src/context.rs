//! Who asks, until when, and within which trace: what every operation carries from the first line to the last.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::name::name_type;

name_type! {
    /// Whose data an operation may touch. Comes from the credential alone; no request field can set or widen it.
    Tenant
}

impl Tenant {
    /// The tenant of a service without authentication.
    pub const DEFAULT: &'static str = "default";
}

impl Tenant {
    /// Is it that of callers whose credential names none?
    pub fn is_default(&self) -> bool {
        self.as_str() == Self::DEFAULT
    }
}

impl Default for Tenant {
    fn default() -> Self {
        Self(Self::DEFAULT.into())
    }
}

/// What a principal may do; a greater role includes the lesser ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Embed, search, get, list and count.
    Reader,
    /// And add and delete documents.
    Writer,
    /// And create, update and delete collections.
    Admin,
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Reader => "reader",
            Self::Writer => "writer",
            Self::Admin => "admin",
        })
    }
}

/// The authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The credential's name, for logs; never the secret.
    pub name: Arc<str>,
    /// Whose data it may touch.
    pub tenant: Tenant,
    /// What it may do.
    pub role: Role,
}

impl Principal {
    /// The caller of a service without authentication: the default tenant with every role.
    pub fn anonymous() -> Self {
        Self { name: "anonymous".into(), tenant: Tenant::default(), role: Role::Admin }
    }
}

/// A flag that the front of a request raises when its caller is gone. Cheap to clone; all clones are one flag.
#[derive(Debug, Clone, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Raises the flag.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Is it raised?
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// A guard that raises the flag when it is dropped: held by the future that answers the caller.
    pub fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.clone())
    }
}

/// See [`Cancellation::cancel_on_drop`].
#[derive(Debug)]
pub struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The W3C trace context of the span that an operation runs in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Trace id, not all zero.
    pub trace_id: [u8; 16],
    /// Span id, not all zero.
    pub span_id: [u8; 8],
    /// Is the trace recorded?
    pub sampled: bool,
}

/// What every operation of every layer carries.
#[derive(Debug, Clone)]
pub struct RequestContext {
    principal: Principal,
    deadline: Option<Instant>,
    cancellation: Cancellation,
    trace_parent: Option<TraceParent>,
}

impl RequestContext {
    /// A context for `principal` without deadline or trace.
    pub fn new(principal: Principal) -> Self {
        Self { principal, deadline: None, cancellation: Cancellation::default(), trace_parent: None }
    }

    /// The same context with an absolute deadline.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }

    /// The same context within a trace.
    #[must_use]
    pub fn with_trace_parent(mut self, trace_parent: Option<TraceParent>) -> Self {
        self.trace_parent = trace_parent;
        self
    }

    /// The same context with the caller's cancellation flag.
    #[must_use]
    pub fn with_cancellation(mut self, cancellation: Cancellation) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// The caller.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Whose data the operation may touch.
    pub fn tenant(&self) -> &Tenant {
        &self.principal.tenant
    }

    /// When the answer stops being of use; none for no limit.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Time left until the deadline, zero when it has passed; none for no limit.
    pub fn remaining(&self) -> Option<Duration> {
        self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    /// The caller's cancellation flag.
    pub fn cancellation(&self) -> &Cancellation {
        &self.cancellation
    }

    /// The trace that the operation belongs to.
    pub fn trace_parent(&self) -> Option<TraceParent> {
        self.trace_parent
    }

    /// Is there still somebody who waits for the answer? Called before costly steps, and inside long ones.
    ///
    /// # Errors
    /// [`Error::Cancelled`], or [`Error::DeadlineExceeded`] with `during` (such as `before the search`).
    pub fn check(&self, during: &'static str) -> Result<()> {
        if self.cancellation.is_cancelled() {
            return Err(Error::Cancelled);
        }
        match self.deadline {
            Some(deadline) if Instant::now() >= deadline => Err(Error::DeadlineExceeded(during)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_reports_a_passed_deadline_and_a_gone_caller() {
        let context = RequestContext::new(Principal::anonymous());
        assert_eq!(context.check("now"), Ok(()));
        let late = context.clone().with_deadline(Some(Instant::now()));
        assert_eq!(late.check("now"), Err(Error::DeadlineExceeded("now")));
        drop(context.cancellation().cancel_on_drop());
        assert_eq!(context.check("now"), Err(Error::Cancelled));
    }
}
