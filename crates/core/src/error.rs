//! What can go wrong in any layer, in the terms of a caller.
//!
//! Each variant maps to exactly one gRPC status code (see `toller-serving`); the variant, not the text, decides whether a
//! client should retry.

use std::fmt;
use std::time::Duration;

/// The result of every fallible operation of the core traits.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One fault in a request, with the path of the field it is in, such as `documents[3].id`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldViolation {
    /// Path of the field, in the spelling of the public contract.
    pub field: String,
    /// What is wrong and what would be right; lower case, no final stop.
    pub description: String,
}

impl fmt::Display for FieldViolation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.field.is_empty() {
            write!(formatter, "{}", self.description)
        } else {
            write!(formatter, "{}: {}", self.field, self.description)
        }
    }
}

/// A kind of thing that has a name and may be missing or present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// A collection of documents.
    Collection,
    /// A document of a collection.
    Document,
    /// A stored retriever.
    Retriever,
    /// An embedding model.
    Model,
    /// Something that runs longer than a request.
    Operation,
    /// Documents without vectors, by the name of their collection.
    DocumentStore,
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Collection => "collection",
            Self::Document => "document",
            Self::Retriever => "retriever",
            Self::Model => "model",
            Self::Operation => "operation",
            Self::DocumentStore => "document store",
        })
    }
}

/// The one error of the core traits.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The request is wrong whatever the state of the service; never empty.
    #[error("{}", join_violations(.0))]
    InvalidArgument(Vec<FieldViolation>),

    /// A named thing does not exist (for this tenant).
    #[error("{kind} \"{name}\" does not exist")]
    NotFound {
        /// What was looked for.
        kind: ResourceKind,
        /// Its name or id.
        name: String,
    },

    /// A named thing exists already.
    #[error("{kind} \"{name}\" exists already")]
    AlreadyExists {
        /// What was to be made.
        kind: ResourceKind,
        /// Its name or id.
        name: String,
    },

    /// The request is right, but the state of the service forbids it until somebody changes that state.
    #[error("{message}")]
    FailedPrecondition {
        /// Machine-readable reason in UPPER_SNAKE_CASE, such as `FINGERPRINT_MISMATCH`.
        reason: &'static str,
        /// What stands in the way and what to do.
        message: String,
    },

    /// Another writer was first; read again and retry.
    #[error("{0}")]
    Aborted(String),

    /// A bounded resource is full; retry later.
    #[error("{what}")]
    ResourceExhausted {
        /// Which resource, and its bound.
        what: String,
        /// When a retry is likely to succeed.
        retry_after: Option<Duration>,
    },

    /// The caller's deadline passed before the work was done.
    #[error("the deadline passed {0}")]
    DeadlineExceeded(&'static str),

    /// The caller went away.
    #[error("the request was cancelled")]
    Cancelled,

    /// Something that this service depends on cannot be reached; retry.
    #[error("{0}")]
    Unavailable(String),

    /// No valid credential came with the request.
    #[error("{0}")]
    Unauthenticated(String),

    /// The principal lacks the role.
    #[error("{0}")]
    PermissionDenied(String),

    /// A defect of the service or broken data; the text goes to the log and to the caller.
    #[error("internal error: {0}")]
    Internal(String),
}

impl Error {
    /// An invalid argument in one field.
    pub fn invalid(field: impl Into<String>, description: impl Into<String>) -> Self {
        Self::InvalidArgument(vec![FieldViolation { field: field.into(), description: description.into() }])
    }

    /// The same error with `prefix` before the path of every field; other errors are unchanged.
    ///
    /// ```
    /// use toller_core::Error;
    /// let error = Error::invalid("k", "must be at least 1").within("vector_store");
    /// assert_eq!(error.to_string(), "vector_store.k: must be at least 1");
    /// ```
    #[must_use]
    pub fn within(self, prefix: &str) -> Self {
        match self {
            Self::InvalidArgument(violations) => Self::InvalidArgument(
                violations
                    .into_iter()
                    .map(|violation| FieldViolation { field: join_path(prefix, &violation.field), ..violation })
                    .collect(),
            ),
            other => other,
        }
    }

    /// `Ok` when there is no violation, else the error that lists them all.
    pub fn from_violations(violations: Vec<FieldViolation>) -> Result<()> {
        if violations.is_empty() { Ok(()) } else { Err(Self::InvalidArgument(violations)) }
    }
}

/// Both, or the faults of both, so that one answer names every field; an invalid argument goes before other errors.
///
/// # Errors
/// `InvalidArgument` with the violations of both sides where both have some; else the one error there is, or the first.
///
/// ```
/// use toller_core::Error;
/// use toller_core::error::both;
/// let faults = both::<(), ()>(Err(Error::invalid("k", "is 0")), Err(Error::invalid("n", "is 0")));
/// assert_eq!(faults.unwrap_err().to_string(), "k: is 0; n: is 0");
/// ```
pub fn both<L, R>(left: Result<L>, right: Result<R>) -> Result<(L, R)> {
    match (left, right) {
        (Ok(left), Ok(right)) => Ok((left, right)),
        (Err(Error::InvalidArgument(mut violations)), Err(Error::InvalidArgument(more))) => {
            violations.extend(more);
            Err(Error::InvalidArgument(violations))
        }
        (_, Err(error @ Error::InvalidArgument(_))) | (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// `prefix` and `field` as one path: `a` + `b` is `a.b`, `a` + `[0]` is `a[0]`.
pub fn join_path(prefix: &str, field: &str) -> String {
    match (prefix.is_empty(), field.is_empty()) {
        (true, _) => field.to_owned(),
        (_, true) => prefix.to_owned(),
        _ if field.starts_with('[') => format!("{prefix}{field}"),
        _ => format!("{prefix}.{field}"),
    }
}

fn join_violations(violations: &[FieldViolation]) -> String {
    violations.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_argument_goes_before_other_errors() {
        let invalid = || Error::invalid("k", "is 0");
        assert_eq!(both(Ok(1), Ok("a")), Ok((1, "a")));
        assert_eq!(both::<(), ()>(Err(Error::Cancelled), Err(invalid())), Err(invalid()));
        assert_eq!(both::<(), ()>(Err(invalid()), Err(Error::Cancelled)), Err(invalid()));
        assert_eq!(both::<(), _>(Err(Error::Cancelled), Ok(1)), Err(Error::Cancelled));
        assert_eq!(both::<_, ()>(Ok(1), Err(invalid())), Err(invalid()));
    }
}
