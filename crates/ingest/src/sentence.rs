//! Whole sentences.

use crate::cascade::{Level, Merged, Rules, cascade};
use crate::error::Error;
use crate::length::Length;
use crate::recursive::check_size;
use crate::sentence_starts::sentence_starts;
use crate::separator::KeepSeparator;
use crate::splitter::{Chunk, Splitter};
use crate::strip::Strip;
use crate::structure::Structure;

/// Merges whole sentences into chunks, with overlap of whole sentences.
///
/// Sentences are those of Unicode annex 29 (。！？ end them as . ! ? do); titles such as `Dr.` end none, nor does a line end before a
/// lower-case letter. A sentence that is longer than the chunk size is a chunk. Where the text has structure, its sections and blocks are
/// merged first, and their sentences only where they are longer than a chunk.
///
/// A sentence is repeated whole or not at all, and a short rest at the end is a chunk like any other, so that no text is in three
/// chunks and no overlap twice in one.
///
/// Cost: O(text), plus the total length of the chunks.
#[derive(Debug, Clone)]
pub struct SentenceSplitter {
    rules: Rules,
}

impl SentenceSplitter {
    /// Chunks of at most `chunk_size` code points, at least 1, that repeat at most `chunk_overlap` of the one before, 0 to the size.
    ///
    /// # Errors
    /// Names the parameter that is out of its range.
    pub fn new(chunk_size: usize, chunk_overlap: usize) -> Result<Self, Error> {
        check_size(chunk_size, chunk_overlap)?;
        let rules = Rules {
            chunk_size,
            chunk_overlap,
            length: Length::CodePoints,
            keep_separator: KeepSeparator::Start,
            strip: Strip::Whitespace,
            merged: Merged::FittingStripped,
        };
        Ok(Self { rules })
    }
}

impl SentenceSplitter {
    /// The chunks, and the steps it took.
    fn run<'t>(&self, text: &'t str, structure: &Structure) -> Result<(Vec<Chunk<'t>>, u64), Error> {
        let sentences = sentence_starts(text);
        let places = structure.levels().iter().map(|places| Level::Places(places));
        let levels: Vec<Level<'_>> = places.chain([Level::Places(&sentences)]).collect();
        cascade(text, &levels, &self.rules)
    }
}

impl Splitter for SentenceSplitter {
    fn split_structured<'t>(&self, text: &'t str, structure: &Structure) -> Result<Vec<Chunk<'t>>, Error> {
        Ok(self.run(text, structure)?.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(size: usize, overlap: usize, text: &str) -> Vec<String> {
        let splitter = SentenceSplitter::new(size, overlap).unwrap();
        let chunks = splitter.split(text).unwrap();
        assert!(chunks.iter().all(|chunk| text[chunk.bytes.clone()] == *chunk.text));
        chunks.into_iter().map(|chunk| chunk.text.to_owned()).collect()
    }

    #[test]
    fn sentences_are_merged_and_repeated_whole() {
        let text = "This is one. This is two. This is three. This is four.";
        assert_eq!(texts(26, 0, text), ["This is one. This is two.", "This is three.", "This is four."]);
        assert_eq!(
            texts(30, 15, text),
            ["This is one. This is two.", "This is two. This is three.", "This is three. This is four."]
        );
    }

    #[test]
    fn a_short_rest_repeats_no_overlap() {
        assert_eq!(texts(11, 4, "Aa. Bb. Cc. Dd. Ee. Ff."), ["Aa. Bb. Cc.", "Cc. Dd. Ee.", "Ee. Ff."]);
    }

    #[test]
    fn a_sentence_is_never_cut() {
        assert_eq!(texts(5, 0, "A long sentence. No."), ["A long sentence.", "No."]);
        assert_eq!(texts(8, 0, "你好世界。今天天气很好。好！"), ["你好世界。", "今天天气很好。", "好！"]);
    }

    #[test]
    fn sections_come_before_sentences() {
        let text = "One. Two.\n# B\nThree. Four.";
        let structure = Structure::new(vec![vec![10]]);
        let chunks = SentenceSplitter::new(20, 0).unwrap().split_structured(text, &structure).unwrap();
        let seen: Vec<&str> = chunks.iter().map(|chunk| chunk.text).collect();
        assert_eq!(seen, ["One. Two.", "# B\nThree. Four."]);
    }

    #[test]
    fn cost_is_linear_in_the_text() {
        for unit in ["x", " ", "lorem ipsum. ", "\n", "今天天气很好。", " \u{301}\u{301}", "🇫🇷", ". "] {
            let steps = |bytes: usize| {
                let text = unit.repeat(bytes / unit.len());
                SentenceSplitter::new(100, 15).unwrap().run(&text, &Structure::default()).unwrap().1
            };
            let (once, twice) = (steps(100_000), steps(200_000));
            assert!(twice <= once * 2 + once / 10, "{unit:?}: {once} steps for n, {twice} for 2n");
        }
    }

    #[test]
    fn parameters_are_checked_by_name() {
        assert_eq!(SentenceSplitter::new(0, 0).unwrap_err().to_string(), "chunk_size: must be at least 1, got 0");
    }
}
