//! Sentences of a text, with exact offsets.

use std::ops::Range;

use toller_core::TextSpan;
use unicode_segmentation::UnicodeSegmentation;

/// One sentence, without the white space around it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sentence<'a> {
    pub(crate) text: &'a str,
    pub(crate) bytes: Range<usize>,
    pub(crate) chars: TextSpan,
}

/// The sentences of `text` by the rules of Unicode (UAX 29), which know more scripts than full stops; white space alone is none.
/// O(length of the text).
pub(crate) fn sentences(text: &str) -> Vec<Sentence<'_>> {
    let mut found = Vec::new();
    let mut chars_before = 0;
    for (start, piece) in text.split_sentence_bound_indices() {
        let trimmed = piece.trim();
        if !trimmed.is_empty() {
            let leading = piece.len() - piece.trim_start().len();
            let byte = start + leading;
            let char = chars_before + piece.get(..leading).map_or(0, |space| space.chars().count());
            let chars = TextSpan { start: char, end: char + trimmed.chars().count() };
            found.push(Sentence { text: trimmed, bytes: byte..byte + trimmed.len(), chars });
        }
        chars_before += piece.chars().count();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_exact_in_every_script() {
        let text = "  Grüße! How are you?\nFine.  你好世界。今天天气很好！";
        let found = sentences(text);
        let texts: Vec<&str> = found.iter().map(|sentence| sentence.text).collect();
        assert_eq!(texts, ["Grüße!", "How are you?", "Fine.", "你好世界。", "今天天气很好！"]);
        let chars: Vec<char> = text.chars().collect();
        for sentence in &found {
            assert_eq!(&text[sentence.bytes.clone()], sentence.text);
            let by_chars: String = chars[sentence.chars.start..sentence.chars.end].iter().collect();
            assert_eq!(by_chars, sentence.text);
        }
        assert_eq!(sentences(" \n "), []);
    }
}
