//! Splitters as plain data: what a declaration says, and what becomes of it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use toller_core::Tokenizer;

use crate::character::CharacterSplitter;
use crate::code_splitter::CodeSplitter;
use crate::distance_threshold::DistanceThreshold;
use crate::error::Error;
use crate::headings::{HEADING_LEVELS, HeadingSplitter, default_heading_name};
use crate::json_splitter::JsonSplitter;
use crate::language::Language;
use crate::recursive::{DEFAULT_CHUNK_OVERLAP, DEFAULT_CHUNK_SIZE, RecursiveSplitter};
use crate::semantic::{DEFAULT_BUFFER_SIZE, SemanticSplitter};
use crate::sentence::SentenceSplitter;
use crate::separator::{KeepSeparator, Separator, SeparatorSet};
use crate::splitter::Splitter;
use crate::token::TokenSplitter;
use crate::whole::WholeSplitter;

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
    /// See [`RecursiveSplitter`].
    Recursive(RecursiveSpec),
    /// See [`CharacterSplitter`].
    Character(CharacterSpec),
    /// See [`TokenSplitter`].
    Token(TokenSpec),
    /// See [`HeadingSplitter`].
    Headings(HeadingsSpec),
    /// See [`JsonSplitter`].
    Json(JsonSpec),
    /// See [`SentenceSplitter`].
    Sentence(SentenceSpec),
    /// See [`SemanticSplitter`].
    Semantic(SemanticSpec),
    /// See [`CodeSplitter`].
    Code(CodeSpec),
}

impl Default for SplitterSpec {
    fn default() -> Self {
        Self::Recursive(RecursiveSpec::default())
    }
}

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

/// Parameters of the [`RecursiveSplitter`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RecursiveSpec {
    /// Most units of a chunk; at least 1. Default 1000.
    pub chunk_size: usize,
    /// Most units that a chunk repeats of the one before; 0 to the chunk size. Default 150, or less where the chunk size is.
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

/// Parameters of the [`CharacterSplitter`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CharacterSpec {
    /// Most code points of a chunk; at least 1. Default 1000.
    pub chunk_size: usize,
    /// Most code points that a chunk repeats of the one before; 0 to the chunk size. Default 150, or less where the chunk size is.
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

/// Parameters of the [`TokenSplitter`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TokenSpec {
    /// Most tokens of a chunk; at least 1. Default the model's longest input.
    pub chunk_size: Option<usize>,
    /// Tokens that a chunk repeats of the one before; less than the chunk size. Default an eighth of it.
    pub chunk_overlap: Option<usize>,
}

/// Parameters of the [`HeadingSplitter`].
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

/// Parameters of the [`JsonSplitter`].
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

/// Parameters of the [`SentenceSplitter`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SentenceSpec {
    /// Most code points of a chunk, where no single sentence is longer; at least 1. Default 1000.
    pub chunk_size: usize,
    /// Most code points, in whole sentences, that a chunk repeats of the one before; 0 to the chunk size. Default 150, or less where
    /// the chunk size is.
    pub chunk_overlap: Option<usize>,
}

impl Default for SentenceSpec {
    fn default() -> Self {
        Self { chunk_size: DEFAULT_CHUNK_SIZE, chunk_overlap: None }
    }
}

/// Parameters of the [`SemanticSplitter`].
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

/// Parameters of the [`CodeSplitter`].
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

    /// A text that is the same for equal declarations only, defaults spelt out, and stable from version to version while the declaration
    /// means the same: for hashes of what was made of documents.
    pub fn fingerprint(&self) -> String {
        // Plain data with text keys: it has no value that JSON lacks, since validated numbers are finite.
        let json = serde_json::to_value(self).unwrap_or_default();
        let mut fingerprint = String::new();
        write_sorted(&mut fingerprint, &json);
        fingerprint
    }

    fn build_at(&self, parent: &str, tokens: &Tokens) -> Result<BuiltSplitter, Error> {
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
                let overlap = overlap(spec.chunk_overlap, spec.chunk_size);
                Arc::new(SentenceSplitter::new(spec.chunk_size, overlap)?)
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

/// The overlap, by default that of all splitters, or less where the chunk size is.
fn overlap(declared: Option<usize>, chunk_size: usize) -> usize {
    declared.unwrap_or(DEFAULT_CHUNK_OVERLAP.min(chunk_size))
}

/// The tokenizer that a declaration may need.
enum Tokens {
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

/// JSON without spaces, keys in the order of their bytes.
fn write_sorted(json: &mut String, value: &serde_json::Value) {
    match value {
        serde_json::Value::Object(entries) => {
            let mut sorted: Vec<_> = entries.iter().collect();
            sorted.sort_unstable_by_key(|(name, _)| name.as_str());
            json.push('{');
            for (index, (name, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                json.push_str(&serde_json::Value::from(name.as_str()).to_string());
                json.push(':');
                write_sorted(json, value);
            }
            json.push('}');
        }
        serde_json::Value::Array(values) => {
            json.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    json.push(',');
                }
                write_sorted(json, value);
            }
            json.push(']');
        }
        scalar => json.push_str(&scalar.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_places::tests::Words;

    fn read(json: &str) -> SplitterSpec {
        serde_json::from_str(json).unwrap()
    }

    fn texts(json: &str, text: &str) -> Vec<String> {
        match read(json).build(Some(Arc::new(Words))).unwrap() {
            BuiltSplitter::Plain(splitter) => {
                splitter.split(text).unwrap().into_iter().map(|chunk| chunk.text.to_owned()).collect()
            }
            BuiltSplitter::Semantic(_) => panic!("{json} is semantic"),
        }
    }

    #[test]
    fn every_kind_is_built() {
        for (json, text, expected) in [
            (r#"{"whole": {}}"#, " a\n\nb ", vec![" a\n\nb "]),
            (r#"{"recursive": {"chunk_size": 6, "chunk_overlap": 0}}"#, "one two three", vec!["one", "two", "three"]),
            (
                r#"{"recursive": {"chunk_size": 3, "chunk_overlap": 0, "length": "tokens"}}"#,
                "a b c d e f",
                vec!["a b c", "d e f"],
            ),
            (
                r#"{"recursive": {"chunk_size": 9, "chunk_overlap": 0, "separators": {"language": "python"}}}"#,
                "a = 1\ndef b(): 2",
                vec!["a = 1", "def b():", "2"],
            ),
            (
                r#"{"recursive": {"chunk_size": 3, "chunk_overlap": 0, "separators": {"expressions": ["\\d"]}, "keep_separator": "no"}}"#,
                "ab1cd2ef",
                vec!["ab", "cd", "ef"],
            ),
            (
                r#"{"character": {"chunk_size": 2, "separator": ".", "keep_separator": "end"}}"#,
                "a.b.c",
                vec!["a.", "b.", "c"],
            ),
            (r#"{"token": {"chunk_size": 3, "chunk_overlap": 1}}"#, "1 2 3 4 5", vec!["1 2 3", "3 4 5"]),
            (r#"{"headings": {}}"#, "no headings", vec!["no headings"]),
            (r#"{"json": {"chunk_size": 6}}"#, "[1, 2, 3, 4]", vec!["[1, 2,", "3, 4]"]),
            (r#"{"sentence": {"chunk_size": 8}}"#, "One. Two. Three.", vec!["One.", "Two.", "Three."]),
            (
                r#"{"code": {"language": "rust", "chunk_size": 12}}"#,
                "fn a() {}\nfn b() {}",
                vec!["fn a() {}", "fn b() {}"],
            ),
        ] {
            assert_eq!(texts(json, text), expected, "{json}");
        }
        let semantic = read(r#"{"semantic": {"threshold": {"gradient": 90}, "buffer_size": 2}}"#);
        assert!(matches!(semantic.build(None).unwrap(), BuiltSplitter::Semantic(_)));
        assert_eq!(semantic.kind(), "semantic");
    }

    #[test]
    fn faults_name_the_field() {
        for (json, fault) in [
            (r#"{"recursive": {"chunk_size": 0}}"#, "splitter.recursive.chunk_size: must be at least 1, got 0"),
            (
                r#"{"recursive": {"chunk_size": 5, "chunk_overlap": 6}}"#,
                "splitter.recursive.chunk_overlap: must be at most the chunk size of 5, got 6",
            ),
            (
                r#"{"recursive": {"separators": {"literals": []}}}"#,
                "splitter.recursive.separators: must be 1 to 256 separators, got 0",
            ),
            (r#"{"character": {"chunk_size": 0}}"#, "splitter.character.chunk_size: must be at least 1, got 0"),
            (
                r#"{"token": {"chunk_size": 4, "chunk_overlap": 4}}"#,
                "splitter.token.chunk_overlap: must be less than the chunk size of 4, got 4",
            ),
            (r#"{"headings": {"levels": []}}"#, "splitter.headings.levels: must name at least one level"),
            (
                r#"{"headings": {"inner": {"sentence": {"chunk_size": 0}}}}"#,
                "splitter.headings.inner.sentence.chunk_size: must be at least 1, got 0",
            ),
            (r#"{"headings": {"inner": {"semantic": {}}}}"#, "splitter.headings.inner: must not be semantic"),
            (r#"{"json": {"chunk_size": 0}}"#, "splitter.json.chunk_size: must be at least 1, got 0"),
            (
                r#"{"semantic": {"buffer_size": 17}}"#,
                "splitter.semantic.buffer_size: must be at most 16 sentences, got 17",
            ),
            (
                r#"{"semantic": {"threshold": {"percentile": 101}}}"#,
                "splitter.semantic.threshold: must be a percentile of 0 to 100, got 101",
            ),
            (r#"{"code": {"language": "c", "chunk_size": 0}}"#, "splitter.code.chunk_size: must be at least 1, got 0"),
        ] {
            assert_eq!(read(json).validate().unwrap_err().to_string(), fault);
        }
        for (json, start) in [
            (
                r#"{"character": {"separator": "(", "is_separator_regex": true}}"#,
                "splitter.character.separator: \"(\" is not",
            ),
            (r#"{"recursive": {"separators": {"expressions": ["("]}}}"#, "splitter.recursive.separators: \"(\" is not"),
        ] {
            let fault = read(json).validate().unwrap_err().to_string();
            assert!(fault.starts_with(start), "{fault}");
        }
        assert!(serde_json::from_str::<SplitterSpec>(r#"{"recursive": {"chunk": 5}}"#).is_err());
        assert!(serde_json::from_str::<SplitterSpec>(r#"{"whole": {"chunk": 5}}"#).is_err());
    }

    #[test]
    fn tokens_need_a_model() {
        for (json, fault) in [
            (
                r#"{"token": {}}"#,
                "splitter.token.chunk_size: counts tokens, which needs a model that runs in this process",
            ),
            (
                r#"{"headings": {"inner": {"recursive": {"length": "tokens"}}}}"#,
                "splitter.headings.inner.recursive.length: counts tokens, which needs a model that runs in this process",
            ),
        ] {
            let spec = read(json);
            assert!(spec.needs_tokenizer());
            spec.validate().unwrap();
            assert_eq!(spec.build(None).unwrap_err().to_string(), fault);
            assert!(spec.build(Some(Arc::new(Words))).is_ok());
        }
        assert!(!SplitterSpec::default().needs_tokenizer());
    }

    #[test]
    fn fingerprints_are_stable() {
        let expected = concat!(
            r#"{"recursive":{"always_overlap":false,"chunk_overlap":null,"chunk_size":1000,"keep_separator":"start","#,
            r#""length":"characters","separators":{"set":"prose"},"strip_whitespace":true}}"#,
        );
        assert_eq!(SplitterSpec::default().fingerprint(), expected);
        assert_eq!(read(expected), SplitterSpec::default());
        assert_eq!(read(r#"{"recursive": {"chunk_size": 1000}}"#).fingerprint(), expected);
        let semantic = r#"{"semantic":{"buffer_size":1,"min_chunk_size":0,"threshold":{"percentile":95.0}}}"#;
        assert_eq!(read(r#"{"semantic": {"threshold": {"percentile": 95}}}"#).fingerprint(), semantic);
    }
}
