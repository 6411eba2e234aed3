//! Reading files: from a path or standard input to bytes.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use crate::skip::SkipReason;
use crate::walk::SourceFile;

/// Most bytes of a file, unless set otherwise: 64 MiB, far above any text that people write.
pub const DEFAULT_MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Reads files, up to a size.
#[derive(Debug, Clone)]
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

    fn source(path: &Path) -> SourceFile {
        SourceFile { path: path.to_owned(), source: "s".to_owned(), named: false }
    }

    #[test]
    fn size_is_bounded_inclusively() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        fs::write(&path, "12345").unwrap();
        let file = source(&path);
        assert_eq!(Loader::default().max_file_bytes(5).read(&file).unwrap(), b"12345");
        let reason = Loader::default().max_file_bytes(4).read(&file).unwrap_err();
        assert_eq!(reason.to_string(), "larger than 4 bytes, the limit for a file (--max-file-bytes)");
        let endless = Loader::default().max_file_bytes(4).read_all(io::repeat(b'a'), 0).unwrap_err();
        assert!(matches!(endless, SkipReason::TooLarge { limit: 4 }));
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
        let reason = Loader::default().read(&source(Path::new("/nonexistent/x.md"))).unwrap_err();
        assert!(matches!(reason, SkipReason::Unreadable(_)));
        let folder = tempfile::tempdir().unwrap();
        let reason = Loader::default().read(&source(folder.path())).unwrap_err();
        assert!(matches!(reason, SkipReason::NotAFile));
    }
}
