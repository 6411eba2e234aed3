//! Sections of Markdown against what LangChain's `MarkdownHeaderTextSplitter` gave, but for its defects.
//!
//! LangChain deletes indentation, tabs and odd spaces, and joins paragraphs with two spaces and a line end, so texts are compared
//! without their whitespace; and it merges neighbours with the same titles, so ours are merged as well before they are compared.

// Tests may panic; the lints exempt only what stands in a test function itself.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use toller_core::Value;
use toller_ingest::{Format, HeadingSplitter, LoadOptions, Splitter, Structure, load};

type Section = (BTreeMap<String, String>, String);

struct Case {
    id: String,
    text: String,
    levels: Vec<(u8, String)>,
    strip_headings: bool,
    expected: Vec<Section>,
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles/splitter_markdown.json");
    let oracle: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    oracle["cases"].as_array().unwrap().iter().map(case).collect()
}

fn case(case: &Json) -> Case {
    let text = |value: &Json| value.as_str().unwrap().to_owned();
    let level = |pair: &Json| (u8::try_from(text(&pair[0]).len()).unwrap(), text(&pair[1]));
    let section = |section: &Json| {
        let titles = section["metadata"].as_object().unwrap().iter();
        (titles.map(|(name, title)| (name.clone(), text(title))).collect(), text(&section["text"]))
    };
    Case {
        id: text(&case["id"]).trim_start_matches("splitter_markdown-").to_owned(),
        text: text(&case["text"]),
        levels: case["headers_to_split_on"].as_array().unwrap().iter().map(level).collect(),
        strip_headings: case["strip_headers"].as_bool().unwrap(),
        expected: case["expected"].as_array().unwrap().iter().map(section).collect(),
    }
}

/// What the loader finds in a text of Markdown, which it leaves as it is.
fn structure(text: &str) -> Structure {
    if text.is_empty() {
        // Nothing is loaded of a file without a text.
        return Structure::default();
    }
    let mut documents = load(Format::Markdown, text.as_bytes().to_vec(), &LoadOptions::default()).unwrap();
    let document = documents.next().unwrap().unwrap();
    assert_eq!(document.text, text);
    document.structure
}

impl Case {
    fn ours(&self) -> Vec<Section> {
        let structure = structure(&self.text);
        let splitter = HeadingSplitter::default().levels(&self.levels).unwrap().strip_headings(self.strip_headings);
        let chunks = splitter.split_structured(&self.text, &structure).unwrap();
        let section = |chunk: toller_ingest::Chunk<'_>| {
            assert_eq!(self.text[chunk.bytes.clone()], *chunk.text, "{}", self.id);
            let title = |title: Value| match title {
                Value::String(title) => title,
                other => panic!("{other:?}"),
            };
            (chunk.metadata.into_iter().map(|(name, value)| (name, title(value))).collect(), chunk.text.to_owned())
        };
        chunks.into_iter().map(section).collect()
    }
}

/// Neighbours with the same titles as one, without whitespace.
fn compared(sections: &[Section]) -> Vec<Section> {
    let mut merged: Vec<Section> = Vec::new();
    for (titles, text) in sections {
        let bare: String = text.chars().filter(|c| !c.is_whitespace() && !"\u{200b}\u{feff}".contains(*c)).collect();
        match merged.last_mut() {
            Some((last_titles, last_text)) if last_titles == titles => last_text.push_str(&bare),
            _ => merged.push((titles.clone(), bare)),
        }
    }
    merged
}

/// Why a case may differ: what LangChain does wrong in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Defect {
    /// A fence of four marks is taken to end at the first three: what is in the code becomes headings.
    Fence,
    /// `# A #` has the title `A #`.
    ClosingMarks,
    /// A heading that is underlined is text.
    Underlined,
    /// A stripped heading without a body is lost.
    Bodiless,
    /// A kept body that ends in a line with a `#` at its beginning is taken for a heading, and given the titles of the next section.
    MarkAtTheEnd,
}

impl Case {
    fn has(&self, defect: Defect, ours: &[Section]) -> bool {
        let mut headings = structure(&self.text).headings().to_vec();
        headings.retain(|heading| self.levels.iter().any(|(level, _)| *level == heading.level));
        let lines = || headings.iter().map(|heading| self.text[heading.bytes.clone()].trim());
        match defect {
            Defect::Fence => self.text.contains("````"),
            Defect::ClosingMarks => {
                lines().any(|line| line.starts_with('#') && line.trim_start_matches('#').ends_with('#'))
            }
            Defect::Underlined => lines().any(|line| line.contains('\n')),
            Defect::Bodiless => {
                self.strip_headings && ours.iter().any(|(_, text)| lines().any(|line| line == text.trim()))
            }
            Defect::MarkAtTheEnd => {
                let last_line = |text: &str| text.lines().last().unwrap_or_default().trim_start().to_owned();
                !self.strip_headings && ours.iter().any(|(_, text)| last_line(text).starts_with('#'))
            }
        }
    }
}

/// Cases that differ, by the first defect that they have.
const DIFFERENT: [(Defect, &[&str]); 5] = [
    (Defect::Fence, &["0005"]),
    (
        Defect::ClosingMarks,
        &["0008", "0021", "0024", "0034", "0038", "0043", "0047", "0052", "0060", "0061", "0066", "0070"],
    ),
    (Defect::Underlined, &["0011", "0015", "0026", "0028", "0035", "0056", "0064", "0078"]),
    (Defect::Bodiless, &["0012", "0013", "0022", "0025", "0036", "0051", "0059", "0074"]),
    (Defect::MarkAtTheEnd, &["0031", "0032", "0063", "0073", "0079"]),
];

#[test]
fn sections_are_langchains_but_for_its_defects() {
    let mut different: Vec<(Defect, String)> = Vec::new();
    for case in cases() {
        let ours = case.ours();
        if compared(&ours) == compared(&case.expected) {
            continue;
        }
        let defect = DIFFERENT.map(|(defect, _)| defect).into_iter().find(|defect| case.has(*defect, &ours));
        let defect = defect.unwrap_or_else(|| panic!("{} differs without a reason: {ours:?}", case.id));
        different.push((defect, case.id));
    }
    different.sort();
    let listed = DIFFERENT.iter().flat_map(|(defect, ids)| ids.iter().map(move |id| (*defect, (*id).to_owned())));
    assert_eq!(different, listed.collect::<Vec<_>>());
}

/// Nothing of any text is lost, and bodies are the source's, byte by byte.
#[test]
fn every_character_is_in_a_section_or_a_title() {
    for case in cases() {
        let structure = structure(&case.text);
        let chunks = HeadingSplitter::default().split_structured(&case.text, &structure).unwrap();
        let mut covered_to = 0;
        for chunk in &chunks {
            assert!(case.text[covered_to..chunk.bytes.start].trim().is_empty(), "{}", case.id);
            covered_to = chunk.bytes.end;
        }
        assert!(case.text[covered_to..].trim().is_empty(), "{}", case.id);
    }
}
