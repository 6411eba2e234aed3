//! The outline of a reStructuredText: its title and its sections.

use unicode_segmentation::UnicodeSegmentation;

use crate::structure::{Heading, Structure};

/// Levels of headings that structures know.
const HEADING_LEVELS: usize = 6;

/// Title and structure of a reStructuredText: the text of its first section title, the section titles as levels and headings,
/// and as last level the blocks that blank lines separate at the margin.
///
/// A section title is a line of text with a line of one punctuation mark under it that is at least as long, and perhaps the
/// same above it; its level follows from the order in which such styles are first used. O(n).
pub(crate) fn outline(text: &str) -> (Option<String>, Structure) {
    let mut levels = vec![Vec::new(); HEADING_LEVELS + 1];
    let mut headings: Vec<Heading> = Vec::new();
    let mut styles: Vec<(char, bool)> = Vec::new();
    // Of the two lines before: where they begin, and what they are without their end.
    let mut before_last: Option<(usize, &str)> = None;
    let mut last: Option<(usize, &str)> = None;
    let mut start = 0;
    for whole_line in text.split_inclusive('\n') {
        let line = whole_line.trim_end();
        let after_blank = last.is_none_or(|(_, line)| line.is_empty());
        let at_margin = line.starts_with(|character: char| !character.is_whitespace());
        if after_blank
            && at_margin
            && let Some(blocks) = levels.last_mut()
        {
            blocks.push(start);
        }
        if let Some(mark) = adornment(line)
            && let Some((title_start, title_line)) = last
            && is_title(title_line, line)
        {
            let over = before_last.filter(|(_, over)| adornment(over) == Some(mark) && spans(over, title_line));
            let style = (mark, over.is_some());
            let level = styles.iter().position(|known| *known == style).unwrap_or_else(|| {
                styles.push(style);
                styles.len() - 1
            });
            let level = level.min(HEADING_LEVELS - 1);
            let heading_start = over.map_or(title_start, |(over_start, _)| over_start);
            if let Some(places) = levels.get_mut(level) {
                places.push(heading_start);
            }
            headings.push(Heading {
                level: u8::try_from(level + 1).unwrap_or(u8::MAX),
                title: title_line.trim().to_owned(),
                bytes: heading_start..start + line.len(),
            });
            // A line is the adornment of one title only.
            (before_last, last) = (None, None);
        } else {
            (before_last, last) = (last, Some((start, line)));
        }
        start += whole_line.len();
    }
    let title = headings.first().map(|heading| heading.title.clone());
    (title, Structure::new(levels).with_headings(headings))
}

/// The mark of a line that consists of one punctuation mark, at least twice.
fn adornment(line: &str) -> Option<char> {
    let mark = line.chars().next().filter(char::is_ascii_punctuation)?;
    (line.len() >= 2 && line.chars().all(|character| character == mark)).then_some(mark)
}

fn is_title(title: &str, under: &str) -> bool {
    let is_text = !title.trim().is_empty() && adornment(title).is_none();
    is_text && under.len() >= 3 && spans(under, title)
}

/// Is an adornment, which is ASCII, at least as long as a title seems? Wide letters, which take the place of two, count as one: docutils takes
/// shorter lines too, with a warning.
fn spans(adornment: &str, title: &str) -> bool {
    title.trim_end().graphemes(true).take(adornment.len() + 1).count() <= adornment.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_are_levels_in_the_order_of_their_use() {
        let text = "=====\nGuide\n=====\n\nIntro.\n\nInstall\n-------\n\nRun.\n\nLinux\n~~~~~\n\nUse it.\n\nAsk\n---\n\nNow.\n";
        let (title, structure) = outline(text);
        assert_eq!(title.as_deref(), Some("Guide"));
        let seen: Vec<_> = structure
            .headings()
            .iter()
            .map(|heading| (heading.level, heading.title.as_str(), &text[heading.bytes.clone()]))
            .collect();
        assert_eq!(
            seen,
            [
                (1, "Guide", "=====\nGuide\n====="),
                (2, "Install", "Install\n-------"),
                (3, "Linux", "Linux\n~~~~~"),
                (2, "Ask", "Ask\n---"),
            ]
        );
        assert_eq!(structure.levels()[1], [text.find("Install").unwrap(), text.find("Ask").unwrap()]);
        assert!(structure.levels()[HEADING_LEVELS].contains(&text.find("Use it").unwrap()));
    }

    #[test]
    fn letters_count_and_not_their_bytes() {
        for title in ["Überblick", "U\u{308}berblick", "概要とその説明です"] {
            let text = format!("=========\n{title}\n=========\n\nText.\n\nPart\n====\n");
            let structure = outline(&text).1;
            let seen: Vec<_> =
                structure.headings().iter().map(|heading| (heading.level, heading.bytes.start)).collect();
            assert_eq!(seen, [(1, 0), (2, text.find("Part").unwrap())], "{title}");
        }
        // What is over it is too short, and so no part of it.
        let short = outline("========\nÜberblick\n=========\n").1;
        assert_eq!(short.headings()[0].bytes.start, 9);
    }

    #[test]
    fn what_only_looks_like_a_title_is_none() {
        for text in ["====\n----\n", "A title that is longer\n---\n", "text\n\n----\n\ntext", "  ", "---", "\n===\n"] {
            assert_eq!(outline(text).0, None, "{text:?}");
        }
    }

    #[test]
    fn line_ends_of_two_characters_are_no_part() {
        let text = "Title\r\n=====\r\ntext";
        let structure = outline(text).1;
        assert_eq!(structure.headings()[0].title, "Title");
        assert_eq!(&text[structure.headings()[0].bytes.clone()], "Title\r\n=====");
    }
}
