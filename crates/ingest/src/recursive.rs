//! LangChain's `RecursiveCharacterTextSplitter`, with exact offsets and without cut graphemes.

use toller_core::Metadata;

use crate::error::Error;
use crate::grapheme::GraphemeFinder;
use crate::merge::{Merge, Piece};
use crate::separator::{KeepSeparator, Matches, Separator, SeparatorSet};
use crate::splitter::{Chunk, Splitter};
use crate::structure::Structure;
use crate::whitespace;

/// Code points in a chunk, at most: 200 to 250 tokens of English prose, within the 256 of small models and the 512 of BGE. Tables
/// and code have more tokens to the character.
pub const DEFAULT_CHUNK_SIZE: usize = 1000;

/// Code points that a chunk repeats of the one before, at most: a sentence or two.
pub const DEFAULT_CHUNK_OVERLAP: usize = 150;

/// Most separators in a list; it bounds the depth of the recursion.
pub const MAX_SEPARATORS: usize = 256;

/// LangChain's `RecursiveCharacterTextSplitter`, with exact offsets and without cut graphemes.
///
/// The first separator that occurs in the text cuts it into pieces. Pieces shorter than the chunk size are merged into chunks
/// again; longer ones are cut further by the separators that follow. What no separator can cut is a chunk as it is, so a chunk
/// is longer than the chunk size only when the list does not end in graphemes, or one grapheme is longer.
///
/// Overlap is whole pieces, as many as fit, and only between chunks merged from the same list of pieces: there is none beside
/// a piece that had to be cut further.
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
    chunk_size: usize,
    chunk_overlap: usize,
    separators: Vec<Separator>,
    keep_separator: KeepSeparator,
    strip_whitespace: bool,
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
        let mut run = Run {
            splitter: self,
            levels: &levels,
            text,
            graphemes: GraphemeFinder::new(text),
            chunks: Vec::new(),
            steps: 0,
        };
        let end_char = run.count_chars(0, text.len());
        let whole = Piece { start: 0, end: text.len(), first_char: 0, end_char };
        run.split(whole, 0)?;
        Ok((run.chunks, run.steps))
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
    chunk_overlap: usize,
    separators: Option<Vec<Separator>>,
    keep_separator: KeepSeparator,
    strip_whitespace: bool,
}

impl Default for RecursiveSplitterBuilder {
    fn default() -> Self {
        Self {
            chunk_size: DEFAULT_CHUNK_SIZE,
            chunk_overlap: DEFAULT_CHUNK_OVERLAP,
            separators: None,
            keep_separator: KeepSeparator::default(),
            strip_whitespace: true,
        }
    }
}

impl RecursiveSplitterBuilder {
    /// Most code points in a chunk; at least 1.
    #[must_use]
    pub fn chunk_size(mut self, code_points: usize) -> Self {
        self.chunk_size = code_points;
        self
    }

    /// Most code points that a chunk repeats of the one before; 0 to the chunk size.
    #[must_use]
    pub fn chunk_overlap(mut self, code_points: usize) -> Self {
        self.chunk_overlap = code_points;
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
        if self.chunk_size == 0 {
            return Err(invalid("chunk_size", "must be at least 1, got 0".to_owned()));
        }
        if self.chunk_overlap > self.chunk_size {
            let fault = format!("must be at most the chunk size of {}, got {}", self.chunk_size, self.chunk_overlap);
            return Err(invalid("chunk_overlap", fault));
        }
        let separators = match self.separators {
            Some(separators) => separators,
            None => SeparatorSet::default().separators()?,
        };
        if separators.is_empty() || separators.len() > MAX_SEPARATORS {
            let fault = format!("must be 1 to {MAX_SEPARATORS} separators, got {}", separators.len());
            return Err(invalid("separators", fault));
        }
        Ok(RecursiveSplitter {
            chunk_size: self.chunk_size,
            chunk_overlap: self.chunk_overlap,
            separators,
            keep_separator: self.keep_separator,
            strip_whitespace: self.strip_whitespace,
        })
    }
}

fn invalid(parameter: &'static str, description: String) -> Error {
    Error::InvalidParameter { parameter, description }
}

/// What pieces may be cut at, coarse to fine.
#[derive(Clone, Copy)]
enum Level<'s> {
    /// Known places of the text's structure.
    Places(&'s [usize]),
    /// Matches of a separator.
    Separator(&'s Separator),
}

/// One text on its way through the splitter.
struct Run<'s, 't> {
    splitter: &'s RecursiveSplitter,
    levels: &'s [Level<'s>],
    text: &'t str,
    graphemes: GraphemeFinder<'t>,
    chunks: Vec<Chunk<'t>>,
    /// Bytes looked at and pieces made, so that a test can show that the cost is linear.
    steps: u64,
}

impl Run<'_, '_> {
    /// Appends the chunks of a piece, cut by the first level from `from` on that occurs in it.
    fn split(&mut self, piece: Piece, from: usize) -> Result<(), Error> {
        let levels = self.levels;
        for (index, level) in levels.iter().enumerate().skip(from) {
            self.steps += piece_bytes(piece);
            let text = slice(self.text, piece.start, piece.end);
            let (mut matches, keep, is_finest) = match *level {
                Level::Places(places) => (Matches::places(places, text, piece.start), KeepSeparator::Start, false),
                Level::Separator(separator) => {
                    let keep = separator.side(self.splitter.keep_separator);
                    (separator.matches(text), keep, separator.is_finest())
                }
            };
            if let Some(first) = matches.next() {
                let next_level = if is_finest { levels.len() } else { index + 1 };
                return self.cut(piece, std::iter::once(first).chain(matches), keep, next_level);
            }
        }
        // Nothing occurs: the piece is whole.
        self.cut(piece, std::iter::empty(), KeepSeparator::Start, levels.len())
    }

    /// Cuts a piece at `matches` (byte ranges within it), merges what is short, and splits what is long from `next_level` on.
    fn cut(
        &mut self,
        whole: Piece,
        matches: impl Iterator<Item = Result<std::ops::Range<usize>, Error>>,
        keep: KeepSeparator,
        next_level: usize,
    ) -> Result<(), Error> {
        let mut merge = Merge::new(self.splitter.chunk_size, self.splitter.chunk_overlap);
        let (mut start, mut first_char) = (whole.start, whole.first_char);
        for found in matches {
            let found = found?;
            let (from, to) = (whole.start + found.start, whole.start + found.end);
            let (piece_end, next_start) = match keep {
                KeepSeparator::Start => {
                    let cut = self.graphemes.around(from, start).start;
                    (cut, cut)
                }
                KeepSeparator::End => {
                    let cut = self.graphemes.around(to, start).end;
                    (cut, cut)
                }
                KeepSeparator::No => (self.graphemes.around(from, start).start, self.graphemes.around(to, start).end),
            };
            // A cut that moved may lie before the end of the one before it.
            let piece_end = piece_end.max(start);
            let next_start = next_start.max(piece_end);
            let end_char = first_char + self.count_chars(start, piece_end);
            self.take(Piece { start, end: piece_end, first_char, end_char }, &mut merge, next_level)?;
            first_char = end_char + self.count_chars(piece_end, next_start);
            start = next_start;
        }
        self.take(Piece { start, end: whole.end, first_char, end_char: whole.end_char }, &mut merge, next_level)?;
        self.emit_stripped(merge.finish());
        Ok(())
    }

    fn take(&mut self, piece: Piece, merge: &mut Merge, next_level: usize) -> Result<(), Error> {
        self.steps += 1;
        if piece.start >= piece.end {
            return Ok(());
        }
        if piece.chars() < self.splitter.chunk_size {
            let complete = merge.push(piece);
            self.emit_stripped(complete);
            return Ok(());
        }
        self.emit_stripped(merge.finish());
        if next_level < self.levels.len() {
            self.split(piece, next_level)
        } else {
            self.emit(piece);
            Ok(())
        }
    }

    fn emit_stripped(&mut self, merged: Option<Piece>) {
        let Some(merged) = merged else { return };
        if !self.splitter.strip_whitespace {
            return self.emit(merged);
        }
        let text = slice(self.text, merged.start, merged.end);
        let leading = whitespace::leading(text);
        if leading == text.len() {
            self.steps += piece_bytes(merged);
            return;
        }
        let start = self.graphemes.around(merged.start + leading, merged.start).start;
        let end = self.graphemes.around(merged.end - whitespace::trailing(text), start).end;
        let first_char = merged.first_char + self.count_chars(merged.start, start);
        let end_char = merged.end_char - self.count_chars(end, merged.end);
        self.emit(Piece { start, end, first_char, end_char });
    }

    fn emit(&mut self, piece: Piece) {
        self.steps += 1;
        self.chunks.push(Chunk {
            text: slice(self.text, piece.start, piece.end),
            chars: piece.first_char..piece.end_char,
            bytes: piece.start..piece.end,
            metadata: Metadata::new(),
        });
    }

    fn count_chars(&mut self, start: usize, end: usize) -> usize {
        self.steps += (end - start) as u64;
        slice(self.text, start, end).chars().count()
    }
}

fn piece_bytes(piece: Piece) -> u64 {
    (piece.end - piece.start) as u64
}

/// The bytes `start..end`; every offset here is one that a match or a boundary has given, so none is refused.
fn slice(text: &str, start: usize, end: usize) -> &str {
    debug_assert!(text.get(start..end).is_some(), "{start}..{end} is no part of a text of {} bytes", text.len());
    text.get(start..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

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
