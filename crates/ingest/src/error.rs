//! What can go wrong with the caller's parameters; what can go wrong with a file is a [`crate::SkipReason`].

use std::borrow::Cow;

/// A fault in what the caller asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of its range.
    #[error("{parameter}: {description}")]
    InvalidParameter {
        /// Its name, such as `chunk_size`; in a declaration its path, such as `splitter.recursive.chunk_size`.
        parameter: Cow<'static, str>,
        /// What is wrong and what would be right.
        description: String,
    },
    /// A separator is no valid regular expression.
    #[error("separators: {pattern:?} is not a regular expression: {fault}")]
    SeparatorSyntax {
        /// The expression.
        pattern: String,
        /// What the regular expression engine says.
        fault: Box<fancy_regex::Error>,
    },
    /// Matching a separator took too many steps on this text.
    #[error("separators: {pattern:?} could not be matched, use a simpler expression: {fault}")]
    SeparatorMatch {
        /// The expression.
        pattern: String,
        /// What the regular expression engine says.
        fault: Box<fancy_regex::Error>,
    },
    /// A text that should be JSON is not.
    #[error("not valid JSON: {0}")]
    InvalidJson(String),
    /// The model's tokenizer failed on a text.
    #[error("the text cannot be cut into tokens: {0}")]
    Tokenizer(#[source] Box<toller_core::Error>),
    /// The vectors are not those of the windows that were to be embedded.
    #[error("the vectors of a text's sentences {0}")]
    Vectors(String),
}

impl Error {
    /// A parameter is out of its range.
    pub(crate) fn invalid(parameter: &'static str, description: impl Into<String>) -> Self {
        Self::InvalidParameter { parameter: Cow::Borrowed(parameter), description: description.into() }
    }

    /// The same fault, of a parameter in the declaration at `path`.
    #[must_use]
    pub(crate) fn within(self, path: &str) -> Self {
        match self {
            Self::InvalidParameter { parameter, description } => {
                Self::InvalidParameter { parameter: Cow::Owned(format!("{path}.{parameter}")), description }
            }
            Self::SeparatorSyntax { pattern, fault } => Self::InvalidParameter {
                parameter: Cow::Owned(format!("{path}.separators")),
                description: format!("{pattern:?} is not a regular expression: {fault}"),
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_in_a_declaration_names_the_path() {
        let fault = Error::invalid("chunk_size", "must be at least 1, got 0").within("splitter.token");
        assert_eq!(fault.to_string(), "splitter.token.chunk_size: must be at least 1, got 0");
        let fault = crate::Separator::regex("(").unwrap_err().within("splitter.recursive").to_string();
        assert!(fault.starts_with("splitter.recursive.separators: \"(\" is not a regular expression"), "{fault}");
    }
}
