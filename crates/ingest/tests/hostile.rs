//! Files that were made to do harm, or that are noise: loading ends soon, with a text or a reason, and never with a panic.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use toller_ingest::{
    CodeLanguage, CsvMapping, Format, JsonMapping, LoadOptions, LoadedDocument, Loader, SkipReason, load, walk,
};

const FORMATS: [Format; 10] = [
    Format::Text,
    Format::Markdown,
    Format::ReStructuredText,
    Format::Html,
    Format::Pdf,
    Format::Json,
    Format::JsonLines,
    Format::Csv,
    Format::Tsv,
    Format::Code(CodeLanguage::Rust),
];

/// Far more than the linear time that all of these take, far less than a quadratic one would.
const SOON: Duration = Duration::from_secs(20);

/// All documents of a file, and how long it took.
fn load_all(format: Format, bytes: Vec<u8>) -> (Vec<LoadedDocument>, Duration) {
    let started = Instant::now();
    let documents = match load(format, bytes, &LoadOptions::default()) {
        Ok(documents) => documents.filter_map(Result::ok).collect(),
        Err(_) => Vec::new(),
    };
    (documents, started.elapsed())
}

/// What is true of every document: headings and joints are places in its text, at the starts of lines where the format has lines.
fn check(format: Format, document: &LoadedDocument) {
    let text = &document.text;
    for heading in document.structure.headings() {
        let lines = text.get(heading.bytes.clone()).unwrap_or_else(|| panic!("{heading:?} in {text:?}"));
        assert!(
            heading.bytes.start == 0 || text[..heading.bytes.start].ends_with(['\n', '\r']),
            "{heading:?} in {text:?}"
        );
        assert!(!lines.ends_with('\n') && (1..=6).contains(&heading.level), "{heading:?} in {text:?}");
        assert!(!heading.title.contains('\n'), "{heading:?} in {text:?}");
    }
    let starts: Vec<_> = document.structure.headings().iter().map(|heading| heading.bytes.start).collect();
    assert!(starts.is_sorted(), "{starts:?} in {text:?}");
    for place in document.structure.levels().iter().flatten() {
        assert!(text.is_char_boundary(*place), "{place} in {text:?}");
        let is_line_start = *place == 0 || text[..*place].ends_with(['\n', '\r']);
        assert!(is_line_start || format == Format::Json, "{place} in {text:?}");
    }
}

/// Pieces that formats give a meaning to, in any order.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        "<p>",
        "</p>",
        "<div>",
        "</div>",
        "<h1>",
        "</h1>",
        "<h3>",
        "</h3>",
        "<ul>",
        "<li>",
        "</ul>",
        "<table>",
        "<tr>",
        "<td>",
        "</td>",
        "</table>",
        "<pre>",
        "</pre>",
        "<br>",
        "<nav>",
        "</nav>",
        "<main>",
        "</main>",
        "<title>",
        "</title>",
        "<!--",
        "-->",
        "<script>",
        "</script>",
        "&amp;",
        "&#0;",
        "&shy;",
        "<p hidden>",
        "<svg>",
        "<svg/>",
        "</svg>",
        "<b>",
        "</b>",
        "<form>",
        "</form>",
        "<li hidden>",
        "<td hidden>",
        "<div role=main>",
        "# ",
        "## ",
        "```",
        "---",
        "===",
        "- ",
        "> ",
        "\n",
        "\n\n",
        "\r\n",
        " ",
        "\t",
        "{",
        "}",
        "[",
        "]",
        "\"",
        "\\",
        ",",
        ":",
        ";",
        "null",
        "1",
        "true",
        "a",
        "word",
        "ü",
        "犬",
        "\u{1f415}",
        "\u{a0}",
        "\u{2028}",
        "%PDF-1.4",
        "1 0 obj",
        "endobj",
        "<<",
        ">>",
        "stream",
        "endstream",
        "xref",
        "trailer",
        "startxref",
        "/Type /Page",
        "'",
        "|",
        "~~~",
        "+++",
        "title: x",
    ]);
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat().into_bytes())
}

fn whole_files() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let names =
        ["article.html", "old-page.html", "guide.rst", "products.csv", "faq.jsonl", "catalog.json", "report.pdf"];
    names.map(|name| fs::read(folder.join(name)).unwrap()).to_vec()
}

/// A file of the fixtures with bytes changed, taken away and put in.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let change = (any::<prop::sample::Index>(), any::<u8>(), 0..4_usize, 0..40_usize);
    (prop::sample::select(whole_files()), prop::collection::vec(change, 1..8)).prop_map(|(mut bytes, changes)| {
        for (place, byte, kind, length) in changes {
            let at = place.index(bytes.len().max(1)).min(bytes.len());
            match kind {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => drop(bytes.drain(at..(at + length).min(bytes.len()))),
                _ => {
                    let copied = bytes[at..(at + length).min(bytes.len())].to_vec();
                    bytes.splice(at..at, copied);
                }
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn noise_gives_a_text_or_a_reason(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        for format in FORMATS {
            load_all(format, bytes.clone()).0.iter().for_each(|document| check(format, document));
        }
    }

    #[test]
    fn pieces_in_any_order_give_a_text_or_a_reason(bytes in pieces()) {
        for format in FORMATS {
            load_all(format, bytes.clone()).0.iter().for_each(|document| check(format, document));
        }
    }

    #[test]
    fn damaged_files_give_a_text_or_a_reason(bytes in damaged()) {
        for format in FORMATS {
            load_all(format, bytes.clone()).0.iter().for_each(|document| check(format, document));
        }
    }

    #[test]
    fn mappings_do_no_harm(bytes in damaged(), pointer in "(/[a-z0-9~]{0,5}){0,3}") {
        let json = JsonMapping {
            records: Some(pointer.clone()),
            content: Some("/text".to_owned()),
            metadata: [("x".to_owned(), pointer)].into(),
        };
        let csv = CsvMapping { metadata: vec!["sku".to_owned()], ..CsvMapping::default() };
        let options = LoadOptions { json, csv, ..LoadOptions::default() };
        for format in [Format::Json, Format::JsonLines, Format::Csv, Format::Tsv] {
            if let Ok(documents) = load(format, bytes.clone(), &options) {
                documents.filter_map(Result::ok).for_each(|document| check(format, &document));
            }
        }
    }
}

#[test]
fn nesting_costs_no_more_than_length() {
    const DEPTH: usize = 400_000;
    let nested = |open: &str, close: &str| format!("{}text{}", open.repeat(DEPTH), close.repeat(DEPTH)).into_bytes();
    for (format, bytes) in [
        (Format::Html, nested("<div>", "</div>")),
        (Format::Html, nested("<div>", "")),
        (Format::Html, nested("<ul><li>", "</li></ul>")),
        (Format::Html, nested("<table><tr><td>", "</td></tr></table>")),
        (Format::Html, nested("<nav>", "</main>")),
        (Format::Html, nested("<div role=main>", "</div>")),
        (Format::Html, nested("<div hidden>", "</div>")),
        (Format::Html, nested("<h1>", "</h1>")),
        (Format::Html, nested("<b><div>", "</b>")),
        (Format::Html, nested("<svg><g>", "</svg>")),
        (Format::Html, nested("<p hidden><span>", "</i>")),
        (Format::Html, nested("<pre>\n", "</pre>")),
        (Format::Html, format!("<a {}>text", "x=1 y ".repeat(DEPTH)).into_bytes()),
        (Format::Html, format!("<a {}>text", (0..DEPTH).map(|n| format!("x{n} ")).collect::<String>()).into_bytes()),
        (Format::Json, format!("{}{}", "[".repeat(DEPTH), "]".repeat(DEPTH)).into_bytes()),
        (Format::Json, format!("{}1{}", "{\"a\":".repeat(DEPTH), "}".repeat(DEPTH)).into_bytes()),
        (Format::JsonLines, format!("{}\n1", "[".repeat(DEPTH)).into_bytes()),
        (Format::ReStructuredText, "a\n---\n".repeat(DEPTH).into_bytes()),
        (Format::Csv, "\"".repeat(DEPTH).into_bytes()),
        (Format::Csv, format!("a{}\n1", ",".repeat(DEPTH)).into_bytes()),
    ] {
        let start = String::from_utf8_lossy(&bytes[..30]).into_owned();
        let (documents, took) = load_all(format, bytes);
        assert!(took < SOON, "{format:?} {start}: {took:?}");
        documents.iter().for_each(|document| check(format, document));
    }
}

#[test]
fn a_large_file_is_refused_before_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("large.txt");
    // Takes no room on the disk, since nothing is written.
    fs::File::create(&path).unwrap().set_len(100 * 1024 * 1024).unwrap();
    let file = walk([path]).next().unwrap().unwrap();
    let reason = Loader::default().read(&file).unwrap_err();
    assert!(matches!(reason, SkipReason::TooLarge { .. }), "{reason}");
    let bytes = Loader::default().max_file_bytes(200 * 1024 * 1024).read(&file).unwrap();
    let reason = load(Format::Text, bytes, &LoadOptions::default()).err().unwrap();
    assert!(matches!(reason, SkipReason::Binary), "{reason}");
}

#[test]
fn what_is_no_regular_file_is_reported_and_not_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.path().join("s.txt")).unwrap();
    let reasons: Vec<_> = walk([folder.path().join("s.txt"), folder.path().to_owned(), "/dev/null".into()])
        .map(|found| found.unwrap_err().reason.to_string())
        .collect();
    assert_eq!(reasons, ["not a regular file"; 3]);
}
