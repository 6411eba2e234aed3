//! The paths that are watched.

use std::path::{Component, Path, PathBuf};

use crate::error::Error;

/// The paths that are watched, all of which are there.
#[derive(Debug)]
pub(crate) struct Roots {
    paths: Vec<PathBuf>,
}

impl Roots {
    /// Checks that they are there.
    ///
    /// # Errors
    /// `Usage` for standard input, `Failed` for a path that is not there.
    pub(crate) fn new(paths: &[PathBuf]) -> Result<Self, Error> {
        if paths.iter().any(|path| path == Path::new("-")) {
            return Err(Error::Usage("standard input cannot be watched; a file of that name is ./-".to_owned()));
        }
        let roots = Self { paths: paths.to_vec() };
        roots.check()?;
        Ok(roots)
    }

    /// The paths.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().map(PathBuf::as_path)
    }

    /// The paths, for people.
    pub(crate) fn names(&self) -> String {
        self.paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
    }

    /// Are they still there?
    ///
    /// # Errors
    /// `Failed`, naming the first that is not.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for path in &self.paths {
            if let Err(fault) = std::fs::metadata(path) {
                let path = path.display();
                return Err(Error::Failed(format!("{path} cannot be watched: {fault}; what is indexed of it stays")));
            }
        }
        Ok(())
    }

    /// Is a source of this name at or below one of them?
    pub(crate) fn holds(&self, source: &str) -> bool {
        self.paths.iter().any(|root| holds(root, Path::new(source)))
    }
}

fn holds(root: &Path, source: &Path) -> bool {
    // Sources are named without `.` components.
    let root: PathBuf = root.components().filter(|component| *component != Component::CurDir).collect();
    if root.as_os_str().is_empty() {
        return source.is_relative() && source.components().next() != Some(Component::ParentDir);
    }
    source.starts_with(root)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_below_by_their_components() {
        for (root, source, expected) in [
            ("docs", "docs/a.md", true),
            ("./docs/", "docs/a/b.md", true),
            ("docs", "docs", true),
            ("docs", "docs2/a.md", false),
            ("docs", "/docs/a.md", false),
            (".", "docs/a.md", true),
            (".", "../a.md", false),
            (".", "/a.md", false),
            ("..", "../a.md", true),
            ("/srv", "/srv/a.md", true),
        ] {
            assert_eq!(holds(Path::new(root), Path::new(source)), expected, "{root} {source}");
        }
    }

    #[test]
    fn a_path_that_is_not_there_is_named() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("docs");
        std::fs::create_dir(&path).unwrap();
        let roots = Roots::new(std::slice::from_ref(&path)).unwrap();
        std::fs::remove_dir(&path).unwrap();
        let fault = roots.check().unwrap_err().to_string();
        assert!(fault.contains("docs") && fault.contains("stays"), "{fault}");
        assert!(matches!(Roots::new(&[PathBuf::from("-")]), Err(Error::Usage(_))));
    }
}
