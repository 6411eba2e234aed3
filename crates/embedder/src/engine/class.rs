//! The two classes of requests: somebody waits for a query, an import can wait a little.

use toller_core::EmbeddingRole;

/// How urgent a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Class {
    /// Goes first: queries, and pairs to be reranked.
    Query,
    /// Takes what queries leave, which is a fifth of the time at least: texts to be found.
    Document,
}

impl Class {
    /// Both, the more urgent one first.
    pub(super) const ALL: [Self; 2] = [Self::Query, Self::Document];
}

impl From<EmbeddingRole> for Class {
    fn from(role: EmbeddingRole) -> Self {
        match role {
            EmbeddingRole::Query => Self::Query,
            EmbeddingRole::Document => Self::Document,
        }
    }
}
