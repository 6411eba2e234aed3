//! From the chunks of a text to documents with ids and metadata.

use toller_core::{Document, DocumentId, Metadata, Value};

use crate::error::Error;
use crate::load::LoadedDocument;
use crate::loader::LoadedFile;
use crate::splitter::{Chunk, Splitter};

/// Names of the metadata that chunks carry.
pub mod key {
    /// What the file is known by.
    pub const SOURCE: &str = "source";
    /// The title of the text; absent where it has none.
    pub const TITLE: &str = "title";
    /// The media type of the file, such as `text/markdown`.
    pub const MEDIA_TYPE: &str = "media_type";
    /// Number of the chunk in the file, from 0.
    pub const CHUNK: &str = "chunk";
    /// Where the chunk begins in its text, in code points.
    pub const START_INDEX: &str = "start_index";
    /// The line of the chunk's first character in its text, from 1. Lines end with LF.
    pub const FIRST_LINE: &str = "first_line";
    /// The line of its last character.
    pub const LAST_LINE: &str = "last_line";

    /// Number of the page, from 1; of PDF.
    pub const PAGE: &str = "page";
    /// How many pages the file has; of PDF.
    pub const PAGES: &str = "pages";
    /// Number of the row, from 1, the header not counted; of tables.
    pub const ROW: &str = "row";
    /// Number of the line, from 1; of JSON lines.
    pub const LINE: &str = "line";
    /// Where the record is, as a JSON pointer; of JSON whose records are documents.
    pub const JSON_POINTER: &str = "json_pointer";
    /// The programming language, such as `rust`; of source code.
    pub const LANGUAGE: &str = "language";
    /// The encoding that the file was in, such as `windows-1252`; absent for UTF-8.
    pub const ENCODING: &str = "encoding";

    /// What every chunk has, whatever its format: a mapping cannot give metadata these names.
    pub const OF_EVERY_CHUNK: [&str; 6] = [SOURCE, MEDIA_TYPE, CHUNK, START_INDEX, FIRST_LINE, LAST_LINE];
}

/// The metadata of a chunk: that of its document, that which its splitter gave it, and where it stands.
///
/// `number` is that of the chunk in its file, from 0, and `first_line` what [`LineCounter`] says of the chunk's start. What is
/// given here counts for more than metadata of the same name from the splitter, and that for more than the document's. O(chunk).
pub fn chunk_metadata(
    document: &LoadedDocument,
    source: &str,
    media_type: &str,
    chunk: &Chunk<'_>,
    number: usize,
    first_line: usize,
) -> Metadata {
    // A line end is on the line that it ends.
    let last_line = first_line + line_ends(chunk.text.strip_suffix('\n').unwrap_or(chunk.text));
    let mut metadata = document.metadata.clone();
    metadata.extend(chunk.metadata.clone());
    if let Some(title) = &document.title {
        metadata.insert(key::TITLE.to_owned(), Value::from(title.as_str()));
    }
    metadata.extend([
        (key::SOURCE.to_owned(), Value::from(source)),
        (key::MEDIA_TYPE.to_owned(), Value::from(media_type)),
        (key::CHUNK.to_owned(), integer(number)),
        (key::START_INDEX.to_owned(), integer(chunk.chars.start)),
        (key::FIRST_LINE.to_owned(), integer(first_line)),
        (key::LAST_LINE.to_owned(), integer(last_line)),
    ]);
    metadata
}

/// Tells the lines of places in a text, asked for in its order: O(text) for all of them together.
#[derive(Debug, Clone)]
pub struct LineCounter<'t> {
    text: &'t str,
    counted_to: usize,
    line: usize,
}

impl<'t> LineCounter<'t> {
    /// Begins at the start of a text, in line 1.
    pub fn new(text: &'t str) -> Self {
        Self { text, counted_to: 0, line: 1 }
    }

    /// The line of a byte of the text, from 1. A place before one that was asked for counts as that one.
    pub fn line_of(&mut self, byte: usize) -> usize {
        if let Some(between) = self.text.get(self.counted_to..byte) {
            self.line += line_ends(between);
            self.counted_to = byte;
        }
        self.line
    }
}

/// The chunks of a file as documents, in the order of the file.
///
/// The id of chunk n is `{source}#{n}`, counted from 0 through the whole file: adding the file again replaces its chunks, and
/// what is left of a longer older version are the documents with the same [`key::SOURCE`] and a [`key::CHUNK`] of at least the
/// new count. O(text), plus the total length of the chunks.
///
/// # Errors
/// As the splitter; when the source's name makes too long an id.
pub fn documents(file: &LoadedFile, splitter: &dyn Splitter) -> Result<Vec<Document>, Error> {
    let mut documents = Vec::new();
    for document in &file.documents {
        let mut lines = LineCounter::new(&document.text);
        for chunk in splitter.split_structured(&document.text, &document.structure)? {
            let number = documents.len();
            let id = DocumentId::new(format!("{}#{number}", file.source)).map_err(|fault| Error::InvalidId {
                source_name: file.source.clone(),
                chunk: number,
                fault,
            })?;
            let first_line = lines.line_of(chunk.bytes.start);
            let media_type = file.format.media_type();
            let metadata = chunk_metadata(document, &file.source, media_type, &chunk, number, first_line);
            documents.push(Document { id, page_content: chunk.text.to_owned(), metadata });
        }
    }
    Ok(documents)
}

fn line_ends(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// No text in memory is as long as the largest 64-bit signed integer.
pub(crate) fn integer(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::recursive::RecursiveSplitter;

    fn text(text: &str) -> LoadedDocument {
        LoadedDocument { text: text.to_owned(), title: Some("T".to_owned()), ..LoadedDocument::default() }
    }

    fn file(content: &str, source: &str) -> LoadedFile {
        LoadedFile {
            source: source.to_owned(),
            format: Format::Markdown,
            documents: vec![text(content)],
            failed: Vec::new(),
        }
    }

    #[test]
    fn ids_and_metadata() {
        let splitter = RecursiveSplitter::builder().chunk_size(12).chunk_overlap(5).build().unwrap();
        let made = documents(&file("\né one\ntwo\nthree\n\nfour", "d/a.md"), &splitter).unwrap();
        let seen: Vec<_> = made
            .iter()
            .map(|document| {
                let number = |key: &str| match document.metadata.get(key) {
                    Some(Value::Int(number)) => *number,
                    other => panic!("{key}: {other:?}"),
                };
                let place = [key::CHUNK, key::START_INDEX, key::FIRST_LINE, key::LAST_LINE].map(number);
                (document.id.as_str(), document.page_content.as_str(), place)
            })
            .collect();
        assert_eq!(
            seen,
            [
                ("d/a.md#0", "é one\ntwo", [0, 1, 2, 3]),
                ("d/a.md#1", "two\nthree", [1, 7, 3, 4]),
                ("d/a.md#2", "four", [2, 18, 6, 6]),
            ]
        );
        let metadata = &made[0].metadata;
        assert_eq!(metadata.get("source"), Some(&Value::from("d/a.md")));
        assert_eq!(metadata.get("title"), Some(&Value::from("T")));
        assert_eq!(metadata.get("media_type"), Some(&Value::from("text/markdown")));
        assert_eq!(metadata.len(), 7);
    }

    #[test]
    fn the_last_line_is_that_of_the_last_character() {
        let splitter = RecursiveSplitter::builder().strip_whitespace(false).build().unwrap();
        let made = documents(&file("a\nb\n", "x"), &splitter).unwrap();
        assert_eq!(made[0].metadata.get("last_line"), Some(&Value::Int(2)));
    }

    #[test]
    fn a_name_that_is_too_long_is_an_error() {
        let splitter = RecursiveSplitter::builder().build().unwrap();
        let fault = documents(&file("text", &"x".repeat(1023)), &splitter).unwrap_err().to_string();
        assert!(fault.contains("must be at most 1024 bytes"), "{fault}");
    }

    #[test]
    fn chunks_are_numbered_through_all_documents_of_a_file() {
        let page = |number| LoadedDocument {
            metadata: Metadata::from([(key::PAGE.to_owned(), integer(number))]),
            ..text("one\n\ntwo")
        };
        let file = LoadedFile { documents: vec![page(1), page(2)], ..file("", "a.pdf") };
        let splitter = RecursiveSplitter::builder().chunk_size(4).chunk_overlap(0).build().unwrap();
        let made = documents(&file, &splitter).unwrap();
        let seen: Vec<_> = made
            .iter()
            .map(|document| {
                let [page, line] = [key::PAGE, key::FIRST_LINE].map(|key| document.metadata[key].clone());
                (document.id.as_str(), page, line)
            })
            .collect();
        let int = Value::Int;
        assert_eq!(
            seen,
            [
                ("a.pdf#0", int(1), int(1)),
                ("a.pdf#1", int(1), int(3)),
                ("a.pdf#2", int(2), int(1)),
                ("a.pdf#3", int(2), int(3)),
            ]
        );
    }

    #[test]
    fn the_place_counts_for_more_than_other_metadata_of_its_name() {
        let document = LoadedDocument {
            metadata: Metadata::from([
                ("chunk".to_owned(), Value::from("x")),
                ("a".to_owned(), Value::from("document")),
            ]),
            ..text("text")
        };
        let chunk = Chunk {
            text: "text",
            chars: 0..4,
            bytes: 0..4,
            metadata: Metadata::from([("a".to_owned(), Value::from("splitter"))]),
        };
        let metadata = chunk_metadata(&document, "s", "text/plain", &chunk, 7, 1);
        assert_eq!(metadata["chunk"], Value::Int(7));
        assert_eq!(metadata["a"], Value::from("splitter"));
    }

    #[test]
    fn lines_are_counted_forwards() {
        let mut lines = LineCounter::new("a\nb\nc");
        assert_eq!([0, 2, 4, 3, 9].map(|byte| lines.line_of(byte)), [1, 2, 3, 3, 3]);
    }
}
