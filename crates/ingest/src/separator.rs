//! Separators: what a text may be cut at, and on which side of the cut they stay.

use std::fmt;
use std::ops::Range;
use std::str::{FromStr, MatchIndices};

use fancy_regex::Regex;
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::grapheme::GraphemeStarts;

/// Where a separator goes when a text is cut at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeepSeparator {
    /// It begins the following piece (LangChain's `True` and `"start"`).
    #[default]
    Start,
    /// It ends the preceding piece (LangChain's `"end"`).
    End,
    /// It belongs to neither piece (LangChain's `False`): no chunk begins or ends with it. Inside a chunk that joins several
    /// pieces the source's own separators stay, and count, since a chunk is a part of the source. LangChain joins with one
    /// separator instead, so that a run of them collapses, and pastes in the source of a regular expression.
    No,
}

/// One separator: a literal, a regular expression, or the boundaries between graphemes.
#[derive(Debug, Clone)]
pub struct Separator {
    pattern: Pattern,
    keep: Option<KeepSeparator>,
}

#[derive(Debug, Clone)]
enum Pattern {
    Literal(String),
    Regex(Box<Regex>),
    Graphemes,
}

impl Separator {
    /// This very text. The empty text is [`Self::graphemes`], as in LangChain the empty separator is "between characters".
    pub fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        let pattern = if text.is_empty() { Pattern::Graphemes } else { Pattern::Literal(text) };
        Self { pattern, keep: None }
    }

    /// A regular expression, with look-around; capture groups change nothing. The empty one is [`Self::graphemes`].
    ///
    /// It sees the piece that is being cut and nothing around it: `^` and look-behind meet the piece's beginning. An empty
    /// match cuts where it stands. One difference from Python's dialect: `\s` does not match U+001C to U+001F.
    ///
    /// # Errors
    /// When it is no valid expression.
    pub fn regex(pattern: &str) -> Result<Self, Error> {
        if pattern.is_empty() {
            return Ok(Self::graphemes());
        }
        match Regex::new(pattern) {
            Ok(regex) => Ok(Self { pattern: Pattern::Regex(Box::new(regex)), keep: None }),
            Err(fault) => Err(Error::SeparatorSyntax { pattern: pattern.to_owned(), fault: Box::new(fault) }),
        }
    }

    /// Between any two extended grapheme clusters (what readers take for one character; Unicode annex 29).
    pub fn graphemes() -> Self {
        Self { pattern: Pattern::Graphemes, keep: None }
    }

    /// The side for this separator, whatever the splitter's setting is.
    #[must_use]
    pub fn kept(mut self, keep: KeepSeparator) -> Self {
        self.keep = Some(keep);
        self
    }

    /// The side for this separator when the splitter's setting is `default`.
    pub(crate) fn side(&self, default: KeepSeparator) -> KeepSeparator {
        self.keep.unwrap_or(default)
    }

    /// Nothing is finer than graphemes: separators after them are never used.
    pub(crate) fn is_finest(&self) -> bool {
        matches!(self.pattern, Pattern::Graphemes)
    }

    /// Matches within `piece`, in order and without overlap, as byte ranges of `piece`.
    ///
    /// A match may be empty. Grapheme boundaries are empty matches; the beginning of the piece is one of them.
    pub(crate) fn matches<'p>(&'p self, piece: &'p str) -> Matches<'p> {
        match &self.pattern {
            Pattern::Literal(text) => Matches::Literal(piece.match_indices(text.as_str())),
            Pattern::Regex(regex) => Matches::Regex { regex, piece, next: Some(0) },
            Pattern::Graphemes => Matches::Graphemes(GraphemeStarts::new(piece)),
        }
    }
}

impl fmt::Display for Separator {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pattern {
            Pattern::Literal(text) => write!(formatter, "{text:?}"),
            Pattern::Regex(regex) => write!(formatter, "/{}/", regex.as_str()),
            Pattern::Graphemes => formatter.write_str("graphemes"),
        }
    }
}

/// Iterator over the places where a piece may be cut.
pub(crate) enum Matches<'p> {
    /// Occurrences of a literal.
    Literal(MatchIndices<'p, &'p str>),
    /// Matches of a regular expression.
    Regex {
        /// The expression.
        regex: &'p Regex,
        /// What is searched.
        piece: &'p str,
        /// Where the next search begins; none after the end.
        next: Option<usize>,
    },
    /// Grapheme boundaries.
    Graphemes(GraphemeStarts<'p>),
    /// Known places in the text, of which the piece begins at `base` and has `length` bytes.
    Places {
        /// Ascending byte offsets in the text.
        places: std::slice::Iter<'p, usize>,
        /// The piece.
        piece: &'p str,
        /// Byte offset of the piece in the text.
        base: usize,
    },
}

impl<'p> Matches<'p> {
    /// The places of `sorted` that lie strictly within a piece which begins at byte `base` of the text. O(log n).
    pub(crate) fn places(sorted: &'p [usize], piece: &'p str, base: usize) -> Self {
        let first = sorted.partition_point(|place| *place <= base);
        let end = sorted.partition_point(|place| *place < base + piece.len());
        Self::Places { places: sorted.get(first..end).unwrap_or_default().iter(), piece, base }
    }
}

impl Iterator for Matches<'_> {
    type Item = Result<Range<usize>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Literal(occurrences) => occurrences.next().map(|(at, text)| Ok(at..at + text.len())),
            Self::Graphemes(graphemes) => graphemes.next().map(|at| Ok(at..at)),
            Self::Places { places, piece, base } => {
                places.map(|place| place - *base).find(|at| piece.is_char_boundary(*at)).map(|at| Ok(at..at))
            }
            Self::Regex { regex, piece, next } => {
                let from = (*next)?;
                match regex.find_from_pos(piece, from) {
                    Ok(Some(found)) => {
                        *next = if found.end() > found.start() {
                            Some(found.end())
                        } else {
                            // Python tries a longer match at the same place here; no separator of practical use needs it.
                            piece
                                .get(found.end()..)
                                .and_then(|rest| rest.chars().next())
                                .map(|c| found.end() + c.len_utf8())
                        };
                        Some(Ok(found.range()))
                    }
                    Ok(None) => {
                        *next = None;
                        None
                    }
                    Err(fault) => {
                        *next = None;
                        let pattern = regex.as_str().to_owned();
                        Some(Err(Error::SeparatorMatch { pattern, fault: Box::new(fault) }))
                    }
                }
            }
        }
    }
}

/// A list of separators by name, coarse to fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SeparatorSet {
    /// `prose`: blank lines, line ends (both also with CR), ends of sentences, ends of clauses, spaces, graphemes.
    ///
    /// Sentences and clauses end with ASCII punctuation before whitespace, or with the full-width and CJK forms
    /// (。！？．｡ and ，、；：､), which no space follows; the punctuation, with closing quotes and brackets, stays with what it ends.
    #[default]
    Prose,
    /// `langchain`: LangChain's own `"\n\n"`, `"\n"`, `" "`, `""`.
    LangChain,
}

/// One blank line or more. The whitespace that a blank line may hold is of the separator.
const BLANK_LINES: &str = r"\r?\n(?:[ \t]*\r?\n)+";
const LINE_END: &str = r"\r?\n";
const SENTENCE_END: &str = r#"[.!?…؟۔।]+["'”’)\]»]*\s+|[。！？．｡]+[」』”’）】》〉]*"#;
const CLAUSE_END: &str = r"[,;:،؛]\s+|[，、；：､]+";
/// U+200B is how Thai, Khmer and others mark where a line may break.
const SPACES: &str = r"[\s\u{200B}]+";

impl SeparatorSet {
    /// Every set with its name.
    pub const NAMES: [(&'static str, Self); 2] = [("prose", Self::Prose), ("langchain", Self::LangChain)];

    /// The separators, coarse to fine.
    ///
    /// # Errors
    /// None in practice: the expressions are fixed and a test compiles them.
    pub fn separators(self) -> Result<Vec<Separator>, Error> {
        Ok(match self {
            Self::Prose => vec![
                Separator::regex(BLANK_LINES)?,
                Separator::regex(LINE_END)?,
                Separator::regex(SENTENCE_END)?.kept(KeepSeparator::End),
                Separator::regex(CLAUSE_END)?.kept(KeepSeparator::End),
                Separator::regex(SPACES)?,
                Separator::graphemes(),
            ],
            Self::LangChain => ["\n\n", "\n", " ", ""].into_iter().map(Separator::literal).collect(),
        })
    }
}

impl FromStr for SeparatorSet {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, set)| *set).ok_or_else(|| {
            let known = Self::NAMES.map(|(known, _)| known).join(", ");
            Error::invalid("separators", format!("must be one of {known}, got {name:?}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(separator: &Separator, text: &str) -> Vec<Range<usize>> {
        separator.matches(text).collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn sets_have_names() {
        for (name, set) in SeparatorSet::NAMES {
            assert_eq!(name.parse::<SeparatorSet>().unwrap(), set);
            assert!(set.separators().unwrap().last().unwrap().is_finest());
        }
        let fault = "eino".parse::<SeparatorSet>().unwrap_err().to_string();
        assert_eq!(fault, r#"separators: must be one of prose, langchain, got "eino""#);
    }

    #[test]
    fn empty_matches_advance_by_characters() {
        let separator = Separator::regex("(?=é)|x*").unwrap();
        assert_eq!(found(&separator, "éxxa"), [0..0, 2..4, 4..4, 5..5]);
    }

    #[test]
    fn empty_patterns_are_graphemes() {
        for separator in [Separator::literal(""), Separator::regex("").unwrap(), Separator::graphemes()] {
            assert_eq!(found(&separator, "ae\u{301}\r\n"), [0..0, 1..1, 4..4]);
        }
    }

    #[test]
    fn places_are_those_strictly_inside() {
        let sorted = [0, 2, 3, 5, 7, 9];
        let inside: Result<Vec<_>, _> = Matches::places(&sorted, "aéaaa", 2).collect();
        // 3 + 2 would be within é: bytes 1..3 of the piece.
        assert_eq!(inside.unwrap(), [1..1, 3..3, 5..5]);
    }

    #[test]
    fn bad_expressions_are_named() {
        let fault = Separator::regex("(a").unwrap_err().to_string();
        assert!(fault.starts_with(r#"separators: "(a" is not a regular expression"#), "{fault}");
    }

    #[test]
    fn a_match_that_takes_too_long_is_an_error() {
        let separator = Separator::regex(r"(?<g>a|b|ab)*(?=c)\k<g>").unwrap();
        let text = "ab".repeat(40);
        let fault = separator.matches(&text).find_map(Result::err);
        assert!(matches!(fault, Some(Error::SeparatorMatch { .. })), "{fault:?}");
    }
}
