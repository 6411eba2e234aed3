//! One store at a time in a folder.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::error::EdgeError;

const LOCK_FILE: &str = "store.lock";

/// Keeps other stores out until it is dropped; the operating system does so also after kill -9.
#[derive(Debug)]
pub(super) struct FolderLock(
    // Held, never read.
    #[allow(dead_code, reason = "the lock is the file being open")] File,
);

impl FolderLock {
    /// Locks a folder that is there.
    pub(super) fn take(folder: &Path) -> Result<Self, EdgeError> {
        let path = folder.join(LOCK_FILE);
        let file = File::options().create(true).truncate(false).write(true).open(&path);
        let file = file.map_err(EdgeError::io("open", &path))?;
        match file.try_lock() {
            Ok(()) => Ok(Self(file)),
            Err(TryLockError::WouldBlock) => Err(EdgeError::InUse { path: folder.to_owned() }),
            Err(TryLockError::Error(fault)) => Err(EdgeError::io("lock", &path)(fault)),
        }
    }
}
