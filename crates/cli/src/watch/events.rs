//! What the system tells of changes: that there are some.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use notify::event::{AccessKind, AccessMode};
use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

use crate::error::Error;
use crate::terminal::say;
use crate::watch::roots::Roots;

/// A folder in which something changes all the time is taken up after so many times the quiet that is waited for.
const LONGEST_UNREST: u32 = 20;

/// Tells that something changed below the watched paths, since somebody last waited for it.
pub(crate) struct Events {
    changed: Arc<Notify>,
    /// Watches until it is dropped.
    _watcher: RecommendedWatcher,
}

impl Events {
    /// Watches from now on.
    ///
    /// # Errors
    /// `Failed` when the system refuses.
    pub(crate) fn of(roots: &Roots) -> Result<Self, Error> {
        let changed = Arc::new(Notify::new());
        let teller = Arc::clone(&changed);
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| match event {
            Ok(event) if !is_change(event.kind) => {}
            Ok(_) => teller.notify_one(),
            Err(fault) => {
                say(format_args!("{}", describe(&fault)));
                // Whatever was missed is found by a walk.
                teller.notify_one();
            }
        })
        .map_err(|fault| Error::Failed(describe(&fault)))?;
        for root in roots.paths() {
            let (path, mode) = watched(root);
            watcher.watch(&path, mode).map_err(|fault| Error::Failed(describe(&fault)))?;
        }
        Ok(Self { changed, _watcher: watcher })
    }

    /// Waits for a change, and until there was none for as long as `debounce`, or there were some for too long. A change
    /// that comes after is told the next time; one that is waited for in vain is not forgotten.
    pub(crate) async fn next_quiet_moment(&self, debounce: Duration) {
        self.changed.notified().await;
        // Should the wait end here, the change is still to be told.
        let untold = Untold { changed: &self.changed, is_told: false };
        let give_up = Instant::now() + debounce * LONGEST_UNREST;
        while Instant::now() < give_up && tokio::time::timeout(debounce, self.changed.notified()).await.is_ok() {}
        untold.tell();
    }
}

/// Puts a change back when it is dropped before it was told.
struct Untold<'a> {
    changed: &'a Notify,
    is_told: bool,
}

impl Untold<'_> {
    fn tell(mut self) {
        self.is_told = true;
    }
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.changed.notify_one();
        }
    }
}

/// A folder with all that is below it; of a file its folder, since editors put a new file in its place.
fn watched(root: &Path) -> (PathBuf, RecursiveMode) {
    if root.is_dir() {
        return (root.to_owned(), RecursiveMode::Recursive);
    }
    let folder = match root.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    (folder, RecursiveMode::NonRecursive)
}

/// Reading is no change, least of all our own.
fn is_change(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(AccessKind::Close(AccessMode::Write)) => true,
        EventKind::Access(_) => false,
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => true,
    }
}

fn describe(fault: &notify::Error) -> String {
    let hint = match fault.kind {
        notify::ErrorKind::MaxFilesWatch => "; raise fs.inotify.max_user_watches, or watch fewer folders",
        _ => "",
    };
    format!("the file system cannot be watched: {fault}{hint}")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use notify::event::{CreateKind, ModifyKind};

    use super::*;

    /// Far longer than a change takes to be told.
    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn reading_is_no_change() {
        assert!(!is_change(EventKind::Access(AccessKind::Open(AccessMode::Any))));
        assert!(!is_change(EventKind::Access(AccessKind::Close(AccessMode::Read))));
        assert!(is_change(EventKind::Access(AccessKind::Close(AccessMode::Write))));
        assert!(is_change(EventKind::Create(CreateKind::File)) && is_change(EventKind::Modify(ModifyKind::Any)));
    }

    #[tokio::test]
    async fn a_change_in_a_new_folder_is_told_and_a_wait_that_ends_early_forgets_none() {
        let root = tempfile::tempdir().unwrap();
        let events = Events::of(&Roots::new(&[root.path().to_owned()]).unwrap()).unwrap();
        let next = |debounce| tokio::time::timeout(PATIENCE, events.next_quiet_moment(debounce));
        fs::create_dir(root.path().join("new")).unwrap();
        next(Duration::from_millis(50)).await.unwrap();
        fs::write(root.path().join("new/a.md"), "text").unwrap();
        // Ends while it waits for quiet.
        let hurried = tokio::time::timeout(Duration::from_millis(200), events.next_quiet_moment(PATIENCE));
        assert!(hurried.await.is_err());
        next(Duration::from_millis(50)).await.unwrap();
    }

    #[tokio::test]
    async fn a_file_is_watched_by_its_folder() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("a.md");
        fs::write(&file, "text").unwrap();
        let events = Events::of(&Roots::new(std::slice::from_ref(&file)).unwrap()).unwrap();
        fs::write(root.path().join("new"), "another").unwrap();
        fs::rename(root.path().join("new"), &file).unwrap();
        tokio::time::timeout(PATIENCE, events.next_quiet_moment(Duration::from_millis(50))).await.unwrap();
        assert_eq!(watched(Path::new("a.md")), (PathBuf::from("."), RecursiveMode::NonRecursive));
    }
}
