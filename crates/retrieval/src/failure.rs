//! An error on its way up the tree, with the path of the node that it began in.

use std::sync::Arc;

use toller_core::Error;
use toller_core::error::{FieldViolation, join_path};

/// What a node answers with when it fails.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failure {
    /// Where it began; none until the node that it began in has put its path here.
    path: Option<Arc<str>>,
    pub(crate) error: Error,
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self { path: None, error }
    }
}

impl Failure {
    /// The same failure, of the node at `path` unless it came from one below.
    pub(crate) fn at(self, path: &Arc<str>) -> Self {
        Self { path: Some(self.path.unwrap_or_else(|| Arc::clone(path))), ..self }
    }

    /// The error as the caller sees it: with its path, where there is a place for it and it is not that of the outermost node.
    pub(crate) fn into_error(self) -> Error {
        let Some(path) = self.path.filter(|path| !path.is_empty()) else { return self.error };
        match self.error {
            Error::InvalidArgument(violations) => {
                // What is wrong with the query is wrong in every node: it keeps its own path.
                let is_of_query = |violation: &FieldViolation| violation.field.starts_with("query");
                let with_path = |violation: FieldViolation| match is_of_query(&violation) {
                    true => violation,
                    false => FieldViolation { field: join_path(&path, &violation.field), ..violation },
                };
                Error::InvalidArgument(violations.into_iter().map(with_path).collect())
            }
            Error::FailedPrecondition { reason, message } => {
                Error::FailedPrecondition { reason, message: format!("{path}: {message}") }
            }
            Error::Aborted(message) => Error::Aborted(format!("{path}: {message}")),
            Error::ResourceExhausted { what, retry_after } => {
                Error::ResourceExhausted { what: format!("{path}: {what}"), retry_after }
            }
            Error::Unavailable(message) => Error::Unavailable(format!("{path}: {message}")),
            Error::Internal(message) => Error::Internal(format!("{path}: {message}")),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_path_stays() {
        let failure = Failure::from(Error::Unavailable("no answer".to_owned()));
        let failure = failure.at(&"merger.retrievers[1]".into()).at(&"".into());
        assert_eq!(failure.into_error(), Error::Unavailable("merger.retrievers[1]: no answer".to_owned()));
        let outermost = Failure::from(Error::Cancelled).at(&"".into());
        assert_eq!(outermost.into_error(), Error::Cancelled);
    }

    #[test]
    fn faults_of_the_query_keep_their_own_path() {
        for (field, expected) in
            [("query.vector", "query.vector"), ("ensemble.fusion", "merger.retrievers[0].ensemble.fusion")]
        {
            let failure = Failure::from(Error::invalid(field, "is wrong")).at(&"merger.retrievers[0]".into());
            assert_eq!(failure.into_error(), Error::invalid(expected, "is wrong"));
        }
    }
}
