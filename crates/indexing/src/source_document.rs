//! A document as its source has it.

use std::sync::Arc;

use toller_core::error::join_path;
use toller_core::value::check_metadata;
use toller_core::{Metadata, Value};
use toller_ingest::{Format, key};

use crate::version::{VersionHash, check_source};

/// Longest kind of a related text in bytes.
pub const MAX_KIND_BYTES: usize = 64;

/// Names that records get of themselves.
const OWN_KEYS: [&str; 8] = [
    key::SOURCE,
    key::CHUNK,
    key::START_INDEX,
    key::FIRST_LINE,
    key::LAST_LINE,
    key::PARENT,
    key::KIND,
    key::DOCUMENT_KEY,
];

/// What a document holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// Nothing of its own: only related texts.
    None,
    /// A text.
    Text(String),
    /// The bytes of a file.
    Bytes(Vec<u8>),
}

impl Content {
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::Text(text) => text.as_bytes(),
            Self::Bytes(bytes) => bytes,
        }
    }

    /// Appends what comes next.
    ///
    /// # Errors
    /// When the rest is of another kind.
    pub(crate) fn append(&mut self, rest: Self) -> Result<(), String> {
        match (self, rest) {
            (_, Self::None) => Ok(()),
            (Self::Text(text), Self::Text(rest)) => {
                text.push_str(&rest);
                Ok(())
            }
            (Self::Bytes(bytes), Self::Bytes(rest)) => {
                bytes.extend(rest);
                Ok(())
            }
            _ => Err("its parts must be all text or all data".to_owned()),
        }
    }
}

/// A document of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceDocument {
    /// What it is known by. Several documents may have one source.
    pub source: String,
    /// What it holds.
    pub content: Content,
    /// Its media type; empty when it is to be found out.
    pub media_type: String,
    /// For every record that is made of it.
    pub metadata: Metadata,
    /// Its title; none for its own, where it has one.
    pub title: Option<String>,
    /// Does its content go on in the next document?
    pub continued: bool,
    /// Texts that lead to it besides its own.
    pub related: Vec<RelatedText>,
}

/// A text that leads to a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelatedText {
    /// What it is.
    pub kind: String,
    /// The text.
    pub text: String,
}

impl SourceDocument {
    /// What is wrong with it, content apart.
    pub(crate) fn check(&self) -> Result<(), String> {
        check_source(&self.source)?;
        check_metadata(&self.metadata).map_err(|(path, fault)| format!("{}: {fault}", join_path("metadata", &path)))?;
        if let Some(name) = OWN_KEYS.into_iter().find(|name| {
            // Who says the same may say it.
            self.metadata
                .get(*name)
                .is_some_and(|value| *name != key::SOURCE || *value != Value::from(self.source.as_str()))
        }) {
            return Err(format!("metadata[{name:?}]: the server sets this name itself; use another one"));
        }
        for (index, related) in self.related.iter().enumerate() {
            if !(1..=MAX_KIND_BYTES).contains(&related.kind.len()) {
                return Err(format!("related[{index}].kind must be 1 to {MAX_KIND_BYTES} bytes long"));
            }
        }
        Ok(())
    }

    /// Is there nothing but its source and content, or what the first part said already?
    pub(crate) fn only_goes_on(&self, first: &Self) -> bool {
        (self.media_type.is_empty() || self.media_type == first.media_type)
            && self.metadata.is_empty()
            && self.title.is_none()
            && self.related.is_empty()
    }

    /// What it is: as it is said, else by the extension of its source, else by its content.
    pub(crate) fn format(&self) -> Result<Format, String> {
        if !self.media_type.is_empty() {
            return Format::of_media_type(&self.media_type)
                .ok_or_else(|| format!("media type {:?} is not one that is read", self.media_type));
        }
        let by_name = Format::of(std::path::Path::new(&self.source));
        Ok(by_name.or_else(|| Format::of_content(self.content.as_bytes())).unwrap_or(Format::Text))
    }

    /// The hash of what it holds, under these settings and for a model. O(bytes).
    pub(crate) fn hash(&self, settings: &str, model: &str) -> Result<VersionHash, serde_json::Error> {
        let metadata = serde_json::to_vec(&self.metadata)?;
        let kind: &[u8] = match self.content {
            Content::None => b"none",
            Content::Text(_) => b"text",
            Content::Bytes(_) => b"bytes",
        };
        let title = self.title.as_deref();
        let mut parts: Vec<&[u8]> = vec![
            settings.as_bytes(),
            model.as_bytes(),
            kind,
            self.content.as_bytes(),
            self.media_type.as_bytes(),
            &metadata,
            if title.is_some() { b"title" } else { b"" },
            title.unwrap_or_default().as_bytes(),
        ];
        parts.extend(self.related.iter().flat_map(|related| [related.kind.as_bytes(), related.text.as_bytes()]));
        Ok(VersionHash::of(parts))
    }

    /// The source, to be shared.
    pub(crate) fn shared_source(&self) -> Arc<str> {
        self.source.as_str().into()
    }
}
