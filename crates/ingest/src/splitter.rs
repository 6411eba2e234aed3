//! What a splitter takes and gives.

use std::ops::Range;

use crate::error::Error;

/// A contiguous part of a text: `text == source[bytes]`, always.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk<'t> {
    /// The part itself.
    pub text: &'t str,
    /// Where it stands in the source, in Unicode code points.
    pub chars: Range<usize>,
    /// Where it stands in the source, in bytes of UTF-8.
    pub bytes: Range<usize>,
}

/// Where the author of a text has put its joints: places at which chunks should rather begin.
///
/// A format that has structure (Markdown has headings and blocks) finds it; plain text has none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Structure {
    levels: Vec<Vec<usize>>,
}

impl Structure {
    /// Byte offsets by level, the coarsest first. Offsets that are not within a text or not between two of its characters are
    /// passed over when that text is split. O(n log n).
    pub fn new(mut levels: Vec<Vec<usize>>) -> Self {
        for level in &mut levels {
            level.sort_unstable();
            level.dedup();
        }
        Self { levels }
    }

    /// Byte offsets by level, ascending within each.
    pub fn levels(&self) -> &[Vec<usize>] {
        &self.levels
    }
}

/// Cuts a text into chunks.
pub trait Splitter: Send + Sync {
    /// The chunks of a text of known structure, ordered by where they begin.
    ///
    /// # Errors
    /// When a separator's regular expression gives up on this text.
    fn split_structured<'t>(&self, text: &'t str, structure: &Structure) -> Result<Vec<Chunk<'t>>, Error>;

    /// The chunks of a text, ordered by where they begin.
    ///
    /// # Errors
    /// As [`Self::split_structured`].
    fn split<'t>(&self, text: &'t str) -> Result<Vec<Chunk<'t>>, Error> {
        self.split_structured(text, &Structure::default())
    }
}
