//! The embedding fingerprint: everything that decides which vector a text gets.
//!
//! A collection records the fingerprint that filled it. Vectors of different fingerprints cannot be compared, so a write or
//! a query with another one is refused instead of answered wrongly.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The provider of a collection whose vectors come from the client.
pub const CLIENT_PROVIDER: &str = "client";

/// Which pooling turns token vectors into one vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pooling {
    /// The first token's vector.
    Cls,
    /// The mean over all tokens.
    Mean,
}

impl fmt::Display for Pooling {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Cls => "cls",
            Self::Mean => "mean",
        })
    }
}

/// What decides which vector a text gets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Who computes the vectors, such as `candle`; `client` when the caller brings them.
    pub provider: String,
    /// The model's name, such as `BAAI/bge-small-en-v1.5`; empty for `client`.
    pub model: String,
    /// The model's revision (a commit hash); empty when it was loaded from a folder.
    pub revision: String,
    /// Dimension of the vectors, at least 1.
    pub dimension: u32,
    /// Pooling; none when the provider does not say.
    pub pooling: Option<Pooling>,
    /// Are vectors scaled to unit length?
    pub normalized: bool,
    /// Put before every query.
    pub query_instruction: String,
    /// Put before every document.
    pub document_instruction: String,
    /// Most tokens of a text, special tokens included; 0 when the provider does not say. Longer texts are truncated.
    pub max_tokens: u32,
    /// SHA-256 of the weights file, lower-case hexadecimal, after `int8:` where they are used in 8 bits; empty when the provider
    /// does not say.
    pub weights_sha256: String,
}

impl Fingerprint {
    /// The fingerprint of a collection whose vectors come from the client.
    pub fn client(dimension: u32) -> Self {
        Self {
            provider: CLIENT_PROVIDER.to_owned(),
            model: String::new(),
            revision: String::new(),
            dimension,
            pooling: None,
            normalized: false,
            query_instruction: String::new(),
            document_instruction: String::new(),
            max_tokens: 0,
            weights_sha256: String::new(),
        }
    }

    /// Does the caller bring the vectors?
    pub fn is_client(&self) -> bool {
        self.provider == CLIENT_PROVIDER
    }

    /// Do both give every text the same vector?
    ///
    /// The weights decide where both know them: the same weights under another name or revision are the same model.
    pub fn is_compatible_with(&self, other: &Self) -> bool {
        let same_model = if self.weights_sha256.is_empty() || other.weights_sha256.is_empty() {
            self.provider == other.provider && self.model == other.model && self.revision == other.revision
        } else {
            self.weights_sha256 == other.weights_sha256
        };
        same_model
            && self.dimension == other.dimension
            && self.pooling == other.pooling
            && self.normalized == other.normalized
            && self.query_instruction == other.query_instruction
            && self.document_instruction == other.document_instruction
            && self.max_tokens == other.max_tokens
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_client() {
            return write!(formatter, "client vectors of dimension {}", self.dimension);
        }
        write!(formatter, "{}/{}", self.provider, self.model)?;
        if !self.revision.is_empty() {
            write!(formatter, "@{}", self.revision)?;
        }
        write!(formatter, " (dimension {}", self.dimension)?;
        if let Some(pooling) = self.pooling {
            write!(formatter, ", {pooling} pooling")?;
        }
        write!(formatter, ", {}", if self.normalized { "normalized" } else { "not normalized" })?;
        if !self.query_instruction.is_empty() {
            write!(formatter, ", query instruction {:?}", self.query_instruction)?;
        }
        if !self.document_instruction.is_empty() {
            write!(formatter, ", document instruction {:?}", self.document_instruction)?;
        }
        if self.max_tokens > 0 {
            write!(formatter, ", at most {} tokens", self.max_tokens)?;
        }
        if let Some(short) = self.weights_sha256.get(..12) {
            write!(formatter, ", weights {short}")?;
        }
        formatter.write_str(")")
    }
}
