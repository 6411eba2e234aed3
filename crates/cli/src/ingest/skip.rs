//! Files and folders that were not used, and what to make of that.

use toller_ingest::{SkipReason, Skipped};

/// A file or folder that was not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) source: String,
    pub(crate) reason: String,
    pub(crate) kind: SkipKind,
}

/// What to make of a skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkipKind {
    /// Folders hold such things: not worth a line of its own.
    Expected,
    /// Worth a line.
    Noted,
    /// The caller named it and it cannot be used.
    Failure,
}

impl Skip {
    /// What the server could not index. A file that is empty now is nothing that failed: its older chunks go.
    pub(crate) fn problem(source: String, reason: String, is_named: bool) -> Self {
        let is_empty = reason == SkipReason::Empty.to_string();
        let kind = if is_named && !is_empty { SkipKind::Failure } else { SkipKind::Noted };
        Self { source, reason, kind }
    }

    /// Was it to be used, and could not be? Then what was indexed of it stays.
    pub(crate) fn is_unusable(&self) -> bool {
        self.kind != SkipKind::Expected
    }
}

impl From<Skipped> for Skip {
    fn from(skipped: Skipped) -> Self {
        let kind = match &skipped.reason {
            reason if reason.is_expected() => SkipKind::Expected,
            _ if skipped.named => SkipKind::Failure,
            _ => SkipKind::Noted,
        };
        Self { source: skipped.source, reason: skipped.reason.to_string(), kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_files_fail() {
        let kind = |named, reason| Skip::from(Skipped { source: "x".to_owned(), named, reason }).kind;
        assert_eq!(kind(true, SkipReason::NotAFile), SkipKind::Failure);
        assert_eq!(kind(false, SkipReason::NotAFile), SkipKind::Noted);
        assert_eq!(kind(false, SkipReason::Unsupported), SkipKind::Expected);
        let problem = |reason: &str, is_named| Skip::problem("x".to_owned(), reason.to_owned(), is_named).kind;
        assert_eq!(problem("binary", true), SkipKind::Failure);
        assert_eq!(problem("binary", false), SkipKind::Noted);
        assert_eq!(problem("empty", true), SkipKind::Noted, "nothing of it is missing from the collection");
    }
}
