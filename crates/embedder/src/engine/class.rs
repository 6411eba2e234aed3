//! What decides a request's turn: its class, and within a class its size.

use toller_core::EmbeddingRole;

/// How urgent a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// Goes first, since somebody waits: queries, and pairs to be reranked.
    Query,
    /// Takes what queries leave, which is a fifth of the time at least: texts to be found.
    Document,
}

impl Class {
    /// What metrics call it.
    pub(super) fn role(self) -> EmbeddingRole {
        match self {
            Self::Query => EmbeddingRole::Query,
            Self::Document => EmbeddingRole::Document,
        }
    }
}

impl From<EmbeddingRole> for Class {
    fn from(role: EmbeddingRole) -> Self {
        match role {
            EmbeddingRole::Query => Self::Query,
            EmbeddingRole::Document => Self::Document,
        }
    }
}

/// The most tokens of a small request: a few passes.
const SMALL_TOKENS: usize = 2_048;

/// How large a request is, as estimated when it comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// At most [`SMALL_TOKENS`]: never waits for the whole of a large one.
    Small,
    /// More.
    Large,
}

impl Size {
    /// The size of a request of `tokens` tokens.
    pub(super) fn of(tokens: usize) -> Self {
        if tokens <= SMALL_TOKENS { Self::Small } else { Self::Large }
    }
}
