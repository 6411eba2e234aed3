//! The character splitter against LangChain's recorded output, and against a plain reference that says what is right where we differ.

// Tests may panic; the lints exempt only what stands in a test function itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod reference;

use std::path::Path;

use reference::{Join, Reference, Unit};
use serde_json::Value;
use toller_ingest::{CharacterSplitter, KeepSeparator, Separator, Splitter};
use unicode_segmentation::UnicodeSegmentation;

/// A case of splitter_character.json.
struct Case {
    id: String,
    text: String,
    separator: String,
    is_regex: bool,
    chunk_size: usize,
    chunk_overlap: usize,
    keep: KeepSeparator,
    expected: Vec<String>,
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles/splitter_character.json");
    let oracle: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    oracle["cases"].as_array().unwrap().iter().map(case).collect()
}

fn case(case: &Value) -> Case {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    Case {
        id: text(&case["id"]).trim_start_matches("splitter_character-").to_owned(),
        text: text(&case["text"]),
        separator: text(&case["separator"]),
        is_regex: case["is_separator_regex"].as_bool().unwrap(),
        chunk_size: number(&case["chunk_size"]),
        chunk_overlap: number(&case["chunk_overlap"]),
        keep: match &case["keep_separator"] {
            Value::Bool(false) => KeepSeparator::No,
            Value::String(side) if side == "end" => KeepSeparator::End,
            _ => KeepSeparator::Start,
        },
        expected: case["expected"].as_array().unwrap().iter().map(text).collect(),
    }
}

impl Case {
    fn reference(&self, unit: Unit, join: Join) -> Vec<String> {
        let reference = Reference {
            chunk_size: self.chunk_size,
            chunk_overlap: self.chunk_overlap,
            separators: &[&self.separator],
            is_regex: self.is_regex,
            keep: self.keep,
            strip: true,
            unit,
            join,
        };
        reference.split_once(&self.text).into_iter().map(|(_, text)| text).collect()
    }

    fn ours(&self, hard_limit: bool) -> Vec<String> {
        let separator = match self.is_regex {
            true => Separator::regex(&self.separator).unwrap(),
            false => Separator::literal(self.separator.as_str()),
        };
        let splitter = CharacterSplitter::builder()
            .chunk_size(self.chunk_size)
            .chunk_overlap(self.chunk_overlap)
            .separator(separator)
            .keep_separator(self.keep)
            .hard_limit(hard_limit)
            .build()
            .unwrap();
        let chunks = splitter.split(&self.text).unwrap();
        let code_points: Vec<char> = self.text.chars().collect();
        for chunk in &chunks {
            assert_eq!(self.text[chunk.bytes.clone()], *chunk.text, "{}", self.id);
            assert_eq!(code_points[chunk.chars.clone()].iter().collect::<String>(), chunk.text, "{}", self.id);
            let is_short = chunk.chars.len() <= self.chunk_size || chunk.text.graphemes(true).count() == 1;
            assert!(is_short || !hard_limit, "{}: {chunk:?}", self.id);
        }
        chunks.into_iter().map(|chunk| chunk.text.to_owned()).collect()
    }

    /// Is every grapheme one code point?
    fn is_simple(&self) -> bool {
        self.text.graphemes(true).all(|grapheme| grapheme.chars().count() == 1)
    }
}

#[test]
fn the_reference_is_langchains_algorithm() {
    for case in cases() {
        assert_eq!(case.reference(Unit::CodePoints, Join::Separator), case.expected, "{}", case.id);
    }
}

/// LangChain cuts a grapheme in these cases (emoji, accents, CR LF).
const GRAPHEMES: [&str; 3] = ["0021", "0036", "0050"];

/// In all cases ours is the right value; and it differs from LangChain's in these cases only.
#[test]
fn every_case_is_right() {
    let mut different = Vec::new();
    for case in cases() {
        let ours = case.ours(false);
        assert_eq!(ours, case.reference(Unit::Graphemes, Join::Source), "{}", case.id);
        if ours != case.expected {
            assert!(!case.is_simple(), "{} differs without a reason", case.id);
            different.push(case.id);
        }
    }
    assert_eq!(different, GRAPHEMES);
}

/// The hard limit changes nothing where no chunk was too long, and holds everywhere.
#[test]
fn the_hard_limit_holds() {
    let mut unchanged = 0;
    for case in cases() {
        let hard = case.ours(true);
        let soft = case.ours(false);
        let separator = case.reference(Unit::Graphemes, Join::Source);
        if separator.iter().all(|chunk| chunk.chars().count() < case.chunk_size) {
            assert_eq!(hard, soft, "{}", case.id);
            unchanged += 1;
        }
        let bare = |chunks: &[String]| chunks.concat().chars().filter(|c| !c.is_whitespace()).count();
        assert!(bare(&hard) > 0 || bare(&soft) == 0, "{}", case.id);
    }
    assert!(unchanged >= 5, "{unchanged}");
}
