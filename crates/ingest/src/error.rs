//! What can go wrong with the caller's parameters; what can go wrong with a file is a [`crate::SkipReason`].

/// A fault in what the caller asked for.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A parameter is out of its range.
    #[error("{parameter}: {description}")]
    InvalidParameter {
        /// Its name, such as `chunk_size`.
        parameter: &'static str,
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
    /// A source's name makes ids that are longer than [`toller_core::document::MAX_ID_BYTES`].
    #[error("the id of chunk {chunk} of {source_name:?} {fault}: use a shorter path")]
    InvalidId {
        /// The name of the source.
        source_name: String,
        /// Number of the chunk, from 0.
        chunk: usize,
        /// What is wrong with it.
        fault: String,
    },
}
