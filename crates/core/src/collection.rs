//! Collections: a name, a metric, a dimension, and the fingerprint of what fills them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::fingerprint::Fingerprint;
use crate::metric::Metric;

/// Longest collection name in bytes.
pub const MAX_COLLECTION_NAME_BYTES: usize = 128;

/// The name of a collection, unique within a tenant. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CollectionName(Arc<str>);

impl CollectionName {
    /// Checks a name: 1 to [`MAX_COLLECTION_NAME_BYTES`] bytes of ASCII letters, digits, `-`, `_` and `.`, beginning with a letter or a digit.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn new(name: &str) -> Result<Self, String> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        let begins_well = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
        if !begins_well || name.len() > MAX_COLLECTION_NAME_BYTES || !name.bytes().all(allowed) {
            return Err(format!(
                "must be 1 to {MAX_COLLECTION_NAME_BYTES} ASCII letters, digits, '-', '_' or '.', beginning with a letter or a digit, got {name:?}"
            ));
        }
        Ok(Self(name.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CollectionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for CollectionName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::new(&name).map_err(serde::de::Error::custom)
    }
}

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
}

impl CollectionSpec {
    /// What its store needs to know.
    pub fn vector_params(&self) -> VectorParams {
        VectorParams { dimension: self.fingerprint.dimension, metric: self.metric }
    }
}
