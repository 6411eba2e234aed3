//! Documents, their ids, and the records that a store keeps.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::value::Metadata;
use crate::vector::Vector;
use crate::vector_space::{NamedVectors, VectorName};

/// Longest id in bytes.
pub const MAX_ID_BYTES: usize = 1024;

/// The id of a document: a non-empty string of at most [`MAX_ID_BYTES`] bytes; ordered by bytes. Cheap to clone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct DocumentId(Arc<str>);

impl DocumentId {
    /// Checks an id.
    ///
    /// # Errors
    /// Says what is wrong when it is empty or too long.
    pub fn new(id: impl AsRef<str>) -> Result<Self, String> {
        let id = id.as_ref();
        if id.is_empty() {
            return Err("must not be empty".to_owned());
        }
        if id.len() > MAX_ID_BYTES {
            return Err(format!("must be at most {MAX_ID_BYTES} bytes long, got {}", id.len()));
        }
        Ok(Self(id.into()))
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DocumentId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Borrow<str> for DocumentId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'de> Deserialize<'de> for DocumentId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let id = String::deserialize(deserializer)?;
        Self::new(id).map_err(serde::de::Error::custom)
    }
}

/// A text with an id and metadata.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// Unique within a collection (and tenant).
    pub id: DocumentId,
    /// The text; may be empty.
    pub page_content: String,
    /// Typed metadata, for filters and for the caller.
    pub metadata: Metadata,
}

/// What a vector store keeps: a document with its vectors. Cheap to clone: the document is shared.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The document.
    pub document: Arc<Document>,
    /// Its main vector, in the collection's dimension.
    pub vector: Vector,
    /// Its vectors in named spaces; it need not have one in each, and is not found in those where it has none.
    pub named: NamedVectors,
}

impl Record {
    /// A document with its main vector alone.
    pub fn new(document: Arc<Document>, vector: Vector) -> Self {
        Self { document, vector, named: NamedVectors::new() }
    }

    /// Its vector in the main space or in that of a name; none where it has none.
    pub fn vector_in(&self, using: Option<&VectorName>) -> Option<&Vector> {
        match using {
            None => Some(&self.vector),
            Some(name) => self.named.get(name),
        }
    }

    /// The document, and its vector in the main space or in that of a name.
    pub fn into_parts(mut self, using: Option<&VectorName>) -> (Arc<Document>, Option<Vector>) {
        let vector = match using {
            None => Some(self.vector),
            Some(name) => self.named.remove(name),
        };
        (self.document, vector)
    }
}
