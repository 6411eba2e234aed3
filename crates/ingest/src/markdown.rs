//! The outline of a Markdown text: its title, and where its sections and blocks begin.

use pulldown_cmark::{Event, MetadataBlockKind, Options, Parser, Tag, TagEnd};

use crate::structure::Structure;
use crate::whitespace;

/// Heading levels of Markdown.
const HEADING_LEVELS: usize = 6;

/// Title and structure of a Markdown text.
///
/// The title is that of the front matter (YAML between `---`, TOML between `+++`), else the text of the first heading. The
/// structure has one level for each heading level, then one for all other blocks that stand in no other block, so that a list, a
/// table or a code block is cut only when it alone is too long for a chunk. What looks like a heading inside a code block,
/// a list or a quotation is none.
pub(crate) fn outline(text: &str) -> (Option<String>, Structure) {
    let options = Options::ENABLE_YAML_STYLE_METADATA_BLOCKS | Options::ENABLE_PLUSES_DELIMITED_METADATA_BLOCKS;
    let mut levels = vec![Vec::new(); HEADING_LEVELS + 1];
    let mut depth = 0_usize;
    let mut front_matter = None;
    let mut front_matter_title = None;
    let mut heading = FirstHeading::NotYet;
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
        match event {
            Event::Start(tag) => {
                depth += 1;
                match tag {
                    Tag::Heading { .. } if depth == 1 => heading = heading.begin(),
                    Tag::MetadataBlock(kind) => front_matter = Some(kind),
                    _ => {}
                }
            }
            Event::End(tag) => {
                depth = depth.saturating_sub(1);
                match tag {
                    TagEnd::Heading(_) if depth == 0 => heading = heading.end(),
                    TagEnd::MetadataBlock(_) => front_matter = None,
                    _ => {}
                }
            }
            Event::Text(part) | Event::Code(part) => match front_matter {
                Some(kind) => front_matter_title = front_matter_title.or_else(|| metadata_title(&part, kind)),
                None => heading.append(&part),
            },
            Event::SoftBreak | Event::HardBreak => heading.append(" "),
            _ => {}
        }
    }
    (front_matter_title.or_else(|| heading.title()), Structure::new(levels))
}

/// The first heading with text in it, on its way.
enum FirstHeading {
    NotYet,
    Within(String),
    Found(String),
}

impl FirstHeading {
    fn begin(self) -> Self {
        match self {
            Self::Found(title) => Self::Found(title),
            Self::NotYet | Self::Within(_) => Self::Within(String::new()),
        }
    }

    fn append(&mut self, part: &str) {
        if let Self::Within(title) = self {
            title.push_str(part);
        }
    }

    fn end(self) -> Self {
        match self {
            Self::Within(title) if title.trim_matches(whitespace::is_space).is_empty() => Self::NotYet,
            Self::Within(title) => Self::Found(title.trim_matches(whitespace::is_space).to_owned()),
            other => other,
        }
    }

    fn title(self) -> Option<String> {
        match self {
            Self::Found(title) => Some(title),
            Self::NotYet | Self::Within(_) => None,
        }
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
