//! What a dry run says would change.

use std::collections::BTreeMap;

use serde::Serialize;
use toller_api::v1;

use crate::ingest::summary::count;
use crate::terminal::one_line;

/// What would become of one document, for `--json`.
#[derive(Debug, Serialize)]
pub(crate) struct JsonChange<'a> {
    action: &'static str,
    source: &'a str,
    chunks: u64,
}

impl<'a> From<&'a v1::IndexChange> for JsonChange<'a> {
    fn from(change: &'a v1::IndexChange) -> Self {
        let action = match change.action() {
            v1::IndexAction::Unspecified => "unknown",
            v1::IndexAction::Add => "add",
            v1::IndexAction::Update => "update",
            v1::IndexAction::Skip => "skip",
            v1::IndexAction::Delete => "delete",
        };
        Self { action, source: &change.source, chunks: change.chunks }
    }
}

/// Of one source: how many chunks come and go.
#[derive(Default)]
struct OfSource {
    written: Option<u64>,
    is_forced: bool,
    deleted: Option<u64>,
}

/// A line for each source, in the order of their names: `+` added, `~` changed or written again, `=` unchanged, `-` removed.
pub(crate) fn lines(changes: &[v1::IndexChange]) -> Vec<String> {
    let mut sources: BTreeMap<&str, OfSource> = BTreeMap::new();
    for change in changes {
        let of_source = sources.entry(&change.source).or_default();
        match change.action() {
            v1::IndexAction::Add => *of_source.written.get_or_insert(0) += change.chunks,
            v1::IndexAction::Update => {
                *of_source.written.get_or_insert(0) += change.chunks;
                of_source.is_forced = true;
            }
            v1::IndexAction::Delete => *of_source.deleted.get_or_insert(0) += change.chunks,
            v1::IndexAction::Skip | v1::IndexAction::Unspecified => {}
        }
    }
    sources.into_iter().map(|(source, of_source)| line(&one_line(source, usize::MAX), &of_source)).collect()
}

fn line(source: &str, of_source: &OfSource) -> String {
    let chunks = |number| count(number, "chunk");
    match (of_source.written, of_source.deleted) {
        (None, None) => format!("= {source}"),
        (None, Some(deleted)) => format!("- {source} removed ({})", chunks(deleted)),
        (Some(written), Some(deleted)) => format!("~ {source} changed ({}, {deleted} removed)", chunks(written)),
        (Some(written), None) if of_source.is_forced => format!("~ {source} written again ({})", chunks(written)),
        (Some(written), None) => format!("+ {source} added ({})", chunks(written)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(action: v1::IndexAction, source: &str, chunks: u64) -> v1::IndexChange {
        v1::IndexChange { action: action.into(), source: source.to_owned(), chunks }
    }

    #[test]
    fn each_source_has_a_line_with_its_sign() {
        use v1::IndexAction::{Add, Delete, Skip, Update};
        let changes = [
            change(Add, "new.md", 12),
            change(Add, "edited.md", 3),
            change(Skip, "same.md", 0),
            change(Update, "forced.md", 1),
            change(Delete, "edited.md", 2),
            change(Delete, "gone.md", 4),
            change(Skip, "partly.jsonl", 0),
            change(Add, "partly.jsonl", 1),
        ];
        assert_eq!(
            lines(&changes),
            [
                "~ edited.md changed (3 chunks, 2 removed)",
                "~ forced.md written again (1 chunk)",
                "- gone.md removed (4 chunks)",
                "+ new.md added (12 chunks)",
                "+ partly.jsonl added (1 chunk)",
                "= same.md",
            ]
        );
        assert_eq!(
            serde_json::to_string(&JsonChange::from(&changes[0])).unwrap(),
            r#"{"action":"add","source":"new.md","chunks":12}"#
        );
    }
}
