//! Overlap between all neighbours, made after the cutting.

use crate::grapheme::GraphemeFinder;
use crate::length::Measure;
use crate::splitter::Chunk;
use crate::whitespace;

/// Lets every chunk but the first begin earlier, by at most `overlap` units: at the first word that begins within them, or at the
/// first grapheme where no word does.
///
/// Starts stay in order. O(text), plus what is added to the chunks.
pub(crate) fn extend_back<'t>(text: &'t str, chunks: &mut [Chunk<'t>], overlap: usize, measure: &Measure) {
    let mut graphemes = GraphemeFinder::new(text);
    let starts: Vec<usize> = chunks.iter().map(|chunk| chunk.bytes.start).collect();
    let mut reached = 0;
    let mut previous_start = starts.first().copied().unwrap_or(0);
    for chunk in chunks.iter_mut().skip(1) {
        let start = chunk.bytes.start;
        // Whitespace that was stripped from the chunk before is not given back to this one.
        let farthest = measure.back(text, start, overlap).max(previous_start);
        // The last chunk that begins at or before the farthest place begins between two graphemes: from there on they are known.
        while starts.get(reached + 1).is_some_and(|next| *next <= farthest) {
            reached += 1;
        }
        let known = starts.get(reached).copied().filter(|known| *known <= farthest).unwrap_or(0);
        let within = text.get(farthest..start).unwrap_or_default();
        let mut is_after_space = text.get(..farthest).is_none_or(|before| before.ends_with(whitespace::is_space));
        let mut first_word = None;
        for (at, character) in within.char_indices() {
            let is_space = whitespace::is_space(character);
            let place = farthest + at;
            if is_after_space && !is_space && graphemes.around(place, known).start == place {
                first_word = Some(place);
                break;
            }
            is_after_space = is_space;
        }
        let new_start = first_word.unwrap_or_else(|| graphemes.around(farthest, known).end.min(start));
        chunk.chars.start -= text.get(new_start..start).unwrap_or_default().chars().count();
        chunk.bytes.start = new_start;
        previous_start = new_start;
        chunk.text = text.get(new_start..chunk.bytes.end).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::SpanChunks;
    use crate::strip::Strip;
    use toller_core::Metadata;

    fn extended(text: &str, cuts: &[usize], overlap: usize) -> Vec<String> {
        let mut spans = SpanChunks::new(text, Strip::Whitespace);
        for pair in cuts.windows(2) {
            spans.push(pair[0]..pair[1], Metadata::new());
        }
        let mut chunks = spans.finish();
        extend_back(text, &mut chunks, overlap, &Measure::CodePoints);
        assert!(chunks.iter().all(|chunk| text[chunk.bytes.clone()] == *chunk.text));
        assert!(chunks.iter().all(|chunk| chunk.chars.len() == chunk.text.chars().count()));
        chunks.into_iter().map(|chunk| chunk.text.to_owned()).collect()
    }

    #[test]
    fn overlap_begins_at_a_word() {
        assert_eq!(extended("one two three four", &[0, 8, 18], 6), ["one two", "two three four"]);
        assert_eq!(extended("one two three four", &[0, 8, 18], 3), ["one two", "wo three four"]);
        assert_eq!(extended("one two three four", &[0, 8, 18], 0), ["one two", "three four"]);
    }

    #[test]
    fn overlap_begins_at_a_grapheme() {
        assert_eq!(extended("今天天气很好", &[0, 9, 18], 2), ["今天天", "天天气很好"]);
        assert_eq!(extended("abe\u{301}cd", &[0, 5, 7], 1), ["abe\u{301}", "cd"], "half a grapheme is none");
        assert_eq!(extended("abe\u{301}cd", &[0, 5, 7], 2), ["abe\u{301}", "e\u{301}cd"]);
    }
}
