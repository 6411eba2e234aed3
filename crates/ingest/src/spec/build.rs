//! From declarations to splitters.

use std::sync::Arc;

use toller_core::Tokenizer;

use super::parameters::{CharacterSpec, HeadingsSpec, LengthUnit, RecursiveSpec, SeparatorsSpec};
use super::{BuiltSplitter, PATH, SplitterSpec};
use crate::character::CharacterSplitter;
use crate::code_splitter::CodeSplitter;
use crate::error::Error;
use crate::headings::{HEADING_LEVELS, HeadingSplitter};
use crate::json_splitter::JsonSplitter;
use crate::recursive::{RecursiveSplitter, default_chunk_overlap};
use crate::semantic::SemanticSplitter;
use crate::sentence::SentenceSplitter;
use crate::separator::Separator;
use crate::token::TokenSplitter;
use crate::whole::WholeSplitter;

impl SplitterSpec {
    pub(super) fn build_at(&self, parent: &str, tokens: &Tokens) -> Result<BuiltSplitter, Error> {
        let path = format!("{parent}.{}", self.kind());
        self.build_parameters(&path, tokens).map_err(|fault| match fault {
            // An inner splitter has said where it is.
            Error::InvalidParameter { ref parameter, .. } if parameter.starts_with(PATH) => fault,
            other => other.within(&path),
        })
    }

    fn build_parameters(&self, path: &str, tokens: &Tokens) -> Result<BuiltSplitter, Error> {
        Ok(BuiltSplitter::Plain(match self {
            Self::Whole {} => Arc::new(WholeSplitter),
            Self::Recursive(spec) => Arc::new(spec.build(tokens)?),
            Self::Character(spec) => Arc::new(spec.build()?),
            Self::Token(spec) => {
                let tokenizer = tokens.tokenizer("chunk_size")?;
                Arc::new(TokenSplitter::new(tokenizer, spec.chunk_size, spec.chunk_overlap)?)
            }
            Self::Headings(spec) => Arc::new(spec.build(path, tokens)?),
            Self::Json(spec) => Arc::new(JsonSplitter::new(spec.chunk_size)?),
            Self::Sentence(spec) => {
                Arc::new(SentenceSplitter::new(spec.chunk_size, overlap(spec.chunk_overlap, spec.chunk_size))?)
            }
            Self::Semantic(spec) => {
                let splitter = SemanticSplitter::new(spec.threshold, spec.buffer_size, spec.min_chunk_size)?;
                return Ok(BuiltSplitter::Semantic(splitter));
            }
            Self::Code(spec) => Arc::new(CodeSplitter::new(spec.language, spec.chunk_size)?),
        }))
    }
}

impl RecursiveSpec {
    fn build(&self, tokens: &Tokens) -> Result<RecursiveSplitter, Error> {
        let separators = match &self.separators {
            SeparatorsSpec::Set(set) => set.separators()?,
            SeparatorsSpec::Language(language) => language.separators()?,
            SeparatorsSpec::Literals(texts) => texts.iter().map(|text| Separator::literal(text.as_str())).collect(),
            SeparatorsSpec::Expressions(patterns) => {
                patterns.iter().map(|pattern| Separator::regex(pattern)).collect::<Result<_, _>>()?
            }
        };
        let builder = RecursiveSplitter::builder()
            .chunk_size(self.chunk_size)
            .chunk_overlap(overlap(self.chunk_overlap, self.chunk_size))
            .separators(separators)
            .keep_separator(self.keep_separator)
            .strip_whitespace(self.strip_whitespace)
            .always_overlap(self.always_overlap);
        match self.length {
            LengthUnit::Characters => builder.build(),
            LengthUnit::Tokens => builder.counted_in_tokens(tokens.tokenizer("length")?).build(),
        }
    }
}

impl CharacterSpec {
    fn build(&self) -> Result<CharacterSplitter, Error> {
        let separator = if self.is_separator_regex {
            Separator::regex(&self.separator).map_err(|fault| match fault {
                Error::SeparatorSyntax { pattern, fault } => {
                    Error::invalid("separator", format!("{pattern:?} is not a regular expression: {fault}"))
                }
                other => other,
            })?
        } else {
            Separator::literal(self.separator.as_str())
        };
        CharacterSplitter::builder()
            .chunk_size(self.chunk_size)
            .chunk_overlap(overlap(self.chunk_overlap, self.chunk_size))
            .separator(separator)
            .keep_separator(self.keep_separator)
            .strip_whitespace(self.strip_whitespace)
            .hard_limit(self.hard_limit)
            .build()
    }
}

impl HeadingsSpec {
    fn build(&self, path: &str, tokens: &Tokens) -> Result<HeadingSplitter, Error> {
        if self.levels.len() > HEADING_LEVELS {
            let fault = format!("must be at most {HEADING_LEVELS} levels, got {}", self.levels.len());
            return Err(Error::invalid("levels", fault));
        }
        let levels: Vec<(u8, String)> = self.levels.iter().map(|level| (level.level, level.name.clone())).collect();
        let splitter = HeadingSplitter::default().levels(&levels)?.strip_headings(self.strip_headings);
        match self.inner.as_ref() {
            SplitterSpec::Whole {} => return Ok(splitter),
            SplitterSpec::Headings(_) | SplitterSpec::Semantic(_) => {}
            inner => {
                if let BuiltSplitter::Plain(inner) = inner.build_at(&format!("{path}.inner"), tokens)? {
                    return Ok(splitter.inner(inner));
                }
            }
        }
        Err(Error::invalid("inner", format!("must not be {}", self.inner.kind())))
    }
}

fn overlap(declared: Option<usize>, chunk_size: usize) -> usize {
    declared.unwrap_or_else(|| default_chunk_overlap(chunk_size))
}

/// The tokenizer that a declaration may need.
pub(super) enum Tokens {
    /// The declaration is only checked.
    NotNeeded,
    Of(Option<Arc<dyn Tokenizer>>),
}

impl Tokens {
    fn tokenizer(&self, parameter: &'static str) -> Result<Arc<dyn Tokenizer>, Error> {
        match self {
            Self::NotNeeded => Ok(Arc::new(Unlimited)),
            Self::Of(Some(tokenizer)) => Ok(Arc::clone(tokenizer)),
            Self::Of(None) => {
                Err(Error::invalid(parameter, "counts tokens, which needs a model that runs in this process"))
            }
        }
    }
}

/// Stands for a model's tokenizer while a declaration is only checked.
struct Unlimited;

impl Tokenizer for Unlimited {
    fn token_ranges(&self, _text: &str) -> toller_core::Result<Vec<std::ops::Range<usize>>> {
        Ok(Vec::new())
    }

    fn max_text_tokens(&self) -> usize {
        usize::MAX
    }
}
