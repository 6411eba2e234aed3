//! Whole documents.

use crate::error::Error;
use crate::span::SpanChunks;
use crate::splitter::{Chunk, Splitter};
use crate::strip::Strip;
use crate::structure::Structure;

/// The whole text as one chunk, whitespace at its ends included; none of a text without characters. O(text).
#[derive(Debug, Clone, Copy, Default)]
pub struct WholeSplitter;

impl Splitter for WholeSplitter {
    fn split_structured<'t>(&self, text: &'t str, _structure: &Structure) -> Result<Vec<Chunk<'t>>, Error> {
        let mut spans = SpanChunks::new(text, Strip::Nothing);
        spans.push(0..text.len(), toller_core::Metadata::new());
        Ok(spans.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_one_chunk() {
        let chunks = WholeSplitter.split(" é\n").unwrap();
        assert_eq!((chunks.len(), chunks[0].text, chunks[0].chars.clone()), (1, " é\n", 0..3));
        assert_eq!(WholeSplitter.split("").unwrap(), []);
    }
}
