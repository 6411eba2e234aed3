//! Where words are: Unicode's boundaries, and pairs of characters where there are no spaces to go by.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

/// A piece of text that can become a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Segment<'a> {
    /// A word of a script with spaces; never empty, never with an apostrophe.
    Word(&'a str),
    /// Two adjacent characters of a script without spaces, or a lone one.
    Pair(&'a str),
}

/// Hands on the segments of a case-folded text, from left to right. O(length).
///
/// Words are those of UAX 29, cut at apostrophes: `l'homme` is found by `homme`, and what remains of `don't` is a stop
/// word. Runs of Han, kana, Hangul, Thai, Lao, Khmer and Burmese characters become overlapping pairs, as in Lucene's
/// CJKAnalyzer: no dictionary is needed, and a word of the query is found wherever its characters stand together.
pub(super) fn each_segment<'a>(text: &'a str, mut take: impl FnMut(Segment<'a>)) {
    // The last run of characters without spaces; it may go on in the next word.
    let mut run = 0..0;
    for (offset, word) in text.unicode_word_indices() {
        for piece in pieces(word) {
            let range = offset + piece.start..offset + piece.end;
            let Some(part) = text.get(range.clone()) else { continue };
            if part.starts_with(is_unspaced) {
                if run.end == range.start && !run.is_empty() {
                    run.end = range.end;
                } else {
                    each_pair(text.get(run).unwrap_or_default(), &mut take);
                    run = range;
                }
            } else {
                each_pair(text.get(std::mem::take(&mut run)).unwrap_or_default(), &mut take);
                let words = part.split(['\'', '’']);
                words.filter(|word| word.contains(char::is_alphanumeric)).for_each(|word| take(Segment::Word(word)));
            }
        }
    }
    each_pair(text.get(run).unwrap_or_default(), &mut take);
}

/// Cuts a word where a script without spaces begins or ends: UAX 29 keeps `iphone용` together.
fn pieces(word: &str) -> Vec<Range<usize>> {
    let mut pieces: Vec<Range<usize>> = Vec::with_capacity(1);
    let mut last_is_unspaced = None;
    for (start, character) in word.char_indices() {
        let end = start + character.len_utf8();
        let unspaced = is_unspaced(character);
        match pieces.last_mut() {
            Some(piece) if last_is_unspaced == Some(unspaced) => piece.end = end,
            _ => pieces.push(start..end),
        }
        last_is_unspaced = Some(unspaced);
    }
    pieces
}

fn each_pair<'a>(run: &'a str, take: &mut impl FnMut(Segment<'a>)) {
    let starts = run.char_indices().map(|(start, _)| start);
    let second = starts.clone().skip(1);
    let mut ends = starts.clone().skip(2).chain([run.len()]);
    let mut pairs = 0;
    for (start, _) in starts.zip(second) {
        let end = ends.next().unwrap_or(run.len());
        run.get(start..end).into_iter().for_each(|pair| take(Segment::Pair(pair)));
        pairs += 1;
    }
    if pairs == 0 && !run.is_empty() {
        take(Segment::Pair(run));
    }
}

/// Is it of a script that is written without spaces, or (Korean) with endings that spaces do not show?
fn is_unspaced(character: char) -> bool {
    matches!(character,
        // Thai, Lao
        '\u{e00}'..='\u{eff}'
        // Burmese, Hangul letters, Khmer
        | '\u{1000}'..='\u{109f}' | '\u{1100}'..='\u{11ff}' | '\u{1780}'..='\u{17ff}'
        // The mark that repeats a character, and zero
        | '々' | '〇'
        // Hiragana and Katakana, without the dot between words; Bopomofo; small Katakana
        | '\u{3041}'..='\u{30fa}' | '\u{30fc}'..='\u{312f}' | '\u{31f0}'..='\u{31ff}'
        // Han
        | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}'
        // Hangul syllables
        | '\u{a960}'..='\u{a97f}' | '\u{ac00}'..='\u{d7ff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as they are, pairs in brackets.
    fn segments(text: &str) -> Vec<String> {
        let mut segments = Vec::new();
        each_segment(text, |segment| {
            segments.push(match segment {
                Segment::Word(word) => word.to_owned(),
                Segment::Pair(pair) => format!("[{pair}]"),
            });
        });
        segments
    }

    #[test]
    fn words_are_cut_at_spaces_marks_and_apostrophes() {
        assert_eq!(segments("the quick, brown-fox: 3.14 (c++)"), ["the", "quick", "brown", "fox", "3.14", "c"]);
        assert_eq!(segments("l'homme don’t 'quoted'"), ["l", "homme", "don", "t", "quoted"]);
        assert_eq!(segments("snake_case a.b"), ["snake_case", "a.b"]);
        assert_eq!(segments(" \n…!' 🙂"), [] as [&str; 0]);
    }

    #[test]
    fn scripts_without_spaces_become_pairs() {
        assert_eq!(segments("東京都"), ["[東京]", "[京都]"]);
        assert_eq!(segments("水"), ["[水]"]);
        assert_eq!(segments("水、火"), ["[水]", "[火]"]);
        assert_eq!(segments("コーヒーを飲む"), ["[コー]", "[ーヒ]", "[ヒー]", "[ーを]", "[を飲]", "[飲む]"]);
        assert_eq!(segments("서울 도시"), ["[서울]", "[도시]"]);
        assert_eq!(segments("ไทย"), ["[ไท]", "[ทย]"]);
        assert_eq!(segments("𠮷野家"), ["[𠮷野]", "[野家]"]);
    }

    #[test]
    fn scripts_that_touch_are_parted() {
        assert_eq!(
            segments("iphone용 abc漢字def 第3章"),
            ["iphone", "[용]", "abc", "[漢字]", "def", "[第]", "3", "[章]"]
        );
    }
}
