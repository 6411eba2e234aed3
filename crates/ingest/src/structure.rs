//! What a format knows of the joints of a text.

use std::ops::Range;

/// Where the author of a text has put its joints: places at which chunks should rather begin.
///
/// A format that has structure (Markdown has headings and blocks) finds it; plain text has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Structure {
    levels: Vec<Vec<usize>>,
    headings: Vec<Heading>,
}

/// A heading of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// 1 for the highest, as in HTML; 1 to 6.
    pub level: u8,
    /// Its text, without the marks that make it a heading, on one line; may be empty.
    pub title: String,
    /// The bytes of its line or lines in the text, the last line end left out.
    pub bytes: Range<usize>,
}

impl Structure {
    /// Byte offsets by level, the coarsest first. Offsets that are not within a text or not between two of its characters are
    /// passed over when that text is split. O(n log n).
    pub fn new(mut levels: Vec<Vec<usize>>) -> Self {
        for level in &mut levels {
            level.sort_unstable();
            level.dedup();
        }
        Self { levels, headings: Vec::new() }
    }

    /// The same with the text's headings, in the order of the text.
    #[must_use]
    pub fn with_headings(mut self, headings: Vec<Heading>) -> Self {
        self.headings = headings;
        self
    }

    /// The structure of a part of the text: what lies within these bytes, counted from their beginning. O(log n), plus what it keeps.
    #[must_use]
    pub fn within(&self, bytes: Range<usize>) -> Self {
        let levels = self.levels.iter().map(|places| {
            let first = places.partition_point(|place| *place < bytes.start);
            let end = places.partition_point(|place| *place < bytes.end);
            places.get(first..end).unwrap_or_default().iter().map(|place| place - bytes.start).collect()
        });
        let first = self.headings.partition_point(|heading| heading.bytes.start < bytes.start);
        let rest = self.headings.get(first..).unwrap_or_default();
        let headings = rest.iter().take_while(|heading| heading.bytes.end <= bytes.end).map(|heading| Heading {
            bytes: heading.bytes.start - bytes.start..heading.bytes.end - bytes.start,
            ..heading.clone()
        });
        Self { levels: levels.collect(), headings: headings.collect() }
    }

    /// The text's headings, in its order.
    pub fn headings(&self) -> &[Heading] {
        &self.headings
    }

    /// Byte offsets by level, ascending within each.
    pub fn levels(&self) -> &[Vec<usize>] {
        &self.levels
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_has_what_lies_within_it() {
        let heading = |bytes| Heading { level: 1, title: "A".to_owned(), bytes };
        let whole = Structure::new(vec![vec![0, 4, 9], vec![]]).with_headings(vec![heading(0..2), heading(4..6)]);
        let part = Structure::new(vec![vec![1], vec![]]).with_headings(vec![heading(1..3)]);
        assert_eq!(whole.within(3..9), part);
    }
}
