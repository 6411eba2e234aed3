//! The file that a memory store is dumped to.
//!
//! JSON Lines in UTF-8. The first line is a [`Header`]; each other line is a [`Line`], an object with the name of its
//! kind as the only key. A `collection` line is followed by its `record` lines in insertion order, a `document_set`
//! line by its `document` lines; the last line is `end`, with the counts and the CRC-32 (IEEE) of all bytes before it.
//! Vectors are base64 (standard alphabet, padded) of little-endian `f32`, catalogue values base64 of their bytes. The
//! keyword index is not in it: it follows from the texts. Numbers of metadata that were integers are written without a
//! fraction, doubles always with a fraction or an exponent.

use std::borrow::Cow;
use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use toller_core::catalog::RecordKind;
use toller_core::{CollectionName, DocumentId, KeywordParams, Metadata, Metric, Tenant, VectorName, VectorSpace};

/// Value of [`Header::format`].
pub(super) const FORMAT: &str = "toller-memory-dump";

/// Value of [`Header::version`]; raised with every change that older builds cannot read. Version 2 added the keyword
/// parameters of collections, version 3 named vectors, operations and generations of collections; files of earlier versions are
/// read as having none.
pub(super) const VERSION: u64 = 3;

/// The first version that this build reads.
pub(super) const FIRST_VERSION: u64 = 1;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) format: Cow<'static, str>,
    pub(super) version: u64,
    /// The last version that the catalogue gave to a record; absent in formats that this build does not know.
    #[serde(default)]
    pub(super) last_catalog_version: u64,
}

/// Every line but the first.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line<'a> {
    Catalog {
        tenant: Tenant,
        kind: Kind,
        name: String,
        version: u64,
        value: String,
    },
    Collection {
        tenant: Tenant,
        name: CollectionName,
        dimension: u32,
        metric: Metric,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keyword: Option<KeywordParams>,
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        named: BTreeMap<VectorName, VectorSpace>,
    },
    Record {
        id: DocumentId,
        page_content: Cow<'a, str>,
        metadata: Cow<'a, Metadata>,
        vector: String,
        /// In the spaces where it has one.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        named: BTreeMap<VectorName, String>,
    },
    DocumentSet {
        tenant: Tenant,
        collection: CollectionName,
    },
    Document {
        id: DocumentId,
        page_content: Cow<'a, str>,
        metadata: Cow<'a, Metadata>,
    },
    End {
        counts: DumpCounts,
        crc32: u32,
    },
}

/// How much a dump holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DumpCounts {
    /// Records of the catalogue.
    pub catalog_records: u64,
    /// Collections of the vector store.
    pub collections: u64,
    /// Records of all collections.
    pub records: u64,
    /// Documents of the document store.
    pub documents: u64,
}

/// [`RecordKind`] as it is spelled in a dump.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Collection,
    Retriever,
    Operation,
    Restore,
    IndexRun,
    Pulse,
    RestoredDocuments,
}

impl From<RecordKind> for Kind {
    fn from(kind: RecordKind) -> Self {
        match kind {
            RecordKind::Collection => Self::Collection,
            RecordKind::Retriever => Self::Retriever,
            RecordKind::Operation => Self::Operation,
            RecordKind::Restore => Self::Restore,
            RecordKind::IndexRun => Self::IndexRun,
            RecordKind::Pulse => Self::Pulse,
            RecordKind::RestoredDocuments => Self::RestoredDocuments,
        }
    }
}

impl From<Kind> for RecordKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Collection => Self::Collection,
            Kind::Retriever => Self::Retriever,
            Kind::Operation => Self::Operation,
            Kind::Restore => Self::Restore,
            Kind::IndexRun => Self::IndexRun,
            Kind::Pulse => Self::Pulse,
            Kind::RestoredDocuments => Self::RestoredDocuments,
        }
    }
}

/// Bytes as base64.
pub(super) fn encode_bytes(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a base64 text.
pub(super) fn decode_bytes(text: &str) -> Result<Vec<u8>, String> {
    STANDARD.decode(text).map_err(|fault| format!("the base64 text is wrong: {fault}; restore the file from a copy"))
}

/// A vector as base64 of little-endian `f32`.
pub(super) fn encode_vector(vector: &[f32]) -> String {
    let bytes: Vec<u8> = vector.iter().flat_map(|value| value.to_le_bytes()).collect();
    encode_bytes(&bytes)
}

/// The vector of a base64 text.
pub(super) fn decode_vector(text: &str) -> Result<Vec<f32>, String> {
    let bytes = decode_bytes(text)?;
    let (numbers, rest) = bytes.as_chunks::<{ size_of::<f32>() }>();
    if !rest.is_empty() {
        return Err(format!(
            "a vector of {} bytes is cut off within a number; restore the file from a copy",
            bytes.len()
        ));
    }
    Ok(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}
