//! Where the sentences of a text begin.

use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use crate::grapheme::GraphemeFinder;
use crate::whitespace;

/// Abbreviations that a name follows: the sentence goes on.
const TITLES: [&str; 22] = [
    "Mr.", "Mrs.", "Ms.", "Dr.", "Prof.", "St.", "Rev.", "Gen.", "Col.", "Capt.", "Lt.", "Sgt.", "Gov.", "Sen.",
    "Rep.", "Hon.", "vs.", "e.g.", "i.e.", "cf.", "approx.", "Mme.",
];

/// Abbreviations after which the sentence goes on when a number follows.
const NUMBERED: [&str; 11] = ["No.", "Nos.", "Fig.", "Figs.", "Eq.", "Sec.", "Ch.", "Vol.", "Art.", "p.", "pp."];

/// Most characters in a row that are neither letters nor digits and that a sentence may have; a ruler or a gap that is longer ends
/// it. Without a limit the segmentation would look ahead over the whole run from every place in it.
const MAX_RUN: usize = 32;

/// Where the sentences of a text begin, in bytes, ascending; the first is 0 unless the text is empty. O(text).
///
/// Sentences are those of Unicode annex 29, so that the marks of Chinese and Japanese (。！？) end them too; but a title such as `Dr.`
/// ends none, nor does a line end in the midst of one, before a lower-case letter. Whitespace after a sentence is of it.
pub(crate) fn sentence_starts(text: &str) -> Vec<usize> {
    let mut starts: Vec<usize> = Vec::new();
    for stretch in stretches(text) {
        for (at, part) in text.get(stretch.clone()).unwrap_or_default().split_sentence_bound_indices() {
            let start = stretch.start + at;
            let goes_on = starts.last().is_some_and(|last| {
                let before = text.get(*last..start).unwrap_or_default();
                is_blank(part) || is_blank(before) || is_abbreviation(before, part) || is_broken_line(before, part)
            });
            if !goes_on {
                starts.push(start);
            }
        }
    }
    starts
}

/// The text in stretches, none of which has a run of more than [`MAX_RUN`] characters that are neither letters nor digits.
fn stretches(text: &str) -> Vec<Range<usize>> {
    let mut graphemes = GraphemeFinder::new(text);
    let mut stretches = Vec::new();
    let (mut start, mut run) = (0, 0);
    for (at, character) in text.char_indices() {
        if character.is_alphanumeric() {
            run = 0;
            continue;
        }
        run += 1;
        if run > MAX_RUN && graphemes.around(at, start).start == at {
            stretches.push(start..at);
            (start, run) = (at, 0);
        }
    }
    stretches.push(start..text.len());
    stretches
}

fn is_blank(part: &str) -> bool {
    part.chars().all(whitespace::is_space)
}

fn is_abbreviation(before: &str, after: &str) -> bool {
    let trimmed = before.trim_end_matches(whitespace::is_space);
    let is_same_line = !before.get(trimmed.len()..).unwrap_or_default().contains('\n');
    let word = trimmed.rsplit(|character: char| !character.is_alphanumeric() && character != '.').next();
    is_same_line
        && word.is_some_and(|word| {
            TITLES.contains(&word) || NUMBERED.contains(&word) && after.starts_with(|c: char| c.is_ascii_digit())
        })
}

/// Does one line end, and no sentence, stand between a line and a lower-case letter?
fn is_broken_line(before: &str, after: &str) -> bool {
    let trimmed = before.trim_end_matches(whitespace::is_space);
    let gap = before.get(trimmed.len()..).unwrap_or_default();
    let is_one_line_end = gap.matches('\n').count() == 1;
    let is_over = trimmed.ends_with(['.', '!', '?', '…', '。', '！', '？', ':', ';']);
    is_one_line_end && !is_over && after.starts_with(char::is_lowercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences(text: &str) -> Vec<&str> {
        let starts = sentence_starts(text);
        let ends = starts.iter().copied().skip(1).chain([text.len()]);
        starts.iter().zip(ends).map(|(start, end)| &text[*start..end]).collect()
    }

    #[test]
    fn sentences_end_at_their_marks() {
        for (text, expected) in [
            ("One. Two! Three?  Four", vec!["One. ", "Two! ", "Three?  ", "Four"]),
            ("He said \"No.\" She left.", vec!["He said \"No.\" ", "She left."]),
            ("Version 1.5 is out. Good.", vec!["Version 1.5 is out. ", "Good."]),
            ("你好世界。今天天气很好！我们去吗？好", vec!["你好世界。", "今天天气很好！", "我们去吗？", "好"]),
            ("Ask Dr. Smith. See Fig. 3 and e.g. Rex.", vec!["Ask Dr. Smith. ", "See Fig. 3 and e.g. Rex."]),
            ("He said No. She left.", vec!["He said No. ", "She left."]),
            (
                "a broken\nline of text\nA new one\n\nand another",
                vec!["a broken\nline of text\n", "A new one\n\n", "and another"],
            ),
            ("  \n Lead. End. \n ", vec!["  \n Lead. ", "End. \n "]),
            ("", vec![]),
        ] {
            assert_eq!(sentences(text), expected);
        }
    }

    #[test]
    fn a_long_run_ends_a_sentence() {
        let ruler = "-".repeat(40);
        let text = format!("a {ruler} b");
        assert_eq!(sentences(&text).concat(), text);
        assert_eq!(sentences(&text).len(), 2);
    }

    #[test]
    fn long_runs_cost_no_more_than_other_text() {
        // Looking ahead over all of these from every place would take minutes.
        for unit in [". ", ".)", " ", "\"", ".\u{301}", "。", "- "] {
            let text = format!("End.{}", unit.repeat(1_000_000 / unit.len()));
            assert_eq!(sentences(&text).concat().len(), text.len(), "{unit:?}");
        }
    }
}
