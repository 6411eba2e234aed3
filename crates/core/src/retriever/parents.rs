//! Declared retrievers that find small documents and answer with those that they stand for.

use serde::{Deserialize, Serialize};

use super::{RetrieverSpec, VectorStoreRetrieverSpec};
use crate::collection::CollectionName;

/// Default key of the parent's id in a child's metadata, as in LangChain.
pub const DEFAULT_ID_KEY: &str = "doc_id";

/// Where the parents are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentSource {
    /// Documents of a collection.
    Collection(CollectionName),
    /// Documents without vectors, under this name in the document store.
    DocumentStore(CollectionName),
}

/// How the scores of the children that were found make that of their parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParentScore {
    /// The best one.
    #[default]
    Max,
    /// The mean.
    Mean,
    /// The sum; not for Euclidean distances.
    Sum,
    /// That of the child that came first.
    First,
}

/// Finds children with any retriever (LangChain's `MultiVectorRetriever`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MultiVectorSpec {
    /// Finds the children.
    pub retriever: Box<RetrieverSpec>,
    /// Where the parents are.
    pub parents: ParentSource,
    /// Path of the parent's id in a child's metadata; default [`DEFAULT_ID_KEY`].
    pub id_key: Option<String>,
    /// Most parents, at least 1; default [`super::DEFAULT_K`].
    pub k: Option<u32>,
    /// How parents are scored.
    pub score: ParentScore,
}

/// Searches children until enough parents are found (LangChain's `ParentDocumentRetriever`).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ParentDocumentSpec {
    /// The search of the children; its `k` is how many are fetched at first.
    pub search: VectorStoreRetrieverSpec,
    /// Where the parents are.
    pub parents: ParentSource,
    /// Path of the parent's id in a child's metadata; default [`DEFAULT_ID_KEY`].
    pub id_key: Option<String>,
    /// Most parents, at least 1; default [`super::DEFAULT_K`].
    pub k: Option<u32>,
    /// How parents are scored.
    pub score: ParentScore,
}
