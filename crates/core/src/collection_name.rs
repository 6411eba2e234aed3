//! Names of collections, as callers write them and as a store keeps their generations apart.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};

use crate::name::check_name;

/// Stands between a name and what a store adds to it. No caller can write it: it is in no name.
const MARK: char = '@';

/// Stands between a name and the number of its generation.
const GENERATION_MARK: &str = "@v";

/// Stands behind a name.
const STAGING_MARK: &str = "@staging";

/// The name of a collection, unique within a tenant. Cheap to clone.
///
/// A collection that is embedded anew is kept by its store once for each model, in generations. The first one has the plain
/// name, the others carry a number ([`Self::generation`]). What is to be moved into it in one commit waits beside it
/// ([`Self::staging`]). Only stores tell them apart, by [`Self::as_str`], equality or hash; people see [`Self::logical`], which
/// is also what it is displayed as.
///
/// ```
/// use toller_core::CollectionName;
/// let docs = CollectionName::new("docs").unwrap();
/// let second = docs.generation(2);
/// assert_eq!((second.as_str(), second.logical(), second.to_string().as_str()), ("docs@v2", "docs", "docs"));
/// assert_ne!(docs, second);
/// assert!(CollectionName::new("docs@v2").is_err(), "no caller can name a generation");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CollectionName(Arc<str>);

impl CollectionName {
    /// Checks a name by [`crate::name::check_name`].
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn new(name: &str) -> Result<Self, String> {
        check_name(name)?;
        Ok(Self(name.into()))
    }

    /// What a store keeps the `number`th generation under, from 1.
    #[must_use]
    pub fn generation(&self, number: u32) -> Self {
        match number {
            0 | 1 => Self(self.logical().into()),
            _ => Self(format!("{}{GENERATION_MARK}{number}", self.logical()).into()),
        }
    }

    /// What a store keeps records under that are to be moved into the collection, whatever its generation. Nobody searches
    /// there.
    ///
    /// ```
    /// # use toller_core::CollectionName;
    /// let docs = CollectionName::new("docs").unwrap();
    /// assert_eq!((docs.staging().as_str(), docs.staging().logical()), ("docs@staging", "docs"));
    /// assert_eq!(docs.generation(2).staging(), docs.staging());
    /// ```
    #[must_use]
    pub fn staging(&self) -> Self {
        Self(format!("{}{STAGING_MARK}", self.logical()).into())
    }

    /// Is it the name of [`Self::staging`]?
    pub fn is_staging(&self) -> bool {
        self.0.ends_with(STAGING_MARK)
    }

    /// The name with its generation: the key within a store.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name that callers know, whatever the generation.
    pub fn logical(&self) -> &str {
        self.0.split_once(MARK).map_or(&self.0, |(logical, _)| logical)
    }
}

impl fmt::Display for CollectionName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.logical())
    }
}

/// Reads what a store wrote, generations and rooms for staging included.
impl<'de> Deserialize<'de> for CollectionName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if let Some(logical) = text.strip_suffix(STAGING_MARK) {
            return Ok(Self::new(logical).map_err(serde::de::Error::custom)?.staging());
        }
        let Some((logical, number)) = text.split_once(GENERATION_MARK) else {
            return Self::new(&text).map_err(serde::de::Error::custom);
        };
        let name = Self::new(logical).map_err(serde::de::Error::custom)?;
        let read = number.parse().map(|number| name.generation(number)).ok();
        // What is spelled in another way would be another key.
        let read = read.filter(|read| read.as_str() == text);
        read.ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no generation of a collection")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generations_survive_the_round_trip_and_nothing_else_is_read() {
        let docs = CollectionName::new("docs").unwrap();
        assert!(CollectionName::new("docs@staging").is_err(), "no caller can name a room for staging");
        assert!(docs.staging().is_staging() && !docs.is_staging() && !docs.generation(2).is_staging());
        assert_eq!(docs.staging().generation(2), docs.generation(2));
        assert_eq!(docs.generation(1), docs);
        assert_eq!(docs.generation(3).generation(2), docs.generation(2));
        assert_eq!(docs.generation(2).generation(1), docs);
        for name in [docs.clone(), docs.generation(2), docs.generation(u32::MAX), docs.staging()] {
            let text = serde_json::to_string(&name).unwrap();
            assert_eq!(serde_json::from_str::<CollectionName>(&text).unwrap(), name);
        }
        for bad in [
            "docs@v1",
            "docs@v0",
            "docs@v02",
            "docs@v",
            "docs@v-2",
            "docs@2",
            "@v2",
            "docs@v2@v3",
            "@staging",
            "docs@stagin",
            "",
        ]
        .into_iter()
        .chain(["docs@v2@staging", "docs@staging@v2", "docs@staging@staging"])
        {
            let text = serde_json::to_string(bad).unwrap();
            assert!(serde_json::from_str::<CollectionName>(&text).is_err(), "{bad}");
        }
    }
}
