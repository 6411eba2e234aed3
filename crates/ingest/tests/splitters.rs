//! What every splitter promises of any text, with any parameters: places are exact, no grapheme is cut, chunks are in order, nothing is
//! lost, and sizes hold.

// Tests may panic; the lints exempt only what stands in a test function itself.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;

use proptest::prelude::*;
use toller_core::{Metric, Tokenizer, Vector};
use toller_ingest::{
    CharacterSplitter, Chunk, CodeSplitter, DistanceThreshold, Format, HeadingSplitter, JsonSplitter, KeepSeparator,
    Language, LoadOptions, LoadedDocument, RecursiveSplitter, SemanticSplitter, SentenceSplitter, Separator, Splitter,
    TokenLimit, TokenSplitter, load,
};
use unicode_segmentation::UnicodeSegmentation;

/// Tokens of up to three bytes of what is between whitespace: they cut characters, as byte-level vocabularies do.
struct Bytes;

impl Tokenizer for Bytes {
    fn token_ranges(&self, text: &str) -> toller_core::Result<Vec<Range<usize>>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (at, character) in text.char_indices().filter(|(_, character)| !character.is_whitespace()) {
            for byte in at..at + character.len_utf8() {
                match ranges.last_mut() {
                    Some(last) if last.end == byte && last.len() < 3 => last.end += 1,
                    _ => ranges.push(byte..byte + 1),
                }
            }
        }
        Ok(ranges)
    }

    fn max_text_tokens(&self) -> usize {
        4
    }
}

/// Chunks stand where they say, in bytes and in code points, between graphemes, in order.
fn assert_places(text: &str, chunks: &[Chunk<'_>]) -> Result<(), TestCaseError> {
    let code_points: Vec<char> = text.chars().collect();
    let bounds: HashSet<usize> = text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
    let mut previous = 0..0;
    for chunk in chunks {
        prop_assert_eq!(text.get(chunk.bytes.clone()), Some(chunk.text));
        let by_chars: String = code_points[chunk.chars.clone()].iter().collect();
        prop_assert_eq!(&by_chars, chunk.text);
        prop_assert!(bounds.contains(&chunk.bytes.start) && bounds.contains(&chunk.bytes.end), "cut: {:?}", chunk);
        prop_assert!(!chunk.text.is_empty());
        let in_order = previous.start <= chunk.bytes.start && previous.end <= chunk.bytes.end;
        prop_assert!(in_order, "out of order: {:?}", chunk);
        previous = chunk.bytes.clone();
    }
    Ok(())
}

/// Nothing but whitespace is in no chunk.
fn assert_nothing_lost(text: &str, chunks: &[Chunk<'_>]) -> Result<(), TestCaseError> {
    let mut covered_to = 0;
    for chunk in chunks {
        let lost = text.get(covered_to..chunk.bytes.start).unwrap_or_default();
        prop_assert!(lost.chars().all(is_space), "lost {:?} before {:?}", lost, chunk);
        covered_to = covered_to.max(chunk.bytes.end);
    }
    prop_assert!(text[covered_to..].chars().all(is_space), "lost {:?} at the end", &text[covered_to..]);
    Ok(())
}

fn is_space(character: char) -> bool {
    character.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&character)
}

fn assert_sizes(chunks: &[Chunk<'_>], size: usize, overlap: usize) -> Result<(), TestCaseError> {
    let mut previous_end = 0_usize;
    for chunk in chunks {
        let is_grapheme = chunk.text.graphemes(true).count() == 1;
        prop_assert!(chunk.chars.len() <= size || is_grapheme, "too long: {:?}", chunk);
        prop_assert!(previous_end.saturating_sub(chunk.chars.start) <= overlap, "overlap: {:?}", chunk);
        previous_end = chunk.chars.end;
    }
    Ok(())
}

/// Texts of what splitters stumble over.
fn text() -> impl Strategy<Value = String> {
    let parts = prop::sample::select(vec![
        "a",
        "word",
        "Word",
        "é",
        "e\u{301}",
        " ",
        "  ",
        "\n",
        "\n\n",
        "\r\n",
        "\t",
        "\u{1c}",
        "\u{3000}",
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
        "## ",
        "### A\n",
        "\n# B\n",
        "===\n",
        "---\n",
        "```\n",
        "- ",
        "Dr. ",
        "No. 5 ",
        "1.5",
        "{",
        "}",
        "(",
        ")",
        ";",
        "fn a() {",
        "def f():\n    ",
        "class A:\n",
        "return 1\n",
        "// c\n",
        "\"",
        "'",
        "/*",
    ]);
    prop::collection::vec(parts, 0..60).prop_map(|parts| parts.concat())
}

fn size_and_overlap() -> impl Strategy<Value = (usize, usize)> {
    (1_usize..40).prop_flat_map(|size| (Just(size), 0..=size))
}

/// JSON with strings of anything.
fn json() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(serde_json::Value::from),
        any::<i32>().prop_map(serde_json::Value::from),
        any::<f64>().prop_map(serde_json::Value::from),
        "[a-z \"\\\\{},é\u{301}]{0,8}".prop_map(serde_json::Value::from),
    ];
    scalar.prop_recursive(5, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(serde_json::Value::from),
            prop::collection::vec(("[a-c/~\"é]{0,3}", inner), 0..6)
                .prop_map(|entries| serde_json::Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn characters(
        text in text(),
        (size, overlap) in size_and_overlap(),
        keep in prop::sample::select(vec![KeepSeparator::Start, KeepSeparator::End]),
        separator in prop::sample::select(vec!["\n\n", " ", "", "a", "\u{301}", "\n"]),
    ) {
        let builder = CharacterSplitter::builder()
            .chunk_size(size)
            .chunk_overlap(overlap)
            .keep_separator(keep)
            .separator(Separator::literal(separator));
        for hard in [true, false] {
            let chunks = builder.clone().hard_limit(hard).build().unwrap();
            let chunks = chunks.split(&text).unwrap();
            assert_places(&text, &chunks)?;
            assert_nothing_lost(&text, &chunks)?;
            assert_sizes(&chunks, if hard { size } else { usize::MAX }, overlap)?;
        }
    }

    #[test]
    fn always_overlapping(text in text(), (size, overlap) in size_and_overlap()) {
        let overlap = overlap.min(size - 1);
        let splitter = RecursiveSplitter::builder()
            .chunk_size(size)
            .chunk_overlap(overlap)
            .always_overlap(true)
            .build()
            .unwrap();
        let chunks = splitter.split(&text).unwrap();
        assert_places(&text, &chunks)?;
        assert_nothing_lost(&text, &chunks)?;
        for (number, chunk) in chunks.iter().enumerate() {
            // A grapheme that alone is longer than the size less the overlap gets its overlap nevertheless.
            let longest = chunk.text.graphemes(true).map(|grapheme| grapheme.chars().count()).max().unwrap();
            prop_assert!(chunk.chars.len() <= size.max(longest + overlap), "{}: {:?}", number, chunk);
        }
    }

    #[test]
    fn counted_in_tokens(text in text(), (size, overlap) in size_and_overlap()) {
        let splitter = RecursiveSplitter::builder()
            .chunk_size(size)
            .chunk_overlap(overlap)
            .counted_in_tokens(Arc::new(Bytes))
            .build()
            .unwrap();
        let chunks = splitter.split(&text).unwrap();
        assert_places(&text, &chunks)?;
        assert_nothing_lost(&text, &chunks)?;
        let tokens = Bytes.token_ranges(&text).unwrap();
        for chunk in &chunks {
            let touched = |token: &&Range<usize>| token.start < chunk.bytes.end && token.end > chunk.bytes.start;
            let count = tokens.iter().filter(touched).count();
            prop_assert!(count <= size || chunk.text.graphemes(true).count() == 1, "{} tokens: {:?}", count, chunk);
        }
    }

    #[test]
    fn tokens(text in text(), (size, overlap) in size_and_overlap()) {
        let splitter = TokenSplitter::new(Arc::new(Bytes), Some(size), Some(overlap.min(size - 1))).unwrap();
        let chunks = splitter.split(&text).unwrap();
        assert_places(&text, &chunks)?;
        assert_nothing_lost(&text, &chunks)?;
        let unstripped = splitter.strip_whitespace(false);
        let whole = unstripped.split(&text).unwrap();
        assert_places(&text, &whole)?;
        let mut covered_to = 0;
        for chunk in &whole {
            prop_assert!(chunk.bytes.start <= covered_to, "a gap before {:?}", chunk);
            covered_to = chunk.bytes.end;
        }
        prop_assert_eq!(covered_to, text.len());
    }

    #[test]
    fn sections(text in text(), strip: bool, size in 1_usize..30) {
        let loaded = load(Format::Markdown, text.into_bytes(), &LoadOptions::default());
        // A text of nothing, or of control characters, is refused.
        prop_assume!(loaded.is_ok());
        let LoadedDocument { text, structure, .. } = loaded.unwrap().next().unwrap().unwrap();
        let inner = RecursiveSplitter::builder().chunk_size(size).chunk_overlap(0).build().unwrap();
        let splitter = HeadingSplitter::default();
        for splitter in [splitter.clone(), splitter.inner(Arc::new(inner))] {
            let chunks = splitter.clone().strip_headings(strip).split_structured(&text, &structure).unwrap();
            assert_places(&text, &chunks)?;
            if !strip {
                assert_nothing_lost(&text, &chunks)?;
            }
        }
    }

    #[test]
    fn json_values(value in json(), size in 1_usize..60, pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
        let chunks = JsonSplitter::new(size).unwrap().split(&text).unwrap();
        assert_places(&text, &chunks)?;
        assert_nothing_lost(&text, &chunks)?;
        for chunk in &chunks {
            let toller_core::Value::String(pointer) = &chunk.metadata["json_path"] else { panic!("no pointer") };
            prop_assert!(value.pointer(pointer).is_some(), "{} is nowhere", pointer);
            // One scalar, with keys and brackets, may be longer than the size; two are never together then.
            let values = chunk.text.matches(", ").count() + chunk.text.matches(",\n").count();
            prop_assert!(chunk.chars.len() <= size || values <= 1 || chunk.text.contains('"'), "{:?}", chunk);
        }
    }

    #[test]
    fn sentences(text in text(), (size, overlap) in size_and_overlap()) {
        let chunks = SentenceSplitter::new(size, overlap).unwrap().split(&text).unwrap();
        assert_places(&text, &chunks)?;
        assert_nothing_lost(&text, &chunks)?;
        assert_sizes(&chunks, usize::MAX, overlap)?;
    }

    #[test]
    fn meanings(text in text(), buffer_size in 0_usize..4, chunks in 1_usize..6, seed in any::<u32>(), shortest in 0_usize..20) {
        for threshold in [
            DistanceThreshold::NumberOfChunks(chunks),
            DistanceThreshold::Percentile(50.0),
            DistanceThreshold::Gradient(50.0),
            DistanceThreshold::Interquartile(0.1),
        ] {
            let splitter = SemanticSplitter::new(threshold, buffer_size, shortest).unwrap();
            let prepared = splitter.sentences(&text);
            let vector = |index: usize| (index as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) % 1000;
            let vectors: Vec<Vector> = (0..prepared.windows().len())
                .map(|index| Vector::new(vec![1.0, vector(index) as f32 / 1000.0], Metric::Cosine).unwrap())
                .collect();
            let made = splitter.split(&text, &prepared, &vectors).unwrap();
            assert_places(&text, &made)?;
            assert_nothing_lost(&text, &made)?;
            if let DistanceThreshold::NumberOfChunks(most) = threshold {
                prop_assert!(made.len() <= most);
            }
        }
    }

    #[test]
    fn code(text in text(), size in 1_usize..40, language in prop::sample::select(Language::NAMES.to_vec())) {
        let chunks = CodeSplitter::new(language.1, size).unwrap().split(&text).unwrap();
        assert_places(&text, &chunks)?;
        assert_nothing_lost(&text, &chunks)?;
        assert_sizes(&chunks, size, 0)?;
    }

    #[test]
    fn limits(text in text(), limit in 1_usize..10, (size, overlap) in size_and_overlap()) {
        let splitter = RecursiveSplitter::builder().chunk_size(size).chunk_overlap(overlap).build().unwrap();
        let token_limit = TokenLimit::new(Arc::new(Bytes)).max_tokens(limit).unwrap();
        let chunks = splitter.split(&text).unwrap();
        let fits = |chunk: &Chunk<'_>| Bytes.token_ranges(chunk.text).unwrap().len() <= limit;
        let limited = token_limit.apply(chunks.clone()).unwrap();
        assert_nothing_lost(&text, &limited)?;
        for chunk in &limited {
            prop_assert!(fits(chunk) || chunk.text.graphemes(true).count() == 1, "{:?}", chunk);
        }
        prop_assert!(chunks.iter().filter(|chunk| fits(chunk)).all(|chunk| limited.contains(chunk)), "what fits stays");
    }
}
