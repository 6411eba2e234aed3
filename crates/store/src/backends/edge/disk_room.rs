//! Room on the disk, looked at before it is needed.
//!
//! The engine writes through mapped memory, where a full disk is not an error but the end of the process (SIGBUS). So writes
//! are refused, and collections not opened, while there is still room for what is under way.

use std::path::Path;

use toller_core::error::{Error, Result};

/// Room that writes leave: for files of the log and of segments that the engine makes in the background.
const FOR_WRITES: u64 = 64 << 20;

/// Room without which a collection is not opened: opening makes files.
const FOR_OPENING: u64 = 16 << 20;

/// Is there room for a write of about `bytes`?
///
/// # Errors
/// `ResourceExhausted`.
pub(super) fn for_write(folder: &Path, bytes: u64) -> Result<()> {
    // The log has it once and the segment once; vectors and payload also get indexes.
    check(folder, FOR_WRITES.saturating_add(bytes.saturating_mul(4)), "written")
}

/// Is there room to open a collection?
///
/// # Errors
/// `ResourceExhausted`.
pub(super) fn for_opening(folder: &Path) -> Result<()> {
    check(folder, FOR_OPENING, "opened")
}

fn check(folder: &Path, needed: u64, done: &str) -> Result<()> {
    // Where the system does not say, the write itself is the test.
    let Ok(system) = rustix::fs::statvfs(folder) else { return Ok(()) };
    let free = system.f_bavail.saturating_mul(system.f_frsize);
    if free >= needed {
        return Ok(());
    }
    const MIB: u64 = 1 << 20;
    Err(Error::ResourceExhausted {
        what: format!(
            "the disk of the data folder is full: {} MiB are free, and {} MiB must be for a collection to be {done}; make room, or \
             delete what is not needed",
            free / MIB,
            needed.div_ceil(MIB)
        ),
        retry_after: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_room_is_refused_with_how_much_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let refused = check(folder.path(), u64::MAX, "written").unwrap_err();
        let Error::ResourceExhausted { what, .. } = &refused else { panic!("{refused:?}") };
        assert!(what.starts_with("the disk of the data folder is full: ") && what.contains("to be written"), "{what}");
        assert_eq!(check(folder.path(), 0, "opened"), Ok(()));
        assert_eq!(check(&folder.path().join("none"), u64::MAX, "opened"), Ok(()), "the write itself will tell");
    }
}
