//! HTML: the text that a reader sees, with its headings and blocks.
//!
//! The file is read as a stream of tags and never as a tree: what is open is a list, and which tags end what is the HTML standard's,
//! as far as it decides what is seen. All is linear in the length of the file, however deep its nesting.

mod charset;
mod element;
mod group;
mod nesting;
mod open;
mod region;
mod writer;

use html5gum::{StartTag, State, Token, Tokenizer, naive_next_state};
use toller_core::Metadata;

use crate::load::LoadedDocument;
use crate::options::HtmlOptions;
use crate::skip::SkipReason;
use crate::whitespace;

pub(crate) use charset::charset;
use element::Kind;
use group::Group;
use nesting::Begins;
use open::OpenElements;
use region::{Keep, Regions};
use writer::Writer;

/// The namespace of HTML in XML.
const XHTML: &[u8] = b"http://www.w3.org/1999/xhtml";

/// The text of a page.
///
/// Title: of `<title>`, else the first `<h1>` with text. O(n), in two passes when only the main content is wanted: the first
/// looks where the text is.
pub(crate) fn document(html: &str, options: &HtmlOptions) -> Result<LoadedDocument, SkipReason> {
    let keep = if options.main_content_only { most_of_the_text(html) } else { Keep::Everything };
    let Reading { writer, title, .. } = Reading::of(html, keep);
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
    Reading::of(html, Keep::Nothing).regions.keep()
}

/// What is open at a place of the page, and what was read until there.
struct Reading {
    /// Is it XML too, where every element can be empty by the form of its tag?
    is_xhtml: bool,
    open: OpenElements,
    regions: Regions,
    writer: Writer,
    title: String,
    in_title: bool,
    has_title: bool,
}

impl Reading {
    fn of(html: &str, keep: Keep) -> Self {
        let mut reading = Self {
            is_xhtml: html.trim_start().starts_with("<?xml"),
            open: OpenElements::default(),
            regions: Regions::new(keep),
            writer: Writer::default(),
            title: String::new(),
            in_title: false,
            has_title: false,
        };
        let mut tokens = Tokenizer::new(html);
        while let Some(token) = tokens.next() {
            match token {
                Ok(Token::StartTag(tag)) => tokens.set_state(reading.begin(&tag)),
                Ok(Token::EndTag(tag)) => reading.end(&tag.name),
                Ok(Token::String(text)) => reading.text(&String::from_utf8_lossy(&text.value)),
                Ok(Token::Comment(_) | Token::Doctype(_) | Token::Error(_)) => {}
                // A string is read without faults.
                Err(never) => match never {},
            }
        }
        reading
    }

    /// Says how what follows the tag is read: the content of scripts and such has no tags in it.
    fn begin(&mut self, tag: &StartTag<()>) -> State {
        let name = tag.name.as_slice();
        if name == b"html" && attribute(tag, b"xmlns").is_some_and(|namespace| namespace.trim_ascii() == XHTML) {
            self.is_xhtml = true;
        }
        let begins = nesting::begin(&mut self.open, name, || leaves_foreign(tag));
        if begins == Begins::Nothing {
            return State::Data;
        }
        let is_within_foreign = nesting::is_in_foreign(&self.open);
        let is_foreign = is_within_foreign || matches!(name, b"svg" | b"math");
        let is_empty = match is_foreign {
            true => tag.self_closing,
            false => element::is_void(name) || (self.is_xhtml && tag.self_closing),
        };
        let state = match is_foreign || is_empty {
            true => State::Data,
            false => naive_next_state(name).unwrap_or(State::Data),
        };
        let is_seen = !self.open.is_in(Group::PassedOver);
        let kind = match element::kind(name) {
            Kind::Title if is_within_foreign => Kind::Inline,
            Kind::Title => {
                self.in_title = is_seen && !is_empty && !self.has_title;
                return state;
            }
            other => other,
        };
        let is_passed_over = is_seen && (kind == Kind::PassedOver || is_invisible(tag));
        let mut groups = if is_foreign { group::of_foreign(name) } else { group::of_html(name) };
        if is_passed_over {
            groups = groups.with(Group::PassedOver);
        } else if is_seen && !is_empty {
            groups = groups.and(self.regions.open(name, attribute(tag, b"role"), &self.open));
        }
        if !is_empty && begins == Begins::Element {
            self.open.push(name, groups);
        }
        if is_seen && !is_passed_over {
            self.writer.open(name, kind);
            if is_empty && kind != Kind::LineBreak {
                self.writer.close(name, kind);
            }
        }
        state
    }

    fn end(&mut self, name: &[u8]) {
        let kind = element::kind(name);
        if kind == Kind::Title && self.open.last_named(name).is_none() {
            self.has_title |= self.in_title;
            self.in_title = false;
            return;
        }
        let passed_over = self.open.first(Group::PassedOver);
        let ended = nesting::end(&mut self.open, name);
        let is_end_of_passed_over = passed_over.is_some() && ended == passed_over;
        if !self.open.is_in(Group::PassedOver) && !is_end_of_passed_over {
            self.writer.close(name, kind);
            self.regions.close(name);
        }
    }

    fn text(&mut self, text: &str) {
        if self.open.is_in(Group::PassedOver) {
            return;
        }
        if self.in_title {
            self.title.push_str(text);
        } else if self.regions.take(text, &self.open) {
            self.writer.text(text);
        }
    }
}

/// Does it end the drawing or formula that it is in? Letters that have a colour or a size are of HTML, too.
fn leaves_foreign(tag: &StartTag<()>) -> bool {
    let has = |name: &[u8]| tag.attributes.contains_key(name);
    let is_font = tag.name.as_slice() == b"font" && (has(b"color") || has(b"face") || has(b"size"));
    is_font || element::leaves_foreign(&tag.name)
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
