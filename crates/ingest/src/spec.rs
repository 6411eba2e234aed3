//! Splitters as plain data: what a declaration says, and what becomes of it.

mod build;
mod parameters;
mod resolved;

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toller_core::Tokenizer;

use crate::error::Error;
use crate::semantic::SemanticSplitter;
use crate::splitter::Splitter;

use build::Tokens;
pub use parameters::{
    CharacterSpec, CodeSpec, HeadingName, HeadingsSpec, JsonSpec, LengthUnit, RecursiveSpec, SemanticSpec,
    SentenceSpec, SeparatorsSpec, TokenSpec,
};

/// Where the parameters of a declaration are said to be, in errors.
const PATH: &str = "splitter";

/// A splitter as it is declared. Absent fields have their defaults, unknown ones are errors.
///
/// ```
/// use toller_ingest::SplitterSpec;
///
/// let spec: SplitterSpec = serde_json::from_str(r#"{"recursive": {"chunk_size": 0}}"#)?;
/// assert_eq!(spec.validate().unwrap_err().to_string(), "splitter.recursive.chunk_size: must be at least 1, got 0");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum SplitterSpec {
    /// The whole document is one chunk.
    Whole {},
    /// See [`crate::RecursiveSplitter`].
    Recursive(RecursiveSpec),
    /// See [`crate::CharacterSplitter`].
    Character(CharacterSpec),
    /// See [`crate::TokenSplitter`].
    Token(TokenSpec),
    /// See [`crate::HeadingSplitter`].
    Headings(HeadingsSpec),
    /// See [`crate::JsonSplitter`].
    Json(JsonSpec),
    /// See [`crate::SentenceSplitter`].
    Sentence(SentenceSpec),
    /// See [`SemanticSplitter`].
    Semantic(SemanticSpec),
    /// See [`crate::CodeSplitter`].
    Code(CodeSpec),
}

impl Default for SplitterSpec {
    fn default() -> Self {
        Self::Recursive(RecursiveSpec::default())
    }
}

/// A splitter that is ready for texts.
#[derive(Clone)]
pub enum BuiltSplitter {
    /// It needs nothing but the text.
    Plain(Arc<dyn Splitter>),
    /// It needs the vectors of the text's sentences in between.
    Semantic(SemanticSplitter),
}

impl fmt::Debug for BuiltSplitter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(_) => formatter.write_str("Plain"),
            Self::Semantic(splitter) => formatter.debug_tuple("Semantic").field(splitter).finish(),
        }
    }
}

impl SplitterSpec {
    /// The name of the kind, as a declaration spells it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Whole {} => "whole",
            Self::Recursive(_) => "recursive",
            Self::Character(_) => "character",
            Self::Token(_) => "token",
            Self::Headings(_) => "headings",
            Self::Json(_) => "json",
            Self::Sentence(_) => "sentence",
            Self::Semantic(_) => "semantic",
            Self::Code(_) => "code",
        }
    }

    /// Does it count in the tokens of a model, so that [`Self::build`] needs its tokenizer?
    pub fn needs_tokenizer(&self) -> bool {
        match self {
            Self::Token(_) => true,
            Self::Recursive(spec) => spec.length == LengthUnit::Tokens,
            Self::Headings(spec) => spec.inner.needs_tokenizer(),
            _ => false,
        }
    }

    /// Checks every parameter that needs no model to be checked.
    ///
    /// # Errors
    /// Names the first parameter that is out of its range by its path, such as `splitter.recursive.chunk_size`.
    pub fn validate(&self) -> Result<(), Error> {
        self.build_at(PATH, &Tokens::NotNeeded).map(drop)
    }

    /// The splitter. The tokenizer is that of the model that will embed the chunks.
    ///
    /// # Errors
    /// As [`Self::validate`], and when it counts in tokens and there is no tokenizer.
    pub fn build(&self, tokenizer: Option<Arc<dyn Tokenizer>>) -> Result<BuiltSplitter, Error> {
        self.build_at(PATH, &Tokens::Of(tokenizer))
    }
}

#[cfg(test)]
mod tests;
