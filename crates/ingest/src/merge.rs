//! Merging consecutive pieces into chunks: LangChain's `_merge_splits`, on spans instead of strings.

use std::collections::VecDeque;

/// A contiguous part of the text, between two graphemes at either end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    /// First byte.
    pub(crate) start: usize,
    /// Byte after the last.
    pub(crate) end: usize,
    /// Code points before `start`.
    pub(crate) first_char: usize,
    /// Code points before `end`.
    pub(crate) end_char: usize,
    /// Units of length wholly before `start`; see [`crate::length::Measure`].
    pub(crate) first_unit: usize,
    /// Units that have begun before `end`.
    pub(crate) end_unit: usize,
}

impl Piece {
    /// Length in the unit of the chunk size.
    pub(crate) fn length(&self) -> usize {
        self.end_unit - self.first_unit
    }
}

/// Collects pieces while they fit into one chunk, and keeps whole pieces of at most the overlap for the next one.
///
/// LangChain sums the lengths of pieces and separators; here the length is that of the span from the first piece to the last,
/// which is the same as long as no run of separators was left out between two pieces, and right when one was.
pub(crate) struct Merge {
    chunk_size: usize,
    chunk_overlap: usize,
    window: VecDeque<Piece>,
}

impl Merge {
    pub(crate) fn new(chunk_size: usize, chunk_overlap: usize) -> Self {
        Self { chunk_size, chunk_overlap, window: VecDeque::new() }
    }

    /// Takes the next piece; gives the chunk that is complete because the piece does not fit into it.
    pub(crate) fn push(&mut self, piece: Piece) -> Option<Piece> {
        let complete = match self.window.front() {
            Some(front) if piece.end_unit - front.first_unit > self.chunk_size => self.span(),
            _ => None,
        };
        if let Some(complete) = complete {
            while let Some(front) = self.window.front()
                && (complete.end_unit - front.first_unit > self.chunk_overlap
                    || piece.end_unit - front.first_unit > self.chunk_size)
            {
                self.window.pop_front();
            }
        }
        self.window.push_back(piece);
        complete
    }

    /// Gives what is left as the last chunk, and begins anew without overlap.
    pub(crate) fn finish(&mut self) -> Option<Piece> {
        let last = self.span();
        self.window.clear();
        last
    }

    fn span(&self) -> Option<Piece> {
        let (front, back) = (self.window.front()?, self.window.back()?);
        Some(Piece { end: back.end, end_char: back.end_char, end_unit: back.end_unit, ..*front })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(range: std::ops::Range<usize>) -> Piece {
        Piece {
            start: range.start,
            end: range.end,
            first_char: range.start,
            end_char: range.end,
            first_unit: range.start,
            end_unit: range.end,
        }
    }

    #[test]
    fn overlap_is_whole_pieces() {
        let mut merge = Merge::new(6, 3);
        let mut chunks: Vec<_> = [piece(0..2), piece(2..4), piece(4..6), piece(6..9)]
            .into_iter()
            .filter_map(|next| merge.push(next))
            .collect();
        chunks.extend(merge.finish());
        assert_eq!(chunks, [piece(0..6), piece(4..9)]);
        assert_eq!(merge.finish(), None);
    }

    #[test]
    fn what_was_left_out_between_pieces_counts() {
        let mut merge = Merge::new(5, 0);
        assert_eq!(merge.push(piece(0..2)), None);
        assert_eq!(merge.push(piece(4..6)), Some(piece(0..2)));
        assert_eq!(merge.finish(), Some(piece(4..6)));
    }
}
