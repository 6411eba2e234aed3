//! Graphemes: one after the other, and the one that a cut falls into.
//!
//! What a grapheme is can depend on all of the text before it (flags are pairs in a run of regional indicators), and the
//! segmentation looks back as far as it must. Both ways here let it look back no further than a boundary that is known already,
//! so that a text of nothing but flags costs no more than any other.

use std::ops::Range;

use unicode_segmentation::{GraphemeCursor, UnicodeSegmentation};

/// Iterator over the byte offsets at which the graphemes of a text begin.
pub(crate) struct GraphemeStarts<'t> {
    text: &'t str,
    next: usize,
}

impl<'t> GraphemeStarts<'t> {
    /// The text must begin at a boundary of whatever it is a part of.
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, next: 0 }
    }
}

impl Iterator for GraphemeStarts<'_> {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let start = self.next;
        self.next += self.text.get(start..)?.graphemes(true).next()?.len();
        Some(start)
    }
}

/// Finds the grapheme that a byte offset falls into.
///
/// The last one found is remembered: many cuts inside one very long grapheme cost one search.
pub(crate) struct GraphemeFinder<'t> {
    text: &'t str,
    last: Range<usize>,
}

impl<'t> GraphemeFinder<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, last: 0..0 }
    }

    /// The grapheme in whose inside the offset lies; `offset..offset` when it lies between two graphemes.
    ///
    /// The offset must lie between two characters of the text, and `known` at a boundary not after it.
    /// O(offset − known) at worst, O(1) beside ASCII.
    pub(crate) fn around(&mut self, offset: usize, known: usize) -> Range<usize> {
        let none = offset..offset;
        let bytes = self.text.as_bytes();
        let Some((before, after)) = offset.checked_sub(1).and_then(|last| Some((bytes.get(last)?, bytes.get(offset)?)))
        else {
            return none;
        };
        match (before, after) {
            (b'\r', b'\n') => return offset - 1..offset + 1,
            // Rules GB4 and GB5: there is always a boundary beside a line end.
            (b'\r' | b'\n', _) | (_, b'\r' | b'\n') => return none,
            (before, after) if before.is_ascii() && after.is_ascii() => return none,
            _ => {}
        }
        if self.last.start < offset && offset < self.last.end {
            return self.last.clone();
        }
        // The rest is passed whole, so the cursor never asks for more of it; were it to, the cut would stay where it is.
        let Some((rest, at)) = self.text.get(known..).zip(offset.checked_sub(known)) else { return none };
        let cursor = || GraphemeCursor::new(at, rest.len(), true);
        if cursor().is_boundary(rest, 0).unwrap_or(true) {
            return none;
        }
        let start = cursor().prev_boundary(rest, 0).ok().flatten().unwrap_or(at);
        let end = cursor().next_boundary(rest, 0).ok().flatten().unwrap_or(at);
        self.last = known + start..known + end;
        self.last.clone()
    }

    /// Where a part that begins at `start`, a boundary, and should end at `cut` ends: at the last boundary up to `cut`, but after the first
    /// grapheme, which no part is shorter than. Costs as [`Self::around`].
    pub(crate) fn end_of_part(&mut self, start: usize, cut: usize) -> usize {
        let end = self.around(cut.max(start), start).start;
        if end > start {
            return end;
        }
        let first = self.text.get(start..).and_then(|rest| rest.graphemes(true).next());
        first.map_or(self.text.len(), |grapheme| start + grapheme.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn crlf_and_combining_marks_are_one() {
        let mut finder = GraphemeFinder::new("a\r\ne\u{301} ");
        let found: Vec<_> = [0, 1, 2, 3, 4, 6, 7].map(|offset| finder.around(offset, 0)).into();
        assert_eq!(found, [0..0, 1..1, 1..3, 3..3, 3..6, 6..6, 7..7]);
    }

    #[test]
    fn a_part_ends_between_graphemes() {
        let mut finder = GraphemeFinder::new("ae\u{301}b");
        assert_eq!([0, 1, 2, 4, 5].map(|cut| finder.end_of_part(0, cut)), [1, 1, 1, 4, 5]);
        assert_eq!(finder.end_of_part(1, 2), 4, "a part has one grapheme at least");
    }

    proptest! {
        #[test]
        fn agrees_with_the_segmentation(text in "[ab \r\n\u{301}\u{200d}\u{600}👩👍🏽🇫🇷한ᄀ\u{1161}क\u{94d}]{0,24}") {
            let bounds: Vec<usize> = text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
            let starts: Vec<usize> = GraphemeStarts::new(&text).collect();
            prop_assert_eq!(&starts[..], &bounds[..bounds.len() - 1]);
            for known in bounds.iter().copied() {
                let mut finder = GraphemeFinder::new(&text);
                for (offset, _) in text.char_indices().filter(|(offset, _)| *offset >= known) {
                    let start = *bounds.iter().rfind(|at| **at <= offset).unwrap();
                    let end = *bounds.iter().find(|at| **at >= offset).unwrap();
                    prop_assert_eq!(finder.around(offset, known), start..end, "offset {} of {:?}", offset, text);
                }
            }
        }
    }
}
