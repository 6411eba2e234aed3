//! HTML: the text that a reader sees, with its headings and blocks.
//!
//! The file is read as a stream of tags and never as a tree, so that the depth of its nesting costs nothing: what is open is
//! kept as counts, and all is linear in the length of the file.

mod charset;
mod element;
mod region;
mod writer;

use html5gum::{DefaultEmitter, StartTag, Token, Tokenizer};
use toller_core::Metadata;

use crate::load::LoadedDocument;
use crate::options::HtmlOptions;
use crate::skip::SkipReason;
use crate::whitespace;

pub(crate) use charset::charset;
use element::Kind;
use region::{Keep, Regions};
use writer::Writer;

/// The text of a page.
///
/// Title: of `<title>`, else the first `<h1>` with text. O(n), in two passes when only the main content is wanted: the first
/// looks where the text is.
pub(crate) fn document(html: &str, options: &HtmlOptions) -> Result<LoadedDocument, SkipReason> {
    let keep = if options.main_content_only { most_of_the_text(html) } else { Keep::Everything };
    let mut reading = Reading::new(keep);
    read(html, |token| reading.take(token));
    let Reading { writer, title, .. } = reading;
    let (text, structure) = writer.finish();
    if text.is_empty() {
        return Err(SkipReason::Empty);
    }
    let first = structure.headings().iter().find(|heading| heading.level == 1 && !heading.title.is_empty());
    let title = Some(collapsed(&title)).filter(|title| !title.is_empty());
    let title = title.or_else(|| first.map(|heading| heading.title.clone()));
    Ok(LoadedDocument { text, title, metadata: Metadata::new(), structure })
}

/// Which parts of the page hold its text.
fn most_of_the_text(html: &str) -> Keep {
    let mut reading = Reading::new(Keep::Nothing);
    read(html, |token| reading.take(token));
    reading.regions.keep()
}

fn read(html: &str, mut take: impl FnMut(Token)) {
    let mut emitter = DefaultEmitter::default();
    emitter.naively_switch_states(true);
    for token in Tokenizer::new_with_emitter(html, emitter) {
        match token {
            Ok(token) => take(token),
            // A string is read without faults.
            Err(never) => match never {},
        }
    }
}

/// What is open at a place of the page, and what was read until there.
struct Reading {
    regions: Regions,
    writer: Writer,
    title: String,
    in_title: bool,
    has_title: bool,
    /// The element whose content is passed over, and how many of its name are open within.
    passed_over: Option<(Vec<u8>, usize)>,
}

impl Reading {
    fn new(keep: Keep) -> Self {
        Self {
            regions: Regions::new(keep),
            writer: Writer::default(),
            title: String::new(),
            in_title: false,
            has_title: false,
            passed_over: None,
        }
    }

    fn take(&mut self, token: Token) {
        match token {
            Token::StartTag(tag) => self.open(&tag),
            Token::EndTag(tag) => self.close(&tag.name),
            Token::String(text) => self.text(&String::from_utf8_lossy(&text.value)),
            Token::Comment(_) | Token::Doctype(_) | Token::Error(_) => {}
        }
    }

    fn open(&mut self, tag: &StartTag<()>) {
        let name = tag.name.as_slice();
        if let Some((passed_over, depth)) = &mut self.passed_over {
            *depth += usize::from(passed_over.as_slice() == name);
            return;
        }
        let kind = element::kind(name);
        if kind == Kind::Title {
            self.in_title = !self.has_title;
            return;
        }
        if kind != Kind::Void && (kind == Kind::PassedOver || is_invisible(tag)) {
            self.passed_over = Some((name.to_owned(), 1));
            return;
        }
        self.regions.open(name, attribute(tag, b"role"));
        self.writer.open(name, kind);
    }

    fn close(&mut self, name: &[u8]) {
        if let Some((passed_over, depth)) = &mut self.passed_over {
            if passed_over.as_slice() == name {
                *depth -= 1;
                if *depth == 0 {
                    self.passed_over = None;
                }
            }
            return;
        }
        let kind = element::kind(name);
        if kind == Kind::Title {
            self.has_title |= self.in_title;
            self.in_title = false;
            return;
        }
        self.writer.close(name, kind);
        self.regions.close(name);
    }

    fn text(&mut self, text: &str) {
        if self.passed_over.is_some() {
            return;
        }
        if self.in_title {
            self.title.push_str(text);
        } else if self.regions.take(text) {
            self.writer.text(text);
        }
    }
}

/// Is it marked as not shown, or as a mere anchor beside a heading?
fn is_invisible(tag: &StartTag<()>) -> bool {
    let is = |name, value: &[u8]| attribute(tag, name).is_some_and(|found| found.eq_ignore_ascii_case(value));
    tag.attributes.contains_key(b"hidden".as_slice())
        || is(b"aria-hidden", b"true")
        || (tag.name.as_slice() == b"a" && is(b"class", b"headerlink"))
}

fn attribute<'t>(tag: &'t StartTag<()>, name: &[u8]) -> Option<&'t [u8]> {
    tag.attributes.get(name).map(|value| value.value.as_slice())
}

/// A text on one line.
fn collapsed(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split(whitespace::is_space).filter(|word| !word.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests;
