//! What of a file changes when it is written to, without reading it.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// How exact the times of files are at worst: a file that changed so shortly before it was looked at may have changed
/// again since, at the same time by the clock of the file system.
const CLOCK_TICK: Duration = Duration::from_millis(100);

/// What of a file changes when it is written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    length: u64,
    written: Option<SystemTime>,
    /// Number of the file, and when anything of it changed, its name included. Programs cannot set that time.
    #[cfg(unix)]
    inode: (u64, i64, i64),
}

impl Stamp {
    /// Of a file that was looked at after `now`; none when what is told of it may be out of date already.
    pub(crate) fn of(metadata: &Metadata, now: SystemTime) -> Option<Self> {
        let stamp = Self {
            length: metadata.len(),
            written: metadata.modified().ok(),
            #[cfg(unix)]
            inode: {
                use std::os::unix::fs::MetadataExt as _;
                (metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
            },
        };
        let is_settled = |moment: SystemTime| moment + CLOCK_TICK < now;
        (stamp.written.is_some_and(is_settled) && is_settled(changed(metadata))).then_some(stamp)
    }
}

/// When anything of it changed; the beginning of time where the system does not say.
#[cfg(unix)]
fn changed(metadata: &Metadata) -> SystemTime {
    use std::os::unix::fs::MetadataExt as _;
    let seconds = Duration::from_secs(u64::try_from(metadata.ctime()).unwrap_or(0));
    let rest = Duration::from_nanos(u64::try_from(metadata.ctime_nsec()).unwrap_or(0));
    SystemTime::UNIX_EPOCH + seconds + rest
}

#[cfg(not(unix))]
fn changed(_: &Metadata) -> SystemTime {
    SystemTime::UNIX_EPOCH
}

/// Is there no file at the path of a source any more? What cannot be looked at may be there.
pub(crate) fn is_gone(source: &str) -> bool {
    match std::fs::symlink_metadata(Path::new(source)) {
        // A folder may have taken its place.
        Ok(metadata) => metadata.is_dir(),
        Err(fault) => matches!(fault.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn writing_changes_the_stamp_and_reading_does_not() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.md");
        let later = SystemTime::now() + Duration::from_secs(3600);
        let stamp = || Stamp::of(&fs::metadata(&path).unwrap(), later).unwrap();
        fs::write(&path, "one").unwrap();
        let before = stamp();
        fs::read(&path).unwrap();
        assert_eq!(stamp(), before);
        fs::write(root.path().join("b.md"), "two").unwrap();
        fs::rename(root.path().join("b.md"), &path).unwrap();
        assert_ne!(stamp(), before, "another file of the same length took its place");
    }

    #[test]
    fn what_was_just_written_is_not_trusted() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.md");
        fs::write(&path, "one").unwrap();
        let metadata = fs::metadata(&path).unwrap();
        let soon = metadata.modified().unwrap() + CLOCK_TICK / 2;
        assert_eq!(Stamp::of(&metadata, soon), None);
    }

    #[test]
    fn gone_is_what_is_surely_gone() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("a"), "text").unwrap();
        assert!(!is_gone(&path("a")) && is_gone(&path("b")) && is_gone(&path("a/b")) && is_gone(&path("b/c")));
        assert!(is_gone(root.path().to_str().unwrap()), "a folder is no file");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("nowhere", path("link")).unwrap();
            assert!(!is_gone(&path("link")));
        }
    }
}
