//! LangChain's `CharacterTextSplitter`, with exact offsets and a chunk size that holds.

use crate::cascade::{Level, Merged, Rules, cascade};
use crate::error::Error;
use crate::length::Length;
use crate::recursive::{DEFAULT_CHUNK_SIZE, check_size, default_chunk_overlap};
use crate::separator::{KeepSeparator, Separator};
use crate::splitter::{Chunk, Splitter};
use crate::strip::Strip;
use crate::structure::Structure;

/// LangChain's `CharacterTextSplitter`: cuts at one separator, and merges the pieces into chunks with overlap of whole pieces.
///
/// With the hard limit (the default) a piece that is longer than the chunk size is cut between graphemes; without it such a piece is
/// a chunk, as in LangChain. Structure changes nothing: the caller has named the joint.
///
/// It differs from LangChain (langchain-text-splitters 1.1.3) where [`crate::RecursiveSplitter`] does: chunks are parts of the
/// source, also where separators are not kept or are regular expressions; and no grapheme is cut.
///
/// Cost: O(text), plus the total length of the chunks, which overlap multiplies.
#[derive(Debug, Clone)]
pub struct CharacterSplitter {
    rules: Rules,
    separators: Vec<Separator>,
}

impl CharacterSplitter {
    /// Begins with the defaults: chunks of 1000 code points, overlap 150, cut at blank lines, which begin pieces; whitespace
    /// stripped, and the limit hard.
    pub fn builder() -> CharacterSplitterBuilder {
        CharacterSplitterBuilder::default()
    }
}

impl CharacterSplitter {
    /// The chunks, and the steps it took.
    fn run<'t>(&self, text: &'t str) -> Result<(Vec<Chunk<'t>>, u64), Error> {
        let levels: Vec<Level<'_>> = self.separators.iter().map(Level::Separator).collect();
        cascade(text, &levels, &self.rules)
    }
}

impl Splitter for CharacterSplitter {
    fn split_structured<'t>(&self, text: &'t str, _structure: &Structure) -> Result<Vec<Chunk<'t>>, Error> {
        Ok(self.run(text)?.0)
    }
}

/// Builds a [`CharacterSplitter`] from checked parameters.
#[derive(Debug, Clone)]
pub struct CharacterSplitterBuilder {
    chunk_size: usize,
    chunk_overlap: Option<usize>,
    separator: Separator,
    keep_separator: KeepSeparator,
    strip_whitespace: bool,
    hard_limit: bool,
}

impl Default for CharacterSplitterBuilder {
    fn default() -> Self {
        Self {
            chunk_size: DEFAULT_CHUNK_SIZE,
            chunk_overlap: None,
            separator: Separator::literal("\n\n"),
            keep_separator: KeepSeparator::default(),
            strip_whitespace: true,
            hard_limit: true,
        }
    }
}

impl CharacterSplitterBuilder {
    /// Most code points in a chunk; at least 1.
    #[must_use]
    pub fn chunk_size(mut self, code_points: usize) -> Self {
        self.chunk_size = code_points;
        self
    }

    /// Most code points that a chunk repeats of the one before; 0 to the chunk size. [`default_chunk_overlap`] unless set.
    #[must_use]
    pub fn chunk_overlap(mut self, code_points: usize) -> Self {
        self.chunk_overlap = Some(code_points);
        self
    }

    /// What to cut at.
    #[must_use]
    pub fn separator(mut self, separator: Separator) -> Self {
        self.separator = separator;
        self
    }

    /// Where the separator goes, unless it says so itself.
    #[must_use]
    pub fn keep_separator(mut self, keep: KeepSeparator) -> Self {
        self.keep_separator = keep;
        self
    }

    /// Whether whitespace is taken off both ends of chunks, and chunks of nothing else are dropped.
    #[must_use]
    pub fn strip_whitespace(mut self, strip: bool) -> Self {
        self.strip_whitespace = strip;
        self
    }

    /// Whether what the separator leaves longer than the chunk size is cut between graphemes.
    #[must_use]
    pub fn hard_limit(mut self, hard: bool) -> Self {
        self.hard_limit = hard;
        self
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// Names the parameter that is out of its range.
    pub fn build(self) -> Result<CharacterSplitter, Error> {
        let chunk_overlap = self.chunk_overlap.unwrap_or_else(|| default_chunk_overlap(self.chunk_size));
        check_size(self.chunk_size, chunk_overlap)?;
        let mut separators = vec![self.separator];
        if self.hard_limit {
            separators.push(Separator::graphemes());
        }
        Ok(CharacterSplitter {
            rules: Rules {
                chunk_size: self.chunk_size,
                chunk_overlap,
                length: Length::CodePoints,
                keep_separator: self.keep_separator,
                strip: Strip::whitespace(self.strip_whitespace),
                merged: if self.hard_limit { Merged::Fitting } else { Merged::All },
            },
            separators,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(builder: CharacterSplitterBuilder, text: &str) -> Vec<String> {
        builder.build().unwrap().split(text).unwrap().into_iter().map(|chunk| chunk.text.to_owned()).collect()
    }

    fn builder(size: usize, overlap: usize, separator: &str) -> CharacterSplitterBuilder {
        CharacterSplitter::builder().chunk_size(size).chunk_overlap(overlap).separator(Separator::literal(separator))
    }

    #[test]
    fn separators_go_where_they_are_told() {
        for (keep, expected) in [
            (KeepSeparator::Start, ["a", ".b", ".c"]),
            (KeepSeparator::End, ["a.", "b.", "c"]),
            (KeepSeparator::No, ["a", "b", "c"]),
        ] {
            assert_eq!(texts(builder(2, 0, ".").keep_separator(keep), "a.b.c"), expected, "{keep:?}");
        }
    }

    #[test]
    fn pieces_are_merged_with_overlap() {
        let dropped = builder(7, 3, " ").keep_separator(KeepSeparator::No);
        assert_eq!(texts(dropped, "foo bar baz qux"), ["foo bar", "bar baz", "baz qux"]);
        assert_eq!(texts(builder(7, 0, " "), "foo bar baz qux"), ["foo bar", "baz", "qux"], "kept, it counts");
        assert_eq!(texts(builder(9, 4, " "), "foo bar baz qux"), ["foo bar", "bar baz", "baz qux"]);
    }

    #[test]
    fn the_limit_is_hard_or_langchains() {
        assert_eq!(texts(builder(3, 0, " "), "abcdefgh ij"), ["abc", "def", "gh", "ij"]);
        assert_eq!(texts(builder(3, 0, " ").hard_limit(false), "abcdefgh ij"), ["abcdefgh", "ij"]);
    }

    #[test]
    fn an_expression_is_not_pasted_into_chunks() {
        let digits = CharacterSplitter::builder()
            .chunk_size(20)
            .chunk_overlap(0)
            .separator(Separator::regex(r"\d+").unwrap())
            .keep_separator(KeepSeparator::No);
        assert_eq!(texts(digits, "aa1bb22cc"), ["aa1bb22cc"], r"LangChain says aa\d+bb\d+cc");
    }

    #[test]
    fn cost_is_linear_in_the_text() {
        for unit in ["x", " ", "lorem ipsum. ", "\n", "今天天气很好。", " \u{301}\u{301}", "🇫🇷", ". "] {
            let steps = |bytes: usize| {
                let text = unit.repeat(bytes / unit.len());
                builder(100, 15, " ").build().unwrap().run(&text).unwrap().1
            };
            let (once, twice) = (steps(100_000), steps(200_000));
            assert!(twice <= once * 2 + once / 10, "{unit:?}: {once} steps for n, {twice} for 2n");
        }
    }

    #[test]
    fn parameters_are_checked_by_name() {
        let fault = builder(3, 4, " ").build().unwrap_err().to_string();
        assert_eq!(fault, "chunk_overlap: must be at most the chunk size of 3, got 4");
        assert_eq!(builder(0, 0, " ").build().unwrap_err().to_string(), "chunk_size: must be at least 1, got 0");
    }
}
