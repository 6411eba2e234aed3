//! Where a model comes from: a folder, or a repository of a Hugging Face hub.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::hub::Hub;

/// Longest repository name that a hub accepts, in bytes.
const MAX_REPOSITORY_BYTES: usize = 193;

/// Revision that is meant when none is given.
pub(crate) const DEFAULT_REVISION: &str = "main";

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A local folder in sentence-transformers layout.
    Folder(PathBuf),
    /// A repository of a hub.
    Hub(Repository),
}

impl Source {
    /// Reads a model reference: a folder that exists, else `owner/name` or `owner/name@revision`.
    ///
    /// What starts with `/`, `./`, `../` or `~/` is always a folder, so that a mistyped path is reported as one.
    ///
    /// # Errors
    /// [`Error::Reference`] when it is neither.
    pub fn parse(reference: &str) -> Result<Self> {
        if let Some(rest) = reference.strip_prefix("~/")
            && let Some(home) = std::env::home_dir()
        {
            return Ok(Self::Folder(home.join(rest)));
        }
        let is_path = reference.starts_with('/') || reference.starts_with("./") || reference.starts_with("../");
        if is_path || (!reference.is_empty() && Path::new(reference).is_dir()) {
            return Ok(Self::Folder(reference.into()));
        }
        Repository::parse(reference).map(Self::Hub)
    }

    /// The folder of the model's files, fetched with `hub` (or else the hub of the environment) when it is a repository.
    pub(crate) fn folder(&self, hub: Option<&Hub>) -> Result<PathBuf> {
        match (self, hub) {
            (Self::Folder(path), _) => Ok(path.clone()),
            (Self::Hub(repository), Some(hub)) => Ok(hub.snapshot(repository)?.folder),
            (Self::Hub(repository), None) => Ok(Hub::from_env()?.snapshot(repository)?.folder),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(formatter, "{}", path.display()),
            Self::Hub(repository) => write!(formatter, "{repository}"),
        }
    }
}

/// A repository of a hub at a revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repository {
    name: String,
    revision: String,
}

impl Repository {
    /// A repository by name, at `revision` (a branch, tag or commit hash) or else at `main`.
    ///
    /// # Errors
    /// [`Error::Reference`] when the name is not `owner/name` or `name`, or a part holds anything but ASCII letters, digits,
    /// `.`, `_` and `-` (and `/` in a revision).
    pub fn new(name: &str, revision: Option<&str>) -> Result<Self> {
        let revision = revision.unwrap_or(DEFAULT_REVISION);
        let parts: Vec<&str> = name.split('/').collect();
        let is_name = parts.len() <= 2 && parts.iter().all(|part| is_part(part)) && name.len() <= MAX_REPOSITORY_BYTES;
        if !is_name || !revision.split('/').all(is_part) {
            let reference = if revision == DEFAULT_REVISION { name.to_owned() } else { format!("{name}@{revision}") };
            return Err(Error::Reference { reference });
        }
        Ok(Self { name: name.to_owned(), revision: revision.to_owned() })
    }

    /// Reads `owner/name` or `owner/name@revision`.
    ///
    /// # Errors
    /// As [`Repository::new`].
    pub fn parse(reference: &str) -> Result<Self> {
        match reference.split_once('@') {
            Some((name, revision)) => Self::new(name, Some(revision)),
            None => Self::new(reference, None),
        }
    }

    /// `owner/name`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Branch, tag or commit hash.
    pub fn revision(&self) -> &str {
        &self.revision
    }
}

impl fmt::Display for Repository {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)?;
        if self.revision != DEFAULT_REVISION {
            write!(formatter, "@{}", self.revision)?;
        }
        Ok(())
    }
}

/// One part of a name: no separators, nothing that climbs out of a folder, and no `--`, which the cache uses for `/`.
fn is_part(part: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    !part.is_empty()
        && !part.starts_with('.')
        && !part.contains("..")
        && !part.contains("--")
        && part.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_folders_or_repositories() {
        let hub = |name: &str, revision: &str| Source::Hub(Repository::new(name, Some(revision)).unwrap());
        assert_eq!(Source::parse("BAAI/bge-small-en-v1.5").unwrap(), hub("BAAI/bge-small-en-v1.5", "main"));
        assert_eq!(Source::parse("BAAI/bge-m3@refs/pr/5").unwrap(), hub("BAAI/bge-m3", "refs/pr/5"));
        assert_eq!(Source::parse("gpt2").unwrap(), hub("gpt2", "main"));
        assert_eq!(Source::parse("./missing").unwrap(), Source::Folder("./missing".into()));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_str().unwrap();
        assert_eq!(Source::parse(path).unwrap(), Source::Folder(path.into()));
    }

    #[test]
    fn what_is_neither_is_refused() {
        for bad in
            ["", "a/b/c", "a b", "a/../b", "...", "owner/na--me", "owner/", "owner/name@", "owner/name@../x", "ü/x"]
        {
            let error = Source::parse(bad).unwrap_err();
            assert!(matches!(error, Error::Reference { .. }), "{bad:?}: {error}");
        }
    }

    #[test]
    fn a_repository_prints_as_it_is_written() {
        for reference in ["BAAI/bge-small-en-v1.5", "BAAI/bge-small-en-v1.5@abc123"] {
            assert_eq!(Repository::parse(reference).unwrap().to_string(), reference);
        }
    }
}
