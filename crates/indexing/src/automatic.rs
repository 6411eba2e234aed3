//! How a document is cut when nobody says: by what it is.

use std::str::FromStr;

use toller_ingest::{CodeSpec, Format, JsonSpec, Language, RecursiveSpec, SplitterSpec};

/// Code by its syntax, JSON by its values, and all else by the joints of the text, where headings and blocks come first.
pub(crate) fn spec_for(format: Format, chunk_size: usize, chunk_overlap: Option<usize>) -> SplitterSpec {
    if let Format::Code(language) = format
        && let Ok(language) = Language::from_str(language.name())
    {
        return SplitterSpec::Code(CodeSpec { language, chunk_size });
    }
    match format {
        Format::Json | Format::JsonLines => SplitterSpec::Json(JsonSpec { chunk_size }),
        _ => SplitterSpec::Recursive(RecursiveSpec { chunk_size, chunk_overlap, ..RecursiveSpec::default() }),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn documents_are_cut_by_what_they_are() {
        for (name, kind) in [
            ("a.rs", "code"),
            ("a.py", "code"),
            ("a.json", "json"),
            ("a.md", "recursive"),
            ("a.sql", "recursive"),
            ("a.pdf", "recursive"),
        ] {
            let format = Format::of(Path::new(name)).unwrap();
            assert_eq!(spec_for(format, 100, None).kind(), kind, "{name}");
        }
    }
}
