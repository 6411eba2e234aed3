//! The folder of one collection, which goes with its last user once the collection is dropped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::description::Description;
use super::durable::sync_folder;
use super::error::EdgeError;

/// Where the engine keeps its files, within the folder.
const ENGINE_FOLDER: &str = "points";

/// A folder that is removed when it is dropped, if its collection was dropped before: requests that still run on the
/// collection keep its files until they are done.
#[derive(Debug)]
pub(super) struct CollectionFolder {
    path: PathBuf,
    is_doomed: AtomicBool,
}

impl CollectionFolder {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, is_doomed: AtomicBool::new(false) }
    }

    /// Where the engine keeps its files.
    pub(super) fn of_engine(&self) -> PathBuf {
        self.path.join(ENGINE_FOLDER)
    }

    /// The folder itself.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Drops what is in the folder: at once for the next process that opens the store, later for the disk.
    pub(super) fn doom(&self) -> Result<(), EdgeError> {
        Description::remove(&self.path)?;
        self.is_doomed.store(true, Ordering::Release);
        Ok(())
    }

    /// Has the folder removed of a collection that was not made in the end. The next start must not find what the caller was told
    /// is not there, perhaps beside what was made since.
    pub(super) fn abandon(&self) {
        self.is_doomed.store(true, Ordering::Release);
        if let Err(fault) = Description::remove_if_there(&self.path) {
            tracing::warn!(folder = %self.path.display(), %fault, "a collection that could not be made is still described");
        }
    }

    /// Makes the folder itself survive power loss, as an entry of the one above it.
    pub(super) fn sync_entry(&self) -> Result<(), EdgeError> {
        sync_folder(self.path.parent().unwrap_or(Path::new(".")))
    }
}

impl Drop for CollectionFolder {
    fn drop(&mut self) {
        if !self.is_doomed.load(Ordering::Acquire) {
            return;
        }
        if let Err(fault) = fs::remove_dir_all(&self.path) {
            tracing::warn!(folder = %self.path.display(), %fault, "a dropped collection is still on the disk; the next start removes it");
        }
    }
}
