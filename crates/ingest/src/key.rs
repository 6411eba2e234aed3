//! Names of the metadata that chunks carry.

use toller_core::retriever::DEFAULT_ID_KEY;

/// What the file is known by.
pub const SOURCE: &str = "source";
/// The title of the text; absent where it has none. Of at most [`crate::MAX_TITLE_BYTES`] bytes.
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
/// Where the record is, as a JSON pointer; of JSON whose records are documents. Of at most [`crate::MAX_TITLE_BYTES`] bytes.
pub const JSON_POINTER: &str = "json_pointer";
/// The programming language, such as `rust`; of source code.
pub const LANGUAGE: &str = "language";
/// The encoding that the file was in, such as `windows-1252`; absent for UTF-8.
pub const ENCODING: &str = "encoding";

/// The pointer (RFC 6901) of the first value that lies wholly within the chunk, such as `/books/0/title`; of JSON that is cut by its values.
pub const JSON_PATH: &str = "json_path";

/// What a record is that is no chunk, such as `summary`.
pub const KIND: &str = "kind";
/// The id of the document or parent that a record leads to.
pub const PARENT: &str = DEFAULT_ID_KEY;
/// LangChain's id of the document that a chunk is of; see [`crate::document_key`].
pub const DOCUMENT_KEY: &str = "document_key";

/// The names that chunks and the system behind them give a meaning to: a mapping cannot give metadata these names. It may set `title`, and
/// what only other formats have.
pub const RESERVED: [&str; 14] = [
    SOURCE,
    MEDIA_TYPE,
    CHUNK,
    START_INDEX,
    FIRST_LINE,
    LAST_LINE,
    ROW,
    LINE,
    JSON_POINTER,
    JSON_PATH,
    ENCODING,
    KIND,
    PARENT,
    DOCUMENT_KEY,
];
