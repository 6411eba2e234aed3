//! Records that are to be made of a document.

use std::sync::Arc;

use toller_core::{Document, DocumentId, Metadata, Value};
use toller_ingest::key;

use crate::source_document::RelatedText;

/// A record that is still without its id. It shares the metadata of its document, so that a document of many chunks takes little
/// more room than their texts.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) text: String,
    pub(crate) shared: Arc<Metadata>,
    pub(crate) parent: Option<DocumentId>,
    pub(crate) part: DraftPart,
}

/// What of a document a record is.
#[derive(Debug)]
pub(crate) enum DraftPart {
    Chunk {
        /// From 0, through the whole document.
        number: usize,
        /// Code points before it.
        start_index: usize,
        /// From 1.
        first_line: usize,
        last_line: usize,
        /// What its splitter says of it.
        of_splitter: Metadata,
    },
    /// A text that leads to the document.
    Related { kind: String },
}

impl Draft {
    /// A text that leads to a document.
    pub(crate) fn of_related(shared: Arc<Metadata>, parent: Option<DocumentId>, related: RelatedText) -> Self {
        Self { text: related.text, shared, parent, part: DraftPart::Related { kind: related.kind } }
    }

    /// The record. What is said of the part counts for more than what its splitter says, and that for more than what is said of
    /// the document.
    pub(crate) fn into_document(self, id: DocumentId) -> Document {
        let mut metadata = Arc::unwrap_or_clone(self.shared);
        match self.part {
            DraftPart::Chunk { number, start_index, first_line, last_line, of_splitter } => {
                metadata.extend(of_splitter);
                metadata.extend([
                    (key::CHUNK.to_owned(), Value::from_count(number)),
                    (key::START_INDEX.to_owned(), Value::from_count(start_index)),
                    (key::FIRST_LINE.to_owned(), Value::from_count(first_line)),
                    (key::LAST_LINE.to_owned(), Value::from_count(last_line)),
                ]);
            }
            DraftPart::Related { kind } => {
                metadata.insert(key::KIND.to_owned(), Value::from(kind));
            }
        }
        if let Some(parent) = &self.parent {
            metadata.insert(key::PARENT.to_owned(), Value::from(parent.as_str()));
        }
        Document { id, page_content: self.text, metadata }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_the_part_counts_for_most() {
        let named = |value: &str| Metadata::from([("chunk".to_owned(), value.into()), ("a".to_owned(), value.into())]);
        let draft = Draft {
            text: "text".to_owned(),
            shared: Arc::new(named("document")),
            parent: None,
            part: DraftPart::Chunk {
                number: 7,
                start_index: 30,
                first_line: 2,
                last_line: 3,
                of_splitter: named("splitter"),
            },
        };
        let document = draft.into_document(DocumentId::new("id").unwrap());
        assert_eq!(document.metadata["chunk"], Value::Int(7));
        assert_eq!(document.metadata["a"], Value::from("splitter"));
    }
}
