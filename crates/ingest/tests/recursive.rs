//! The recursive splitter against LangChain's recorded output, against a plain reference, and against its own promises.
//!
//! The chain of trust: the recorded output proves the reference (over code points, joining as LangChain does) to be LangChain's
//! algorithm; the same reference over graphemes, joining with the source, then says what is right where we differ on purpose.

// Tests may panic; the lints exempt only what stands in a test function itself.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod reference;

use std::path::Path;

use proptest::prelude::*;
use reference::{Join, Reference, Unit};
use serde_json::Value;
use toller_ingest::{Chunk, KeepSeparator, RecursiveSplitter, Separator, SeparatorSet, Splitter, Structure};
use unicode_segmentation::UnicodeSegmentation;

const LANGCHAIN: [&str; 4] = ["\n\n", "\n", " ", ""];

/// A case of splitter_recursive.json.
struct Case {
    id: String,
    text: String,
    chunk_size: usize,
    chunk_overlap: usize,
    separators: Vec<String>,
    is_regex: bool,
    keep: KeepSeparator,
    strip: bool,
    expected: Vec<(usize, String)>,
    are_substrings: bool,
}

fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles/splitter_recursive.json");
    let oracle: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    oracle["cases"].as_array().unwrap().iter().map(case).collect()
}

fn case(case: &Value) -> Case {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let number = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
    Case {
        id: text(&case["id"]),
        text: text(&case["text"]),
        chunk_size: number(&case["chunk_size"]),
        chunk_overlap: number(&case["chunk_overlap"]),
        separators: match &case["separators"] {
            Value::Null => LANGCHAIN.map(str::to_owned).into(),
            separators => separators.as_array().unwrap().iter().map(text).collect(),
        },
        is_regex: case["is_separator_regex"].as_bool().unwrap(),
        keep: match &case["keep_separator"] {
            Value::Bool(false) => KeepSeparator::No,
            Value::String(side) if side == "end" => KeepSeparator::End,
            _ => KeepSeparator::Start,
        },
        strip: case["strip_whitespace"].as_bool().unwrap(),
        expected: case["expected"]
            .as_array()
            .unwrap()
            .iter()
            .map(|chunk| (number(&chunk["true_start"]), text(&chunk["text"])))
            .collect(),
        are_substrings: case["all_chunks_are_substrings"].as_bool().unwrap(),
    }
}

impl Case {
    fn reference(&self, unit: Unit, join: Join) -> Vec<(usize, String)> {
        let separators: Vec<&str> = self.separators.iter().map(String::as_str).collect();
        Reference {
            chunk_size: self.chunk_size,
            chunk_overlap: self.chunk_overlap,
            separators: &separators,
            is_regex: self.is_regex,
            keep: self.keep,
            strip: self.strip,
            unit,
            join,
        }
        .split(&self.text)
    }

    fn ours(&self) -> Vec<(usize, String)> {
        let separators = self
            .separators
            .iter()
            .map(
                |separator| {
                    if self.is_regex { Separator::regex(separator).unwrap() } else { Separator::literal(separator) }
                },
            )
            .collect();
        let splitter = RecursiveSplitter::builder()
            .chunk_size(self.chunk_size)
            .chunk_overlap(self.chunk_overlap)
            .separators(separators)
            .keep_separator(self.keep)
            .strip_whitespace(self.strip)
            .build()
            .unwrap();
        let chunks = splitter.split(&self.text).unwrap();
        assert_places(&self.text, &chunks).unwrap();
        chunks.into_iter().map(|chunk| (chunk.chars.start, chunk.text.to_owned())).collect()
    }

    /// Is every grapheme one code point?
    fn is_simple(&self) -> bool {
        self.text.graphemes(true).all(|grapheme| grapheme.chars().count() == 1)
    }
}

/// Chunks stand where they say, in bytes and in code points, between graphemes, in order.
fn assert_places(text: &str, chunks: &[Chunk<'_>]) -> Result<(), TestCaseError> {
    let code_points: Vec<char> = text.chars().collect();
    let bounds: std::collections::HashSet<usize> =
        text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
    let mut previous = 0..0;
    for chunk in chunks {
        prop_assert_eq!(text.get(chunk.bytes.clone()), Some(chunk.text));
        let by_chars: String = code_points[chunk.chars.clone()].iter().collect();
        prop_assert_eq!(&by_chars, chunk.text);
        prop_assert!(
            bounds.contains(&chunk.bytes.start) && bounds.contains(&chunk.bytes.end),
            "cut grapheme: {:?}",
            chunk
        );
        prop_assert!(!chunk.text.is_empty());
        prop_assert!(
            previous.start <= chunk.bytes.start && previous.end <= chunk.bytes.end,
            "out of order: {:?}",
            chunk
        );
        previous = chunk.bytes.clone();
    }
    Ok(())
}

#[test]
fn the_reference_is_langchains_algorithm() {
    for case in cases() {
        assert_eq!(case.reference(Unit::CodePoints, Join::Separator), case.expected, "{}", case.id);
    }
}

/// Where graphemes are single code points and LangChain's chunks are parts of the source, ours are the same, without exception.
#[test]
fn simple_texts_are_split_as_langchain_does() {
    let mut compared = 0;
    for case in cases().iter().filter(|case| case.is_simple() && case.are_substrings) {
        assert_eq!(case.ours(), case.expected, "{}", case.id);
        compared += 1;
    }
    assert_eq!(compared, 112);
}

/// LangChain cuts a grapheme in these cases (emoji, accents, CR LF), which moves all cuts after it.
const GRAPHEMES: [&str; 43] = [
    "0013", "0016", "0021", "0027", "0037", "0045", "0048", "0058", "0063", "0064", "0075", "0079", "0086", "0087",
    "0088", "0090", "0094", "0100", "0107", "0111", "0114", "0116", "0121", "0126", "0132", "0142", "0148", "0154",
    "0156", "0161", "0162", "0174", "0178", "0180", "0181", "0191", "0199", "0210", "0217", "0225", "0233", "0236",
    "0237",
];

/// LangChain, told to drop separators, joins pieces with one where the source has several: no part of the source.
const COLLAPSED: [&str; 4] = ["0050", "0137", "0194", "0205"];

/// In all cases ours is the right value; and it differs from LangChain's in these cases only.
#[test]
fn every_case_is_right() {
    let mut different = Vec::new();
    for case in cases() {
        let ours = case.ours();
        assert_eq!(ours, case.reference(Unit::Graphemes, Join::Source), "{}", case.id);
        if ours != case.expected {
            let reason = if case.are_substrings { "graphemes" } else { "collapsed" };
            assert!(!case.is_simple() || !case.are_substrings, "{} differs without a reason", case.id);
            different.push((reason, case.id.trim_start_matches("splitter_recursive-").to_owned()));
        }
    }
    let listed: Vec<_> = [("collapsed", &COLLAPSED[..]), ("graphemes", &GRAPHEMES[..])]
        .into_iter()
        .flat_map(|(reason, ids)| ids.iter().map(move |id| (reason, (*id).to_owned())))
        .collect();
    different.sort();
    assert_eq!(different, listed);
}

/// Texts of what splitters stumble over.
fn text() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        "a",
        "b",
        "word",
        "é",
        "e\u{301}",
        " ",
        "  ",
        "\n",
        "\n\n",
        "\r\n",
        "\r\n\r\n",
        "\t",
        "\u{1c}",
        "\u{3000}",
        "\u{a0}",
        "\u{200b}",
        ". ",
        "! ",
        "? ",
        ", ",
        ".",
        "。",
        "！",
        "，",
        "」",
        "今天",
        "😀",
        "👨\u{200d}👩\u{200d}👧",
        "🇫🇷",
        "🇫",
        "\u{301}",
        "\u{200d}",
        "\u{600}",
        "한",
        "क्षि",
        "# ",
        "- ",
        "```\n",
    ]);
    prop::collection::vec(parts, 0..60).prop_map(|parts| parts.concat())
}

fn keep() -> impl Strategy<Value = KeepSeparator> {
    prop::sample::select(vec![KeepSeparator::Start, KeepSeparator::End, KeepSeparator::No])
}

fn size_and_overlap() -> impl Strategy<Value = (usize, usize)> {
    (1_usize..40).prop_flat_map(|size| (Just(size), 0..=size))
}

fn places(length: usize) -> impl Strategy<Value = Structure> {
    let level = prop::collection::vec(0..=length, 0..6);
    prop::collection::vec(level, 0..3).prop_map(Structure::new)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any text, any parameters: exactly what the plain reference does.
    #[test]
    fn agrees_with_the_reference(
        text in text(),
        (chunk_size, chunk_overlap) in size_and_overlap(),
        keep in keep(),
        strip: bool,
        finest in prop::sample::select(vec![&["\n\n", "\n", " ", ""][..], &["\n", " "], &[" "], &["\u{301}", "a", "\n", ""]]),
    ) {
        let reference = Reference {
            chunk_size, chunk_overlap, separators: finest, is_regex: false, keep, strip, unit: Unit::Graphemes, join: Join::Source,
        };
        let splitter = RecursiveSplitter::builder()
            .chunk_size(chunk_size)
            .chunk_overlap(chunk_overlap)
            .separators(finest.iter().map(|separator| Separator::literal(*separator)).collect())
            .keep_separator(keep)
            .strip_whitespace(strip)
            .build()
            .unwrap();
        let chunks = splitter.split(&text).unwrap();
        assert_places(&text, &chunks)?;
        let ours: Vec<_> = chunks.into_iter().map(|chunk| (chunk.chars.start, chunk.text.to_owned())).collect();
        prop_assert_eq!(ours, reference.split(&text));
    }

    /// The promises of both named sets: places exact, sizes and overlaps bounded, nothing lost.
    #[test]
    fn keeps_its_promises(
        (text, structure) in text().prop_flat_map(|text| { let length = text.len(); (Just(text), places(length)) }),
        (chunk_size, chunk_overlap) in size_and_overlap(),
        keep in prop::sample::select(vec![KeepSeparator::Start, KeepSeparator::End]),
        strip: bool,
        set in prop::sample::select(SeparatorSet::NAMES.map(|(_, set)| set).to_vec()),
    ) {
        let splitter = RecursiveSplitter::builder()
            .chunk_size(chunk_size)
            .chunk_overlap(chunk_overlap)
            .separators(set.separators().unwrap())
            .keep_separator(keep)
            .strip_whitespace(strip)
            .build()
            .unwrap();
        let chunks = splitter.split_structured(&text, &structure).unwrap();
        assert_places(&text, &chunks)?;
        let mut covered_to = 0;
        let mut previous_end = 0_usize;
        for chunk in &chunks {
            let length = chunk.chars.len();
            prop_assert!(length <= chunk_size || chunk.text.graphemes(true).count() == 1, "too long: {:?}", chunk);
            prop_assert!(previous_end.saturating_sub(chunk.chars.start) <= chunk_overlap, "overlap: {:?}", chunk);
            previous_end = chunk.chars.end;
            let lost = text.get(covered_to..chunk.bytes.start).unwrap_or_default();
            prop_assert!(is_nothing(lost, strip), "lost {:?} before {:?}", lost, chunk);
            covered_to = covered_to.max(chunk.bytes.end);
        }
        prop_assert!(is_nothing(&text[covered_to..], strip), "lost {:?} at the end", &text[covered_to..]);
    }

    /// A split text is the same text, however often: the splitter keeps no state.
    #[test]
    fn is_deterministic(text in text()) {
        let splitter = RecursiveSplitter::builder().chunk_size(10).chunk_overlap(3).build().unwrap();
        prop_assert_eq!(splitter.split(&text).unwrap(), splitter.split(&text).unwrap());
    }
}

/// May this be left out? Whitespace when it is stripped, otherwise nothing.
fn is_nothing(text: &str, strip: bool) -> bool {
    text.is_empty() || strip && text.chars().all(|c| c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c))
}
