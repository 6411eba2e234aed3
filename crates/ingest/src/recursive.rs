//! LangChain's `RecursiveCharacterTextSplitter`, with exact offsets and without cut graphemes.

use std::sync::Arc;

use toller_core::Tokenizer;

use crate::cascade::{Level, Merged, Rules, cascade};
use crate::error::Error;
use crate::language::Language;
use crate::length::Length;
use crate::overlap::extend_back;
use crate::separator::{KeepSeparator, Separator, SeparatorSet};
use crate::splitter::{Chunk, Splitter};
use crate::strip::Strip;
use crate::structure::Structure;

/// Code points in a chunk, at most: 200 to 250 tokens of English prose, within the 256 of small models and the 512 of BGE. Tables
/// and code have more tokens to the character.
pub const DEFAULT_CHUNK_SIZE: usize = 1000;

/// Code points that a chunk of the default size, or a larger one, repeats of the one before, at most: a sentence or two.
pub const DEFAULT_CHUNK_OVERLAP: usize = 150;

/// What chunks of a size repeat of the one before, at most, where nothing else is said: 15 % of it, and no more than
/// [`DEFAULT_CHUNK_OVERLAP`]. It is less than any size.
pub fn default_chunk_overlap(chunk_size: usize) -> usize {
    chunk_size.min(DEFAULT_CHUNK_SIZE) * DEFAULT_CHUNK_OVERLAP / DEFAULT_CHUNK_SIZE
}

/// Most separators in a list; it bounds the depth of the recursion.
pub const MAX_SEPARATORS: usize = 256;

/// LangChain's `RecursiveCharacterTextSplitter`, with exact offsets and without cut graphemes.
///
/// The first separator that occurs in the text cuts it into pieces. Pieces shorter than the chunk size are merged into chunks
/// again; longer ones are cut further by the separators that follow. What no separator can cut is a chunk as it is, so a chunk
/// is longer than the chunk size only when the list does not end in graphemes, or one grapheme is longer.
///
/// Overlap is whole pieces, as many as fit, and only between chunks merged from the same list of pieces: there is none beside
/// a piece that had to be cut further, unless [`RecursiveSplitterBuilder::always_overlap`] is set.
///
/// Where this differs from LangChain (langchain-text-splitters 1.1.3), on purpose:
/// - a chunk is always a part of the source, at the offsets it carries. LangChain searches for the chunk's text afterwards and
///   finds the wrong place when text repeats; without kept separators its chunks may not occur in the source at all
///   (see [`KeepSeparator::No`]);
/// - no cut falls inside an extended grapheme cluster: the empty separator is between graphemes, not code points, and a cut at
///   another separator that would part a grapheme (before the LF of CR LF, after a space that carries an accent) moves to the
///   grapheme's beginning, or to its end where separators end pieces. Stripping stops at the same bounds;
/// - a regular expression's capture groups change nothing;
/// - structure, where the format has it, comes before all separators: see [`Structure`].
///
/// Where graphemes are single code points and no run of separators was dropped, the chunks are LangChain's.
///
/// Cost: O(text × separators), plus the total length of the chunks, which overlap multiplies.
#[derive(Debug, Clone)]
pub struct RecursiveSplitter {
    rules: Rules,
    separators: Vec<Separator>,
    /// Overlap between all neighbours, which the rules know nothing of.
    always_overlap: usize,
}

impl RecursiveSplitter {
    /// Begins with the defaults: chunks of 1000 code points, overlap 150, the separators of prose, kept at the start of
    /// pieces, whitespace stripped.
    pub fn builder() -> RecursiveSplitterBuilder {
        RecursiveSplitterBuilder::default()
    }

    /// The chunks, and the steps it took.
    fn run<'t>(&self, text: &'t str, structure: &Structure) -> Result<(Vec<Chunk<'t>>, u64), Error> {
        let places = structure.levels().iter().map(|places| Level::Places(places));
        let levels: Vec<Level<'_>> = places.chain(self.separators.iter().map(Level::Separator)).collect();
        let (mut chunks, steps) = cascade(text, &levels, &self.rules)?;
        if self.always_overlap > 0 {
            extend_back(text, &mut chunks, self.always_overlap, &self.rules.length.measure(text)?);
        }
        Ok((chunks, steps))
    }
}

impl Splitter for RecursiveSplitter {
    fn split_structured<'t>(&self, text: &'t str, structure: &Structure) -> Result<Vec<Chunk<'t>>, Error> {
        Ok(self.run(text, structure)?.0)
    }
}

/// Builds a [`RecursiveSplitter`] from checked parameters.
#[derive(Debug, Clone)]
pub struct RecursiveSplitterBuilder {
    chunk_size: usize,
    chunk_overlap: Option<usize>,
    separators: Option<Vec<Separator>>,
    keep_separator: KeepSeparator,
    strip_whitespace: bool,
    always_overlap: bool,
    length: Length,
}

impl Default for RecursiveSplitterBuilder {
    fn default() -> Self {
        Self {
            chunk_size: DEFAULT_CHUNK_SIZE,
            chunk_overlap: None,
            separators: None,
            keep_separator: KeepSeparator::default(),
            strip_whitespace: true,
            always_overlap: false,
            length: Length::CodePoints,
        }
    }
}

impl RecursiveSplitterBuilder {
    /// Most code points (or tokens, see [`Self::counted_in_tokens`]) in a chunk; at least 1.
    #[must_use]
    pub fn chunk_size(mut self, units: usize) -> Self {
        self.chunk_size = units;
        self
    }

    /// Most code points (or tokens) that a chunk repeats of the one before; 0 to the chunk size. [`default_chunk_overlap`] unless set.
    #[must_use]
    pub fn chunk_overlap(mut self, units: usize) -> Self {
        self.chunk_overlap = Some(units);
        self
    }

    /// Counts chunk size and overlap in the tokens of a model.
    ///
    /// The text is tokenised once, and a part of it is as long as the tokens that it touches. Tokenised by itself, a part that
    /// begins or ends within a word may have a token or two more: [`crate::TokenLimit`] is for limits that must hold.
    #[must_use]
    pub fn counted_in_tokens(mut self, tokenizer: Arc<dyn Tokenizer>) -> Self {
        self.length = Length::Tokens(tokenizer);
        self
    }

    /// Cuts at the joints of a programming or markup language.
    ///
    /// # Errors
    /// None in practice: the language's expressions are fixed and a test compiles them.
    pub fn language(self, language: Language) -> Result<Self, Error> {
        Ok(self.separators(language.separators()?))
    }

    /// Gives every chunk overlap with the one before, wherever it was cut.
    ///
    /// The text is cut into chunks of the size less the overlap, without any, and then each begins up to the overlap earlier: at the
    /// first word that begins there, else at a grapheme. So the overlap has to be less than the size.
    #[must_use]
    pub fn always_overlap(mut self, always: bool) -> Self {
        self.always_overlap = always;
        self
    }

    /// What to cut at, coarse to fine; 1 to [`MAX_SEPARATORS`]. [`SeparatorSet`] has lists by name.
    #[must_use]
    pub fn separators(mut self, separators: Vec<Separator>) -> Self {
        self.separators = Some(separators);
        self
    }

    /// Where separators go that do not say so themselves.
    #[must_use]
    pub fn keep_separator(mut self, keep: KeepSeparator) -> Self {
        self.keep_separator = keep;
        self
    }

    /// Whether whitespace is taken off both ends of merged chunks, and chunks of nothing else are dropped.
    ///
    /// As in LangChain, whitespace is what Python's `str.strip` takes off, and a piece of the chunk size or longer that no
    /// separator can cut stays as it is.
    #[must_use]
    pub fn strip_whitespace(mut self, strip: bool) -> Self {
        self.strip_whitespace = strip;
        self
    }

    /// Checks the parameters.
    ///
    /// # Errors
    /// Names the parameter that is out of its range.
    pub fn build(self) -> Result<RecursiveSplitter, Error> {
        let overlap = self.chunk_overlap.unwrap_or_else(|| default_chunk_overlap(self.chunk_size));
        check_size(self.chunk_size, overlap)?;
        if self.always_overlap && overlap == self.chunk_size {
            let fault = format!("must be less than the chunk size of {} to be given always", self.chunk_size);
            return Err(Error::invalid("chunk_overlap", fault));
        }
        let separators = match self.separators {
            Some(separators) => separators,
            None => SeparatorSet::default().separators()?,
        };
        if separators.is_empty() || separators.len() > MAX_SEPARATORS {
            let fault = format!("must be 1 to {MAX_SEPARATORS} separators, got {}", separators.len());
            return Err(Error::invalid("separators", fault));
        }
        let (after, between) = if self.always_overlap { (overlap, 0) } else { (0, overlap) };
        Ok(RecursiveSplitter {
            rules: Rules {
                chunk_size: self.chunk_size - after,
                chunk_overlap: between,
                length: self.length,
                keep_separator: self.keep_separator,
                strip: Strip::whitespace(self.strip_whitespace),
                merged: Merged::Shorter,
            },
            separators,
            always_overlap: after,
        })
    }
}

/// A chunk size of at least 1, and an overlap of at most that.
pub(crate) fn check_size(chunk_size: usize, chunk_overlap: usize) -> Result<(), Error> {
    if chunk_size == 0 {
        return Err(Error::invalid("chunk_size", "must be at least 1, got 0"));
    }
    if chunk_overlap > chunk_size {
        let fault = format!("must be at most the chunk size of {chunk_size}, got {chunk_overlap}");
        return Err(Error::invalid("chunk_overlap", fault));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_places::tests::Words;

    fn texts(chunks: &[Chunk<'_>]) -> Vec<String> {
        chunks.iter().map(|chunk| chunk.text.to_owned()).collect()
    }

    fn builder(size: usize, overlap: usize) -> RecursiveSplitterBuilder {
        RecursiveSplitter::builder().chunk_size(size).chunk_overlap(overlap)
    }

    fn literals(separators: &[&str]) -> Vec<Separator> {
        separators.iter().map(|separator| Separator::literal(*separator)).collect()
    }

    #[test]
    fn parameters_are_checked_by_name() {
        for (builder, fault) in [
            (builder(0, 0), "chunk_size: must be at least 1, got 0"),
            (builder(3, 4), "chunk_overlap: must be at most the chunk size of 3, got 4"),
            (builder(3, 1).separators(vec![]), "separators: must be 1 to 256 separators, got 0"),
            (builder(3, 1).separators(literals(&["a"; 257])), "separators: must be 1 to 256 separators, got 257"),
        ] {
            assert_eq!(builder.build().unwrap_err().to_string(), fault);
        }
        assert!(builder(3, 3).build().is_ok(), "overlap may equal the size");
    }

    #[test]
    fn the_overlap_follows_the_size() {
        for (size, overlap) in
            [(1, 0), (6, 0), (7, 1), (100, 15), (999, 149), (1000, 150), (1001, 150), (usize::MAX, 150)]
        {
            assert_eq!(default_chunk_overlap(size), overlap, "{size}");
        }
        let text = "x".repeat(10_000);
        let chunks = RecursiveSplitter::builder().chunk_size(100).build().unwrap().split(&text).unwrap().len();
        assert_eq!(chunks, (10_000_usize - 15).div_ceil(100 - 15));
        for size in [1, 100, 150] {
            assert!(RecursiveSplitter::builder().chunk_size(size).always_overlap(true).build().is_ok(), "{size}");
        }
    }

    #[test]
    fn nothing_comes_of_nothing() {
        let splitter = builder(5, 0).build().unwrap();
        assert_eq!(splitter.split("").unwrap(), []);
        assert_eq!(splitter.split("  \n ").unwrap(), []);
        let unstripped = builder(5, 0).strip_whitespace(false).build().unwrap();
        assert_eq!(texts(&unstripped.split("  \n ").unwrap()), ["  \n "]);
        assert_eq!(unstripped.split("").unwrap(), []);
    }

    #[test]
    fn repeated_text_has_true_offsets() {
        let splitter = builder(5, 2).separators(SeparatorSet::LangChain.separators().unwrap()).build().unwrap();
        let starts: Vec<usize> =
            splitter.split("ab ab ab ab ab ab").unwrap().iter().map(|chunk| chunk.chars.start).collect();
        assert_eq!(starts, [0, 6, 9, 12, 15], "LangChain says 0, 3, 3, 3, 3");
        let starts: Vec<usize> = splitter.split("aé aé aé").unwrap().iter().map(|chunk| chunk.bytes.start).collect();
        assert_eq!(starts, [0, 8]);
    }

    #[test]
    fn chinese_is_cut_after_its_punctuation() {
        let text = "你好世界。今天天气很好。我们去公园吧！";
        let langchain = builder(6, 2).separators(SeparatorSet::LangChain.separators().unwrap()).build().unwrap();
        let chunks = langchain.split(text).unwrap();
        assert_eq!(texts(&chunks), ["你好世界。今", "。今天天气很", "气很好。我们", "我们去公园吧", "园吧！"]);
        assert_eq!(chunks.iter().map(|chunk| chunk.chars.start).collect::<Vec<_>>(), [0, 4, 8, 12, 16]);
        let prose = builder(8, 0).build().unwrap();
        assert_eq!(texts(&prose.split(text).unwrap()), ["你好世界。", "今天天气很好。", "我们去公园吧！"]);
        let clauses = builder(6, 0).build().unwrap();
        assert_eq!(
            texts(&clauses.split("他说：“好，走吧。”然后；走").unwrap()),
            ["他说：“好，", "走吧。”", "然后；走"]
        );
    }

    #[test]
    fn prose_is_cut_after_sentences() {
        let splitter = builder(30, 0).build().unwrap();
        let text = "He said \"No.\" She left; he did not. Why?  Nobody knows that, at all";
        assert_eq!(
            texts(&splitter.split(text).unwrap()),
            ["He said \"No.\"", "She left; he did not. Why?", "Nobody knows that, at all"]
        );
    }

    #[test]
    fn windows_line_ends_are_line_ends() {
        let splitter = builder(8, 0).strip_whitespace(false).build().unwrap();
        let chunks = splitter.split("one\r\ntwo\r\n\r\nthree\r\n").unwrap();
        assert_eq!(texts(&chunks), ["one\r\ntwo", "\r\n", "\r\nthree", "\r\n"]);
    }

    #[test]
    fn a_family_stays_together() {
        let family = "👨\u{200d}👩\u{200d}👧";
        let splitter = builder(3, 1).build().unwrap();
        let text = format!("ab{family}e\u{301}x");
        assert_eq!(texts(&splitter.split(&text).unwrap()), ["ab", family, "e\u{301}x"]);
    }

    #[test]
    fn separators_do_not_part_graphemes() {
        let text = "a \u{301}b c";
        for (keep, expected) in [
            (KeepSeparator::Start, vec!["a", " \u{301}b", "c"]),
            (KeepSeparator::End, vec!["a \u{301}", "b c"]),
            (KeepSeparator::No, vec!["a", "b c"]),
        ] {
            let splitter = builder(3, 0).separators(literals(&[" ", ""])).keep_separator(keep).build().unwrap();
            assert_eq!(texts(&splitter.split(text).unwrap()), expected, "{keep:?}");
        }
    }

    #[test]
    fn dropped_separators_stay_inside_chunks_and_count() {
        let spaces = literals(&[" "]);
        let splitter =
            builder(6, 0).separators(spaces).keep_separator(KeepSeparator::No).strip_whitespace(false).build().unwrap();
        let chunks = splitter.split("a  b   c  ").unwrap();
        assert_eq!(texts(&chunks), ["a  b", "c"], "LangChain's \"a b c\" is no part of the source");
        assert_eq!(chunks[1].chars, 7..8);
    }

    #[test]
    fn expressions_join_with_the_text_they_matched() {
        let digits = vec![Separator::regex(r"(\d)+").unwrap()];
        let splitter = builder(7, 0).separators(digits).keep_separator(KeepSeparator::No).build().unwrap();
        assert_eq!(texts(&splitter.split("aa1bb22cc").unwrap()), ["aa1bb", "cc"]);
        let groups = vec![Separator::regex(r"(\n)(?=\d)").unwrap(), Separator::graphemes()];
        let splitter = builder(5, 0).separators(groups).build().unwrap();
        assert_eq!(texts(&splitter.split("ab\ncd\n1. x").unwrap()), ["ab\ncd", "1. x"]);
    }

    #[test]
    fn structure_comes_first() {
        let text = "intro text\nA one two\nB three four five";
        let structure = Structure::new(vec![vec![21, 11], vec![]]);
        let splitter = builder(12, 0).build().unwrap();
        let chunks = splitter.split_structured(text, &structure).unwrap();
        assert_eq!(texts(&chunks), ["intro text", "A one two", "B three four", "five"]);
        let beyond = Structure::new(vec![vec![0, 500]]);
        assert_eq!(splitter.split_structured("short", &beyond).unwrap().len(), 1);
    }

    #[test]
    fn overlap_can_be_given_always() {
        let text = "one two three\n\nfour five six";
        let splitter = builder(18, 6).build().unwrap();
        assert_eq!(texts(&splitter.split(text).unwrap()), ["one two three", "four five six"]);
        let splitter = builder(24, 7).always_overlap(true).build().unwrap();
        assert_eq!(texts(&splitter.split(text).unwrap()), ["one two three", "three\n\nfour five six"]);
        let fault = builder(6, 6).always_overlap(true).build().unwrap_err().to_string();
        assert_eq!(fault, "chunk_overlap: must be less than the chunk size of 6 to be given always");
    }

    #[test]
    fn sizes_can_be_counted_in_tokens() {
        let splitter = builder(3, 1).counted_in_tokens(Arc::new(Words)).build().unwrap();
        let chunks = splitter.split("a b, c d antidisestablishment e").unwrap();
        // A piece of the size or longer is cut further; the long word has six tokens of four characters, and is cut within.
        assert_eq!(texts(&chunks)[..2], ["a b,", "c d"]);
        let long = &chunks[2..chunks.len() - 1];
        assert!(long.len() >= 2 && long.iter().all(|chunk| chunk.text.chars().count() <= 12), "{long:?}");
        assert_eq!(chunks.last().unwrap().text, "e");
    }

    #[test]
    fn cost_is_linear_in_the_text() {
        let shapes: [(&str, &str); 9] = [
            ("one long word", "x"),
            ("spaces", " "),
            ("words", "lorem ipsum "),
            ("lines", "a line of text\n"),
            ("line ends", "\r\n"),
            ("paragraphs", "a paragraph.\n\n"),
            ("chinese", "今天天气很好。我们去，公园吧！"),
            ("accents on a space", " \u{301}\u{301}\u{301}\u{301}"),
            ("flags", "🇫🇷"),
        ];
        for (name, unit) in shapes {
            let steps = |bytes: usize| {
                let text = unit.repeat(bytes / unit.len());
                builder(100, 15).build().unwrap().run(&text, &Structure::default()).unwrap().1
            };
            let (once, twice) = (steps(200_000), steps(400_000));
            assert!(once >= 200_000, "{name}: {once} steps are fewer than the text has bytes");
            assert!(twice <= once * 2 + once / 10, "{name}: {once} steps for n, {twice} for 2n");
            assert!(once <= 200_000 * 30, "{name}: {once} steps");
        }
    }

    #[test]
    fn one_line_of_ten_megabytes() {
        let text = "é".repeat(5_000_000);
        let chunks = RecursiveSplitter::builder().build().unwrap().split(&text).unwrap();
        // 1000 graphemes, then 850 new ones each time.
        assert_eq!(chunks.len(), 1 + (5_000_000 - 1000_usize).div_ceil(850));
        assert_eq!(chunks.last().unwrap().bytes.end, text.len());
    }
}
