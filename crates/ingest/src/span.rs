//! Chunks out of byte ranges.

use std::ops::Range;

use toller_core::Metadata;

use crate::grapheme::GraphemeFinder;
use crate::splitter::Chunk;
use crate::strip::Strip;

/// Makes chunks of the byte ranges of one text, which come in its order: starts ascend, and ends do.
///
/// Cost: O(text) for all of them together, plus the total length of the chunks.
pub(crate) struct SpanChunks<'t> {
    text: &'t str,
    strip: Strip,
    graphemes: GraphemeFinder<'t>,
    starts: CharCount<'t>,
    ends: CharCount<'t>,
    chunks: Vec<Chunk<'t>>,
}

impl<'t> SpanChunks<'t> {
    pub(crate) fn new(text: &'t str, strip: Strip) -> Self {
        Self {
            text,
            strip,
            graphemes: GraphemeFinder::new(text),
            starts: CharCount::new(text),
            ends: CharCount::new(text),
            chunks: Vec::new(),
        }
    }

    /// Appends the chunk at `bytes`, which lie between two graphemes at either end, unless nothing of it is left when it is stripped.
    pub(crate) fn push(&mut self, bytes: Range<usize>, metadata: Metadata) {
        let part = self.text.get(bytes.clone()).unwrap_or_default();
        let before = self.text.get(..bytes.start).and_then(|before| before.chars().next_back());
        let Some((leading, trailing)) = self.strip.ends(part, before) else { return };
        let start = self.graphemes.around(bytes.start + leading, bytes.start).start;
        let end = self.graphemes.around(bytes.end - trailing, start).end;
        if start >= end {
            return;
        }
        self.chunks.push(Chunk {
            text: self.text.get(start..end).unwrap_or_default(),
            chars: self.starts.before(start)..self.ends.before(end),
            bytes: start..end,
            metadata,
        });
    }

    pub(crate) fn finish(self) -> Vec<Chunk<'t>> {
        self.chunks
    }
}

/// Counts the code points before bytes of a text; each question costs the way from the one before.
pub(crate) struct CharCount<'t> {
    text: &'t str,
    byte: usize,
    chars: usize,
}

impl<'t> CharCount<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, byte: 0, chars: 0 }
    }

    /// Code points before `byte`, which lies between two characters.
    pub(crate) fn before(&mut self, byte: usize) -> usize {
        let count = |range: Range<usize>| self.text.get(range).unwrap_or_default().chars().count();
        self.chars = match byte >= self.byte {
            true => self.chars + count(self.byte..byte),
            false => self.chars - count(byte..self.byte),
        };
        self.byte = byte;
        self.chars
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_stripped_between_graphemes() {
        let text = " é \u{301}b ";
        let mut spans = SpanChunks::new(text, Strip::Whitespace);
        spans.push(0..text.len(), Metadata::new());
        spans.push(3..text.len(), Metadata::new());
        spans.push(text.len() - 1..text.len(), Metadata::new());
        let chunks = spans.finish();
        let seen: Vec<_> = chunks.iter().map(|chunk| (chunk.text, chunk.chars.clone(), chunk.bytes.clone())).collect();
        // The space before b carries an accent, so it is no whitespace.
        assert_eq!(seen, [("é \u{301}b", 1..5, 1..7), (" \u{301}b", 2..5, 3..7)]);
    }

    #[test]
    fn code_points_are_counted_both_ways() {
        let mut count = CharCount::new("éaé");
        assert_eq!([3, 0, 5, 2].map(|byte| count.before(byte)), [2, 0, 3, 1]);
    }
}
