//! gRPC statuses for people: code, message, and the details that Toller's servers send along.

use std::fmt::Write as _;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

/// One line for the code and message, then one line for each detail, indented.
pub(crate) fn describe(status: &Status) -> String {
    if is_local_timeout(status) {
        return "the server did not answer in time; wait longer with --timeout".to_owned();
    }
    if status.code() == Code::Unknown && status.message() == "transport error" {
        return "the other side does not speak gRPC, or broke the connection; is --server the gRPC port (7700), not the metrics port?"
            .to_owned();
    }
    let details = status.get_error_details();
    let violations = details.bad_request().map(|request| request.field_violations.as_slice()).unwrap_or_default();

    let mut text = code_name(status.code()).to_owned();
    // Some messages begin with the name of the code.
    let message = status.message();
    let rest = message.strip_prefix(text.as_str()).and_then(|rest| rest.strip_prefix(": "));
    let message = rest.unwrap_or(message);
    // A message that only repeats the violations is left out.
    let is_repeated = violations.iter().any(|violation| message.contains(&violation.description));
    if !message.is_empty() && !is_repeated {
        let _ = write!(text, ": {message}");
    }
    for violation in violations {
        let field = if violation.field.is_empty() { "request" } else { &violation.field };
        let _ = write!(text, "\n  {field}: {}", violation.description);
    }
    // A reason such as NOT_FOUND says no more than the code does, and its metadata no more than the message.
    let says_more =
        |reason: &str| !reason.is_empty() && reason.to_lowercase().replace('_', " ") != code_name(status.code());
    if let Some(info) = details.error_info().filter(|info| says_more(&info.reason)) {
        let _ = write!(text, "\n  reason: {}", info.reason);
        let mut metadata: Vec<_> = info.metadata.iter().collect();
        metadata.sort();
        for (key, value) in metadata {
            let _ = write!(text, "\n  {key}: {value}");
        }
    }
    if let Some(delay) = details.retry_info().and_then(|info| info.retry_delay) {
        let _ = write!(text, "\n  retry after: {:.1} s", delay.as_secs_f64());
    }
    if let Some(hint) = hint(status.code()) {
        let _ = write!(text, "\n  {hint}");
    }
    text
}

/// tonic's client ends a call at its own deadline as CANCELLED with this message; the server's end says DEADLINE_EXCEEDED.
pub(crate) fn is_local_timeout(status: &Status) -> bool {
    status.code() == Code::Cancelled && status.message().contains("Timeout expired")
}

fn hint(code: Code) -> Option<&'static str> {
    match code {
        Code::Unauthenticated => Some("pass a key with --api-key or TOLLER_API_KEY; `toller key new` makes one"),
        Code::Unimplemented => Some("this server does not offer that; is it an older version?"),
        Code::DeadlineExceeded => Some("wait longer with --timeout"),
        _ => None,
    }
}

fn code_name(code: Code) -> &'static str {
    match code {
        Code::Ok => "ok",
        Code::Cancelled => "cancelled",
        Code::Unknown => "unknown error",
        Code::InvalidArgument => "invalid argument",
        Code::DeadlineExceeded => "deadline exceeded",
        Code::NotFound => "not found",
        Code::AlreadyExists => "already exists",
        Code::PermissionDenied => "permission denied",
        Code::ResourceExhausted => "resource exhausted",
        Code::FailedPrecondition => "failed precondition",
        Code::Aborted => "aborted",
        Code::OutOfRange => "out of range",
        Code::Unimplemented => "not implemented",
        Code::Internal => "internal error",
        Code::Unavailable => "unavailable",
        Code::DataLoss => "data loss",
        Code::Unauthenticated => "unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn violations_are_listed_and_not_repeated() {
        let mut details = ErrorDetails::new();
        details.add_bad_request_violation("search.k", "must be at least 1, got 0");
        details.add_bad_request_violation("search.filter.eq.key", "must not be empty");
        let message = "search.k: must be at least 1, got 0; search.filter.eq.key: must not be empty";
        let status = Status::with_error_details(Code::InvalidArgument, message, details);
        assert_eq!(
            describe(&status),
            "invalid argument\n  search.k: must be at least 1, got 0\n  search.filter.eq.key: must not be empty"
        );
    }

    #[test]
    fn reason_and_retry_hint_are_shown() {
        let mut details = ErrorDetails::new();
        details.set_retry_info(Some(Duration::from_millis(1500)));
        details.set_error_info("QUEUE_FULL", "toller", [("limit".to_owned(), "65536".to_owned())]);
        let status = Status::with_error_details(Code::ResourceExhausted, "the queue is full", details);
        assert_eq!(
            describe(&status),
            "resource exhausted: the queue is full\n  reason: QUEUE_FULL\n  limit: 65536\n  retry after: 1.5 s"
        );
    }

    #[test]
    fn a_reason_that_only_repeats_the_code_is_left_out() {
        let mut details = ErrorDetails::new();
        details.set_error_info("NOT_FOUND", "toller", [("name".to_owned(), "docs".to_owned())]);
        let status = Status::with_error_details(Code::NotFound, "collection \"docs\" does not exist", details);
        assert_eq!(describe(&status), "not found: collection \"docs\" does not exist");
    }

    #[test]
    fn a_plain_status_is_one_line_and_a_missing_key_says_what_to_do() {
        assert_eq!(describe(&Status::internal("broken")), "internal error: broken");
        assert_eq!(describe(&Status::internal("internal error: broken")), "internal error: broken");
        assert!(describe(&Status::unauthenticated("no key")).contains("TOLLER_API_KEY"));
    }

    #[test]
    fn the_clients_own_timeout_reads_as_one() {
        assert!(describe(&Status::cancelled("Timeout expired")).contains("--timeout"));
        assert_eq!(describe(&Status::cancelled("by the server")), "cancelled: by the server");
    }
}
