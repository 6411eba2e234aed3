//! Documents, their metadata and ids.

use std::collections::BTreeMap;

use toller_core::{Document, DocumentId, Error, Metadata, Result};

use super::value::{entries_from_message, value_to_message};
use crate::v1;

/// Metadata from its messages.
///
/// # Errors
/// `InvalidArgument` below `metadata`.
pub fn metadata_from_message(entries: BTreeMap<String, v1::Value>) -> Result<Metadata> {
    entries_from_message(entries).map_err(|error| error.within("metadata"))
}

/// The messages of metadata.
pub fn metadata_to_message(metadata: &Metadata) -> BTreeMap<String, v1::Value> {
    metadata.iter().map(|(key, value)| (key.clone(), value_to_message(value))).collect()
}

/// Ids of a request.
///
/// # Errors
/// `InvalidArgument` with `ids[i]`.
pub fn ids_from_message(ids: &[String]) -> Result<Vec<DocumentId>> {
    let ids = ids.iter().enumerate();
    ids.map(|(index, id)| DocumentId::new(id).map_err(|fault| Error::invalid(format!("ids[{index}]"), fault))).collect()
}

/// The message of a document, with its vectors where given.
pub fn document_to_message(document: &Document, vectors: Option<v1::Vectors>) -> v1::Document {
    v1::Document {
        id: Some(document.id.as_str().to_owned()),
        page_content: document.page_content.clone(),
        metadata: metadata_to_message(&document.metadata),
        vectors,
    }
}
