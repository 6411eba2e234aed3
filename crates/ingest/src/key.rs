//! Names of the metadata that chunks carry.

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
