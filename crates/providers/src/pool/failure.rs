//! What a worker's answer means when it is no success: for the worker, for other workers, and for the caller.

use std::error::Error as _;
use std::time::Duration;

use toller_core::{Error, FieldViolation, RequestContext};
use tonic::{Code, Status, TimeoutExpired};
use tonic_types::StatusExt;

use super::fault::Fault;

/// Why one try of a call failed.
#[derive(Debug, PartialEq)]
pub(crate) enum Failure {
    /// Every worker would say the same, or nobody waits for the answer any more.
    Final(Error),
    /// The worker cannot be used, as a probe would find too.
    Worker { fault: Fault, error: Error },
    /// The worker did not take the call; others may.
    Refusal(Error),
    /// The worker has no room now. `what` names the worker.
    Full { what: String, retry_after: Option<Duration> },
}

impl Failure {
    /// The meaning of `status`, which the worker at `address` answered or the connection to it made up.
    pub(crate) fn from_status(context: &RequestContext, address: &str, during: &'static str, status: &Status) -> Self {
        if let Err(error) = context.check(during) {
            return Self::Final(error);
        }
        let said = format!("the embedding worker at {address}: {}", status.message());
        if status.source().is_some() {
            if timed_out(status) {
                return Self::Final(Error::DeadlineExceeded(during));
            }
            let fault = format!("the connection failed: {}", root_cause(status));
            let error = Error::Unavailable(format!("the embedding worker at {address}: {fault}"));
            return Self::Worker { fault: Fault::Connection(fault), error };
        }
        match status.code() {
            Code::InvalidArgument => Self::Final(invalid_argument(status)),
            Code::DeadlineExceeded => Self::Final(Error::DeadlineExceeded(during)),
            Code::Cancelled => Self::Final(Error::Cancelled),
            Code::ResourceExhausted => {
                let retry_after = status.get_error_details().retry_info().and_then(|info| info.retry_delay);
                Self::Full { what: said, retry_after }
            }
            Code::Unavailable => Self::Refusal(Error::Unavailable(said)),
            code @ (Code::Unauthenticated | Code::PermissionDenied) => {
                let fault = Fault::Refused(format!("it refuses the API key ({code:?}: {})", status.message()));
                let error =
                    Error::Unavailable(format!("the embedding worker at {address}: {fault}; check the API key"));
                Self::Worker { fault, error }
            }
            Code::NotFound => {
                let fault = Fault::OtherModel(format!("it has not all models of the pool ({})", status.message()));
                Self::other_model(address, fault)
            }
            Code::OutOfRange => Self::Final(Error::Internal(format!(
                "{said}; the limit of message sizes here must not be above the worker's"
            ))),
            code => Self::Final(Error::Internal(format!("{said} ({code:?})"))),
        }
    }

    /// The worker has another model than the pool.
    pub(crate) fn other_model(address: &str, fault: Fault) -> Self {
        let message =
            format!("the embedding worker at {address}: {fault}; restart this process to use the other model");
        Self::Worker { error: Error::FailedPrecondition { reason: "FINGERPRINT_MISMATCH", message }, fault }
    }

    /// The worker answered what cannot be right.
    pub(crate) fn malformed(address: &str, fault: impl std::fmt::Display) -> Self {
        Self::Final(Error::Internal(format!("the embedding worker at {address} answered {fault}")))
    }

    /// What the caller is told.
    pub(crate) fn into_error(self) -> Error {
        match self {
            Self::Final(error) | Self::Worker { error, .. } | Self::Refusal(error) => error,
            Self::Full { what, retry_after } => Error::ResourceExhausted { what, retry_after },
        }
    }
}

/// Did this side's own timer for the call run out?
fn timed_out(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<TimeoutExpired>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The innermost cause: "connection refused" instead of "transport error".
fn root_cause(status: &Status) -> String {
    let mut source = status.source();
    let mut cause = status.message().to_owned();
    while let Some(error) = source {
        cause = error.to_string();
        source = error.source();
    }
    cause
}

/// With the worker's own fields where it names them: they are those of its request, not of our caller's.
fn invalid_argument(status: &Status) -> Error {
    let violations = status.get_details_bad_request().map(|bad| bad.field_violations).unwrap_or_default();
    if violations.is_empty() {
        return Error::invalid("", status.message());
    }
    let violations = violations.into_iter();
    Error::InvalidArgument(
        violations.map(|fault| FieldViolation { field: fault.field, description: fault.description }).collect(),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use toller_core::Principal;
    use tonic_types::{ErrorDetails, StatusExt};

    use super::*;

    fn failure(status: &Status) -> Failure {
        Failure::from_status(&RequestContext::new(Principal::anonymous()), "http://a:1", "while testing", status)
    }

    #[test]
    fn what_every_worker_would_say_is_final() {
        for (status, expected) in [
            (Status::deadline_exceeded("x"), Error::DeadlineExceeded("while testing")),
            (Status::cancelled("x"), Error::Cancelled),
            (Status::invalid_argument("x"), Error::invalid("", "x")),
            (Status::internal("x"), Error::Internal("the embedding worker at http://a:1: x (Internal)".to_owned())),
        ] {
            assert_eq!(failure(&status), Failure::Final(expected));
        }
        let details = ErrorDetails::with_bad_request_violation("texts[3]", "is too long");
        let status = Status::with_error_details(Code::InvalidArgument, "texts[3]: is too long", details);
        assert_eq!(failure(&status), Failure::Final(Error::invalid("texts[3]", "is too long")));
    }

    #[test]
    fn what_is_wrong_with_a_worker_is_told_apart() {
        assert!(
            matches!(failure(&Status::unavailable("stops")), Failure::Refusal(Error::Unavailable(said)) if said.contains("http://a:1"))
        );
        let fault = |status| match failure(&status) {
            Failure::Worker { fault, .. } => fault.reason(),
            other => panic!("{other:?}"),
        };
        assert_eq!(fault(Status::unauthenticated("who")), "refused");
        assert_eq!(fault(Status::not_found("model")), "other_model");
        assert_eq!(fault(Status::from_error("reset".into())), "connection");
        let delay = Duration::from_millis(1500);
        let full =
            Status::with_error_details(Code::ResourceExhausted, "full", ErrorDetails::with_retry_info(Some(delay)));
        assert!(matches!(failure(&full), Failure::Full { retry_after: Some(after), .. } if after == delay));
        assert!(matches!(failure(&Status::resource_exhausted("x")), Failure::Full { retry_after: None, .. }));
    }

    #[test]
    fn our_own_timer_and_a_passed_deadline_are_no_fault_of_the_worker() {
        let late = Failure::Final(Error::DeadlineExceeded("while testing"));
        assert_eq!(failure(&Status::from_error(Box::new(TimeoutExpired(())))), late);
        let context = RequestContext::new(Principal::anonymous()).with_deadline(Some(Instant::now()));
        let broken = Status::from_error("reset".into());
        assert_eq!(Failure::from_status(&context, "http://a:1", "while testing", &broken), late);
    }
}
