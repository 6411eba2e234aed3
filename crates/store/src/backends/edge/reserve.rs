//! Room on the disk that is set aside for the day on which the disk is full, as a file without content: whatever else fills the
//! disk, what is there can then still be read, and be deleted.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

use super::error::is_full;

/// How much is set aside.
pub(super) const BYTES: u64 = 32 << 20;

const FILE: &str = "reserve";

/// The file that keeps the room.
#[derive(Debug)]
pub(super) struct Reserve {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    SetAside,
    Missing,
    /// The file system cannot set room aside.
    Impossible,
}

impl Reserve {
    /// What an earlier process left of it in a folder. Changes nothing.
    pub(super) fn in_folder(folder: &Path) -> Self {
        let path = folder.join(FILE);
        // A copy of a folder has the file, and perhaps not its room.
        let is_whole = fs::metadata(&path).is_ok_and(|file| file.blocks().saturating_mul(512) >= BYTES);
        Self { path, state: Mutex::new(if is_whole { State::SetAside } else { State::Missing }) }
    }

    /// Is it missing, and may be had?
    pub(super) fn is_wanted(&self) -> bool {
        *self.state.lock() == State::Missing
    }

    /// Sets it aside, where the file system can do that without writing it.
    pub(super) fn set_aside(&self) {
        let mut state = self.state.lock();
        if *state != State::Missing {
            return;
        }
        *state = match allocate(&self.path) {
            Ok(()) => State::SetAside,
            Err(fault) => {
                tracing::debug!(file = %self.path.display(), %fault, "no room is set aside for a full disk");
                let _ = fs::remove_file(&self.path);
                // Others may have taken the room in between.
                if is_full(&fault) { State::Missing } else { State::Impossible }
            }
        };
    }

    /// Gives its room back; returns whether there was any.
    pub(super) fn give_up(&self) -> bool {
        let mut state = self.state.lock();
        if *state != State::SetAside {
            return false;
        }
        *state = State::Missing;
        tracing::warn!(file = %self.path.display(), "the disk of the data folder is full: the reserve for reads and deletes is given up");
        fs::remove_file(&self.path).is_ok()
    }
}

fn allocate(path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    Ok(rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, BYTES)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_there_until_it_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        let reserve = Reserve::in_folder(folder.path());
        assert!(reserve.is_wanted() && !reserve.give_up());
        reserve.set_aside();
        assert!(!reserve.is_wanted());
        if !file.exists() {
            // The file system cannot; nobody is to try with every write.
            return;
        }
        assert!(!Reserve::in_folder(folder.path()).is_wanted(), "the next process finds it");
        assert!(reserve.give_up() && !file.exists());
        assert!(!reserve.give_up() && reserve.is_wanted());
        fs::write(&file, "").unwrap();
        assert!(Reserve::in_folder(folder.path()).is_wanted(), "a copy without its room is none");
    }
}
