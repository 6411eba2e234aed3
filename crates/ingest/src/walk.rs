//! Finding files: paths as the caller names them, folders with all that is below them.

use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, WalkBuilder};

use crate::error::Error;
use crate::format::Format;
use crate::skip::{SkipReason, Skipped};

/// The path that stands for standard input.
pub const STANDARD_INPUT: &str = "-";

/// The file in which folders say what is not for a retrieval service, in the syntax of `.gitignore`.
const OWN_IGNORE_FILE: &str = ".tollerignore";

/// A file to be loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Where it is.
    pub path: PathBuf,
    /// What it is known by: the path as given, without `.` components and with `/` between its parts.
    pub source: String,
    /// Was it named by the caller, rather than found in a folder?
    pub named: bool,
}

impl SourceFile {
    /// Is it standard input, named by [`STANDARD_INPUT`]? A file of that name is `./-`.
    pub fn is_standard_input(&self) -> bool {
        self.named && self.path == Path::new(STANDARD_INPUT)
    }
}

/// What is taken of folders. Files that are named are taken whatever is said here.
///
/// Globs are as in `.gitignore`, relative to the folder that is named: `*.md` is at any depth, `/drafts` at the top,
/// `a/**/b.txt` in between. A glob that meets a folder means all that is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WalkOptions {
    /// Only files that one of these globs meets; all when there is none.
    pub include: Vec<String>,
    /// No file or folder that one of these globs meets.
    pub exclude: Vec<String>,
    /// Files and folders too whose name begins with a dot?
    pub hidden: bool,
    /// Also what ignore files leave out?
    pub no_ignore: bool,
    /// What standard input is known by; [`STANDARD_INPUT`] when absent. Its extension tells the format.
    pub standard_input_name: Option<String>,
}

/// Files in a fixed order: paths as given, and within a folder by the bytes of their names, which is the order of their ids.
///
/// A file that is named is always tried, by its content when its extension is none of ours. Folders give the files of known
/// extension; hidden files and folders in them are left out, and so is what `.gitignore`, `.ignore`, `.tollerignore` and
/// `.git/info/exclude` say there and in the folders above, in a git checkout or not. What they leave out is not reported.
/// Symbolic links are followed. A file reached twice by the same name is given once. Remembers the names of the files of one
/// folder and of each file given, and no contents.
pub fn walk<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>) -> Walk {
    Walk::new(paths, WalkOptions::default())
}

/// [`walk`] with options.
///
/// # Errors
/// A glob that is none, with its field.
pub fn walk_with<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>, options: WalkOptions) -> Result<Walk, Error> {
    globs("include", &options.include, Path::new(""))?;
    globs("exclude", &options.exclude, Path::new(""))?;
    Ok(Walk::new(paths, options))
}

type Found = Result<SourceFile, Skipped>;

/// Iterator of [`walk`].
pub struct Walk {
    /// Still to come, the next one last.
    paths: Vec<PathBuf>,
    folder: std::vec::IntoIter<Found>,
    options: WalkOptions,
    given: HashSet<String>,
}

impl Walk {
    fn new<P: Into<PathBuf>>(paths: impl IntoIterator<Item = P>, options: WalkOptions) -> Self {
        let mut paths: Vec<PathBuf> = paths.into_iter().map(Into::into).collect();
        paths.reverse();
        Self { paths, folder: Vec::new().into_iter(), options, given: HashSet::new() }
    }
}

impl Iterator for Walk {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let found = match self.folder.next() {
                Some(found) => found,
                None => {
                    let path = self.paths.pop()?;
                    if path == Path::new(STANDARD_INPUT) {
                        Ok(standard_input(path, &self.options))
                    } else {
                        match fs::metadata(&path) {
                            Ok(metadata) if metadata.is_dir() => {
                                self.folder = everything_in(&path, &self.options).into_iter();
                                continue;
                            }
                            outcome => named_file(&path, outcome),
                        }
                    }
                }
            };
            // A file that was given before is not given again.
            match found {
                Ok(file) if !self.given.insert(file.source.clone()) => {}
                other => return Some(other),
            }
        }
    }
}

fn standard_input(path: PathBuf, options: &WalkOptions) -> SourceFile {
    let source = options.standard_input_name.clone().unwrap_or_else(|| STANDARD_INPUT.to_owned());
    SourceFile { path, source, named: true }
}

fn named_file(path: &Path, metadata: std::io::Result<fs::Metadata>) -> Found {
    let skip = |reason| Err(Skipped { source: display_name(path), named: true, reason });
    match metadata {
        Err(fault) => skip(SkipReason::Unreadable(fault)),
        Ok(metadata) if !metadata.is_file() => skip(SkipReason::NotAFile),
        Ok(_) => match source_name(path) {
            None => skip(SkipReason::NameNotUnicode),
            Some(source) => Ok(SourceFile { path: path.to_owned(), source, named: true }),
        },
    }
}

/// All that is in a folder, ordered by name.
fn everything_in(folder: &Path, options: &WalkOptions) -> Vec<Found> {
    // What is pruned is reported by the closure that prunes it; the rest by the walk.
    let pruned: Arc<Mutex<Vec<Skipped>>> = Arc::default();
    // That they are globs was checked before.
    let include = globs("include", &options.include, folder).ok().flatten();
    let exclude = globs("exclude", &options.exclude, folder).ok().flatten();
    let hidden = options.hidden;
    let report = Arc::clone(&pruned);
    let mut builder = WalkBuilder::new(folder);
    builder
        .hidden(false)
        .follow_links(true)
        // The files of the folder decide, not the checkout or the machine it is on.
        .require_git(false)
        .git_global(false)
        .parents(!options.no_ignore)
        .ignore(!options.no_ignore)
        .git_ignore(!options.no_ignore)
        .git_exclude(!options.no_ignore)
        .filter_entry(move |entry| match left_out(entry, hidden, exclude.as_ref()) {
            None => true,
            Some(reason) => {
                let skipped = Skipped { source: display_name(entry.path()), named: false, reason };
                report.lock().unwrap_or_else(PoisonError::into_inner).push(skipped);
                false
            }
        });
    let mut found: Vec<Found> = Vec::new();
    if !options.no_ignore {
        builder.add_custom_ignore_filename(OWN_IGNORE_FILE);
    }
    for entry in builder.build() {
        match entry {
            Ok(entry) => {
                found.extend(entry.error().map(|fault| Err(refused(fault, entry.path()))));
                found.extend(visit(&entry, include.as_ref()));
            }
            Err(fault) => found.push(Err(refused(&fault, folder))),
        }
    }
    found.extend(std::mem::take(&mut *pruned.lock().unwrap_or_else(PoisonError::into_inner)).into_iter().map(Err));
    found.sort_by(|left, right| name_of(left).cmp(name_of(right)));
    found
}

fn name_of(found: &Found) -> &str {
    match found {
        Ok(file) => &file.source,
        Err(skipped) => &skipped.source,
    }
}

/// Why a file or folder is left out by its name; none when it is not.
fn left_out(entry: &DirEntry, hidden: bool, exclude: Option<&Gitignore>) -> Option<SkipReason> {
    if !hidden && entry.file_name().as_encoded_bytes().starts_with(b".") {
        return Some(SkipReason::Hidden);
    }
    let is_folder = entry.file_type().is_some_and(|kind| kind.is_dir());
    let is_excluded = exclude.is_some_and(|globs| globs.matched(entry.path(), is_folder).is_ignore());
    is_excluded.then_some(SkipReason::Excluded)
}

/// One entry of a folder; none for a folder that is walked into.
fn visit(entry: &DirEntry, include: Option<&Gitignore>) -> Option<Found> {
    let path = entry.path();
    let skip = |reason| Some(Err(Skipped { source: display_name(path), named: false, reason }));
    let kind = entry.file_type()?;
    if kind.is_dir() {
        return None;
    }
    if include.is_some_and(|globs| !globs.matched_path_or_any_parents(path, false).is_ignore()) {
        return skip(SkipReason::Excluded);
    }
    if Format::of(path).is_none() {
        return skip(SkipReason::Unsupported);
    }
    if !kind.is_file() {
        return skip(SkipReason::NotAFile);
    }
    match source_name(path) {
        None => skip(SkipReason::NameNotUnicode),
        Some(source) => Ok(SourceFile { path: path.to_owned(), source, named: false }).into(),
    }
}

/// What a walk reports, with the path it has where it has one.
fn refused(fault: &ignore::Error, otherwise: &Path) -> Skipped {
    let mut place = otherwise;
    let mut depth = None;
    let mut cause = fault;
    let reason = loop {
        match cause {
            ignore::Error::WithPath { path, err } => (place, cause) = (path, err),
            ignore::Error::WithDepth { depth: at, err } => (depth, cause) = (Some(*at), err),
            ignore::Error::Loop { child, .. } => {
                place = child;
                break SkipReason::SymlinkLoop;
            }
            ignore::Error::Io(fault) => break SkipReason::Unreadable(fault.kind().into()),
            other => break SkipReason::InvalidIgnoreFile { fault: other.to_string() },
        }
    };
    Skipped { source: display_name(place), named: depth == Some(0), reason }
}

/// Globs relative to a folder; none when there are none.
fn globs(field: &'static str, globs: &[String], folder: &Path) -> Result<Option<Gitignore>, Error> {
    let invalid = |glob: &str, fault: String| Error::InvalidParameter {
        parameter: field.into(),
        description: format!("{glob:?} is no glob: {fault}"),
    };
    let mut builder = GitignoreBuilder::new(folder);
    for glob in globs {
        // These would be a comment, an exception and an empty line.
        if glob.trim().is_empty() || glob.starts_with(['#', '!']) {
            return Err(invalid(glob, "it is empty or begins with # or !".to_owned()));
        }
        builder.add_line(None, glob).map_err(|fault| invalid(glob, fault.to_string()))?;
    }
    if globs.is_empty() {
        return Ok(None);
    }
    builder.build().map(Some).map_err(|fault| invalid("", fault.to_string()))
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
        let root = tree(&["d/b.md", "d/a/z.TXT", "d/a.txt", "d/c.rst", "d/x.png", "d/.git/config.md", "e.md"]);
        assert_eq!(
            listing(root.path(), &["e.md", "d"]),
            [
                "e.md",
                "d/.git [hidden]",
                "d/a.txt",
                "d/a/z.TXT",
                "d/b.md",
                "d/c.rst",
                "d/x.png [its extension is none that is read, name the file to read it as text]"
            ]
        );
    }

    #[test]
    fn ignore_files_count_unless_they_shall_not() {
        let root = tree(&["d/a.md", "d/b.md", "d/c.md", "d/e.md"]);
        fs::write(root.path().join("d/.gitignore"), "a.md\n").unwrap();
        fs::write(root.path().join("d/.ignore"), "b.md\n").unwrap();
        fs::write(root.path().join("d/.tollerignore"), "c.md\n").unwrap();
        let files = |no_ignore| -> Vec<String> {
            let options = WalkOptions { no_ignore, ..WalkOptions::default() };
            let found = walk_with([root.path().join("d")], options).unwrap().flatten();
            found.map(|file| file.path.file_name().unwrap().to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(files(false), ["e.md"]);
        assert_eq!(files(true), ["a.md", "b.md", "c.md", "e.md"]);
    }

    #[test]
    fn named_files_are_tried_and_given_once() {
        let root = tree(&["d/x.log", "d/a.md", "d/.hidden"]);
        let found = listing(root.path(), &["d", "d/./a.md", "d/x.log", "d/x.log", "d/.hidden"]);
        assert_eq!(
            found[2..],
            ["d/x.log [its extension is none that is read, name the file to read it as text]", "d/x.log", "d/.hidden"]
        );
        let named = walk([root.path().join("d/x.log")]).next().unwrap().unwrap();
        assert!(named.named);
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

    fn listing_with(root: &Path, paths: &[&str], options: WalkOptions) -> Vec<String> {
        let prefix = format!("{}/", root.to_str().unwrap());
        walk_with(paths.iter().map(|path| root.join(path)), options)
            .unwrap()
            .map(|found| match found {
                Ok(file) => file.source.replace(&prefix, ""),
                Err(skipped) => format!("{} [{}]", skipped.source.replace(&prefix, ""), skipped.reason),
            })
            .collect()
    }

    fn strings(globs: &[&str]) -> Vec<String> {
        globs.iter().map(|glob| (*glob).to_owned()).collect()
    }

    #[test]
    fn ignore_files_count_outside_of_git_too() {
        let root = tree(&["d/a.md", "d/b.md", "d/c.md", "d/e.md", "d/out/x.md", "d/in/b.md", "d/in/keep.md"]);
        fs::write(root.path().join("d/.gitignore"), "/b.md\nout/\n").unwrap();
        fs::write(root.path().join("d/.ignore"), "c.md\n").unwrap();
        fs::write(root.path().join("d/.tollerignore"), "e.md\nkeep.md\n").unwrap();
        fs::write(root.path().join("d/in/.tollerignore"), "!keep.md\n").unwrap();
        let found = listing(root.path(), &["d"]);
        let files: Vec<_> = found.iter().filter(|name| !name.contains('[')).collect();
        assert_eq!(files, ["d/a.md", "d/in/b.md", "d/in/keep.md"]);
        assert_eq!(listing(root.path(), &["d/b.md"]), ["d/b.md"], "what is named is taken");
    }

    #[test]
    fn a_line_that_is_no_glob_is_told_and_the_others_count() {
        let root = tree(&["d/a.md", "d/b.md"]);
        fs::write(root.path().join("d/.tollerignore"), "x{\nb.md\n").unwrap();
        let found = listing(root.path(), &["d"]);
        assert!(found.iter().any(|line| line.contains("a line of this ignore file is not used")), "{found:?}");
        assert!(found.contains(&"d/a.md".to_owned()) && !found.contains(&"d/b.md".to_owned()), "{found:?}");
    }

    #[test]
    fn globs_choose_what_is_taken() {
        let root = tree(&["d/a.md", "d/a.txt", "d/drafts/b.md", "d/sub/drafts/c.md", "d/sub/d.md"]);
        let options =
            WalkOptions { include: strings(&["*.md"]), exclude: strings(&["/drafts"]), ..WalkOptions::default() };
        assert_eq!(
            listing_with(root.path(), &["d"], options),
            [
                "d/a.md",
                "d/a.txt [left out by the globs]",
                "d/drafts [left out by the globs]",
                "d/sub/d.md",
                "d/sub/drafts/c.md"
            ]
        );
        let folder = WalkOptions { include: strings(&["sub"]), ..WalkOptions::default() };
        let found = listing_with(root.path(), &["d"], folder);
        assert_eq!(
            found.iter().filter(|name| !name.contains('[')).collect::<Vec<_>>(),
            ["d/sub/d.md", "d/sub/drafts/c.md"]
        );
    }

    #[test]
    fn what_is_no_glob_is_refused() {
        for (glob, field) in [("a{b", "include"), ("", "exclude"), ("!a", "exclude"), ("# a", "include")] {
            let mut options = WalkOptions::default();
            if field == "include" { &mut options.include } else { &mut options.exclude }.push(glob.to_owned());
            let fault = walk_with(["."], options).err().unwrap().to_string();
            assert!(fault.starts_with(&format!("{field}: {glob:?} is no glob")), "{fault}");
        }
    }

    #[test]
    fn hidden_files_are_taken_when_asked_for() {
        let root = tree(&["d/.notes/a.md", "d/.b.md"]);
        let options = WalkOptions { hidden: true, ..WalkOptions::default() };
        assert_eq!(listing_with(root.path(), &["d"], options), ["d/.b.md", "d/.notes/a.md"]);
    }

    #[test]
    fn standard_input_is_a_source_with_a_name() {
        let file = walk(["-"]).next().unwrap().unwrap();
        assert_eq!(file.source, "-");
        assert!(file.is_standard_input());
        let options = WalkOptions { standard_input_name: Some("notes.md".to_owned()), ..WalkOptions::default() };
        let file = walk_with(["-"], options).unwrap().next().unwrap().unwrap();
        assert_eq!(file.source, "notes.md");
    }

    #[test]
    fn many_files_are_in_the_order_of_their_names() {
        let names: Vec<String> = (0..2000).map(|n| format!("d/{}/{:02}.md", n % 7, n * 37 % 2000)).collect();
        let root = tree(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let found = listing(root.path(), &["d"]);
        assert_eq!(found.len(), 2000);
        assert!(found.is_sorted(), "the order is that of the names' bytes");
    }

    #[test]
    fn the_operating_systems_refusals_keep_the_path() {
        let denied = ignore::Error::Io(std::io::ErrorKind::PermissionDenied.into());
        let fault = ignore::Error::WithDepth {
            depth: 2,
            err: Box::new(ignore::Error::WithPath { path: "d/secret".into(), err: Box::new(denied) }),
        };
        let skipped = refused(&fault, Path::new("d"));
        assert_eq!(skipped.to_string(), "d/secret: cannot be read: permission denied");
        assert!(!skipped.named);
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
