//! A Hugging Face hub and its cache on disk, through the crate hf-hub.
//!
//! hf-hub knows the protocol and the cache's layout. What it leaves out is here: the environment ([`settings`]), a cache
//! that answers without any network ([`cache`]), and time limits, one commit for all files and no second download
//! (`download`).

pub mod cache;
mod download;
pub mod settings;

use std::path::PathBuf;

use crate::error::{Error, Result};
use crate::source::Repository;
use cache::CachedModel;
use settings::HubSettings;

/// The files of one commit of a repository, on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// `owner/name`.
    pub repository: String,
    /// The commit hash.
    pub revision: String,
    /// The folder, in sentence-transformers layout.
    pub folder: PathBuf,
}

/// A hub and its cache.
#[derive(Debug)]
pub struct Hub {
    settings: HubSettings,
}

impl Hub {
    /// A hub with these settings.
    pub fn new(settings: HubSettings) -> Self {
        Self { settings }
    }

    /// A hub as the environment describes it, see [`HubSettings::from_env`].
    ///
    /// # Errors
    /// [`Error::Invalid`] when a variable is not usable.
    pub fn from_env() -> Result<Self> {
        HubSettings::from_env().map(Self::new)
    }

    /// The settings.
    pub fn settings(&self) -> &HubSettings {
        &self.settings
    }

    /// The snapshot of `repository`: from the cache without any network when it is complete there, else from the hub.
    ///
    /// When the hub cannot be reached but the cache holds all that is indispensable, the cache is used and a warning logged.
    /// Blocks for as long as the download takes: call it off the async threads.
    ///
    /// # Errors
    /// [`Error::HubUnreachable`] within 10 s when the hub does not answer, [`Error::HubRefused`], [`Error::Download`], and
    /// offline [`Error::NotCached`].
    pub fn snapshot(&self, repository: &Repository) -> Result<Snapshot> {
        let cached = cache::find(&self.settings.cache, repository);
        if let Some(found) = &cached
            && (found.complete || self.settings.offline)
        {
            return Ok(found.snapshot.clone());
        }
        if self.settings.offline {
            return Err(self.not_cached(repository));
        }
        match (download::fetch(&self.settings, repository), cached) {
            (Err(Error::HubUnreachable { endpoint, reason, .. }), Some(found)) => {
                tracing::warn!(%endpoint, %reason, %repository, "the hub cannot be reached: using the cache, which lacks some optional files");
                Ok(found.snapshot)
            }
            (fetched, _) => fetched,
        }
    }

    /// Brings `repository` up to what the hub has now; files that are there already are not fetched again. Offline, the same
    /// as [`Hub::snapshot`].
    ///
    /// # Errors
    /// As [`Hub::snapshot`], but a hub that cannot be reached is always an error.
    pub fn pull(&self, repository: &Repository) -> Result<Snapshot> {
        if self.settings.offline { self.snapshot(repository) } else { download::fetch(&self.settings, repository) }
    }

    /// All models in the cache, by name and then by commit; an absent cache holds none.
    ///
    /// # Errors
    /// [`Error::Io`] when the cache exists and cannot be read.
    pub fn cached_models(&self) -> Result<Vec<CachedModel>> {
        cache::list(&self.settings.cache)
    }

    fn not_cached(&self, repository: &Repository) -> Error {
        Error::NotCached { repository: repository.to_string(), cache: self.settings.cache.clone() }
    }
}
