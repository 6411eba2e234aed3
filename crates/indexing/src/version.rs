//! Versions of documents, and the ids of the records that are made of them.
//!
//! An id says everything that a later run has to know: the source, a hash of all that decides what is written, the number of the
//! record and how many there are. So the index has no book of its own that could disagree with what the store holds: what is
//! indexed is what is there, and a version of which a record is missing is written again.

use std::fmt;
use std::sync::Arc;

use sha2::{Digest, Sha256};
use toller_core::DocumentId;
use toller_core::document::MAX_ID_BYTES;

/// Longest name of a source in bytes: what ids leave beside their other parts.
pub const MAX_SOURCE_BYTES: usize = 900;

/// Stands between a source and the hash in an id.
const MARK: char = '#';

/// Stands before the number of a parent.
const PARENT: char = 'p';

/// Stands between the number of a record and how many there are.
const OF: &str = "of";

/// A hash of all that decides what is written of a document: 128 bits of SHA-256, enough that two documents of one source never
/// share one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VersionHash([u8; 16]);

impl VersionHash {
    /// The hash of some parts, which do not run together. O(bytes).
    pub(crate) fn of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = Sha256::new();
        for part in parts {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let digest = hasher.finalize();
        let mut hash = [0; 16];
        hash.iter_mut().zip(digest).for_each(|(byte, from)| *byte = from);
        Self(hash)
    }

    fn parse(text: &str) -> Option<Self> {
        let is_hash = text.len() == 32 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let bits = u128::from_str_radix(text, 16).ok().filter(|_| is_hash)?;
        Some(Self(bits.to_be_bytes()))
    }
}

impl fmt::Display for VersionHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for VersionHash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "VersionHash({self})")
    }
}

/// A document of a source, as it is at one time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// What the document is known by.
    pub source: Arc<str>,
    /// What tells it from every other version.
    pub hash: VersionHash,
}

/// What an id says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdParts<'a> {
    pub(crate) source: &'a str,
    pub(crate) hash: VersionHash,
    pub(crate) part: Part,
}

/// Which record of a version it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The `number`th of `total` records that are searched, from 0.
    Record { number: u64, total: u64 },
    /// A parent of some of them, from 0.
    Parent(u64),
}

impl Version {
    /// The id of its `number`th record of `total`: `source#hash.{number}of{total}`.
    pub(crate) fn record_id(&self, number: usize, total: usize) -> Result<DocumentId, String> {
        DocumentId::new(format!("{self}.{number}{OF}{total}"))
    }

    /// The id of its `number`th parent: `source#hash.p{number}`.
    pub(crate) fn parent_id(&self, number: usize) -> Result<DocumentId, String> {
        DocumentId::new(format!("{self}.{PARENT}{number}"))
    }

    /// What the ids of all its records begin with.
    pub(crate) fn prefix(&self) -> String {
        format!("{self}.")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{MARK}{}", self.source, self.hash)
    }
}

/// What the ids of everything of a source begin with.
pub(crate) fn prefix_of_source(source: &str) -> String {
    format!("{source}{MARK}")
}

/// What is wrong with the name of a source, if anything.
pub(crate) fn check_source(source: &str) -> Result<(), String> {
    const { assert!(MAX_SOURCE_BYTES + 1 + 32 + 1 + 2 * 20 + OF.len() <= MAX_ID_BYTES) };
    if !(1..=MAX_SOURCE_BYTES).contains(&source.len()) {
        return Err(format!("the name of a source must be 1 to {MAX_SOURCE_BYTES} bytes long, got {}", source.len()));
    }
    // What documents' ids refuse, names of sources refuse.
    DocumentId::new(source).map(|_| ()).map_err(|fault| format!("the name of a source {fault}"))
}

/// What an id says; none when an index run never made it.
pub(crate) fn parse(id: &str) -> Option<IdParts<'_>> {
    let (source, rest) = id.rsplit_once(MARK)?;
    let (hash, part) = rest.split_once('.')?;
    let part = match part.strip_prefix(PARENT) {
        Some(number) => Part::Parent(parse_number(number)?),
        None => {
            let (number, total) = part.split_once(OF)?;
            let (number, total) = (parse_number(number)?, parse_number(total)?);
            (number < total).then_some(Part::Record { number, total })?
        }
    };
    Some(IdParts { source, hash: VersionHash::parse(hash)?, part }).filter(|parts| !parts.source.is_empty())
}

/// The source of a record or parent that an index run made, told by its id; none of any other id.
///
/// ```
/// use toller_indexing::version::source_of;
/// assert_eq!(source_of("docs/a.md#0123456789abcdef0123456789abcdef.3of12"), Some("docs/a.md"));
/// assert_eq!(source_of("docs/a.md#3"), None);
/// ```
pub fn source_of(id: &str) -> Option<&str> {
    parse(id).map(|parts| parts.source)
}

/// A number as it is written in an id, and in no other way.
fn parse_number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(source: &str) -> Version {
        Version { source: source.into(), hash: VersionHash::of([source.as_bytes()]) }
    }

    #[test]
    fn ids_say_what_they_are_made_of() {
        for source in ["docs/a.md", "a#b", "a#00000000000000000000000000000000.1of2", "日本.txt"] {
            let version = version(source);
            let id = version.record_id(3, 12).unwrap();
            assert!(id.as_str().starts_with(&version.prefix()) && id.as_str().starts_with(&prefix_of_source(source)));
            let parts = parse(id.as_str()).unwrap();
            let wanted = IdParts { source, hash: version.hash, part: Part::Record { number: 3, total: 12 } };
            assert_eq!(parts, wanted);
            let parent = version.parent_id(7).unwrap();
            assert_eq!(parse(parent.as_str()).unwrap(), IdParts { part: Part::Parent(7), ..wanted });
        }
    }

    #[test]
    fn ids_of_others_say_nothing() {
        let hash = "0123456789abcdef0123456789abcdef";
        assert!(parse(&format!("a#{hash}.0of1")).is_some());
        for id in [
            "a",
            "a#1",
            "docs/a.md#12",
            &format!("#{hash}.0of1"),
            &format!("a#{hash}.1of1"),
            &format!("a#{hash}.00of1"),
            &format!("a#{hash}.+0of1"),
            &format!("a#{hash}.0of"),
            &format!("a#{hash}.p"),
            &format!("a#{hash}.0"),
            &format!("a#{}.0of1", hash.to_uppercase()),
            &format!("a#{}.0of1", &hash[1..]),
        ] {
            assert_eq!(parse(id), None, "{id}");
        }
    }

    #[test]
    fn parts_of_a_hash_do_not_run_together() {
        assert_ne!(VersionHash::of([&b"ab"[..], b"c"]), VersionHash::of([&b"a"[..], b"bc"]));
        assert_ne!(VersionHash::of([&b"a"[..]]), VersionHash::of([&b"a"[..], b""]));
    }

    #[test]
    fn hashes_never_change() {
        // They stand in the ids of everything that is indexed.
        assert_eq!(VersionHash::of([&b"text"[..], b""]).to_string(), "1bfac6b84b6943a7b56e60bc0d798629");
    }

    #[test]
    fn names_of_sources_are_bounded() {
        assert!(check_source(&"x".repeat(MAX_SOURCE_BYTES)).is_ok());
        assert!(version(&"x".repeat(MAX_SOURCE_BYTES)).record_id(usize::MAX - 1, usize::MAX).is_ok());
        assert!(check_source("").is_err());
        assert!(check_source(&"x".repeat(MAX_SOURCE_BYTES + 1)).unwrap_err().contains("900"));
    }
}
