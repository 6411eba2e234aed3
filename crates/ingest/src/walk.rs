//! Finding files: paths as the caller names them, folders with all that is below them.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use walkdir::WalkDir;

use crate::format::Format;
use crate::skip::{SkipReason, Skipped};

/// A file to be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it is known by: the path as given, without `.` components and with `/` between its parts.
    pub source: String,
    /// What it holds.
    pub format: Format,
    /// Was it named by the caller, rather than found in a folder?
    pub named: bool,
}

/// Files in a fixed order: paths as given, and within a folder by name, folders in their place among the files.
///
/// A file that is named is always tried, as plain text when its extension is none of ours. Folders give the files of known
/// extension; hidden files and folders in them are left out. Symbolic links are followed. A file reached twice by the same name
/// is given once. Remembers the name of each file given; nothing else grows.
pub fn walk<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Walk {
    let mut paths: Vec<PathBuf> = paths.into_iter().map(Into::into).collect();
    paths.reverse();
    Walk { paths, folder: None, given: HashSet::new() }
}

/// Iterator of [`walk`].
pub struct Walk {
    /// Still to come, the next one last.
    paths: Vec<PathBuf>,
    folder: Option<walkdir::IntoIter>,
    given: HashSet<String>,
}

impl Iterator for Walk {
    type Item = Result<SourceFile, Skipped>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(folder) = &mut self.folder {
                let found = match folder.next() {
                    None => {
                        self.folder = None;
                        continue;
                    }
                    Some(Err(fault)) => Some(Err(refused(&fault))),
                    Some(Ok(entry)) => {
                        let found = visit(&entry);
                        if matches!(&found, Some(Err(Skipped { reason: SkipReason::Hidden, .. })))
                            && entry.file_type().is_dir()
                        {
                            folder.skip_current_dir();
                        }
                        found
                    }
                };
                if let Some(found) = self.once(found) {
                    return Some(found);
                }
                continue;
            }
            let path = self.paths.pop()?;
            match std::fs::metadata(&path) {
                Ok(metadata) if metadata.is_dir() => {
                    self.folder = Some(WalkDir::new(&path).follow_links(true).sort_by_file_name().into_iter());
                }
                outcome => {
                    if let Some(found) = self.once(Some(named_file(&path, outcome))) {
                        return Some(found);
                    }
                }
            }
        }
    }
}

impl Walk {
    /// Drops a file that was given before.
    fn once(&mut self, found: Option<Result<SourceFile, Skipped>>) -> Option<Result<SourceFile, Skipped>> {
        match found {
            Some(Ok(file)) => self.given.insert(file.source.clone()).then_some(Ok(file)),
            other => other,
        }
    }
}

fn named_file(path: &Path, metadata: std::io::Result<std::fs::Metadata>) -> Result<SourceFile, Skipped> {
    let skip = |reason| Err(Skipped { source: display_name(path), named: true, reason });
    match metadata {
        Err(fault) => skip(SkipReason::Unreadable(fault)),
        Ok(metadata) if !metadata.is_file() => skip(SkipReason::NotAFile),
        Ok(_) => match source_name(path) {
            None => skip(SkipReason::NameNotUnicode),
            Some(source) => {
                let format = Format::of(path).unwrap_or(Format::Text);
                Ok(SourceFile { path: path.to_owned(), source, format, named: true })
            }
        },
    }
}

/// One entry of a folder; none for a folder that is walked into.
fn visit(entry: &walkdir::DirEntry) -> Option<Result<SourceFile, Skipped>> {
    let path = entry.path();
    let skip = |reason| Some(Err(Skipped { source: display_name(path), named: false, reason }));
    if entry.depth() == 0 {
        return None;
    }
    if entry.file_name().as_encoded_bytes().starts_with(b".") {
        return skip(SkipReason::Hidden);
    }
    if entry.file_type().is_dir() {
        return None;
    }
    let Some(format) = Format::of(path) else {
        return skip(SkipReason::Unsupported);
    };
    if !entry.file_type().is_file() {
        return skip(SkipReason::NotAFile);
    }
    match source_name(path) {
        None => skip(SkipReason::NameNotUnicode),
        Some(source) => Some(Ok(SourceFile { path: path.to_owned(), source, format, named: false })),
    }
}

fn refused(fault: &walkdir::Error) -> Skipped {
    let reason = if fault.loop_ancestor().is_some() {
        SkipReason::SymlinkLoop
    } else {
        let kind = fault.io_error().map_or(std::io::ErrorKind::Other, std::io::Error::kind);
        SkipReason::Unreadable(kind.into())
    };
    let source = fault.path().map_or_else(|| "?".to_owned(), display_name);
    Skipped { source, named: fault.depth() == 0, reason }
}

/// The name that a file is known by; none when it is not Unicode.
fn source_name(path: &Path) -> Option<String> {
    let mut name = String::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::RootDir => name.push('/'),
            other => {
                if !name.is_empty() && !name.ends_with('/') {
                    name.push('/');
                }
                name.push_str(other.as_os_str().to_str()?);
            }
        }
    }
    Some(if name.is_empty() { ".".to_owned() } else { name })
}

/// The same, for people.
fn display_name(path: &Path) -> String {
    source_name(path).unwrap_or_else(|| path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// What a walk gives: names, and reasons in brackets.
    fn listing(root: &Path, paths: &[&str]) -> Vec<String> {
        let prefix = format!("{}/", root.to_str().unwrap());
        walk(paths.iter().map(|path| root.join(path)))
            .map(|found| match found {
                Ok(file) => file.source.replace(&prefix, ""),
                Err(skipped) => format!("{} [{}]", skipped.source.replace(&prefix, ""), skipped.reason),
            })
            .collect()
    }

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "text").unwrap();
        }
        root
    }

    #[test]
    fn order_is_by_name_and_folders_are_walked() {
        let root = tree(&["d/b.md", "d/a/z.TXT", "d/a.txt", "d/c.rst", "d/x.pdf", "d/.git/config.md", "e.md"]);
        assert_eq!(
            listing(root.path(), &["e.md", "d"]),
            [
                "e.md",
                "d/.git [hidden]",
                "d/a/z.TXT",
                "d/a.txt",
                "d/b.md",
                "d/c.rst",
                "d/x.pdf [not a .md, .markdown, .txt, .text or .rst file]"
            ]
        );
    }

    #[test]
    fn named_files_are_tried_and_given_once() {
        let root = tree(&["d/x.log", "d/a.md", "d/.hidden"]);
        let found = listing(root.path(), &["d", "d/./a.md", "d/x.log", "d/x.log", "d/.hidden"]);
        assert_eq!(found[2..], ["d/x.log [not a .md, .markdown, .txt, .text or .rst file]", "d/x.log", "d/.hidden"]);
        let named = walk([root.path().join("d/x.log")]).next().unwrap().unwrap();
        assert!(named.named && named.format == Format::Text);
    }

    #[test]
    fn missing_paths_are_reported_and_the_rest_goes_on() {
        let root = tree(&["a.md"]);
        let mut found = walk([root.path().join("none.md"), root.path().join("a.md")]);
        let skipped = found.next().unwrap().unwrap_err();
        assert!(skipped.named && matches!(skipped.reason, SkipReason::Unreadable(_)), "{skipped}");
        assert!(found.next().unwrap().is_ok());
        assert!(found.next().is_none());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_but_not_in_circles() {
        use std::os::unix::fs::symlink;
        let root = tree(&["d/a.md", "other/b.md"]);
        symlink(root.path().join("d"), root.path().join("d/loop")).unwrap();
        symlink(root.path().join("other"), root.path().join("d/more")).unwrap();
        symlink(root.path().join("gone"), root.path().join("d/nowhere.md")).unwrap();
        let found = listing(root.path(), &["d"]);
        assert_eq!(found[..3], ["d/a.md", "d/loop [a symbolic link to a folder it is in]", "d/more/b.md"]);
        assert!(found[3].starts_with("d/nowhere.md [cannot be read: "), "{found:?}");
        assert_eq!(found.len(), 4);
    }

    #[cfg(unix)]
    #[test]
    fn names_must_be_unicode_and_files_regular() {
        use std::os::unix::ffi::OsStrExt;
        let root = tree(&[]);
        fs::write(root.path().join(std::ffi::OsStr::from_bytes(b"a\xff.md")), "text").unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(root.path().join("s.md")).unwrap();
        let reasons: Vec<_> = walk([root.path().to_owned()])
            .map(|found| found.unwrap_err().reason)
            .map(|reason| reason.to_string())
            .collect();
        assert_eq!(reasons, ["its name is not valid Unicode, rename it", "not a regular file"]);
    }

    #[test]
    fn names_are_the_paths_as_given() {
        for (path, name) in [
            ("./docs/a.md", "docs/a.md"),
            ("docs//./a.md", "docs/a.md"),
            ("../a.md", "../a.md"),
            ("/a/b.md", "/a/b.md"),
        ] {
            assert_eq!(source_name(Path::new(path)).as_deref(), Some(name));
        }
    }
}
