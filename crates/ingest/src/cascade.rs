//! Cutting at the first joints that occur, coarse to fine, and merging what is short: the work of all splitters but the ones that
//! count tokens or compare meanings.

use std::ops::Range;

use toller_core::Metadata;

use crate::error::Error;
use crate::grapheme::GraphemeFinder;
use crate::length::{Length, Measure};
use crate::merge::{Merge, Piece};
use crate::separator::{KeepSeparator, Matches, Separator};
use crate::splitter::Chunk;
use crate::strip::Strip;

/// What pieces may be cut at.
#[derive(Clone, Copy)]
pub(crate) enum Level<'s> {
    /// Known places of the text, ascending.
    Places(&'s [usize]),
    /// Matches of a separator.
    Separator(&'s Separator),
}

/// Which pieces are merged into chunks; the others are cut by the levels that follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Merged {
    /// Those shorter than the chunk size, as in LangChain's recursive splitter, which leaves a longer piece that nothing cuts as it
    /// is, whitespace and all.
    Shorter,
    /// Those that fit into a chunk.
    Fitting,
    /// Those that fit into a chunk once they are stripped; whitespace at the ends of a chunk is not counted at all.
    FittingStripped,
    /// All: a longer one is a chunk, as in LangChain's character splitter.
    All,
}

/// How a text is cut.
#[derive(Debug, Clone)]
pub(crate) struct Rules {
    pub(crate) chunk_size: usize,
    pub(crate) chunk_overlap: usize,
    pub(crate) length: Length,
    /// Where separators go that do not say so themselves.
    pub(crate) keep_separator: KeepSeparator,
    pub(crate) strip: Strip,
    pub(crate) merged: Merged,
}

/// The chunks of `text`, and the steps it took: bytes looked at and pieces made, so that a test can show that the cost is linear.
///
/// # Errors
/// When a separator's regular expression gives up on this text, or the tokenizer fails.
pub(crate) fn cascade<'t>(text: &'t str, levels: &[Level<'_>], rules: &Rules) -> Result<(Vec<Chunk<'t>>, u64), Error> {
    let mut run = Run {
        rules,
        levels,
        text,
        measure: rules.length.measure(text)?,
        graphemes: GraphemeFinder::new(text),
        chunks: Vec::new(),
        steps: 0,
    };
    let end_char = run.count_chars(0, text.len());
    let whole = run.piece(0..text.len(), 0..end_char);
    run.split(whole, 0)?;
    Ok((run.chunks, run.steps))
}

/// One text on its way.
struct Run<'s, 't> {
    rules: &'s Rules,
    levels: &'s [Level<'s>],
    text: &'t str,
    measure: Measure,
    graphemes: GraphemeFinder<'t>,
    chunks: Vec<Chunk<'t>>,
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
                    let keep = separator.side(self.rules.keep_separator);
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
        matches: impl Iterator<Item = Result<Range<usize>, Error>>,
        keep: KeepSeparator,
        next_level: usize,
    ) -> Result<(), Error> {
        let mut merge = Merge::new(self.rules.chunk_size, self.rules.chunk_overlap);
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
            let piece = self.piece(start..piece_end, first_char..end_char);
            self.take(piece, &mut merge, next_level)?;
            first_char = end_char + self.count_chars(piece_end, next_start);
            start = next_start;
        }
        let rest = self.piece(start..whole.end, first_char..whole.end_char);
        self.take(rest, &mut merge, next_level)?;
        self.emit_stripped(merge.finish());
        Ok(())
    }

    fn take(&mut self, piece: Piece, merge: &mut Merge, next_level: usize) -> Result<(), Error> {
        self.steps += 1;
        if piece.start >= piece.end {
            return Ok(());
        }
        let is_merged = match self.rules.merged {
            Merged::Shorter => piece.length() < self.rules.chunk_size,
            Merged::Fitting | Merged::FittingStripped => piece.length() <= self.rules.chunk_size,
            Merged::All => true,
        };
        if is_merged {
            let complete = merge.push(piece);
            self.emit_stripped(complete);
            return Ok(());
        }
        self.emit_stripped(merge.finish());
        if next_level < self.levels.len() {
            return self.split(piece, next_level);
        }
        if self.rules.merged == Merged::Shorter {
            self.emit(piece);
        } else {
            self.emit_stripped(Some(piece));
        }
        Ok(())
    }

    fn emit_stripped(&mut self, merged: Option<Piece>) {
        let Some(merged) = merged else { return };
        if self.rules.strip == Strip::Nothing {
            return self.emit(merged);
        }
        let (bytes, chars) = self.stripped(merged.start..merged.end, merged.first_char..merged.end_char);
        if bytes.is_empty() {
            self.steps += piece_bytes(merged);
            return;
        }
        let stripped =
            Piece { start: bytes.start, end: bytes.end, first_char: chars.start, end_char: chars.end, ..merged };
        self.emit(stripped);
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

    fn piece(&mut self, bytes: Range<usize>, chars: Range<usize>) -> Piece {
        let (counted, counted_chars) = match self.rules.merged {
            Merged::FittingStripped => self.stripped(bytes.clone(), chars.clone()),
            _ => (bytes.clone(), chars.clone()),
        };
        let first_unit = self.measure.before(counted.start, counted_chars.start);
        Piece {
            start: bytes.start,
            end: bytes.end,
            first_char: chars.start,
            end_char: chars.end,
            first_unit,
            // Of nothing at all, nothing has begun.
            end_unit: self.measure.until(counted.end, counted_chars.end).max(first_unit),
        }
    }

    /// The part, in bytes and in code points, without what is taken off its ends; its beginning when nothing is left.
    fn stripped(&mut self, bytes: Range<usize>, chars: Range<usize>) -> (Range<usize>, Range<usize>) {
        let before = slice(self.text, 0, bytes.start).chars().next_back();
        let ends = self.rules.strip.ends(slice(self.text, bytes.start, bytes.end), before);
        let Some((leading, trailing)) = ends else {
            return (bytes.start..bytes.start, chars.start..chars.start);
        };
        // Whitespace that a mark stands on is not taken off.
        let start = self.graphemes.around(bytes.start + leading, bytes.start).start;
        let end = self.graphemes.around(bytes.end - trailing, start).end;
        let first_char = chars.start + self.count_chars(bytes.start, start);
        let end_char = chars.end - self.count_chars(end, bytes.end);
        (start..end, first_char..end_char)
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
