//! The parameters of splitters, with their defaults.

use serde::{Deserialize, Serialize};

use super::SplitterSpec;
use crate::distance_threshold::DistanceThreshold;
use crate::headings::default_heading_name;
use crate::language::Language;
use crate::recursive::DEFAULT_CHUNK_SIZE;
use crate::semantic::DEFAULT_BUFFER_SIZE;
use crate::separator::{KeepSeparator, SeparatorSet};

/// The unit of a chunk size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthUnit {
    /// Unicode code points.
    #[default]
    Characters,
    /// Tokens of the collection's model, which has to run in this process.
    Tokens,
}

/// What a text is cut at, coarse to fine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SeparatorsSpec {
    /// A set by name.
    Set(SeparatorSet),
    /// Those of a language.
    Language(Language),
    /// These very texts, 1 to 256.
    Literals(Vec<String>),
    /// These regular expressions, 1 to 256.
    Expressions(Vec<String>),
}

impl Default for SeparatorsSpec {
    fn default() -> Self {
        Self::Set(SeparatorSet::default())
    }
}

/// Parameters of the [`crate::RecursiveSplitter`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecursiveSpec {
    /// Most units of a chunk; at least 1. Default 1000.
    pub chunk_size: usize,
    /// Most units that a chunk repeats of the one before; 0 to the chunk size. Default 15 % of the chunk size, at most 150.
    pub chunk_overlap: Option<usize>,
    /// What the sizes are counted in. Default characters.
    pub length: LengthUnit,
    /// Default the set `prose`, which knows CJK.
    pub separators: SeparatorsSpec,
    /// Where separators go. Default at the start of what follows.
    pub keep_separator: KeepSeparator,
    /// Is whitespace taken off both ends of chunks? Default true.
    pub strip_whitespace: bool,
    /// Has every chunk overlap with the one before, wherever it was cut? Then the overlap must be less than the size. Default false.
    pub always_overlap: bool,
}

impl Default for RecursiveSpec {
    fn default() -> Self {
        Self {
            chunk_size: DEFAULT_CHUNK_SIZE,
            chunk_overlap: None,
            length: LengthUnit::default(),
            separators: SeparatorsSpec::default(),
            keep_separator: KeepSeparator::default(),
            strip_whitespace: true,
            always_overlap: false,
        }
    }
}

/// Parameters of the [`crate::CharacterSplitter`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CharacterSpec {
    /// Most code points of a chunk; at least 1. Default 1000.
    pub chunk_size: usize,
    /// Most code points that a chunk repeats of the one before; 0 to the chunk size. Default 15 % of the chunk size, at most 150.
    pub chunk_overlap: Option<usize>,
    /// Default a blank line.
    pub separator: String,
    /// Is the separator a regular expression? Default false.
    pub is_separator_regex: bool,
    /// Where separators go. Default at the start of what follows.
    pub keep_separator: KeepSeparator,
    /// Is whitespace taken off both ends of chunks? Default true.
    pub strip_whitespace: bool,
    /// Is what the separator leaves too long cut anyway? Default true.
    pub hard_limit: bool,
}

impl Default for CharacterSpec {
    fn default() -> Self {
        Self {
            chunk_size: DEFAULT_CHUNK_SIZE,
            chunk_overlap: None,
            separator: "\n\n".to_owned(),
            is_separator_regex: false,
            keep_separator: KeepSeparator::default(),
            strip_whitespace: true,
            hard_limit: true,
        }
    }
}

/// Parameters of the [`crate::TokenSplitter`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenSpec {
    /// Most tokens of a chunk; at least 1. Default the model's longest input.
    pub chunk_size: Option<usize>,
    /// Tokens that a chunk repeats of the one before; less than the chunk size. Default 15 % of it, at most 150.
    pub chunk_overlap: Option<usize>,
}

/// Parameters of the [`crate::HeadingSplitter`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HeadingsSpec {
    /// Levels to split at and the names of their titles in the metadata; levels of 1 to 6, at least one. Default all six, named
    /// `Header 1` to `Header 6`.
    pub levels: Vec<HeadingName>,
    /// Are headings left out of the text of chunks? Default false.
    pub strip_headings: bool,
    /// What cuts sections further: any but `headings` and `semantic`. Default `recursive`; `whole` leaves them as they are.
    pub inner: Box<SplitterSpec>,
}

impl Default for HeadingsSpec {
    fn default() -> Self {
        let levels = [1, 2, 3, 4, 5, 6].map(|level| HeadingName { level, name: default_heading_name(level) });
        Self { levels: levels.into(), strip_headings: false, inner: Box::default() }
    }
}

/// What the titles of a level of headings are called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeadingName {
    /// 1 to 6.
    pub level: u8,
    /// The name in the metadata; not empty, and of no other level.
    pub name: String,
}

/// Parameters of the [`crate::JsonSplitter`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JsonSpec {
    /// Most code points of a chunk, where no single value is longer; at least 1. Default 1000.
    pub chunk_size: usize,
}

impl Default for JsonSpec {
    fn default() -> Self {
        Self { chunk_size: DEFAULT_CHUNK_SIZE }
    }
}

/// Parameters of the [`crate::SentenceSplitter`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SentenceSpec {
    /// Most code points of a chunk, where no single sentence is longer; at least 1. Default 1000.
    pub chunk_size: usize,
    /// Most code points, in whole sentences, that a chunk repeats of the one before; 0 to the chunk size. Default 15 % of
    /// the chunk size, at most 150.
    pub chunk_overlap: Option<usize>,
}

impl Default for SentenceSpec {
    fn default() -> Self {
        Self { chunk_size: DEFAULT_CHUNK_SIZE, chunk_overlap: None }
    }
}

/// Parameters of the [`crate::SemanticSplitter`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SemanticSpec {
    /// When the meaning changes enough for a cut. Default the 95th percentile of the distances.
    pub threshold: DistanceThreshold,
    /// Sentences on either side of a place that are embedded with the one beside it; 0 to 16. Default 1.
    pub buffer_size: usize,
    /// Least code points of a chunk but the last. Default 0.
    pub min_chunk_size: usize,
}

impl Default for SemanticSpec {
    fn default() -> Self {
        Self { threshold: DistanceThreshold::default(), buffer_size: DEFAULT_BUFFER_SIZE, min_chunk_size: 0 }
    }
}

/// Parameters of the [`crate::CodeSplitter`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeSpec {
    /// What the code is written in.
    pub language: Language,
    /// Most code points of a chunk; at least 1. Default 1000.
    #[serde(default = "default_chunk_size")]
    pub chunk_size: usize,
}

fn default_chunk_size() -> usize {
    DEFAULT_CHUNK_SIZE
}
