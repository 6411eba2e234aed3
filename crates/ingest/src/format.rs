//! The formats that are read, told by the file's extension, its media type or its first bytes.

use std::path::Path;

use crate::code_language::CodeLanguage;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Plain text: `.txt`, `.text`.
    Text,
    /// Markdown: `.md`, `.markdown`.
    Markdown,
    /// reStructuredText, whose marks stay in the text: `.rst`.
    ReStructuredText,
    /// HTML: `.html`, `.htm`, `.xhtml`.
    Html,
    /// PDF: `.pdf`.
    Pdf,
    /// One JSON value: `.json`.
    Json,
    /// A JSON value on each line: `.jsonl`, `.ndjson`.
    JsonLines,
    /// A table with a header, its fields separated by commas or semicolons: `.csv`.
    Csv,
    /// A table with a header, its fields separated by tabs: `.tsv`.
    Tsv,
    /// Source code.
    Code(CodeLanguage),
}

impl Format {
    /// Told by the extension, in any case of letters; none when it is not one of ours.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "txt" | "text" => Some(Self::Text),
            "md" | "markdown" => Some(Self::Markdown),
            "rst" => Some(Self::ReStructuredText),
            "html" | "htm" | "xhtml" => Some(Self::Html),
            "pdf" => Some(Self::Pdf),
            "json" => Some(Self::Json),
            "jsonl" | "ndjson" => Some(Self::JsonLines),
            "csv" => Some(Self::Csv),
            "tsv" => Some(Self::Tsv),
            other => CodeLanguage::of_extension(other).map(Self::Code),
        }
    }

    /// Told by a media type, in any case of letters and with or without parameters; none when it is not one of ours. A
    /// `charset` parameter is [`charset_of`]'s.
    ///
    /// ```
    /// use toller_ingest::Format;
    /// assert_eq!(Format::of_media_type("text/HTML; charset=utf-8"), Some(Format::Html));
    /// assert_eq!(Format::of_media_type("image/png"), None);
    /// ```
    pub fn of_media_type(media_type: &str) -> Option<Self> {
        let essence = media_type.split(';').next()?.trim().to_ascii_lowercase();
        match essence.as_str() {
            "text/plain" => Some(Self::Text),
            "text/markdown" | "text/x-markdown" => Some(Self::Markdown),
            "text/x-rst" | "text/prs.fallenstein.rst" => Some(Self::ReStructuredText),
            "text/html" | "application/xhtml+xml" => Some(Self::Html),
            "application/pdf" | "application/x-pdf" => Some(Self::Pdf),
            "application/json" | "text/json" => Some(Self::Json),
            "application/jsonl" | "application/x-ndjson" | "application/x-jsonlines" => Some(Self::JsonLines),
            "text/csv" => Some(Self::Csv),
            "text/tab-separated-values" => Some(Self::Tsv),
            other => CodeLanguage::of_media_type(other).map(Self::Code),
        }
    }

    /// Told by the first bytes, for files whose name says nothing: PDF and HTML; none for all else.
    pub fn of_content(bytes: &[u8]) -> Option<Self> {
        let start = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
        let begins_with = |mark: &[u8]| start.get(..mark.len()).is_some_and(|head| head.eq_ignore_ascii_case(mark));
        if begins_with(b"%PDF-") {
            Some(Self::Pdf)
        } else if begins_with(b"<!doctype html") || begins_with(b"<html") {
            Some(Self::Html)
        } else {
            None
        }
    }

    /// The media type that chunks carry in their metadata.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain",
            Self::Markdown => "text/markdown",
            Self::ReStructuredText => "text/x-rst",
            Self::Html => "text/html",
            Self::Pdf => "application/pdf",
            Self::Json => "application/json",
            Self::JsonLines => "application/jsonl",
            Self::Csv => "text/csv",
            Self::Tsv => "text/tab-separated-values",
            Self::Code(language) => language.media_type(),
        }
    }
}

/// The `charset` parameter of a media type, for [`crate::LoadOptions::charset`]; none when it has none.
///
/// ```
/// use toller_ingest::charset_of;
/// assert_eq!(charset_of("text/plain; charset=\"ISO-8859-1\""), Some("ISO-8859-1"));
/// ```
pub fn charset_of(media_type: &str) -> Option<&str> {
    media_type.split(';').skip(1).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_tell_the_format() {
        for (name, format) in [
            ("a.txt", Some(Format::Text)),
            ("a.text", Some(Format::Text)),
            ("b/README.MD", Some(Format::Markdown)),
            ("a.markdown", Some(Format::Markdown)),
            ("a.rst", Some(Format::ReStructuredText)),
            ("index.HTM", Some(Format::Html)),
            ("a.pdf", Some(Format::Pdf)),
            ("a.json", Some(Format::Json)),
            ("a.ndjson", Some(Format::JsonLines)),
            ("a.csv", Some(Format::Csv)),
            ("a.tsv", Some(Format::Tsv)),
            ("main.rs", Some(Format::Code(CodeLanguage::Rust))),
            ("a.md.bak", None),
            ("md", None),
            (".md", None),
        ] {
            assert_eq!(Format::of(Path::new(name)), format, "{name}");
        }
    }

    #[test]
    fn a_formats_own_media_type_tells_it() {
        for format in [
            Format::Text,
            Format::Markdown,
            Format::ReStructuredText,
            Format::Html,
            Format::Pdf,
            Format::Json,
            Format::JsonLines,
            Format::Csv,
            Format::Tsv,
            Format::Code(CodeLanguage::Cpp),
        ] {
            assert_eq!(Format::of_media_type(format.media_type()), Some(format));
        }
        assert_eq!(Format::of_media_type(" Text/CSV ;header=present"), Some(Format::Csv));
        assert_eq!(Format::of_media_type("application/octet-stream"), None);
        assert_eq!(Format::of_media_type(""), None);
    }

    #[test]
    fn first_bytes_tell_what_names_do_not() {
        for (bytes, format) in [
            (&b"%PDF-1.7\n"[..], Some(Format::Pdf)),
            (b"\xef\xbb\xbf\n <!DOCTYPE HTML>", Some(Format::Html)),
            (b"<HTML lang=en>", Some(Format::Html)),
            (b"<p>", None),
            (b"%PDF", None),
            (b"", None),
        ] {
            assert_eq!(Format::of_content(bytes), format, "{bytes:?}");
        }
    }

    #[test]
    fn charsets_are_parameters() {
        for (media_type, charset) in [
            ("text/plain", None),
            ("text/plain; format=flowed; Charset=koi8-r", Some("koi8-r")),
            ("charset=utf-8", None),
        ] {
            assert_eq!(charset_of(media_type), charset, "{media_type}");
        }
    }
}
