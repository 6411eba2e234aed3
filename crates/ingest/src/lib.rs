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

mod cascade;
mod character;
mod code_splitter;
mod distance_threshold;
mod document;
mod error;
mod format;
mod grapheme;
mod hash;
mod headings;
mod json_outline;
mod json_splitter;
mod language;
mod language_separators;
mod length;
mod loader;
mod markdown;
mod markdown_headings;
mod merge;
mod overlap;
mod recursive;
mod semantic;
mod sentence;
mod sentence_starts;
mod separator;
mod skip;
mod span;
mod spec;
mod splitter;
mod strip;
mod structure;
mod syntax;
mod text;
mod token;
mod token_limit;
mod token_places;
mod walk;
mod whitespace;
mod whole;

pub use character::{CharacterSplitter, CharacterSplitterBuilder};
pub use code_splitter::CodeSplitter;
pub use distance_threshold::{
    DEFAULT_INTERQUARTILE_RANGES, DEFAULT_PERCENTILE, DEFAULT_STANDARD_DEVIATIONS, DistanceThreshold,
};
pub use document::{documents, key};
pub use error::Error;
pub use format::Format;
pub use hash::{HashAlgorithm, canonical_json, document_key};
pub use headings::{HEADING_LEVELS, HeadingSplitter, default_heading_name};
pub use json_splitter::{JSON_PATH, JsonSplitter};
pub use language::Language;
pub use loader::{DEFAULT_MAX_FILE_BYTES, LoadedFile, Loader};
pub use markdown_headings::markdown_headings;
pub use recursive::{
    DEFAULT_CHUNK_OVERLAP, DEFAULT_CHUNK_SIZE, MAX_SEPARATORS, RecursiveSplitter, RecursiveSplitterBuilder,
};
pub use semantic::{DEFAULT_BUFFER_SIZE, MAX_BUFFER_SIZE, SemanticSentences, SemanticSplitter};
pub use sentence::SentenceSplitter;
pub use separator::{KeepSeparator, Separator, SeparatorSet};
pub use skip::{SkipReason, Skipped};
pub use spec::{
    BuiltSplitter, CharacterSpec, CodeSpec, HeadingName, HeadingsSpec, JsonSpec, LengthUnit, RecursiveSpec,
    SemanticSpec, SentenceSpec, SeparatorsSpec, SplitterSpec, TokenSpec,
};
pub use splitter::{Chunk, Splitter};
pub use structure::{Heading, Structure};
pub use token::{TOKEN_OVERLAP_DIVISOR, TokenSplitter};
pub use token_limit::{LimitedChunks, LimitedSplitter, OverlongChunk, OverlongChunks, TokenLimit};
pub use walk::{SourceFile, Walk, walk};
pub use whole::WholeSplitter;
