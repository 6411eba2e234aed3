//! From files to chunks: [`walk`] finds files, [`Loader`] reads one, [`load`] understands its bytes as [`LoadedDocument`]s, and a
//! [`Splitter`] cuts their texts into [`Chunk`]s that know exactly where they stand. [`key`] names the metadata that they carry.
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

mod cascade;
mod character;
mod code_language;
mod code_splitter;
mod distance_threshold;
mod error;
mod format;
mod grapheme;
mod hash;
mod headings;
mod html;
mod json;
mod json_outline;
mod json_splitter;
pub mod key;
mod language;
mod language_separators;
mod length;
mod load;
mod loader;
mod markdown;
mod merge;
mod options;
mod overlap;
mod pdf;
mod recursive;
mod rst;
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
mod table;
mod text;
mod title;
mod token;
mod token_limit;
mod token_places;
mod walk;
mod whitespace;
mod whole;

pub use character::{CharacterSplitter, CharacterSplitterBuilder};
pub use code_language::CodeLanguage;
pub use code_splitter::CodeSplitter;
pub use distance_threshold::{
    DEFAULT_INTERQUARTILE_RANGES, DEFAULT_PERCENTILE, DEFAULT_STANDARD_DEVIATIONS, DistanceThreshold,
};
pub use error::Error;
pub use format::{Format, charset_of};
pub use hash::{HashAlgorithm, canonical_json, document_key};
pub use headings::{HEADING_LEVELS, HeadingSplitter, default_heading_name};
pub use json_splitter::JsonSplitter;
pub use language::Language;
pub use load::{Documents, LoadedDocument, load};
pub use loader::{DEFAULT_MAX_FILE_BYTES, Loader};
pub use options::{CsvMapping, DEFAULT_MAX_TEXT_BYTES, HtmlOptions, JsonMapping, LoadOptions};
pub use recursive::{
    DEFAULT_CHUNK_OVERLAP, DEFAULT_CHUNK_SIZE, MAX_SEPARATORS, RecursiveSplitter, RecursiveSplitterBuilder,
    default_chunk_overlap,
};
pub use semantic::{DEFAULT_BUFFER_SIZE, MAX_BUFFER_SIZE, SemanticSentences, SemanticSplitter};
pub use sentence::SentenceSplitter;
pub use separator::{KeepSeparator, Separator, SeparatorSet};
pub use skip::{FailedPart, Part, SkipReason, Skipped};
pub use spec::{
    BuiltSplitter, CharacterSpec, CodeSpec, HeadingName, HeadingsSpec, JsonSpec, LengthUnit, RecursiveSpec,
    SemanticSpec, SentenceSpec, SeparatorsSpec, SplitterSpec, TokenSpec,
};
pub use splitter::{Chunk, Splitter};
pub use structure::{Heading, Structure};
pub use title::MAX_TITLE_BYTES;
pub use token::TokenSplitter;
pub use token_limit::TokenLimit;
pub use walk::{STANDARD_INPUT, SourceFile, Walk, WalkOptions, walk, walk_with};
pub use whole::WholeSplitter;
