//! Files as people and programs write them, through the whole of loading: what is found is compared with what was looked at once
//! and kept beside the files.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use toller_ingest::{FailedPart, Format, LoadOptions, LoadedDocument, load};

/// The parts of a file of the fixtures: those that can be used, and those that cannot.
fn loaded(name: &str, options: &str) -> (Vec<LoadedDocument>, Vec<FailedPart>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let options: LoadOptions = serde_json::from_str(options).unwrap();
    let parts = load(Format::of(&path).unwrap(), fs::read(path).unwrap(), &options).unwrap();
    let (mut documents, mut failed) = (Vec::new(), Vec::new());
    for part in parts {
        match part {
            Ok(document) => documents.push(document),
            Err(fault) => failed.push(fault),
        }
    }
    (documents, failed)
}

/// All that is known of a file.
fn described((documents, failed): &(Vec<LoadedDocument>, Vec<FailedPart>)) -> String {
    let mut description = String::new();
    for document in documents {
        let metadata = serde_json::to_string(&document.metadata).unwrap();
        writeln!(description, "==== title {:?}, metadata {metadata}", document.title).unwrap();
        for heading in document.structure.headings() {
            let lines = &document.text[heading.bytes.clone()];
            writeln!(description, "== heading {} {:?} at {:?} {lines:?}", heading.level, heading.title, heading.bytes)
                .unwrap();
        }
        for (level, places) in document.structure.levels().iter().enumerate().filter(|(_, places)| !places.is_empty()) {
            let begins = |place: &usize| document.text[*place..].chars().take(8).collect::<String>();
            writeln!(description, "== level {level} {:?}", places.iter().map(begins).collect::<Vec<_>>()).unwrap();
        }
        writeln!(description, "{}", document.text.replace('\r', "␍")).unwrap();
    }
    for failed in failed {
        writeln!(description, "==== failed {failed}").unwrap();
    }
    description
}

/// Compares with what is kept; with `TOLLER_KEEP_GOLDEN` set it is kept anew, to be looked at.
fn is_as_kept(name: &str, options: &str, kept: &str) {
    let found = described(&loaded(name, options));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(kept);
    if std::env::var_os("TOLLER_KEEP_GOLDEN").is_some() {
        fs::write(&path, &found).unwrap();
    }
    assert_eq!(found, fs::read_to_string(&path).unwrap(), "{name}");
}

#[test]
fn an_article_in_its_frame() {
    is_as_kept("article.html", "{}", "article.golden");
}

#[test]
fn a_whole_page_when_asked_for() {
    is_as_kept("article.html", r#"{"html": {"main_content_only": false}}"#, "article-whole.golden");
}

#[test]
fn a_page_of_tables_in_an_old_encoding() {
    is_as_kept("old-page.html", "{}", "old-page.golden");
}

#[test]
fn sections_of_restructured_text() {
    is_as_kept("guide.rst", "{}", "guide.golden");
}

#[test]
fn a_pdf_with_packed_objects() {
    is_as_kept("report.pdf", "{}", "report.golden");
}

#[test]
fn rows_of_a_table() {
    is_as_kept("products.csv", "{}", "products.golden");
    is_as_kept(
        "products.csv",
        r#"{"csv": {"content": ["description"], "metadata": ["sku", "price"]}}"#,
        "products-mapped.golden",
    );
}

#[test]
fn json_as_it_is_and_by_records() {
    is_as_kept("catalog.json", "{}", "catalog.golden");
    let by_items =
        r#"{"json": {"records": "/items", "content": "/text", "metadata": {"id": "/id", "sizes": "/sizes"}}}"#;
    is_as_kept("catalog.json", by_items, "catalog-records.golden");
}

#[test]
fn lines_of_json() {
    let by_answers =
        r#"{"json": {"content": "/a", "metadata": {"question": "/q", "votes": "/votes", "tags": "/tags"}}}"#;
    is_as_kept("faq.jsonl", by_answers, "faq.golden");
}
