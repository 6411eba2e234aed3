//! The class of an error, for `error.type` and for metrics: gRPC's name of the status code that the error becomes.

use toller_core::Error;

/// The class of `error`, such as `NOT_FOUND`; the same word as its gRPC status code.
pub fn error_class(error: &Error) -> &'static str {
    match error {
        Error::InvalidArgument(_) => "INVALID_ARGUMENT",
        Error::NotFound { .. } => "NOT_FOUND",
        Error::AlreadyExists { .. } => "ALREADY_EXISTS",
        Error::FailedPrecondition { .. } => "FAILED_PRECONDITION",
        Error::Aborted(_) => "ABORTED",
        Error::ResourceExhausted { .. } => "RESOURCE_EXHAUSTED",
        Error::DeadlineExceeded(_) => "DEADLINE_EXCEEDED",
        Error::Cancelled => "CANCELLED",
        Error::Unavailable(_) => "UNAVAILABLE",
        Error::Unauthenticated(_) => "UNAUTHENTICATED",
        Error::PermissionDenied(_) => "PERMISSION_DENIED",
        Error::Internal(_) => "INTERNAL",
        // `Error` may grow; a new variant is unknown here until it is given its class.
        _ => "UNKNOWN",
    }
}
