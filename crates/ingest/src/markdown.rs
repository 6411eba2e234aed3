//! The outline of a Markdown text: its title, its headings, and where its sections and blocks begin.

use std::ops::Range;

use pulldown_cmark::{Event, MetadataBlockKind, Options, Parser, Tag, TagEnd};

use crate::structure::{Heading, Structure};
use crate::whitespace;

/// Heading levels of Markdown.
const HEADING_LEVELS: usize = 6;

/// Title and structure of a Markdown text.
///
/// The title is that of the front matter (YAML between `---`, TOML between `+++`), else the text of the first heading. The
/// structure has one level for each heading level, then one for all other blocks that stand in no other block, so that a list, a
/// table or a code block is cut only when it alone is too long for a chunk. What looks like a heading inside a code block,
/// a list or a quotation is none. Headings have their titles as they are written (`` The `toller` ``), on one line and without
/// the marks that make them headings. O(text).
pub(crate) fn outline(text: &str) -> (Option<String>, Structure) {
    let options = Options::ENABLE_YAML_STYLE_METADATA_BLOCKS | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    let mut levels = vec![Vec::new(); HEADING_LEVELS + 1];
    let mut depth = 0_usize;
    let mut front_matter = None;
    let mut front_matter_title = None;
    let mut first_title = None;
    let mut headings: Vec<Heading> = Vec::new();
    let mut heading: Option<Begun> = None;
    for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
        if depth == 0 && matches!(event, Event::Start(_) | Event::Rule | Event::Html(_)) {
            let level = match &event {
                Event::Start(Tag::Heading { level, .. }) => *level as usize - 1,
                _ => HEADING_LEVELS,
            };
            if let Some(places) = levels.get_mut(level) {
                places.push(line_start(text, range.start));
            }
        }
        if let (Some(heading), false) = (&mut heading, matches!(event, Event::End(TagEnd::Heading(_)))) {
            heading.holds(&range);
        }
        match event {
            Event::Start(tag) => {
                depth += 1;
                match tag {
                    Tag::Heading { .. } if depth == 1 => heading = Some(Begun::default()),
                    Tag::MetadataBlock(kind) => front_matter = Some(kind),
                    _ => {}
                }
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                match tag {
                    TagEnd::Heading(level) if depth == 0 => {
                        let Begun { written, plain } = heading.take().unwrap_or_default();
                        let written = text.get(written).unwrap_or_default();
                        let plain = plain.trim_matches(whitespace::is_space);
                        if !plain.is_empty() {
                            first_title.get_or_insert_with(|| plain.to_owned());
                        }
                        headings.push(Heading {
                            level: level as u8,
                            title: written.split_whitespace().collect::<Vec<_>>().join(" "),
                            bytes: line_start(text, range.start)..line_end(text, range),
                        });
                    }
                    TagEnd::MetadataBlock(_) => front_matter = None,
                    _ => {}
                }
            }
            Event::Text(part) | Event::Code(part) => match front_matter {
                Some(kind) => front_matter_title = front_matter_title.or_else(|| metadata_title(&part, kind)),
                None => append(&mut heading, &part),
            },
            Event::SoftBreak | Event::HardBreak => append(&mut heading, " "),
            _ => {}
        }
    }
    (front_matter_title.or(first_title), Structure::new(levels).with_headings(headings))
}

/// A heading whose end did not come yet.
#[derive(Default)]
struct Begun {
    /// Where what it holds is written; empty as long as it holds nothing.
    written: Range<usize>,
    /// What it says, without emphasis and such.
    plain: String,
}

impl Begun {
    fn holds(&mut self, part: &Range<usize>) {
        if self.written.is_empty() {
            self.written.start = part.start;
        }
        self.written.end = self.written.end.max(part.end);
    }
}

fn append(heading: &mut Option<Begun>, part: &str) {
    if let Some(heading) = heading {
        heading.plain.push_str(part);
    }
}

/// The title in a front matter: a `title` at its top level, plain or quoted on one line. Other forms of YAML give none.
fn metadata_title(metadata: &str, kind: MetadataBlockKind) -> Option<String> {
    let assigns = match kind {
        MetadataBlockKind::YamlStyle => ':',
        MetadataBlockKind::PlusesStyle => '=',
    };
    let value = metadata.lines().find_map(|line| {
        let (name, value) = line.split_once(assigns)?;
        (name.trim_end() == "title").then_some(value.trim())
    })?;
    let title = match value.chars().next()? {
        quote @ ('"' | '\'') => {
            let inner = value.get(1..)?;
            inner.get(..inner.find(quote)?)?
        }
        '|' | '>' | '[' | '{' | '&' | '*' | '!' => return None,
        _ => value.split(" #").next()?,
    };
    let title = title.trim();
    (!title.is_empty()).then(|| title.to_owned())
}

/// Where the line of a block begins: the indentation before it is of the block.
fn line_start(text: &str, offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or_default();
    before.trim_end_matches([' ', '\t']).len()
}

/// Where the last line of a block ends, its line end left out.
fn line_end(text: &str, block: Range<usize>) -> usize {
    let lines = text.get(block.clone()).unwrap_or_default();
    block.start + lines.trim_end_matches(['\n', '\r']).len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recursive::RecursiveSplitter;
    use crate::splitter::Splitter;

    fn title(text: &str) -> Option<String> {
        outline(text).0
    }

    #[test]
    fn titles() {
        for (text, expected) in [
            ("# The `toller` *dog*\n\ntext", Some("The toller dog")),
            ("text\n\nTitle\nof two lines\n====\n", Some("Title of two lines")),
            ("#\n\n## Second\n", Some("Second")),
            ("```\n# code\n```\n", None),
            ("> # quoted\n", None),
            ("---\ntitle: From YAML # why\ntags: [a]\n---\n# Heading\n", Some("From YAML")),
            ("---\ntitle: \"It's: quoted\"\n---\n", Some("It's: quoted")),
            ("---\nauthor: me\nnested:\n  title: no\n---\n# Heading\n", Some("Heading")),
            ("---\ntitle: >\n  folded\n---\n# Heading\n", Some("Heading")),
            ("+++\ntitle = 'From TOML'\n+++\n", Some("From TOML")),
            ("no heading", None),
            ("", None),
        ] {
            assert_eq!(title(text).as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn places_are_line_starts_of_top_level_blocks() {
        let text = "# A\n\npara\n\n  ## B\n- # in a list\n- x\n\n    code\n\n```\n## fenced\n```\n\nC\n-\n***\n";
        let structure = outline(text).1;
        let at = |needle: &str| text.find(needle).unwrap();
        assert_eq!(structure.levels()[0], [0]);
        assert_eq!(structure.levels()[1], [at("  ## B"), at("C\n-")]);
        let blocks = &structure.levels()[HEADING_LEVELS];
        for needle in ["para", "- # in", "```", "***"] {
            assert!(blocks.contains(&at(needle)), "{needle} in {blocks:?}");
        }
        assert!(!blocks.contains(&at("## fenced")));
    }

    #[test]
    fn headings_know_their_lines() {
        let text = "# The `toller` *dog* #\n\n> # quoted\n\nOf two\nlines\n----\n\n###\n\n   #### last";
        let (title, structure) = outline(text);
        assert_eq!(title.as_deref(), Some("The toller dog"));
        let seen: Vec<_> = structure
            .headings()
            .iter()
            .map(|heading| (heading.level, heading.title.as_str(), &text[heading.bytes.clone()]))
            .collect();
        assert_eq!(
            seen,
            [
                (1, "The `toller` *dog*", "# The `toller` *dog* #"),
                (2, "Of two lines", "Of two\nlines\n----"),
                (3, "", "###"),
                (4, "last", "   #### last"),
            ]
        );
    }

    fn headings(text: &str) -> Vec<(u8, String, String)> {
        let structure = outline(text).1;
        let found = structure.headings().iter();
        found.map(|heading| (heading.level, heading.title.clone(), text[heading.bytes.clone()].to_owned())).collect()
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

    #[test]
    fn chunks_begin_at_headings_and_keep_blocks_whole() {
        let text = "# Guide\n\nIntro.\n\n## Install\n\nRun this:\n\n```sh\nmake setup\n\n# not a heading\nmake demo\n```\n\n## Use\n\nAsk.\n";
        let splitter = RecursiveSplitter::builder().chunk_size(50).chunk_overlap(0).build().unwrap();
        let chunks: Vec<&str> =
            splitter.split_structured(text, &outline(text).1).unwrap().into_iter().map(|chunk| chunk.text).collect();
        assert_eq!(
            chunks,
            [
                "# Guide\n\nIntro.",
                "## Install\n\nRun this:",
                "```sh\nmake setup\n\n# not a heading\nmake demo\n```",
                "## Use\n\nAsk."
            ]
        );
    }
}
