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
use toller_ingest::{HeadingSplitter, Splitter, Structure, markdown_headings};

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

impl Case {
    fn ours(&self) -> Vec<Section> {
        let structure = Structure::default().with_headings(markdown_headings(&self.text));
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

#[test]
fn probe() {
    for case in cases() {
        let (ours, theirs) = (compared(&case.ours()), compared(&case.expected));
        if ours != theirs {
            println!("==== {} {:?} strip {}", case.id, case.levels, case.strip_headings);
            println!("{:?}", case.text);
            for (i, pair) in ours.iter().zip(theirs.iter()).enumerate() { if pair.0 != pair.1 { println!("{i} ours {:?}\n  theirs {:?}", pair.0, pair.1); break; } }
            println!("{} vs {}", ours.len(), theirs.len());
        }
    }
}
