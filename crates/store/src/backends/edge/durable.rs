//! Files that are there as a whole or not at all, also after power loss, in folders that are their owner's alone.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::error::EdgeError;

/// Writes `bytes` into the file at `path`, replacing it at once.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), EdgeError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).map_err(EdgeError::io("write in", folder))?;
    syncing(path, || file.write_all(bytes).and_then(|()| file.as_file().sync_all()))
        .map_err(EdgeError::io("write", path))?;
    file.persist(path).map_err(|fault| EdgeError::io("write", path)(fault.error))?;
    sync_folder(folder)
}

/// Removes the file at `path`, so that it stays removed.
pub(super) fn remove(path: &Path) -> Result<(), EdgeError> {
    fs::remove_file(path).map_err(EdgeError::io("remove", path))?;
    sync_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Makes a folder, with those above it, that only its owner may look into; one that is there stays as it is.
pub(super) fn make_private_folder(path: &Path) -> Result<(), EdgeError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(EdgeError::io("make", path))
}

/// Makes what was added to or removed from a folder survive power loss.
pub(super) fn sync_folder(path: &Path) -> Result<(), EdgeError> {
    let folder = File::open(path).map_err(EdgeError::io("open", path))?;
    syncing(path, || folder.sync_all()).map_err(EdgeError::io("write", path))
}

/// Runs what makes something at or below `path` durable. Tests look at the folder before and after.
#[cfg(not(test))]
pub(super) fn syncing<T>(_path: &Path, sync: impl FnOnce() -> T) -> T {
    sync()
}

#[cfg(test)]
pub(super) use super::power_loss::syncing;
