//! Errors of the core as gRPC statuses with rich details (google.rpc), so that a client can act on them without reading text.
//!
//! Each error is exactly one code. `ErrorInfo {reason, domain "toller"}` is always there; `BadRequest` names fields,
//! `RetryInfo` and the `grpc-retry-pushback-ms` trailer say when to retry, `ResourceInfo` names what is missing or in the way,
//! `PreconditionFailure` and `QuotaFailure` say what stands against the call.

use std::collections::HashMap;
use std::time::Duration;

use http::HeaderMap;
use toller_core::error::ResourceKind;
use toller_core::{Error, FieldViolation};
use toller_telemetry::error_class;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// `ErrorInfo.domain` of every error.
pub const ERROR_DOMAIN: &str = "toller";

/// The trailer that gRPC's own retries obey: milliseconds to wait.
pub const RETRY_PUSHBACK: &str = "grpc-retry-pushback-ms";

/// Longest message in bytes. Messages and details travel in trailers, for which some clients take 8 KiB at most.
pub const MAX_MESSAGE_BYTES: usize = 1024;

/// Most bytes of field violations; the rest is counted.
const MAX_VIOLATION_BYTES: usize = 2048;

/// Longest name or path within the details, in bytes.
pub(crate) const MAX_NAME_BYTES: usize = 256;

/// The status of an error.
pub fn status(error: &Error) -> Status {
    let mut details = ErrorDetails::new();
    let mut metadata = MetadataMap::new();
    let mut info = HashMap::new();
    let message = bounded(&error.to_string(), MAX_MESSAGE_BYTES);
    let code = match error {
        Error::InvalidArgument(violations) => {
            add_violations(&mut details, violations);
            Code::InvalidArgument
        }
        Error::NotFound { kind, name } => {
            add_resource(&mut details, &mut info, *kind, name, &message);
            Code::NotFound
        }
        Error::AlreadyExists { kind, name } => {
            add_resource(&mut details, &mut info, *kind, name, &message);
            Code::AlreadyExists
        }
        Error::FailedPrecondition { reason, .. } => {
            details.add_precondition_failure_violation(*reason, ERROR_DOMAIN, &message);
            Code::FailedPrecondition
        }
        Error::ResourceExhausted { retry_after, .. } => {
            details.add_quota_failure_violation(ERROR_DOMAIN, &message);
            if let Some(delay) = retry_after {
                details.set_retry_info(Some(*delay));
                metadata.insert(RETRY_PUSHBACK, pushback(*delay));
            }
            Code::ResourceExhausted
        }
        Error::Aborted(_) => Code::Aborted,
        Error::DeadlineExceeded(_) => Code::DeadlineExceeded,
        Error::Cancelled => Code::Cancelled,
        Error::Unavailable(_) => Code::Unavailable,
        Error::Unauthenticated(_) => Code::Unauthenticated,
        Error::PermissionDenied(_) => Code::PermissionDenied,
        Error::Internal(_) => Code::Internal,
        // `Error` may grow; a new variant is unknown here until it is given its code.
        _ => Code::Unknown,
    };
    let reason = match error {
        Error::FailedPrecondition { reason, .. } => reason,
        other => error_class(other),
    };
    details.set_error_info(reason, ERROR_DOMAIN, info);
    Status::with_error_details_and_metadata(code, message, details, metadata)
}

/// The trailers that end a stream with `status`.
///
/// # Errors
/// A status in its place when it cannot be written as headers.
pub fn trailers(status: &Status) -> Result<HeaderMap, Status> {
    let mut headers = HeaderMap::new();
    status.add_header(&mut headers)?;
    Ok(headers)
}

/// Milliseconds, rounded up so that no client comes too early.
fn pushback(delay: Duration) -> MetadataValue<tonic::metadata::Ascii> {
    let milliseconds = delay.as_micros().div_ceil(1000);
    MetadataValue::from(u64::try_from(milliseconds).unwrap_or(u64::MAX))
}

fn add_violations(details: &mut ErrorDetails, violations: &[FieldViolation]) {
    let mut left = MAX_VIOLATION_BYTES;
    for (index, violation) in violations.iter().enumerate() {
        let field = bounded(&violation.field, MAX_NAME_BYTES);
        let description = bounded(&violation.description, MAX_MESSAGE_BYTES);
        let Some(rest) = left.checked_sub(field.len() + description.len()) else {
            details.add_bad_request_violation("", format!("and {} more", violations.len() - index));
            return;
        };
        left = rest;
        details.add_bad_request_violation(field, description);
    }
}

fn add_resource(
    details: &mut ErrorDetails,
    info: &mut HashMap<String, String>,
    kind: ResourceKind,
    name: &str,
    message: &str,
) {
    let name = bounded(name, MAX_NAME_BYTES);
    details.set_resource_info(kind.to_string(), name.clone(), "", message);
    info.insert("kind".to_owned(), kind.to_string());
    info.insert("name".to_owned(), name);
}

/// `text`, cut to at most `most` bytes at a character, with an ellipsis where it was cut.
pub(crate) fn bounded(text: &str, most: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub(ELLIPSIS.len()));
    format!("{}{ELLIPSIS}", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn every_error() -> Vec<(Error, Code, &'static str)> {
        let name = || "docs".to_owned();
        vec![
            (Error::invalid("k", "must be at least 1"), Code::InvalidArgument, "INVALID_ARGUMENT"),
            (Error::NotFound { kind: ResourceKind::Collection, name: name() }, Code::NotFound, "NOT_FOUND"),
            (
                Error::AlreadyExists { kind: ResourceKind::Retriever, name: name() },
                Code::AlreadyExists,
                "ALREADY_EXISTS",
            ),
            (
                Error::FailedPrecondition { reason: "FINGERPRINT_MISMATCH", message: "other".to_owned() },
                Code::FailedPrecondition,
                "FINGERPRINT_MISMATCH",
            ),
            (Error::Aborted("again".to_owned()), Code::Aborted, "ABORTED"),
            (
                Error::ResourceExhausted { what: "full".to_owned(), retry_after: Some(Duration::from_micros(1_500)) },
                Code::ResourceExhausted,
                "RESOURCE_EXHAUSTED",
            ),
            (Error::DeadlineExceeded("in the queue"), Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
            (Error::Cancelled, Code::Cancelled, "CANCELLED"),
            (Error::Unavailable("gone".to_owned()), Code::Unavailable, "UNAVAILABLE"),
            (Error::Unauthenticated("who".to_owned()), Code::Unauthenticated, "UNAUTHENTICATED"),
            (Error::PermissionDenied("no".to_owned()), Code::PermissionDenied, "PERMISSION_DENIED"),
            (Error::Internal("bug".to_owned()), Code::Internal, "INTERNAL"),
        ]
    }

    #[test]
    fn every_error_has_its_code_and_its_reason() {
        for (error, code, reason) in every_error() {
            let status = status(&error);
            assert_eq!(status.code(), code, "{error}");
            assert_eq!(status.message(), error.to_string());
            let info = status.get_details_error_info().unwrap();
            assert_eq!((info.reason.as_str(), info.domain.as_str()), (reason, "toller"));
        }
    }

    #[test]
    fn details_name_fields_resources_and_delays() {
        let error = Error::InvalidArgument(vec![
            FieldViolation { field: "a.b[2]".to_owned(), description: "must be finite".to_owned() },
            FieldViolation { field: "k".to_owned(), description: "must be at least 1".to_owned() },
        ]);
        let fields = status(&error).get_details_bad_request().unwrap().field_violations;
        assert_eq!(fields.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(), ["a.b[2]", "k"]);
        assert_eq!(fields[0].description, "must be finite");

        let missing = status(&Error::NotFound { kind: ResourceKind::Collection, name: "docs".to_owned() });
        let resource = missing.get_details_resource_info().unwrap();
        assert_eq!((resource.resource_type.as_str(), resource.resource_name.as_str()), ("collection", "docs"));
        assert_eq!(missing.get_details_error_info().unwrap().metadata["name"], "docs");

        let delay = Duration::from_micros(1_500);
        let full = status(&Error::ResourceExhausted { what: "the queue is full".to_owned(), retry_after: Some(delay) });
        assert_eq!(full.get_details_retry_info().unwrap().retry_delay, Some(delay));
        assert_eq!(full.metadata().get(RETRY_PUSHBACK).unwrap(), "2");
        assert_eq!(full.get_details_quota_failure().unwrap().violations[0].description, "the queue is full");

        let never = status(&Error::ResourceExhausted { what: "too large".to_owned(), retry_after: None });
        assert!(never.get_details_retry_info().is_none() && never.metadata().get(RETRY_PUSHBACK).is_none());

        let mismatch =
            status(&Error::FailedPrecondition { reason: "FINGERPRINT_MISMATCH", message: "a, b".to_owned() });
        let violation = &mismatch.get_details_precondition_failure().unwrap().violations[0];
        assert_eq!((violation.r#type.as_str(), violation.description.as_str()), ("FINGERPRINT_MISMATCH", "a, b"));
    }

    #[test]
    fn violations_beyond_the_bound_are_counted() {
        let violation =
            |index| FieldViolation { field: format!("documents[{index}].id"), description: "x".repeat(100) };
        let error = Error::InvalidArgument((0..1000).map(violation).collect());
        let fields = status(&error).get_details_bad_request().unwrap().field_violations;
        assert!(fields.len() > 10);
        assert_eq!(fields.last().unwrap().description, format!("and {} more", 1000 - (fields.len() - 1)));
    }

    proptest! {
        /// netty, and with it Java's client, takes 8 KiB of headers by default.
        #[test]
        fn a_status_fits_into_eight_kibibytes_of_trailers(text in "\\PC{0,3000}", count in 1_usize..60) {
            let violation = FieldViolation { field: text.clone(), description: text.clone() };
            let name = || text.clone();
            for error in [
                Error::InvalidArgument(vec![violation; count]),
                Error::NotFound { kind: ResourceKind::Document, name: name() },
                Error::Internal(name()),
                Error::ResourceExhausted { what: name(), retry_after: Some(Duration::MAX) },
                Error::FailedPrecondition { reason: "FINGERPRINT_MISMATCH", message: name() },
            ] {
                let headers = trailers(&status(&error)).unwrap();
                let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
                prop_assert!(bytes <= 8192, "{} bytes", bytes);
            }
        }

        #[test]
        fn a_bounded_text_keeps_its_beginning(text in "\\PC{0,50}", most in 3_usize..100) {
            let short = bounded(&text, most);
            prop_assert!(short.len() <= most);
            if text.len() <= most {
                prop_assert_eq!(short, text);
            } else {
                prop_assert!(text.starts_with(short.strip_suffix('…').unwrap()));
            }
        }
    }
}
