//! Chunks that are longer than a model's longest input.

use std::fmt;
use std::sync::Arc;

use toller_core::{Metadata, Tokenizer};

use crate::error::Error;
use crate::grapheme::GraphemeFinder;
use crate::span::SpanChunks;
use crate::splitter::Chunk;
use crate::strip::Strip;
use crate::token_places::TokenPlaces;

/// Splits the chunks of more tokens than a model sees.
#[derive(Clone)]
pub struct TokenLimit {
    tokenizer: Arc<dyn Tokenizer>,
    max_tokens: usize,
}

impl fmt::Debug for TokenLimit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenLimit").field("max_tokens", &self.max_tokens).finish_non_exhaustive()
    }
}

impl TokenLimit {
    /// The longest text that the tokenizer's model sees whole, at least 1 token.
    pub fn new(tokenizer: Arc<dyn Tokenizer>) -> Self {
        let max_tokens = tokenizer.max_text_tokens().max(1);
        Self { tokenizer, max_tokens }
    }

    /// Another limit, at least 1 token.
    ///
    /// # Errors
    /// When it is 0.
    pub fn max_tokens(mut self, tokens: usize) -> Result<Self, Error> {
        if tokens == 0 {
            return Err(Error::invalid("max_tokens", "must be at least 1, got 0"));
        }
        self.max_tokens = tokens;
        Ok(self)
    }

    /// Applies the limit to the chunks of a text. The parts of a chunk carry its metadata.
    ///
    /// Parts are counted as the model will see them, each tokenised by itself, so the limit holds; but a single grapheme of more
    /// tokens than the limit stays whole. Cost: that of the tokenizer for all chunks, about three times for those that are split.
    ///
    /// # Errors
    /// When the tokenizer fails.
    pub fn apply<'t>(&self, chunks: Vec<Chunk<'t>>) -> Result<Vec<Chunk<'t>>, Error> {
        let mut limited = Vec::with_capacity(chunks.len());
        for chunk in chunks {
            let tokens = TokenPlaces::new(self.tokenizer.as_ref(), chunk.text)?;
            if tokens.count() > self.max_tokens {
                limited.extend(self.parts(&chunk, &tokens)?);
            } else {
                limited.push(chunk);
            }
        }
        Ok(limited)
    }

    /// A chunk in parts that are within the limit.
    fn parts<'t>(&self, chunk: &Chunk<'t>, tokens: &TokenPlaces) -> Result<Vec<Chunk<'t>>, Error> {
        let text = chunk.text;
        let mut graphemes = GraphemeFinder::new(text);
        let mut spans = SpanChunks::new(text, Strip::Whitespace);
        let mut start = 0;
        while start < text.len() {
            let mut window = self.max_tokens;
            let end = loop {
                let end = match tokens.cut_after(tokens.ended_before(start) + window) {
                    Some(cut) => graphemes.end_of_part(start, cut),
                    None => text.len(),
                };
                let part = text.get(start..end).unwrap_or_default();
                let excess = TokenPlaces::new(self.tokenizer.as_ref(), part)?.count().saturating_sub(self.max_tokens);
                // A part that begins or ends within a word may have other tokens by itself than it has in the chunk.
                if excess == 0 || window == 1 {
                    break end;
                }
                window = window.saturating_sub(excess).max(1);
            };
            spans.push(start..end, Metadata::new());
            start = end;
        }
        let mut parts = spans.finish();
        for part in &mut parts {
            part.bytes = chunk.bytes.start + part.bytes.start..chunk.bytes.start + part.bytes.end;
            part.chars = chunk.chars.start + part.chars.start..chunk.chars.start + part.chars.end;
            part.metadata.clone_from(&chunk.metadata);
        }
        Ok(parts)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;
    use crate::recursive::RecursiveSplitter;
    use crate::splitter::Splitter;
    use crate::token_places::tests::Words;
    use toller_core::Value;

    fn limit() -> TokenLimit {
        TokenLimit::new(Arc::new(Words)).max_tokens(3).unwrap()
    }

    const TEXT: &str = "é b\n\nc d e abcdefgh f\n\ng";

    fn splitter() -> RecursiveSplitter {
        RecursiveSplitter::builder().chunk_size(17).chunk_overlap(0).build().unwrap()
    }

    #[test]
    fn chunks_over_the_limit_are_split() {
        let limited = limit().apply(splitter().split(TEXT).unwrap()).unwrap();
        let texts: Vec<&str> = limited.iter().map(|chunk| chunk.text).collect();
        assert_eq!(texts, ["é b", "c d e", "abcdefgh f", "g"]);
        for chunk in &limited {
            assert_eq!(TEXT[chunk.bytes.clone()], *chunk.text);
            assert_eq!(TEXT[..chunk.bytes.start].chars().count(), chunk.chars.start);
        }
    }

    #[test]
    fn parts_carry_the_metadata_of_their_chunk() {
        let mut chunks = splitter().split("a b c d e f").unwrap();
        chunks[0].metadata.insert("Header 1".to_owned(), Value::from("A"));
        let limited = limit().apply(chunks).unwrap();
        assert_eq!(limited.len(), 2);
        assert!(limited.iter().all(|part| part.metadata.contains_key("Header 1")));
    }

    /// Two letters are a token; a lone letter before the end of a text is two.
    struct Fickle;

    impl Tokenizer for Fickle {
        fn token_ranges(&self, text: &str) -> toller_core::Result<Vec<Range<usize>>> {
            let mut ranges: Vec<_> = (0..text.len()).step_by(2).map(|at| at..(at + 2).min(text.len())).collect();
            if !text.ends_with('.') {
                ranges.push(text.len() - 1..text.len());
            }
            Ok(ranges)
        }

        fn max_text_tokens(&self) -> usize {
            3
        }
    }

    #[test]
    fn parts_are_counted_by_themselves() {
        let limit = TokenLimit::new(Arc::new(Fickle));
        let whole = crate::character::CharacterSplitter::builder().build().unwrap();
        let limited = limit.apply(whole.split("abcdefghijk.").unwrap()).unwrap();
        let texts: Vec<&str> = limited.iter().map(|chunk| chunk.text).collect();
        assert_eq!(texts, ["abcd", "efgh", "ijk."]);
    }

    #[test]
    fn the_limit_is_the_models() {
        let limit = TokenLimit::new(Arc::new(Words));
        assert_eq!(limit.max_tokens, 8);
        assert_eq!(limit.max_tokens(0).unwrap_err().to_string(), "max_tokens: must be at least 1, got 0");
    }
}
