//! The headings of a Markdown text.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use crate::structure::Heading;

/// The headings of a Markdown text by CommonMark's rules, in order: with `#` marks or underlined, but not within a code block, a list
/// or a quotation, nor within front matter. O(text).
///
/// A title is as it is written (`` The `toller` ``), without the marks that make it a heading, and on one line.
pub fn markdown_headings(text: &str) -> Vec<Heading> {
    let options = Options::ENABLE_YAML_STYLE_METADATA_BLOCKS | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    let mut headings = Vec::new();
    let mut depth = 0_usize;
    let mut title: Option<Range<usize>> = None;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        match &event {
            Event::End(TagEnd::Heading(level)) if depth == 1 => {
                let within = title.take().and_then(|title| text.get(title)).unwrap_or_default();
                headings.push(Heading {
                    level: *level as u8,
                    title: within.split_whitespace().collect::<Vec<_>>().join(" "),
                    bytes: lines(text, &range),
                });
            }
            Event::Start(Tag::Heading { .. }) | Event::End(_) => {}
            _ => {
                let begun = title.get_or_insert_with(|| range.clone());
                begun.end = begun.end.max(range.end);
            }
        }
        match event {
            Event::Start(Tag::Heading { .. }) => {
                title = None;
                depth += 1;
            }
            Event::Start(_) => depth += 1,
            Event::End(_) => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    headings
}

/// The whole lines of a heading: its indentation is of them, the last line end is not.
fn lines(text: &str, range: &Range<usize>) -> Range<usize> {
    let before = text.get(..range.start).unwrap_or_default();
    let start = before.trim_end_matches([' ', '\t']).len();
    let upto = text.get(..range.end).unwrap_or_default();
    let line_end = upto.trim_end_matches(['\r', '\n']).len();
    start..line_end.max(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headings(text: &str) -> Vec<(u8, String, String)> {
        let found = markdown_headings(text);
        found.into_iter().map(|heading| (heading.level, heading.title, text[heading.bytes].to_owned())).collect()
    }

    #[test]
    fn both_kinds_of_headings_are_found() {
        for (text, level, title, lines) in [
            ("text\n# The `toller` *dog*\n", 1, "The `toller` *dog*", "# The `toller` *dog*"),
            ("  ## B ##\r\n", 2, "B", "  ## B ##"),
            ("#\tA", 1, "A", "#\tA"),
            ("###\n", 3, "", "###"),
            ("one\ntwo\n===\nbody", 1, "one two", "one\ntwo\n==="),
            ("x\n---\n", 2, "x", "x\n---"),
            ("# [a](b) c\n\n\n", 1, "[a](b) c", "# [a](b) c"),
        ] {
            assert_eq!(headings(text), [(level, title.to_owned(), lines.to_owned())], "{text:?}");
        }
    }

    #[test]
    fn what_looks_like_a_heading_is_not_always_one() {
        for text in [
            "```\n# code\n```\n",
            "````\n```\n# code\n```\n````\n",
            "    # code\n",
            "> # quoted\n",
            "- # item\n",
            "#none\n",
            "####### seven\n",
            "---\ntitle: # a\n---\n",
            "```\n# never closed\n",
            "",
        ] {
            assert_eq!(headings(text), [], "{text:?}");
        }
    }
}
