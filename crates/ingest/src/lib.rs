//! From files to chunks: [`walk`] finds files, [`Loader`] reads one into a [`LoadedFile`], a [`Splitter`] cuts its text into
//! [`Chunk`]s that know exactly where they stand, and [`documents`] makes them into documents with ids and metadata.
//!
//! Each step is an iterator or a plain function over one file, so memory is bounded by the largest file that is admitted.
//! A file that cannot be used is a [`Skipped`] with its name and the reason, and the rest goes on.
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

mod document;
mod error;
mod format;
mod grapheme;
mod loader;
mod markdown;
mod merge;
mod recursive;
mod separator;
mod skip;
mod splitter;
mod structure;
mod text;
mod walk;
mod whitespace;

pub use document::{documents, key};
pub use error::Error;
pub use format::Format;
pub use loader::{DEFAULT_MAX_FILE_BYTES, LoadedFile, Loader};
pub use recursive::{
    DEFAULT_CHUNK_OVERLAP, DEFAULT_CHUNK_SIZE, MAX_SEPARATORS, RecursiveSplitter, RecursiveSplitterBuilder,
};
pub use separator::{KeepSeparator, Separator, SeparatorSet};
pub use skip::{SkipReason, Skipped};
pub use splitter::{Chunk, Splitter};
pub use structure::{Heading, Structure};
pub use walk::{SourceFile, Walk, walk};
