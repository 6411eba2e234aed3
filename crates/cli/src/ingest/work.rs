//! What paths lead to: files to be sent, and what is left out.

use std::fs::Metadata;
use std::path::PathBuf;

use toller_indexing::version::MAX_SOURCE_BYTES;
use toller_ingest::{Loader, SkipReason, SourceFile, WalkOptions, walk_with};

use crate::error::Error;
use crate::ingest::skip::{Skip, SkipKind};

/// A file to be sent.
#[derive(Debug, Clone)]
pub(crate) struct FoundFile {
    pub(crate) file: SourceFile,
    /// As it was when it was found; none for standard input, and where the system does not say.
    pub(crate) metadata: Option<Metadata>,
    /// Of standard input, which can be read once.
    contents: Option<Vec<u8>>,
}

impl FoundFile {
    /// Its bytes. Memory: its size.
    ///
    /// # Errors
    /// Why it cannot be read.
    pub(crate) fn read(&self, loader: &Loader) -> Result<Vec<u8>, SkipReason> {
        match &self.contents {
            Some(contents) => Ok(contents.clone()),
            None => loader.read(&self.file),
        }
    }

    /// Its size, for the progress bar.
    pub(crate) fn bytes(&self) -> u64 {
        match &self.contents {
            Some(contents) => contents.len() as u64,
            None => self.metadata.as_ref().map_or(0, Metadata::len),
        }
    }
}

/// What paths lead to. Holds the names of all files, and of their contents only standard input.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) files: Vec<FoundFile>,
    /// What was not used, in the order of the walk.
    pub(crate) skipped: Vec<Skip>,
}

impl Work {
    /// Walks the paths, and reads standard input where it is one of them.
    ///
    /// # Errors
    /// `Usage` for a glob that is none.
    pub(crate) fn find(paths: &[PathBuf], options: WalkOptions, loader: &Loader) -> Result<Self, Error> {
        let mut work = Self::default();
        let walk = walk_with(paths, options).map_err(|fault| Error::Usage(format!("--{fault}")))?;
        for found in walk {
            match found {
                Ok(file) if file.is_standard_input() => match loader.read(&file) {
                    Ok(contents) => {
                        work.files.push(FoundFile { file, metadata: None, contents: Some(contents) });
                    }
                    Err(reason) => {
                        work.skipped.push(Skip {
                            source: file.source,
                            reason: reason.to_string(),
                            kind: SkipKind::Failure,
                        });
                    }
                },
                Ok(file) => {
                    // What cannot be looked at says so when it is read.
                    let metadata = std::fs::metadata(&file.path).ok();
                    work.files.push(FoundFile { file, metadata, contents: None });
                }
                Err(skipped) => work.skipped.push(skipped.into()),
            }
        }
        Ok(work)
    }

    /// Size of all files together.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(FoundFile::bytes).sum()
    }

    /// The names of what was to be used, and could not be.
    pub(crate) fn unusable_sources(&self) -> Vec<String> {
        self.skipped.iter().filter(|skip| skip.is_unusable()).map(|skip| skip.source.clone()).collect()
    }
}

/// May this be the name of a source? Nothing is indexed by another name, so nothing needs to be said of it.
pub(crate) fn is_source_name(name: &str) -> bool {
    (1..=MAX_SOURCE_BYTES).contains(&name.len())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn files_have_their_size_and_the_rest_a_reason() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "12345").unwrap();
        fs::write(root.path().join("b.exe"), "x").unwrap();
        let paths = [root.path().to_owned(), root.path().join("missing.md")];
        let work = Work::find(&paths, WalkOptions::default(), &Loader::default()).unwrap();
        assert_eq!((work.files.len(), work.bytes()), (1, 5));
        assert_eq!(work.files[0].read(&Loader::default()).unwrap(), b"12345");
        let kinds: Vec<_> = work.skipped.iter().map(|skip| skip.kind).collect();
        assert_eq!(kinds, [SkipKind::Expected, SkipKind::Failure]);
        let [unusable] = work.unusable_sources().try_into().unwrap();
        assert!(unusable.ends_with("missing.md"));
    }

    #[test]
    fn a_glob_that_is_none_is_wrong_usage() {
        let options = WalkOptions { include: vec!["!x".to_owned()], ..Default::default() };
        let fault = Work::find(&[], options, &Loader::default()).unwrap_err().to_string();
        assert!(fault.starts_with("--include"), "{fault}");
    }

    #[test]
    fn names_of_sources_are_bounded() {
        assert!(is_source_name("a") && !is_source_name("") && !is_source_name(&"x".repeat(901)));
    }
}
