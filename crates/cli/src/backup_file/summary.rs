//! What went into a backup, or came out of one, for people and for programs.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use toller_api::v1;

/// The last word of `toller backup` and `toller restore`; with `--json` all of it.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    file: PathBuf,
    bytes: u64,
    collections: u64,
    documents: u64,
    document_stores: u64,
    stored_documents: u64,
    retrievers: u64,
}

impl Summary {
    /// That of a file.
    pub(crate) fn new(file: &Path, bytes: u64, counts: v1::BackupCounts) -> Self {
        let v1::BackupCounts { collections, documents, document_stores, stored_documents, retrievers } = counts;
        Self { file: file.to_owned(), bytes, collections, documents, document_stores, stored_documents, retrievers }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let some = |count: u64, one: &str, many: &str| format!("{count} {}", if count == 1 { one } else { many });
        let documents = |count| some(count, "document", "documents");
        let collections = some(self.collections, "collection", "collections");
        let stores = some(self.document_stores, "document store", "document stores");
        let retrievers = some(self.retrievers, "retriever", "retrievers");
        let (inside, stored) = (documents(self.documents), documents(self.stored_documents));
        write!(formatter, "{collections} with {inside}, {stores} with {stored}, {retrievers}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        let counts =
            v1::BackupCounts { collections: 1, documents: 2, document_stores: 0, stored_documents: 1, retrievers: 3 };
        let summary = Summary::new(Path::new("x"), 7, counts);
        assert_eq!(
            summary.to_string(),
            "1 collection with 2 documents, 0 document stores with 1 document, 3 retrievers"
        );
    }
}
