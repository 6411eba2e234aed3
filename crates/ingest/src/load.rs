//! From the bytes of a file to documents; where the bytes are from is not asked here.

use std::borrow::Cow;

use toller_core::{Metadata, Value};

use crate::format::Format;
use crate::key;
use crate::options::LoadOptions;
use crate::skip::{FailedPart, Part, SkipReason};
use crate::structure::Structure;
use crate::text::{self, Charset, Decoded};
use crate::{html, json, markdown, pdf, rst, table, title, whitespace};

/// A text with what its format knows of it: a file, or a page, row or record of one.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LoadedDocument {
    /// The text.
    pub text: String,
    /// Its title, where the format has one; of at most [`crate::MAX_TITLE_BYTES`] bytes.
    pub title: Option<String>,
    /// What the format knows: the page, the row, the language and such; see [`crate::key`].
    pub metadata: Metadata,
    /// Where its chunks should rather begin, and its headings.
    pub structure: Structure,
}

/// Understands a file of a format: one document, or a document for each page of a PDF, row of a table, line of JSON lines, or
/// record that [`LoadOptions::json`] names.
///
/// Files that are many documents give them one by one, so that memory holds the file and one of them; a PDF is held as its
/// objects, a few times its size. Parts without text are passed over, and count all the same.
///
/// ```
/// use toller_ingest::{Format, LoadOptions, load};
///
/// let page = b"<title>Tollers</title><nav>Home</nav><p>They <b>retrieve</b>.</p>".to_vec();
/// let documents: Vec<_> = load(Format::Html, page, &LoadOptions::default())?.collect::<Result<_, _>>().unwrap();
/// assert_eq!(documents[0].text, "They retrieve.");
/// assert_eq!(documents[0].title.as_deref(), Some("Tollers"));
/// # Ok::<(), toller_ingest::SkipReason>(())
/// ```
///
/// # Errors
/// Why nothing of the file can be used: [`SkipReason::Empty`] when all of its parts are without text. What is wrong with a part of it comes
/// from the iterator.
pub fn load(format: Format, bytes: Vec<u8>, options: &LoadOptions) -> Result<Documents, SkipReason> {
    options.check().map_err(|fault| SkipReason::InvalidOptions(Box::new(fault)))?;
    let limit = options.max_text_bytes;
    if format == Format::Pdf {
        return Documents::begin(pdf::pages(bytes, limit)?, page_of, limit, None);
    }
    let charset = match options.encoding() {
        Some(encoding) => Charset::Exactly(encoding),
        None if format == Format::Html => html::charset(&bytes).map_or(Charset::Unknown, Charset::Probably),
        None => Charset::Unknown,
    };
    let Decoded { text, encoding } = text::decode(bytes, charset)?;
    if text.len() > limit {
        return Err(SkipReason::TextTooLarge { limit });
    }
    match format {
        Format::Json if !options.json.is_empty() => {
            Documents::begin(json::records(text, &options.json)?, record_of, limit, encoding)
        }
        Format::JsonLines => Documents::begin(json::lines(text, &options.json), line_of, limit, encoding),
        Format::Csv | Format::Tsv => {
            Documents::begin(table::rows(text, format, &options.csv)?, row_of, limit, encoding)
        }
        other => {
            let document = whole(other, text, options)?;
            if document.text.len() > limit {
                return Err(SkipReason::TextTooLarge { limit });
            }
            // Its own limit was applied just now; a title may come on top.
            Documents::begin(std::iter::once(Ok(document)), record_of, usize::MAX, encoding)
        }
    }
}

/// A file that is one document.
fn whole(format: Format, text: String, options: &LoadOptions) -> Result<LoadedDocument, SkipReason> {
    match format {
        Format::Markdown => {
            let (title, structure) = markdown::outline(&text);
            Ok(LoadedDocument { text, title, metadata: Metadata::new(), structure })
        }
        Format::ReStructuredText => {
            let (title, structure) = rst::outline(&text);
            Ok(LoadedDocument { text, title, metadata: Metadata::new(), structure })
        }
        Format::Html => html::document(&text, &options.html),
        Format::Json => json::document(text),
        Format::Code(language) => {
            let metadata = Metadata::from([(key::LANGUAGE.to_owned(), Value::from(language.name()))]);
            Ok(LoadedDocument { text, metadata, ..LoadedDocument::default() })
        }
        _ => Ok(LoadedDocument { text, ..LoadedDocument::default() }),
    }
}

type Parts = Box<dyn Iterator<Item = Result<LoadedDocument, FailedPart>> + Send>;

/// Which part a document is, by what its format says of it or by how many came before it, passed over or not.
type PartOf = fn(&LoadedDocument, usize) -> Part;

/// The documents of a file, in its order; [`load`] makes them. Titles are cut at [`crate::MAX_TITLE_BYTES`].
///
/// A part that cannot be used is an error with its number, and the next part follows. When all that was given together is
/// longer than [`LoadOptions::max_text_bytes`], the document that would be too much is the last error.
pub struct Documents {
    parts: Parts,
    part_of: PartOf,
    /// The first, which was asked for to see whether there is one.
    first: Option<Result<LoadedDocument, FailedPart>>,
    limit: usize,
    bytes_left: usize,
    encoding: Option<&'static str>,
    read: usize,
    is_over: bool,
}

impl Documents {
    /// With the encoding in the metadata of each document, when it is not UTF-8.
    fn begin(
        parts: impl Iterator<Item = Result<LoadedDocument, FailedPart>> + Send + 'static,
        part_of: PartOf,
        limit: usize,
        encoding: Option<&'static str>,
    ) -> Result<Self, SkipReason> {
        let parts = Box::new(parts);
        let mut documents =
            Self { parts, part_of, first: None, limit, bytes_left: limit, encoding, read: 0, is_over: false };
        documents.first = Some(documents.next().ok_or(SkipReason::Empty)?);
        Ok(documents)
    }
}

impl Iterator for Documents {
    type Item = Result<LoadedDocument, FailedPart>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        if self.is_over {
            return None;
        }
        let mut document = loop {
            self.read += 1;
            match self.parts.next()? {
                Ok(document) if whitespace::is_blank(&document.text) => {}
                Ok(document) => break document,
                Err(fault) => return Some(Err(fault)),
            }
        };
        match self.bytes_left.checked_sub(document.text.len().saturating_add(metadata_bytes(&document.metadata))) {
            Some(left) => self.bytes_left = left,
            None => {
                self.is_over = true;
                let reason = SkipReason::TextTooLarge { limit: self.limit };
                return Some(Err(FailedPart { part: (self.part_of)(&document, self.read), reason }));
            }
        }
        if let Some(encoding) = self.encoding {
            document.metadata.insert(key::ENCODING.to_owned(), Value::from(encoding));
        }
        if let Some(title) = &mut document.title
            && let Cow::Owned(cut) = title::bounded(title)
        {
            *title = cut;
        }
        Some(Ok(document))
    }
}

fn page_of(document: &LoadedDocument, read: usize) -> Part {
    Part::Page(number(document, key::PAGE).unwrap_or(read))
}

fn line_of(document: &LoadedDocument, read: usize) -> Part {
    Part::Line(number(document, key::LINE).unwrap_or(read))
}

fn row_of(_document: &LoadedDocument, read: usize) -> Part {
    Part::Row(read)
}

fn record_of(_document: &LoadedDocument, read: usize) -> Part {
    Part::Record(read)
}

fn number(document: &LoadedDocument, key: &str) -> Option<usize> {
    match document.metadata.get(key) {
        Some(Value::Int(number)) => usize::try_from(*number).ok(),
        _ => None,
    }
}

fn metadata_bytes(metadata: &Metadata) -> usize {
    metadata.iter().map(|(name, value)| name.len().saturating_add(value_bytes(value))).fold(0, usize::saturating_add)
}

/// Metadata is nested at most as deep as the readers of JSON allow.
fn value_bytes(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len(),
        Value::List(items) => items.iter().map(value_bytes).fold(8, usize::saturating_add),
        Value::Map(entries) => metadata_bytes(entries).saturating_add(8),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Double(_) => 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code_language::CodeLanguage;
    use crate::title::MAX_TITLE_BYTES;

    fn only(format: Format, bytes: &[u8]) -> LoadedDocument {
        let mut documents = load(format, bytes.to_vec(), &LoadOptions::default()).unwrap();
        let document = documents.next().unwrap().unwrap();
        assert!(documents.next().is_none());
        document
    }

    #[test]
    fn texts_are_one_document_and_stay_as_they_are() {
        let text = "# Title\r\n\r\ntext\n";
        for format in [Format::Text, Format::Markdown, Format::ReStructuredText, Format::Code(CodeLanguage::Python)] {
            assert_eq!(only(format, text.as_bytes()).text, text);
        }
    }

    #[test]
    fn each_format_has_its_own_metadata() {
        assert_eq!(only(Format::Text, b"# Title").metadata, Metadata::new());
        let code = only(Format::Code(CodeLanguage::Rust), b"fn main() {}");
        assert_eq!(code.metadata, Metadata::from([("language".to_owned(), Value::from("rust"))]));
        let latin = only(Format::Text, b"na\xefve caf\xe9, d\xe9j\xe0 vu");
        assert_eq!(latin.text, "naïve café, déjà vu");
        assert_eq!(latin.metadata, Metadata::from([("encoding".to_owned(), Value::from("windows-1252"))]));
    }

    #[test]
    fn titles_are_of_formats_that_have_them() {
        let titles = [Format::Markdown, Format::Text].map(|format| only(format, b"# Title\n\ntext").title);
        assert_eq!(titles, [Some("Title".to_owned()), None]);
        assert_eq!(only(Format::ReStructuredText, b"Title\n=====\n").title.as_deref(), Some("Title"));
    }

    #[test]
    fn the_text_of_a_file_is_bounded() {
        let options = |max_text_bytes| LoadOptions { max_text_bytes, ..LoadOptions::default() };
        assert!(load(Format::Text, b"12345".to_vec(), &options(5)).is_ok());
        let refused = load(Format::Text, b"12345".to_vec(), &options(4)).err().unwrap();
        assert!(matches!(refused, SkipReason::TextTooLarge { limit: 4 }), "{refused}");
        let lines = "\"0123456789\"\n\"0123456789\"\n\"0123456789\"\n";
        let mut documents = load(Format::JsonLines, lines.as_bytes().to_vec(), &options(60)).unwrap();
        assert!(documents.next().unwrap().is_ok());
        assert!(documents.next().unwrap().is_ok());
        let last = documents.next().unwrap().unwrap_err();
        assert_eq!(last.part, Part::Line(3));
        assert!(matches!(last.reason, SkipReason::TextTooLarge { limit: 60 }));
        assert!(documents.next().is_none());
    }

    #[test]
    fn parts_without_text_are_passed_over_and_counted() {
        let mapping =
            r#"{"json": {"records": "", "content": "/body"}, "csv": {"content": ["body"], "metadata": ["id"]}}"#;
        let options: LoadOptions = serde_json::from_str(mapping).unwrap();
        let parts = |format, text: &str| -> Vec<_> {
            let documents = load(format, text.as_bytes().to_vec(), &options).unwrap();
            documents.map(|part| part.map_or_else(|fault| fault.to_string(), |document| document.text)).collect()
        };
        let table = "id,body\n1, \n2,two\n,\n4,four,4,\n,\n,\n";
        let fault = "row 4: it has 4 fields where the header has 2 columns, quote what is one field";
        assert_eq!(parts(Format::Csv, table), ["two", fault]);
        let rows: Vec<_> = load(Format::Csv, table.into(), &options).unwrap().filter_map(Result::ok).collect();
        assert_eq!(rows[0].metadata["row"], Value::Int(2));
        let records = r#"[{"body": ""}, {"body": "two"}, {"body": null}, {"body": " \n"}, {}]"#;
        let fault = "record 5: it has no text at the JSON pointer \"/body\", change the mapping";
        assert_eq!(parts(Format::Json, records), ["two", fault]);
        let lines = "{\"body\": \"\"}\n\n{\"body\": \"three\"}\n{\"body\": null}\n";
        assert_eq!(parts(Format::JsonLines, lines), ["three"]);
        // What is too much is named by its place in the file.
        let small = LoadOptions { max_text_bytes: 280, ..options.clone() };
        let texts = format!(r#"[{{"body":""}}{}]"#, r#",{"body":"x"}"#.repeat(19));
        let fault = load(Format::Json, texts.into(), &small).unwrap().last().unwrap().unwrap_err();
        assert_eq!(fault.part, Part::Record(20));
    }

    #[test]
    fn a_file_of_parts_without_text_is_empty() {
        let options: LoadOptions = serde_json::from_str(r#"{"json": {"records": "", "content": "/body"}}"#).unwrap();
        for (format, text) in [
            (Format::Csv, "a,b\n,\n\" \",\n"),
            (Format::Tsv, "a\tb\n"),
            (Format::Json, r#"[{"body": ""}, {"body": null}]"#),
            (Format::Json, "[]"),
            (Format::JsonLines, "{\"body\": \"\"}\n"),
        ] {
            let refused = load(format, text.into(), &options).err();
            assert!(matches!(refused, Some(SkipReason::Empty)), "{text}: {refused:?}");
        }
    }

    #[test]
    fn titles_are_bounded() {
        let long = "title ".repeat(200_000);
        let kept = format!("{}…", "title ".repeat(85).trim_end());
        assert!(kept.len() <= MAX_TITLE_BYTES);
        for (format, text) in [
            (Format::Markdown, format!("# {long}\n\ntext")),
            (Format::ReStructuredText, format!("{}\n{}\n\ntext", long.trim_end(), "=".repeat(long.len()))),
            (Format::Html, format!("<title>{long}</title>text")),
            (Format::Html, format!("<h1>{long}</h1>text")),
        ] {
            assert_eq!(only(format, text.as_bytes()).title.as_deref(), Some(&*kept), "{format:?}");
        }
    }

    #[test]
    fn wrong_options_are_refused_whatever_the_file() {
        let options = LoadOptions { charset: Some("none such".to_owned()), ..LoadOptions::default() };
        let refused = load(Format::Text, b"text".to_vec(), &options).err().unwrap();
        assert!(matches!(refused, SkipReason::InvalidOptions(_)));
        assert!(refused.to_string().contains("charset: must be"), "{refused}");
    }
}
