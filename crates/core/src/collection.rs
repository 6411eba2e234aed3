//! Collections: a name, a metric, a dimension, and the fingerprint of what fills them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use crate::collection_name::CollectionName;
use crate::fingerprint::Fingerprint;
use crate::keyword::KeywordParams;
use crate::metric::Metric;

/// What an acknowledged write survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Nothing but an orderly shutdown: data is in RAM.
    None,
    /// A crash of the process.
    Process,
    /// Power loss.
    Fsync,
}

/// What a store needs to know of a collection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct VectorParams {
    /// Dimension of every vector, at least 1.
    pub dimension: u32,
    /// How vectors are compared.
    pub metric: Metric,
    /// How texts are indexed for keyword search; none where they are not.
    #[serde(default)]
    pub keyword: Option<KeywordParams>,
}

/// A collection as the catalogue records it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CollectionSpec {
    /// Its name.
    pub name: CollectionName,
    /// For people; may be empty.
    pub description: String,
    /// For the caller; never read by Toller.
    pub labels: BTreeMap<String, String>,
    /// How vectors are compared.
    pub metric: Metric,
    /// What fills it; carries the dimension.
    pub fingerprint: Fingerprint,
    /// Milliseconds since 1970-01-01 UTC.
    pub created_at_ms: i64,
    /// How texts are indexed for keyword search; none where they are not, as in records of before there was one.
    #[serde(default)]
    pub keyword: Option<KeywordParams>,
}

impl CollectionSpec {
    /// What its store needs to know.
    pub fn vector_params(&self) -> VectorParams {
        VectorParams { dimension: self.fingerprint.dimension, metric: self.metric, keyword: self.keyword }
    }
}
