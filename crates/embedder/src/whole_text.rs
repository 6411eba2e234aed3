//! Where the tokens of a whole text are, however long it is: for who cuts texts to a model's measure.

use std::ops::Range;

use toller_core::error::{Error, Result};

/// Bytes that are tokenised at once: the tokenizers library keeps a hundred times as many.
const SEGMENT: usize = 64 * 1024;

/// Tokenises whole texts, segment by segment; segments end at white space, where no token goes on.
pub(crate) struct WholeText {
    pub(crate) inner: tokenizers::Tokenizer,
    pub(crate) content_tokens: usize,
    pub(crate) lower_case: bool,
}

impl toller_core::Tokenizer for WholeText {
    fn token_ranges(&self, text: &str) -> Result<Vec<Range<usize>>> {
        let mut ranges = Vec::new();
        let mut start = 0;
        while start < text.len() {
            let end = segment_end(text, start);
            let segment = text.get(start..end).unwrap_or_default();
            // Where lower case is longer or shorter, places in it say nothing; the case then makes little difference to the count.
            let lower = self.lower_case.then(|| segment.to_lowercase()).filter(|lower| lower.len() == segment.len());
            let encoding = self.inner.encode(lower.as_deref().unwrap_or(segment), false);
            let encoding = encoding.map_err(|fault| Error::Internal(format!("a text cannot be tokenised: {fault}")))?;
            ranges.extend(encoding.get_offsets().iter().map(|(first, last)| start + first..start + last));
            start = end;
        }
        Ok(ranges)
    }

    fn max_text_tokens(&self) -> usize {
        self.content_tokens
    }
}

/// Where a segment ends that begins at `start`: after its last white space, or where it has none after a character.
fn segment_end(text: &str, start: usize) -> usize {
    let most = text.floor_char_boundary(start.saturating_add(SEGMENT));
    if most >= text.len() {
        return text.len();
    }
    let segment = text.get(start..most).unwrap_or_default();
    let after_space = segment.rfind(char::is_whitespace).and_then(|at| {
        let space = segment.get(at..)?.chars().next()?;
        Some(start + at + space.len_utf8())
    });
    after_space.unwrap_or(most)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use toller_core::Tokenizer as _;

    use super::*;
    use crate::tokenizer::Tokenizer;

    const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tiny-bge/tokenizer.json");

    fn tiny() -> WholeText {
        Tokenizer::read(Path::new(TINY), 512, 12_000, true).unwrap().whole_text("").unwrap()
    }

    #[test]
    fn tokens_are_where_they_stand_in_the_text() {
        let text = "Hello, wörld 你好";
        let ranges = tiny().token_ranges(text).unwrap();
        let tokens: Vec<&str> = ranges.iter().map(|range| &text[range.clone()]).collect();
        assert_eq!(tokens.concat(), "Hello,wörld你好");
        assert!(tokens.contains(&"Hello") && tokens.contains(&","), "{tokens:?}");
        assert!(tiny().token_ranges("").unwrap().is_empty());
    }

    #[test]
    fn a_long_text_has_the_tokens_of_its_parts_and_nothing_is_cut_off() {
        let words = 60_000;
        let text = "the dog ".repeat(words / 2);
        let ranges = tiny().token_ranges(&text).unwrap();
        assert_eq!(ranges.len(), words);
        assert!(ranges.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert_eq!(&text[ranges[words - 1].clone()], "dog");
    }

    #[test]
    fn segments_end_between_characters() {
        let text = "é".repeat(SEGMENT);
        assert_eq!(segment_end(&text, 0), SEGMENT);
        let ranges = tiny().token_ranges(&text).unwrap();
        assert!(ranges.iter().all(|range| text.is_char_boundary(range.start) && text.is_char_boundary(range.end)));
    }

    #[test]
    fn the_instruction_takes_its_room() {
        let tokenizer = Tokenizer::read(Path::new(TINY), 512, 12_000, true).unwrap();
        assert_eq!(tokenizer.whole_text("").unwrap().max_text_tokens(), 510);
        assert_eq!(tokenizer.whole_text("the dog").unwrap().max_text_tokens(), 508);
    }
}
