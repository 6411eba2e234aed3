//! Every fault of a declaration, collected with its path before anything is refused.

use toller_core::error::{FieldViolation, join_path};
use toller_core::{Error, Result};

/// The faults so far, in the order of the tree.
#[derive(Debug, Default)]
pub(crate) struct Faults(Vec<Fault>);

#[derive(Debug)]
struct Fault {
    path: String,
    error: Error,
}

impl Faults {
    /// Adds a fault in the field at `path`.
    pub(crate) fn add(&mut self, path: String, description: impl Into<String>) {
        self.0.push(Fault { path, error: Error::invalid("", description) });
    }

    /// Adds an error of checking something at `path`.
    pub(crate) fn add_invalid(&mut self, path: String, error: Error) {
        self.0.push(Fault { path, error });
    }

    /// The value; or none, with a fault at `path`, when the declaration is wrong or names what does not exist.
    ///
    /// # Errors
    /// What stands in the way of checking, such as a catalogue that cannot be reached.
    pub(crate) fn note<T>(&mut self, path: &str, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ (Error::InvalidArgument(_) | Error::NotFound { .. } | Error::FailedPrecondition { .. })) => {
                self.0.push(Fault { path: path.to_owned(), error });
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// Is there none?
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them as violations.
    pub(crate) fn into_violations(self) -> Vec<FieldViolation> {
        let violations = self.0.into_iter().flat_map(|Fault { path, error }| match error {
            Error::InvalidArgument(violations) => violations
                .into_iter()
                .map(|violation| FieldViolation { field: join_path(&path, &violation.field), ..violation })
                .collect(),
            other => vec![FieldViolation { field: path, description: other.to_string() }],
        });
        violations.collect()
    }

    /// The error that tells them all. What alone is at fault tells it in its own way, such as `NotFound`.
    pub(crate) fn into_error(mut self) -> Error {
        match self.0.pop() {
            Some(Fault { error, .. }) if self.0.is_empty() && !matches!(error, Error::InvalidArgument(_)) => error,
            last => {
                self.0.extend(last);
                Error::InvalidArgument(self.into_violations())
            }
        }
    }
}
