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
    /// Its text, without marks, on one line; may be empty.
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

    /// The text's headings, in its order.
    pub fn headings(&self) -> &[Heading] {
        &self.headings
    }

    /// Byte offsets by level, ascending within each.
    pub fn levels(&self) -> &[Vec<usize>] {
        &self.levels
    }
}
