//! What a refused call must say.

use tonic::{Code, Response, Status};
use tonic_types::StatusExt;

/// The error of a call that must fail.
#[track_caller]
pub fn refused<T>(what: &str, answer: Result<Response<T>, Status>) -> Status {
    match answer {
        Ok(_) => panic!("{what} must be refused"),
        Err(status) => status,
    }
}

/// Asserts INVALID_ARGUMENT with exactly this field at fault.
#[track_caller]
pub fn invalid<T>(what: &str, answer: Result<Response<T>, Status>, field: &str) {
    invalid_fields(what, answer, &[field]);
}

/// Asserts INVALID_ARGUMENT with exactly these fields at fault.
#[track_caller]
pub fn invalid_fields<T>(what: &str, answer: Result<Response<T>, Status>, fields: &[&str]) {
    let status = refused(what, answer);
    assert_eq!(status.code(), Code::InvalidArgument, "{what}: {}", status.message());
    let request = status.get_details_bad_request().unwrap_or_else(|| panic!("{what} has no BadRequest: {status:?}"));
    let found: Vec<&str> = request.field_violations.iter().map(|violation| violation.field.as_str()).collect();
    assert_eq!(found, fields, "{what}: {:?}", request.field_violations);
    for violation in &request.field_violations {
        assert!(!violation.description.is_empty(), "{what}: a fault without a description");
    }
    reason(what, &status, "INVALID_ARGUMENT");
}

/// Asserts the code and reason of an error.
#[track_caller]
pub fn refused_with<T>(what: &str, answer: Result<Response<T>, Status>, code: Code, expected: &str) -> Status {
    let status = refused(what, answer);
    assert_eq!(status.code(), code, "{what}: {}", status.message());
    reason(what, &status, expected);
    status
}

/// Asserts NOT_FOUND with the kind and name of what is missing.
#[track_caller]
pub fn not_found<T>(what: &str, answer: Result<Response<T>, Status>, kind: &str, name: &str) {
    let status = refused_with(what, answer, Code::NotFound, "NOT_FOUND");
    let resource =
        status.get_details_resource_info().unwrap_or_else(|| panic!("{what} has no ResourceInfo: {status:?}"));
    assert_eq!((resource.resource_type.as_str(), resource.resource_name.as_str()), (kind, name), "{what}");
}

#[track_caller]
fn reason(what: &str, status: &Status, expected: &str) {
    let info = status.get_details_error_info().unwrap_or_else(|| panic!("{what} has no ErrorInfo: {status:?}"));
    assert_eq!((info.domain.as_str(), info.reason.as_str()), ("toller", expected), "{what}");
}
