//! The formats that are read, told by the file's extension.

use std::path::Path;

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Plain text: `.txt`, `.text`.
    Text,
    /// Markdown: `.md`, `.markdown`.
    Markdown,
    /// reStructuredText, read as plain text: `.rst`.
    ReStructuredText,
}

impl Format {
    /// Told by the extension, in any case of letters; none when it is not one of ours.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "txt" | "text" => Some(Self::Text),
            "md" | "markdown" => Some(Self::Markdown),
            "rst" => Some(Self::ReStructuredText),
            _ => None,
        }
    }

    /// The media type that chunks carry in their metadata.
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain",
            Self::Markdown => "text/markdown",
            Self::ReStructuredText => "text/x-rst",
        }
    }
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
            ("a.md.bak", None),
            ("md", None),
            (".md", None),
        ] {
            assert_eq!(Format::of(Path::new(name)), format, "{name}");
        }
    }
}
