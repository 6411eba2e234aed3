//! Room on the disk, looked at before it is needed.
//!
//! The engine writes through mapped memory, where a full disk is not an error but the end of the process (SIGBUS). So writes
//! are refused, and collections not opened, while there is still room for what is under way. A write that was let in counts as
//! written, though it may still wait for its turn; and when its turn comes it is looked at again, since others fill disks too.
//!
//! What is small and must go on when the disk is full already (opening a collection to read it, deleting from it, records of the
//! catalogue) may use the [`Reserve`].

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use toller_core::error::{Error, Result};

use super::reserve::{self, Reserve};

/// Room that writes leave: for files of the log and of segments that the engine makes in the background.
const FOR_WRITES: u64 = 64 << 20;

/// Room without which nothing is done: opening a collection makes files.
const FOR_SMALL: u64 = 16 << 20;

/// The log has a write once and the segment once; vectors and payload also get indexes.
const COPIES: u64 = 4;

/// The room that a store has on its disk. Clones count together.
#[derive(Debug, Clone)]
pub(super) struct DiskRoom(Arc<Shared>);

struct Shared {
    /// Bytes that are free; none where the system does not say, so that the write itself is the test.
    free: Box<dyn Fn() -> Option<u64> + Send + Sync>,
    /// Bytes that writes were promised which are under way.
    promised: AtomicU64,
    reserve: Reserve,
}

impl DiskRoom {
    /// That of a store in a folder, with its reserve, which is set aside where there is room for it.
    pub(super) fn of(folder: &Path) -> Self {
        let path = folder.to_owned();
        Self::measured(folder, move || {
            let system = rustix::fs::statvfs(&path).ok()?;
            Some(system.f_bavail.saturating_mul(system.f_frsize))
        })
    }

    fn measured(folder: &Path, free: impl Fn() -> Option<u64> + Send + Sync + 'static) -> Self {
        let reserve = Reserve::in_folder(folder);
        let room = Self(Arc::new(Shared { free: Box::new(free), promised: AtomicU64::new(0), reserve }));
        room.set_reserve_aside();
        room
    }

    /// Promises room for a write of about `bytes`, beside all that is promised already, as long as the answer is held.
    ///
    /// # Errors
    /// `ResourceExhausted`.
    pub(super) fn for_write(&self, bytes: u64) -> Result<Promise> {
        let mut promise = Promise { room: self.clone(), bytes: 0 };
        promise.grow(bytes, 0)?;
        self.set_reserve_aside();
        Ok(promise)
    }

    /// Is there room for what is small and must go on: `bytes` at most, and what a collection needs to be opened? The reserve is
    /// given up for it.
    ///
    /// # Errors
    /// `ResourceExhausted`.
    pub(super) fn for_small(&self, bytes: u64, what: &'static str) -> Result<()> {
        let needed = FOR_SMALL.saturating_add(bytes);
        let refused = self.check(needed, what);
        if refused.is_err() && self.0.reserve.give_up() {
            return self.check(needed, what);
        }
        refused
    }

    fn check(&self, needed: u64, what: &'static str) -> Result<()> {
        let Some(free) = (self.0.free)() else { return Ok(()) };
        if free >= needed {
            return Ok(());
        }
        const MIB: u64 = 1 << 20;
        Err(Error::ResourceExhausted {
            what: format!(
                "the disk of the data folder is full: {} MiB are free, and {} MiB must be for {what}; make room, or delete what is \
                 not needed",
                free / MIB,
                needed.div_ceil(MIB)
            ),
            retry_after: None,
        })
    }

    fn set_reserve_aside(&self) {
        // Far from where it would be writes that have no room.
        let promised = self.0.promised.load(Ordering::Acquire);
        let needed = (FOR_WRITES + 2 * reserve::BYTES).saturating_add(promised);
        if !self.0.reserve.is_wanted() || (self.0.free)().is_none_or(|free| free < needed) {
            return;
        }
        self.0.reserve.set_aside();
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("DiskRoom").field("promised", &self.promised).finish_non_exhaustive()
    }
}

/// Room for a write that is under way, until this is dropped.
#[derive(Debug)]
pub(super) struct Promise {
    room: DiskRoom,
    bytes: u64,
}

impl Promise {
    /// Promises more, for about `bytes` of the write, and looks whether there is room for `beside` that is written before it.
    ///
    /// # Errors
    /// `ResourceExhausted`; then nothing more is promised.
    pub(super) fn grow(&mut self, bytes: u64, beside: u64) -> Result<()> {
        let more = bytes.saturating_mul(COPIES);
        // Added first, so that of two which ask at once the second sees the first.
        let before = self.room.0.promised.fetch_add(more, Ordering::AcqRel);
        let all = before.saturating_add(more).saturating_add(beside);
        self.room.check(FOR_WRITES.saturating_add(all), "a write and those before it").inspect_err(|_| {
            self.room.0.promised.fetch_sub(more, Ordering::AcqRel);
        })?;
        self.bytes += more;
        Ok(())
    }

    /// Promises what the write is known to need by now.
    pub(super) fn settle(&mut self, bytes: u64) {
        let bytes = bytes.saturating_mul(COPIES);
        self.room.0.promised.fetch_add(bytes, Ordering::AcqRel);
        self.room.0.promised.fetch_sub(self.bytes, Ordering::AcqRel);
        self.bytes = bytes;
    }

    /// Is there still room for it, now that it is its turn?
    ///
    /// # Errors
    /// `ResourceExhausted`.
    pub(super) fn check(&self) -> Result<()> {
        self.room.check(FOR_WRITES.saturating_add(self.bytes), "a write")
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        self.room.0.promised.fetch_sub(self.bytes, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A disk with as much room as is said.
    fn disk(folder: &Path, free: u64) -> (DiskRoom, Arc<AtomicU64>) {
        let said = Arc::new(AtomicU64::new(free));
        let free = Arc::clone(&said);
        (DiskRoom::measured(folder, move || Some(free.load(Ordering::SeqCst))), said)
    }

    fn refused<T: fmt::Debug>(outcome: Result<T>) -> String {
        match outcome.unwrap_err() {
            Error::ResourceExhausted { what, .. } => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_has_no_room_is_refused_with_how_much_is_missing() {
        let folder = tempfile::tempdir().unwrap();
        let (room, _) = disk(folder.path(), 72 * MIB);
        assert_eq!(
            refused(room.for_write(15 * MIB)),
            "the disk of the data folder is full: 72 MiB are free, and 124 MiB must be for a write and those before it; make room, \
             or delete what is not needed"
        );
        assert!(room.for_write(2 * MIB).is_ok());
    }

    #[test]
    fn writes_that_are_under_way_count_until_they_are_done() {
        let folder = tempfile::tempdir().unwrap();
        let (room, _) = disk(folder.path(), 100 * MIB);
        let first = room.for_write(5 * MIB).unwrap();
        let second = room.for_write(4 * MIB).unwrap();
        assert!(refused(room.for_write(MIB)).contains("104 MiB must be"));
        assert!(refused(room.for_write(u64::MAX)).contains("100 MiB are free"));
        drop(first);
        let third = room.for_write(5 * MIB).unwrap();
        drop((second, third));
        assert!(room.for_write(9 * MIB).is_ok(), "nothing is promised any more");
    }

    #[test]
    fn a_write_whose_turn_comes_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let (room, free) = disk(folder.path(), 100 * MIB);
        let (mut first, second) = (room.for_write(5 * MIB).unwrap(), room.for_write(4 * MIB).unwrap());
        free.store(80 * MIB, Ordering::SeqCst);
        assert!(refused(first.check()).contains("84 MiB must be for a write;"));
        assert_eq!(second.check(), Ok(()), "it has room alone");
        first.settle(4 * MIB);
        assert_eq!(first.check(), Ok(()));
        free.store(100 * MIB, Ordering::SeqCst);
        assert!(first.grow(MIB, MIB).is_err(), "36 MiB would be promised, and one is written at once");
        assert_eq!(first.grow(MIB, 0), Ok(()));
    }

    #[test]
    fn the_reserve_is_for_what_is_small() {
        let folder = tempfile::tempdir().unwrap();
        let (room, free) = disk(folder.path(), 1024 * MIB);
        let file = folder.path().join("reserve");
        if !file.exists() {
            // The file system cannot set room aside.
            return;
        }
        free.store(0, Ordering::SeqCst);
        refused(room.for_write(0));
        assert!(file.exists(), "writes may not have it");
        refused(room.for_small(0, "a delete"));
        assert!(!file.exists(), "here nothing came of it, since this disk says what it is told to");
        free.store(1024 * MIB, Ordering::SeqCst);
        assert_eq!(room.for_small(0, "a delete"), Ok(()));
        assert!(room.for_write(0).is_ok() && file.exists(), "it is set aside again when there is room");
        free.store(100 * MIB, Ordering::SeqCst);
        assert!(room.for_small(MIB, "a delete").is_ok() && file.exists(), "it is not needed yet");
    }

    #[test]
    fn where_the_system_does_not_say_the_write_itself_is_the_test() {
        let folder = tempfile::tempdir().unwrap();
        let room = DiskRoom::measured(folder.path(), || None);
        assert!(room.for_write(u64::MAX).is_ok());
        assert_eq!(room.for_small(u64::MAX, "a delete"), Ok(()));
    }
}
