//! What a splitter takes and gives.

use std::ops::Range;

use toller_core::Metadata;

use crate::error::Error;
use crate::structure::Structure;

/// A contiguous part of a text: `text == source[bytes]`, always.
#[derive(Debug, Clone, PartialEq)]
pub struct Chunk<'t> {
    /// The part itself.
    pub text: &'t str,
    /// Where it stands in the source, in Unicode code points.
    pub chars: Range<usize>,
    /// Where it stands in the source, in bytes of UTF-8.
    pub bytes: Range<usize>,
    /// What the splitter knows of the part, such as the headings above it; goes into the metadata of the document that it becomes.
    pub metadata: Metadata,
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
