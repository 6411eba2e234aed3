//! Reading one file into text, title and structure.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::format::Format;
use crate::markdown;
use crate::skip::{SkipReason, Skipped};
use crate::structure::Structure;
use crate::text;
use crate::walk::SourceFile;

/// Most bytes of a file, unless set otherwise: 64 MiB, far above any text that people write.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// A file that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedFile {
    /// What it is known by; see [`SourceFile::source`].
    pub source: String,
    /// What it holds.
    pub format: Format,
    /// Its title, where the format has one: of Markdown the front matter's, else the first heading.
    pub title: Option<String>,
    /// Its text, without a byte order mark and otherwise unchanged.
    pub text: String,
    /// Where its chunks should rather begin.
    pub structure: Structure,
}

/// Reads files, up to a size.
#[derive(Debug, Clone, Copy)]
pub struct Loader {
    max_file_bytes: u64,
}

impl Default for Loader {
    fn default() -> Self {
        Self { max_file_bytes: DEFAULT_MAX_FILE_BYTES }
    }
}

impl Loader {
    /// Admits files of at most `bytes` bytes.
    #[must_use]
    pub fn max_file_bytes(mut self, bytes: u64) -> Self {
        self.max_file_bytes = bytes;
        self
    }

    /// Reads a file. Memory: a few times its size at most.
    ///
    /// # Errors
    /// The file with the reason why it cannot be used.
    pub fn load(&self, file: &SourceFile) -> Result<LoadedFile, Skipped> {
        match self.read(&file.path).and_then(text::decode) {
            Ok(text) => {
                let (title, structure) = match file.format {
                    Format::Markdown => markdown::outline(&text),
                    Format::Text | Format::ReStructuredText => (None, Structure::default()),
                };
                Ok(LoadedFile { source: file.source.clone(), format: file.format, title, text, structure })
            }
            Err(reason) => Err(Skipped { source: file.source.clone(), named: file.named, reason }),
        }
    }

    /// The bytes of a file; reads no more than admitted, even of a file that grows meanwhile.
    fn read(&self, path: &Path) -> Result<Vec<u8>, SkipReason> {
        let too_large = SkipReason::TooLarge { limit: self.max_file_bytes };
        let file = File::open(path).map_err(SkipReason::Unreadable)?;
        let length = file.metadata().map_err(SkipReason::Unreadable)?.len();
        if length > self.max_file_bytes {
            return Err(too_large);
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        file.take(self.max_file_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(SkipReason::Unreadable)?;
        if bytes.len() as u64 > self.max_file_bytes {
            return Err(too_large);
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn source(path: &Path, format: Format) -> SourceFile {
        SourceFile { path: path.to_owned(), source: "s".to_owned(), format, named: false }
    }

    #[test]
    fn size_is_bounded_inclusively() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "12345").unwrap();
        let file = source(&path, Format::Text);
        assert_eq!(Loader::default().max_file_bytes(5).load(&file).unwrap().text, "12345");
        let skipped = Loader::default().max_file_bytes(4).load(&file).unwrap_err();
        assert_eq!(skipped.to_string(), "s: larger than 4 bytes");
    }

    #[test]
    fn only_markdown_has_a_title() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "# Title\n\ntext").unwrap();
        let titles = [Format::Markdown, Format::Text, Format::ReStructuredText]
            .map(|format| Loader::default().load(&source(&path, format)).unwrap().title);
        assert_eq!(titles, [Some("Title".to_owned()), None, None]);
    }

    #[test]
    fn what_cannot_be_opened_is_skipped() {
        let skipped = Loader::default().load(&source(Path::new("/nonexistent/x.md"), Format::Markdown)).unwrap_err();
        assert!(matches!(skipped.reason, SkipReason::Unreadable(_)));
    }
}
