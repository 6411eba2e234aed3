//! What is indexed of the watched paths, and how that differs from what is there.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use crate::ingest::FoundFile;
use crate::watch::stamp::Stamp;

/// The sources that are indexed, each with the stamp of its file at that time; none when the file has to be looked at in any case.
#[derive(Debug, Default)]
pub(crate) struct Known {
    sources: BTreeMap<String, Option<Stamp>>,
}

/// What a run has to bring.
#[derive(Debug)]
pub(crate) struct Difference {
    /// Files that are new, or not as they were.
    pub(crate) changed: Vec<FoundFile>,
    /// Sources that are gone.
    pub(crate) removed: Vec<String>,
    /// Of the changed files, for [`Known::settle`].
    pub(crate) stamps: Vec<(String, Option<Stamp>)>,
}

impl Known {
    /// Sources of which nothing but their names is known.
    pub(crate) fn of(sources: impl IntoIterator<Item = String>) -> Self {
        Self { sources: sources.into_iter().map(|source| (source, None)).collect() }
    }

    /// Compares with the files that were found. What was not found is removed only if it is gone: globs and ignore files leave
    /// out files that are there. O(files · log files).
    pub(crate) fn compare(&self, found: Vec<FoundFile>, is_gone: impl Fn(&str) -> bool) -> Difference {
        let now = SystemTime::now();
        let names: BTreeSet<String> = found.iter().map(|found| found.file.source.clone()).collect();
        let missing = self.sources.keys().filter(|source| !names.contains(*source));
        let removed = missing.filter(|source| is_gone(source)).cloned().collect();
        let (mut changed, mut stamps) = (Vec::new(), Vec::new());
        for file in found {
            let stamp = file.metadata.as_ref().and_then(|metadata| Stamp::of(metadata, now));
            let is_as_it_was = stamp.is_some() && self.sources.get(&file.file.source) == Some(&stamp);
            if !is_as_it_was {
                stamps.push((file.file.source.clone(), stamp));
                changed.push(file);
            }
        }
        Difference { changed, removed, stamps }
    }

    /// A run brought this.
    pub(crate) fn settle(&mut self, removed: &[String], stamps: Vec<(String, Option<Stamp>)>) {
        for source in removed {
            self.sources.remove(source);
        }
        self.sources.extend(stamps);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::fs::File;
    use std::path::Path;
    use std::time::Duration;

    use toller_ingest::{Loader, WalkOptions};

    use super::*;
    use crate::ingest::Work;

    /// Writes a file that was not just written, by its time.
    fn write(path: &Path, text: &str, age: u64) {
        fs::write(path, text).unwrap();
        File::options()
            .write(true)
            .open(path)
            .unwrap()
            .set_modified(SystemTime::now() - Duration::from_secs(age))
            .unwrap();
    }

    fn found(root: &Path) -> Vec<FoundFile> {
        Work::find(&[root.to_owned()], WalkOptions::default(), &Loader::default()).unwrap().files
    }

    fn names(files: &[FoundFile], root: &Path) -> Vec<String> {
        let prefix = format!("{}/", root.to_str().unwrap());
        files.iter().map(|found| found.file.source.replace(&prefix, "")).collect()
    }

    #[test]
    fn what_changed_comes_and_what_is_gone_goes() {
        let root = tempfile::tempdir().unwrap();
        let source = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
        write(&root.path().join("a.md"), "a", 60);
        write(&root.path().join("b.md"), "b", 60);
        let mut known = Known::of([source("b.md"), source("gone.md"), source("left out.md")]);
        // The times that programs cannot set have to be past, too.
        std::thread::sleep(Duration::from_millis(150));

        let is_gone = |source: &str| source.ends_with("gone.md");
        let first = known.compare(found(root.path()), is_gone);
        assert_eq!(names(&first.changed, root.path()), ["a.md", "b.md"], "nothing is known of what is indexed");
        assert_eq!(first.removed, [source("gone.md")]);
        known.settle(&first.removed, first.stamps);

        let again = known.compare(found(root.path()), is_gone);
        assert!(again.changed.is_empty() && again.removed.is_empty(), "{again:?}");

        fs::write(root.path().join("b.md"), "B").unwrap();
        fs::write(root.path().join("c.md"), "c").unwrap();
        fs::remove_file(root.path().join("a.md")).unwrap();
        let then = known.compare(found(root.path()), |source| source.ends_with("a.md"));
        assert_eq!(names(&then.changed, root.path()), ["b.md", "c.md"]);
        assert_eq!(then.removed, [source("a.md")]);
    }
}
