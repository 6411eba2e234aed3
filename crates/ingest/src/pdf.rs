//! PDF: a document for each page that has text.
//!
//! A file that was made to do harm must not stop the process, fill its memory or keep it busy for long. So its objects are read by
//! a crate that bounds their depth, on a thread whose panics are caught; what the crate does not bound is looked for before
//! ([`guard`]); pages are read here, with a budget of bytes and nothing recursive but forms, whose depth is bounded.

mod font;
mod guard;
mod lexer;
mod lines;
mod page;
mod to_unicode;

use std::panic::resume_unwind;
use std::thread;

use lopdf::{Dictionary, Document, Object, ObjectId};
use toller_core::{Metadata, Value};

use crate::key;
use crate::load::LoadedDocument;
use crate::skip::{FailedPart, Part, SkipReason};
use crate::whitespace;
use font::Fonts;
use guard::Guard;
use page::{Budget, PageFault};

/// Stack of the threads that read: an object may be nested a hundred deep, with several frames of the parser for each level.
const STACK_BYTES: usize = 32 << 20;
/// Most levels of the page tree above a page.
const MAX_PAGE_TREE_DEPTH: usize = 64;

/// The pages of a file. Its objects are read at once; so is the text of its first page that has some, since a file without text
/// is no use.
pub(crate) fn pages(bytes: Vec<u8>, max_text_bytes: usize) -> Result<Pages, SkipReason> {
    let document = isolated(move || open(&bytes))??;
    let (ids, title) = isolated(|| (page_ids(&document), title(&document)))?;
    if ids.is_empty() {
        return Err(SkipReason::PdfBroken { fault: "it has no pages".to_owned() });
    }
    let budget = Budget::new(max_text_bytes);
    let mut pages =
        Pages { document, ids, title, fonts: Fonts::default(), budget, next: 0, first: None, is_over: false };
    let first = pages.next();
    match first {
        Some(first) => {
            pages.first = Some(first);
            Ok(pages)
        }
        None => Err(SkipReason::PdfWithoutText),
    }
}

/// Runs on a thread of its own; a panic there is a fault of the file.
fn isolated<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, SkipReason> {
    thread::scope(|scope| {
        let worker = thread::Builder::new()
            .name("toller-pdf".to_owned())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, work)
            .map_err(SkipReason::Unreadable)?;
        worker.join().map_err(|panic| match panic.downcast::<TooMuchWork>() {
            Ok(_) => SkipReason::PdfTooComplex,
            Err(_) => SkipReason::PdfBroken { fault: "its objects contradict each other".to_owned() },
        })
    })
}

/// What a thread unwinds with when a file is given up.
struct TooMuchWork;

fn open(bytes: &[u8]) -> Result<Document, SkipReason> {
    let guard = Guard::look(bytes)?;
    guard::begin(bytes.len());
    let options = lopdf::LoadOptions {
        filter: Some(|id, object| {
            if !guard::admits(object) {
                // Ends the thread, past the crate, without a message on standard error.
                resume_unwind(Box::new(TooMuchWork));
            }
            // Of objects that are not within others only whether there is something is looked at.
            let kept = if matches!(object, Object::Stream(_)) { Object::Null } else { object.clone() };
            Some((id, kept))
        }),
        max_decompressed_size: Some(guard.most_bytes_of_an_object_stream()),
        ..lopdf::LoadOptions::default()
    };
    match Document::load_mem_with_options(bytes, options) {
        Ok(document) if document.is_encrypted() => Err(SkipReason::PdfEncrypted),
        Ok(document) => Ok(document),
        Err(
            lopdf::Error::InvalidPassword | lopdf::Error::Decryption(_) | lopdf::Error::UnsupportedSecurityHandler(_),
        ) => Err(SkipReason::PdfEncrypted),
        Err(fault) => Err(SkipReason::PdfBroken { fault: fault.to_string() }),
    }
}

fn page_ids(document: &Document) -> Vec<ObjectId> {
    // The iterator guesses its length from what the file says, which must not be reserved.
    let mut ids = Vec::new();
    for id in document.page_iter() {
        ids.push(id);
    }
    ids
}

/// What the file says of itself, on one line.
fn title(document: &Document) -> Option<String> {
    let information = document.trailer.get_deref(b"Info", document).and_then(Object::as_dict).ok()?;
    let title = text_string(information.get_deref(b"Title", document).and_then(Object::as_str).ok()?);
    let words = title.split(|character: char| character.is_control() || whitespace::is_space(character));
    let title = words.filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    (!title.is_empty()).then_some(title)
}

/// What PDF's own encoding has from 0x80 on, before it goes on as Latin-1 does.
const OWN_LETTERS: [char; 33] = [
    '•', '†', '‡', '…', '—', '–', 'ƒ', '⁄', '‹', '›', '−', '‰', '„', '“', '”', '‘', '’', '‚', '™', 'ﬁ', 'ﬂ', 'Ł', 'Œ',
    'Š', 'Ÿ', 'Ž', 'ı', 'ł', 'œ', 'š', 'ž', '\u{fffd}', '€',
];

/// A text outside of pages: UTF-16 or UTF-8 with a byte order mark, else PDF's own encoding.
fn text_string(bytes: &[u8]) -> String {
    if let Some(utf16) = bytes.strip_prefix(b"\xfe\xff") {
        let (pairs, _) = utf16.as_chunks::<2>();
        let units = pairs.iter().map(|pair| u16::from_be_bytes(*pair));
        return char::decode_utf16(units).filter_map(Result::ok).collect();
    }
    if let Some(utf8) = bytes.strip_prefix(b"\xef\xbb\xbf") {
        return String::from_utf8_lossy(utf8).into_owned();
    }
    let letter = |byte: &u8| {
        let own = byte.checked_sub(0x80).and_then(|place| OWN_LETTERS.get(usize::from(place)));
        own.copied().unwrap_or(char::from(*byte))
    };
    bytes.iter().map(letter).collect()
}

/// An entry of a page, or of what the page tree has above it.
fn inherited<'d>(document: &'d Document, page: ObjectId, name: &[u8]) -> Option<&'d Object> {
    let mut dictionary: &Dictionary = document.get_dictionary(page).ok()?;
    for _ in 0..MAX_PAGE_TREE_DEPTH {
        if let Ok(found) = dictionary.get_deref(name, document) {
            return Some(found);
        }
        dictionary = dictionary.get_deref(b"Parent", document).and_then(Object::as_dict).ok()?;
    }
    None
}

/// Iterator of [`pages`].
pub(crate) struct Pages {
    document: Document,
    ids: Vec<ObjectId>,
    title: Option<String>,
    fonts: Fonts,
    budget: Budget,
    next: usize,
    first: Option<Result<LoadedDocument, FailedPart>>,
    is_over: bool,
}

impl Iterator for Pages {
    type Item = Result<LoadedDocument, FailedPart>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        while !self.is_over {
            let id = *self.ids.get(self.next)?;
            self.next += 1;
            let (document, fonts, budget) = (&self.document, &mut self.fonts, &mut self.budget);
            let read = isolated(|| {
                let resources = inherited(document, id, b"Resources").and_then(|found| found.as_dict().ok());
                page::text(document, id, resources, fonts, budget)
            });
            let reason = match read {
                Ok(Ok(text)) if text.is_empty() => continue,
                Ok(Ok(text)) => return Some(Ok(self.page(text))),
                Ok(Err(PageFault::TooMuchWork)) => SkipReason::PdfTooComplex,
                Ok(Err(PageFault::TooMuchText { limit })) => SkipReason::TextTooLarge { limit },
                Err(reason) => reason,
            };
            // The budget is that of the file.
            self.is_over = matches!(reason, SkipReason::PdfTooComplex | SkipReason::TextTooLarge { .. });
            return Some(Err(FailedPart { part: Part::Page(self.next), reason }));
        }
        None
    }
}

impl Pages {
    fn page(&self, text: String) -> LoadedDocument {
        let metadata = Metadata::from([
            (key::PAGE.to_owned(), Value::from_count(self.next)),
            (key::PAGES.to_owned(), Value::from_count(self.ids.len())),
        ]);
        LoadedDocument { text, title: self.title.clone(), metadata, ..LoadedDocument::default() }
    }
}

#[cfg(test)]
mod tests;
