//! Reading files: from a path or standard input to bytes, and on to documents.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use crate::format::Format;
use crate::load::{Documents, LoadedDocument, load};
use crate::options::LoadOptions;
use crate::skip::{FailedPart, SkipReason, Skipped};
use crate::walk::SourceFile;

/// Most bytes of a file, unless set otherwise: 64 MiB, far above any text that people write.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// A file that was read.
#[derive(Debug)]
pub struct LoadedFile {
    /// What it is known by; see [`SourceFile::source`].
    pub source: String,
    /// What it holds.
    pub format: Format,
    /// What is in it, in its order; at least one.
    pub documents: Vec<LoadedDocument>,
    /// The parts of it that cannot be used.
    pub failed: Vec<FailedPart>,
}

/// A file that is being understood part by part.
pub struct OpenFile {
    /// What it is known by; see [`SourceFile::source`].
    pub source: String,
    /// What it holds.
    pub format: Format,
    /// What is in it, in its order.
    pub documents: Documents,
}

/// Reads files, up to a size.
#[derive(Debug, Clone)]
pub struct Loader {
    max_file_bytes: u64,
    options: LoadOptions,
}

impl Default for Loader {
    fn default() -> Self {
        Self { max_file_bytes: DEFAULT_MAX_FILE_BYTES, options: LoadOptions::default() }
    }
}

impl Loader {
    /// Admits files of at most `bytes` bytes.
    #[must_use]
    pub fn max_file_bytes(mut self, bytes: u64) -> Self {
        self.max_file_bytes = bytes;
        self
    }

    /// Understands files as `options` say.
    #[must_use]
    pub fn options(mut self, options: LoadOptions) -> Self {
        self.options = options;
        self
    }

    /// Reads a file, all parts of it at once. Memory: a few times its size, or the text that
    /// [`LoadOptions::max_text_bytes`] admits.
    ///
    /// # Errors
    /// The file with the reason why nothing of it can be used.
    pub fn load(&self, file: &SourceFile) -> Result<LoadedFile, Skipped> {
        let OpenFile { source, format, documents: parts } = self.open(file)?;
        let (mut documents, mut failed) = (Vec::new(), Vec::new());
        for part in parts {
            match part {
                Ok(document) => documents.push(document),
                Err(fault) => failed.push(fault),
            }
        }
        if documents.is_empty() {
            let parts = failed.len();
            let reason = match failed.into_iter().next() {
                Some(first) => SkipReason::NoPart { parts, first: Box::new(first) },
                None => SkipReason::Empty,
            };
            return Err(Skipped { source, named: file.named, reason });
        }
        Ok(LoadedFile { source, format, documents, failed })
    }

    /// Reads a file, and gives its parts one by one. Memory: as [`load()`].
    ///
    /// # Errors
    /// The file with the reason why nothing of it can be used.
    pub fn open(&self, file: &SourceFile) -> Result<OpenFile, Skipped> {
        let opened = self.read(file).and_then(|bytes| {
            let format = file.format.or_else(|| Format::of_content(&bytes)).unwrap_or(Format::Text);
            load(format, bytes, &self.options).map(|documents| (format, documents))
        });
        match opened {
            Ok((format, documents)) => Ok(OpenFile { source: file.source.clone(), format, documents }),
            Err(reason) => Err(Skipped { source: file.source.clone(), named: file.named, reason }),
        }
    }

    /// The bytes of a file, or of standard input; reads no more than admitted, even of a file that grows meanwhile.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub fn read(&self, file: &SourceFile) -> Result<Vec<u8>, SkipReason> {
        if file.is_standard_input() {
            return self.read_all(io::stdin().lock(), 0);
        }
        once_more_if_changed(|| self.read_path(&file.path))
    }

    fn read_path(&self, path: &Path) -> Result<(Vec<u8>, Stamp, Stamp), SkipReason> {
        // Opening a pipe that nobody writes to would wait for ever.
        if !fs::metadata(path).map_err(SkipReason::Unreadable)?.is_file() {
            return Err(SkipReason::NotAFile);
        }
        let file = File::open(path).map_err(SkipReason::Unreadable)?;
        let before = Stamp::of(&file.metadata().map_err(SkipReason::Unreadable)?);
        let bytes = self.read_all(&file, before.length)?;
        let after = Stamp::of(&file.metadata().map_err(SkipReason::Unreadable)?);
        Ok((bytes, before, after))
    }

    fn read_all(&self, input: impl Read, expected: u64) -> Result<Vec<u8>, SkipReason> {
        let too_large = || SkipReason::TooLarge { limit: self.max_file_bytes };
        if expected > self.max_file_bytes {
            return Err(too_large());
        }
        let mut bytes = Vec::with_capacity(usize::try_from(expected).unwrap_or(0));
        input.take(self.max_file_bytes.saturating_add(1)).read_to_end(&mut bytes).map_err(SkipReason::Unreadable)?;
        if bytes.len() as u64 > self.max_file_bytes {
            return Err(too_large());
        }
        Ok(bytes)
    }
}

/// What of a file changes when it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    length: u64,
    /// None where the file system has no such times.
    written: Option<SystemTime>,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        Self { length: metadata.len(), written: metadata.modified().ok() }
    }
}

/// A half-written file is worse than none: what changed while it was read is read once more, and then given up.
fn once_more_if_changed(
    mut read: impl FnMut() -> Result<(Vec<u8>, Stamp, Stamp), SkipReason>,
) -> Result<Vec<u8>, SkipReason> {
    for _ in 0..2 {
        let (bytes, before, after) = read()?;
        if before == after {
            return Ok(bytes);
        }
    }
    Err(SkipReason::Changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &Path, format: Option<Format>) -> SourceFile {
        SourceFile { path: path.to_owned(), source: "s".to_owned(), format, named: false }
    }

    #[test]
    fn size_is_bounded_inclusively() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "12345").unwrap();
        let file = source(&path, Some(Format::Text));
        assert_eq!(Loader::default().max_file_bytes(5).load(&file).unwrap().documents[0].text, "12345");
        let skipped = Loader::default().max_file_bytes(4).load(&file).unwrap_err();
        assert_eq!(skipped.to_string(), "s: larger than 4 bytes");
        let endless = Loader::default().max_file_bytes(4).read_all(io::repeat(b'a'), 0).unwrap_err();
        assert!(matches!(endless, SkipReason::TooLarge { limit: 4 }));
    }

    #[test]
    fn an_unknown_name_is_told_by_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page");
        fs::write(&path, "<!doctype html><p>text").unwrap();
        let loaded = Loader::default().load(&source(&path, None)).unwrap();
        assert_eq!((loaded.format, loaded.documents[0].text.as_str()), (Format::Html, "text"));
        fs::write(&path, "plain").unwrap();
        assert_eq!(Loader::default().load(&source(&path, None)).unwrap().format, Format::Text);
    }

    #[test]
    fn good_parts_are_used_and_bad_ones_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.jsonl");
        fs::write(&path, "\"one\"\n{\n\"three\"\n").unwrap();
        let loaded = Loader::default().load(&source(&path, Some(Format::JsonLines))).unwrap();
        let texts: Vec<_> = loaded.documents.iter().map(|document| document.text.as_str()).collect();
        assert_eq!(texts, ["one", "three"]);
        assert!(loaded.failed[0].to_string().starts_with("line 2: not valid JSON"), "{}", loaded.failed[0]);
        fs::write(&path, "{\n}\n").unwrap();
        let skipped = Loader::default().load(&source(&path, Some(Format::JsonLines))).unwrap_err();
        assert!(matches!(skipped.reason, SkipReason::NoPart { parts: 2, .. }), "{skipped}");
        assert!(skipped.to_string().starts_with("s: none of its 2 parts can be used; line 1: "), "{skipped}");
    }

    #[test]
    fn a_file_that_changes_is_read_once_more() {
        let stamp = |length| Stamp { length, written: None };
        let mut reads = 0;
        let settled = once_more_if_changed(|| {
            reads += 1;
            Ok((vec![reads], stamp(reads.into()), stamp(2)))
        });
        assert_eq!(settled.unwrap(), [2]);
        let restless = once_more_if_changed(|| {
            reads += 1;
            Ok((vec![], stamp(reads.into()), stamp(0)))
        });
        assert!(matches!(restless, Err(SkipReason::Changed)));
        assert_eq!(reads, 4);
    }

    #[test]
    fn what_cannot_be_opened_is_skipped() {
        let skipped = Loader::default().load(&source(Path::new("/nonexistent/x.md"), None)).unwrap_err();
        assert!(matches!(skipped.reason, SkipReason::Unreadable(_)));
        let folder = tempfile::tempdir().unwrap();
        let skipped = Loader::default().load(&source(folder.path(), None)).unwrap_err();
        assert!(matches!(skipped.reason, SkipReason::NotAFile));
    }
}
