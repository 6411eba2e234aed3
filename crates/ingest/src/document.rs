//! From the chunks of a file to documents with ids and metadata.

use toller_core::{Document, DocumentId, Metadata, Value};

use crate::error::Error;
use crate::loader::LoadedFile;
use crate::splitter::{Chunk, Splitter};

/// Names of the metadata that every chunk of a file carries.
pub mod key {
    /// What the file is known by.
    pub const SOURCE: &str = "source";
    /// Its title; absent where it has none.
    pub const TITLE: &str = "title";
    /// Its media type, such as `text/markdown`.
    pub const MEDIA_TYPE: &str = "media_type";
    /// Number of the chunk in the file, from 0.
    pub const CHUNK: &str = "chunk";
    /// Where the chunk begins in the file's text, in code points.
    pub const START_INDEX: &str = "start_index";
    /// The line of the chunk's first character, from 1. Lines end with LF.
    pub const FIRST_LINE: &str = "first_line";
    /// The line of its last character.
    pub const LAST_LINE: &str = "last_line";
}

/// The chunks of a file as documents, in the order of the file.
///
/// The id of chunk n is `{source}#{n}`, counted from 0: adding the file again replaces its chunks, and what is left of a longer
/// older version are the documents with the same [`key::SOURCE`] and a [`key::CHUNK`] of at least the new count. O(text), plus
/// the total length of the chunks.
///
/// # Errors
/// As the splitter; when the source's name makes too long an id.
pub fn documents(file: &LoadedFile, splitter: &dyn Splitter) -> Result<Vec<Document>, Error> {
    let chunks = splitter.split_structured(&file.text, &file.structure)?;
    let mut documents = Vec::with_capacity(chunks.len());
    let (mut counted_to, mut line) = (0, 1);
    for (number, chunk) in chunks.iter().enumerate() {
        line += line_ends(file.text.get(counted_to..chunk.bytes.start).unwrap_or_default());
        counted_to = chunk.bytes.start;
        let id = DocumentId::new(format!("{}#{number}", file.source)).map_err(|fault| Error::InvalidId {
            source_name: file.source.clone(),
            chunk: number,
            fault,
        })?;
        let metadata = metadata(file, chunk, number, line);
        documents.push(Document { id, page_content: chunk.text.to_owned(), metadata });
    }
    Ok(documents)
}

fn metadata(file: &LoadedFile, chunk: &Chunk<'_>, number: usize, first_line: usize) -> Metadata {
    // A line end is on the line that it ends.
    let last_line = first_line + line_ends(chunk.text.strip_suffix('\n').unwrap_or(chunk.text));
    let mut metadata = chunk.metadata.clone();
    metadata.extend([
        (key::SOURCE.to_owned(), Value::from(file.source.as_str())),
        (key::MEDIA_TYPE.to_owned(), Value::from(file.format.media_type())),
        (key::CHUNK.to_owned(), integer(number)),
        (key::START_INDEX.to_owned(), integer(chunk.chars.start)),
        (key::FIRST_LINE.to_owned(), integer(first_line)),
        (key::LAST_LINE.to_owned(), integer(last_line)),
    ]);
    if let Some(title) = &file.title {
        metadata.insert(key::TITLE.to_owned(), Value::from(title.as_str()));
    }
    metadata
}

fn line_ends(text: &str) -> usize {
    text.bytes().filter(|byte| *byte == b'\n').count()
}

/// No text in memory is as long as the largest 64-bit signed integer.
fn integer(count: usize) -> Value {
    Value::Int(i64::try_from(count).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Format;
    use crate::recursive::RecursiveSplitter;
    use crate::structure::Structure;

    fn file(text: &str, source: &str) -> LoadedFile {
        LoadedFile {
            source: source.to_owned(),
            format: Format::Markdown,
            title: Some("T".to_owned()),
            text: text.to_owned(),
            structure: Structure::default(),
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
}
