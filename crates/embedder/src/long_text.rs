//! Tokenising a text that is far longer than what a model reads: no more of it than is needed.
//!
//! A model reads some hundred tokens, whatever the text's length, and a text may have megabytes: tokenising all of it would keep
//! a thread for seconds. So a prefix is tokenised first. Where its cut is far behind the last token that is kept, the cut
//! did not change it: normalising and splitting into words are local, and a word is tokenised by itself.

use tokenizers::{Encoding, Tokenizer};

/// Bytes of the first prefix: enough for 512 tokens of most languages twice over.
const FIRST_PREFIX: usize = 16 * 1024;
/// Each prefix is so many times as long as the one before, so that all together are not much longer than the last.
const GROWTH: usize = 4;

/// The first tokens of `text`, without special tokens, from `inner` whose truncation keeps `most` tokens.
///
/// Linear in the bytes of those tokens; linear in the text where they do not lie in the first half of a prefix.
pub(crate) fn encode(inner: &Tokenizer, text: &str, most: usize) -> tokenizers::Result<Encoding> {
    let mut length = FIRST_PREFIX;
    while length < text.len() {
        let prefix = text.get(..text.floor_char_boundary(length)).unwrap_or(text);
        let encoding = inner.encode(prefix, false)?;
        let end = encoding.get_offsets().last().map_or(0, |(_, end)| *end);
        if encoding.len() >= most && end <= prefix.len() / 2 {
            return Ok(encoding);
        }
        length = length.saturating_mul(GROWTH);
    }
    inner.encode_fast(text, false)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokenizers::utils::truncation::TruncationParams;

    use super::*;

    const MOST: usize = 511;

    #[test]
    fn the_prefix_gives_what_the_whole_text_gives() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/tiny-bge/tokenizer.json");
        let mut inner = Tokenizer::from_file(Path::new(path)).unwrap();
        inner.with_padding(None);
        inner.with_truncation(Some(TruncationParams { max_length: MOST, ..TruncationParams::default() })).unwrap();
        let texts = [
            "the retriever finds documents, ".repeat(10_000),
            "寻回犬找到文件。".repeat(10_000),
            format!("{}the end", " ".repeat(100_000)),
            format!("one {} two", "x".repeat(100_000)),
            format!("{} {}", "the ".repeat(MOST - 2), "x".repeat(40_000)),
            format!("{}{}", "e\u{301}".repeat(9_000), " the house".repeat(9_000)),
            "x".repeat(100_000),
        ];
        for text in texts {
            let whole = inner.encode_fast(text.as_str(), false).unwrap();
            let some = encode(&inner, &text, MOST).unwrap();
            let beginning: String = text.chars().take(20).collect();
            assert_eq!(some.get_ids(), whole.get_ids(), "{beginning}");
        }
    }
}
