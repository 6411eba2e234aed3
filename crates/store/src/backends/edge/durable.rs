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

/// Makes a folder, with those above it, that only its owner may look into, and that stays there; one that is there stays as it is.
pub(super) fn make_private_folder(path: &Path) -> Result<(), EdgeError> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    builder.create(path).map_err(EdgeError::io("make", path))?;
    // Each is an entry in the one above it, which has to survive as well.
    for above in missing.into_iter().filter_map(Path::parent) {
        sync_folder(if above.as_os_str().is_empty() { Path::new(".") } else { above })?;
    }
    Ok(())
}

/// Makes what was added to or removed from a folder survive power loss.
pub(super) fn sync_folder(path: &Path) -> Result<(), EdgeError> {
    let folder = File::open(path).map_err(EdgeError::io("open", path))?;
    syncing(path, || sync(path, &folder)).map_err(EdgeError::io("write", path))
}

#[cfg(not(test))]
fn sync(_path: &Path, folder: &File) -> std::io::Result<()> {
    folder.sync_all()
}

/// Runs what makes something at or below `path` durable. Tests look at the folder before and after.
#[cfg(not(test))]
pub(super) fn syncing<T>(_path: &Path, sync: impl FnOnce() -> T) -> T {
    sync()
}

#[cfg(test)]
use super::power_loss::sync;
#[cfg(test)]
pub(super) use super::power_loss::syncing;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn new_folders_are_made_durable_in_those_above_them() {
        let place = tempfile::tempdir().unwrap();
        let looks = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&looks);
        let watch = super::super::power_loss::watch(place.path(), move || {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        make_private_folder(&place.path().join("a/b")).unwrap();
        // Before and after each: the place has a new entry, and so has "a".
        assert_eq!(looks.load(Ordering::SeqCst), 4);
        make_private_folder(&place.path().join("a/b")).unwrap();
        assert_eq!(looks.load(Ordering::SeqCst), 4, "nothing is new");
        drop(watch);
    }
}
