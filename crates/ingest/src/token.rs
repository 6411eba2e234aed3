//! Windows of a model's own tokens, cut in the source.

use std::fmt;
use std::sync::Arc;

use toller_core::{Metadata, Tokenizer};

use crate::error::Error;
use crate::grapheme::GraphemeFinder;
use crate::recursive::default_chunk_overlap;
use crate::span::SpanChunks;
use crate::splitter::{Chunk, Splitter};
use crate::strip::Strip;
use crate::structure::Structure;
use crate::token_places::TokenPlaces;

/// Windows of `chunk_size` tokens, each of which repeats the last `chunk_overlap` of the one before; as LangChain's
/// `split_text_on_tokens`, but that the chunks are parts of the source and not decoded tokens.
///
/// What stands between tokens is of the window that follows it, and stripped at the ends. The last window is the one that reaches
/// the end. No grapheme is cut: a window ends before a grapheme that it cannot hold whole, and holds more tokens than it should only
/// when one grapheme alone has more. Structure changes nothing.
///
/// A window may have a token or two more when it is tokenised by itself and begins or ends within a word; [`crate::TokenLimit`] is
/// for limits that must hold.
///
/// Cost: that of the tokenizer, O(text), plus the total length of the chunks.
#[derive(Clone)]
pub struct TokenSplitter {
    tokenizer: Arc<dyn Tokenizer>,
    chunk_size: usize,
    chunk_overlap: usize,
    strip: Strip,
}

impl fmt::Debug for TokenSplitter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("TokenSplitter")
            .field("chunk_size", &self.chunk_size)
            .field("chunk_overlap", &self.chunk_overlap)
            .finish_non_exhaustive()
    }
}

impl TokenSplitter {
    /// Windows of `chunk_size` tokens (the model's longest input when there is none; at least 1) with `chunk_overlap` tokens of overlap
    /// ([`default_chunk_overlap`] when there is none; less than the size).
    ///
    /// # Errors
    /// Names the parameter that is out of its range.
    pub fn new(
        tokenizer: Arc<dyn Tokenizer>,
        chunk_size: Option<usize>,
        chunk_overlap: Option<usize>,
    ) -> Result<Self, Error> {
        let chunk_size = chunk_size.unwrap_or_else(|| tokenizer.max_text_tokens().max(1));
        let chunk_overlap = chunk_overlap.unwrap_or_else(|| default_chunk_overlap(chunk_size));
        if chunk_size == 0 {
            return Err(Error::invalid("chunk_size", "must be at least 1, got 0"));
        }
        if chunk_overlap >= chunk_size {
            let fault = format!("must be less than the chunk size of {chunk_size}, got {chunk_overlap}");
            return Err(Error::invalid("chunk_overlap", fault));
        }
        Ok(Self { tokenizer, chunk_size, chunk_overlap, strip: Strip::Whitespace })
    }

    /// Whether whitespace is taken off both ends of chunks, and chunks of nothing else are dropped; it is, unless set otherwise.
    #[must_use]
    pub fn strip_whitespace(mut self, strip: bool) -> Self {
        self.strip = Strip::whitespace(strip);
        self
    }
}

impl Splitter for TokenSplitter {
    fn split_structured<'t>(&self, text: &'t str, _structure: &Structure) -> Result<Vec<Chunk<'t>>, Error> {
        let tokens = TokenPlaces::new(self.tokenizer.as_ref(), text)?;
        let mut graphemes = GraphemeFinder::new(text);
        let mut spans = SpanChunks::new(text, self.strip);
        let mut start = 0;
        loop {
            let end = match tokens.cut_after(tokens.ended_before(start) + self.chunk_size) {
                Some(cut) => graphemes.end_of_part(start, cut),
                None => text.len(),
            };
            spans.push(start..end, Metadata::new());
            if end >= text.len() {
                return Ok(spans.finish());
            }
            let repeated_from = tokens.ended_before(end).saturating_sub(self.chunk_overlap);
            let again = match tokens.end_of(repeated_from) {
                Some(at) if at > start && self.chunk_overlap > 0 => graphemes.around(at.min(end), start).end,
                _ => end,
            };
            start = if again > start { again.min(end) } else { end };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token_places::tests::{Fixed, Words};

    fn texts(tokenizer: impl Tokenizer + 'static, size: usize, overlap: usize, text: &str) -> Vec<String> {
        let splitter = TokenSplitter::new(Arc::new(tokenizer), Some(size), Some(overlap)).unwrap();
        splitter.split(text).unwrap().into_iter().map(|chunk| chunk.text.to_owned()).collect()
    }

    #[test]
    fn windows_overlap_and_stop_at_the_end() {
        assert_eq!(texts(Words, 3, 1, "1 2 3 4 5 6 7"), ["1 2 3", "3 4 5", "5 6 7"]);
        assert_eq!(texts(Words, 3, 1, "1 2 3"), ["1 2 3"]);
        assert_eq!(texts(Words, 2, 0, "1  2\n3"), ["1  2", "3"]);
        assert!(texts(Words, 2, 0, " \n").is_empty() && texts(Words, 2, 0, "").is_empty());
    }

    #[test]
    fn what_is_no_token_is_not_lost() {
        let splitter = TokenSplitter::new(Arc::new(Fixed(vec![2..3, 5..6])), Some(1), Some(0)).unwrap();
        let unstripped = splitter.strip_whitespace(false);
        let chunks: Vec<&str> = unstripped.split("??a??b??").unwrap().into_iter().map(|chunk| chunk.text).collect();
        assert_eq!(chunks, ["??a", "??b??"]);
    }

    #[test]
    fn no_character_and_no_grapheme_is_cut() {
        // "né你" in the bytes of a byte-level vocabulary: n, two halves of é, three thirds of 你. LangChain: n�, ��, ��.
        let thirds = || Fixed(vec![0..1, 1..2, 2..3, 3..4, 4..5, 5..6]);
        assert_eq!(texts(thirds(), 2, 0, "né你"), ["n", "é", "你"]);
        let family = "👨\u{200d}👩";
        let parts = Fixed(vec![0..1, 1..5, 5..8, 8..12, 12..13]);
        assert_eq!(texts(parts, 2, 1, &format!("a{family}b")), ["a", family, "b"]);
    }

    #[test]
    fn the_models_longest_input_is_the_default() {
        let splitter = TokenSplitter::new(Arc::new(Words), None, None).unwrap();
        assert_eq!((splitter.chunk_size, splitter.chunk_overlap), (8, 1));
    }

    #[test]
    fn parameters_are_checked_by_name() {
        for (size, overlap, fault) in [
            (0, None, "chunk_size: must be at least 1, got 0"),
            (3, Some(3), "chunk_overlap: must be less than the chunk size of 3, got 3"),
        ] {
            assert_eq!(TokenSplitter::new(Arc::new(Words), Some(size), overlap).unwrap_err().to_string(), fault);
        }
    }
}
