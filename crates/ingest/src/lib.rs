//! From files to chunks: [`walk`] finds files, [`Loader`] reads one, [`load`] understands its bytes as [`LoadedDocument`]s, a
//! [`Splitter`] cuts their texts into [`Chunk`]s that know exactly where they stand, and [`documents`] makes them into documents
//! with ids and metadata.
//!
//! Each step is an iterator or a plain function over one file, so memory is bounded by the largest file that is admitted.
//! A file that cannot be used is a [`Skipped`] with its name and the reason, a part of one a [`FailedPart`], and the rest goes on.
//!
//! ```
//! use toller_ingest::{RecursiveSplitter, Splitter};
//!
//! let text = "Tollers retrieve.\n\nThey also dig.";
//! let splitter = RecursiveSplitter::builder().chunk_size(20).chunk_overlap(0).build()?;
//! let chunks = splitter.split(text)?;
//! assert_eq!(chunks[1].text, "They also dig.");
//! assert_eq!(&text[chunks[1].bytes.clone()], chunks[1].text);
//! # Ok::<(), toller_ingest::Error>(())
//! ```

mod code;
mod document;
mod error;
mod format;
mod grapheme;
mod html;
mod json;
mod load;
mod loader;
mod markdown;
mod merge;
mod options;
mod pdf;
mod recursive;
mod rst;
mod separator;
mod skip;
mod splitter;
mod structure;
mod table;
mod text;
mod walk;
mod whitespace;

pub use code::CodeLanguage;
pub use document::{LineCounter, chunk_metadata, documents, key};
pub use error::Error;
pub use format::{Format, charset_of};
pub use load::{Documents, LoadedDocument, load};
pub use loader::{DEFAULT_MAX_FILE_BYTES, LoadedFile, Loader, OpenFile};
pub use options::{CsvMapping, DEFAULT_MAX_TEXT_BYTES, HtmlOptions, JsonMapping, LoadOptions};
pub use recursive::{
    DEFAULT_CHUNK_OVERLAP, DEFAULT_CHUNK_SIZE, MAX_SEPARATORS, RecursiveSplitter, RecursiveSplitterBuilder,
};
pub use separator::{KeepSeparator, Separator, SeparatorSet};
pub use skip::{FailedPart, Part, SkipReason, Skipped};
pub use splitter::{Chunk, Splitter};
pub use structure::{Heading, Structure};
pub use walk::{STANDARD_INPUT, SourceFile, Walk, WalkOptions, walk, walk_with};
