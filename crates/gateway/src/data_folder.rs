//! The data folder: one process at a time, and where each backend keeps its data.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use crate::error::GatewayError;

/// Keeps other processes out; held as long as the process uses the folder.
const LOCK_FILE: &str = "toller.lock";

/// What the memory backend dumps at shutdown and loads at start.
const DUMP_FILE: &str = "memory.dump";

/// What the edge backend keeps.
const EDGE_FOLDER: &str = "edge";

/// A data folder that this process alone uses, until it is dropped.
#[derive(Debug)]
pub(crate) struct DataFolder {
    path: PathBuf,
    // The operating system releases the lock when the file is closed, also after kill -9.
    _lock: File,
}

impl DataFolder {
    /// Makes the folder where it is missing, and locks it.
    pub(crate) fn open(path: &Path) -> Result<Self, GatewayError> {
        let unusable = |fault| GatewayError::DataFolder { path: path.to_owned(), fault };
        make_folder(path).map_err(unusable)?;
        let lock = File::options().create(true).truncate(false).write(true).open(path.join(LOCK_FILE));
        let lock = lock.map_err(unusable)?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(GatewayError::DataFolderInUse { path: path.to_owned() }),
            Err(TryLockError::Error(fault)) => Err(unusable(fault)),
        }
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the memory backend's dump is, or is to be.
    pub(crate) fn dump_file(&self) -> PathBuf {
        self.path.join(DUMP_FILE)
    }

    /// Where the edge backend's folder is, or is to be.
    pub(crate) fn edge_folder(&self) -> PathBuf {
        self.path.join(EDGE_FOLDER)
    }
}

/// Makes a folder, with those above it, so that power loss does not take it away again with all that is in it.
fn make_folder(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    fs::create_dir_all(path)?;
    for above in missing.into_iter().filter_map(Path::parent) {
        let above = if above.as_os_str().is_empty() { Path::new(".") } else { above };
        File::open(above)?.sync_all()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b");
        let first = DataFolder::open(&path).unwrap();
        assert!(matches!(DataFolder::open(&path), Err(GatewayError::DataFolderInUse { .. })));
        drop(first);
        assert!(DataFolder::open(&path).is_ok());
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "").unwrap();
        let error = DataFolder::open(&path).unwrap_err().to_string();
        assert!(error.contains("file") && error.contains("--data-dir"), "{error}");
    }
}
