//! What became of the files: counts, and what was skipped.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;
use toller_api::v1;

use crate::ingest::changes::{self, JsonChange};
use crate::ingest::progress::tokens_per_second;
use crate::ingest::run::{Order, Report};
use crate::ingest::skip::{Skip, SkipKind};
use crate::terminal::{one_line, say};

/// Names that one line about expected skips shows.
const NAMES_SHOWN: usize = 3;

/// Counts of what the server has acknowledged, and what was skipped.
pub(crate) struct Summary {
    collection: String,
    is_dry_run: bool,
    /// Is it meant that there may be nothing to do?
    may_be_nothing: bool,
    counts: v1::IndexProgress,
    skipped: Vec<Skip>,
    untold: u64,
    changes: Vec<v1::IndexChange>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Json<'a> {
    collection: &'a str,
    dry_run: bool,
    /// Files that are in the collection now.
    files: u64,
    added: u64,
    updated: u64,
    unchanged: u64,
    deleted: u64,
    failed: u64,
    chunks: u64,
    embedded: u64,
    reused: u64,
    resumed: u64,
    chunks_deleted: u64,
    tokens: u64,
    truncated: u64,
    tokens_per_s: f64,
    seconds: f64,
    skipped: Vec<JsonSkip<'a>>,
    #[serde(skip_serializing_if = "is_zero")]
    untold: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<Vec<JsonChange<'a>>>,
}

#[derive(Debug, Serialize)]
struct JsonSkip<'a> {
    source: &'a str,
    reason: &'a str,
}

impl Summary {
    /// Of a run, or of as much as there was of it.
    pub(crate) fn new(order: &Order, report: Report) -> Self {
        let named: BTreeSet<&str> =
            order.work.files.iter().filter(|found| found.file.named).map(|found| found.file.source.as_str()).collect();
        let mut skipped = order.work.skipped.clone();
        skipped.extend(report.unread);
        let problems = report.problems.into_iter();
        skipped.extend(problems.map(|problem| {
            let is_named = named.contains(problem.source.as_str());
            Skip::problem(problem.source, problem.message, is_named)
        }));
        Self {
            collection: order.begin.collection.clone(),
            is_dry_run: order.begin.dry_run,
            may_be_nothing: order.begin.allow_empty_full,
            counts: report.progress,
            skipped,
            untold: report.untold_problems,
            changes: report.changes,
        }
    }

    /// Files that are in the collection, new or not.
    fn files(&self) -> u64 {
        self.counts.added + self.counts.updated + self.counts.skipped
    }

    /// Nothing was indexed or removed, or something that was named could not be used.
    pub(crate) fn is_failure(&self) -> bool {
        let is_nothing = self.files() == 0 && self.counts.deleted == 0 && !self.may_be_nothing;
        is_nothing || self.skipped.iter().any(|skip| skip.kind == SkipKind::Failure)
    }

    /// All counts on one line.
    pub(crate) fn line(&self, took: Duration) -> String {
        let begins = if self.is_dry_run { "nothing was changed: in " } else { "" };
        let skipped = self.skipped.len() as u64 + self.untold;
        format!(
            "{begins}collection {:?}: {}, {skipped} skipped, {:.1} s",
            self.collection,
            counts(&self.counts, took),
            took.as_secs_f64()
        )
    }

    /// A line for each source of a dry run; none otherwise.
    pub(crate) fn change_lines(&self) -> Vec<String> {
        changes::lines(&self.changes)
    }

    /// All counts, and every skip.
    pub(crate) fn to_json(&self, took: Duration) -> Json<'_> {
        let v1::IndexProgress {
            added,
            updated,
            skipped,
            deleted,
            failed,
            chunks,
            embedded,
            reused,
            resumed,
            tokens,
            truncated,
            chunks_deleted,
        } = self.counts;
        Json {
            collection: &self.collection,
            dry_run: self.is_dry_run,
            files: self.files(),
            added,
            updated,
            unchanged: skipped,
            deleted,
            failed,
            chunks,
            embedded,
            reused,
            resumed,
            chunks_deleted,
            tokens,
            truncated,
            tokens_per_s: tokens_per_second(tokens, took.as_secs_f64()),
            seconds: took.as_secs_f64(),
            skipped: self.skipped.iter().map(|skip| JsonSkip { source: &skip.source, reason: &skip.reason }).collect(),
            untold: self.untold,
            changes: self.is_dry_run.then(|| self.changes.iter().map(JsonChange::from).collect()),
        }
    }

    /// Lists on stderr what was skipped and why.
    pub(crate) fn tell_skipped(&self) {
        skipped_lines(&self.skipped).iter().for_each(say);
        if self.untold > 0 {
            say(format_args!("and {} more that the server does not name", self.untold));
        }
    }

    /// Lists on stderr what was to be used and could not be.
    pub(crate) fn tell_failed(&self) {
        let unusable: Vec<Skip> = self.skipped.iter().filter(|skip| skip.is_unusable()).cloned().collect();
        skipped_lines(&unusable).iter().for_each(say);
    }

    /// After an error: how far it came.
    pub(crate) fn tell_partial(&self) {
        let embedded = self.counts.embedded + self.counts.resumed;
        if self.counts.chunks > 0 && !self.is_dry_run {
            say(format_args!(
                "stopped after {} of {} that were read were embedded: none of it is visible, and the next run goes on from there",
                embedded,
                count(self.counts.chunks, "chunk")
            ));
        }
    }

    /// Says what to do about what the counts show.
    pub(crate) fn tell_hints(&self) {
        if self.files() == 0 && self.counts.deleted == 0 && !self.may_be_nothing {
            say("nothing was indexed: name files, or folders that hold some of a known kind");
        }
        if self.counts.truncated > 0 {
            say(format_args!(
                "{} longer than the model reads: the rest was not embedded, use a smaller --chunk-size or --split-overlong",
                if self.counts.truncated == 1 {
                    "1 chunk is".to_owned()
                } else {
                    format!("{} chunks are", self.counts.truncated)
                }
            ));
        }
    }
}

/// What a run did, in words: what is zero is left out where it says nothing.
fn counts(counts: &v1::IndexProgress, took: Duration) -> String {
    let files = counts.added + counts.updated + counts.skipped;
    let of_files = [(counts.added, "added"), (counts.updated, "written again"), (counts.skipped, "unchanged")];
    let of_chunks =
        [(counts.embedded, "embedded"), (counts.reused, "kept their vectors"), (counts.resumed, "from an earlier run")];
    let mut line = format!(
        "{}{}, {}{}",
        count(files, "file"),
        in_brackets(&of_files),
        count(counts.chunks, "chunk"),
        in_brackets(&of_chunks),
    );
    if counts.tokens > 0 {
        let speed = tokens_per_second(counts.tokens, took.as_secs_f64());
        line.push_str(&format!(", {} at {speed:.0}/s", count(counts.tokens, "token")));
    }
    if counts.truncated > 0 {
        line.push_str(&format!(", {} truncated", counts.truncated));
    }
    if counts.deleted > 0 {
        let (versions, chunks) = (count(counts.deleted, "old version"), count(counts.chunks_deleted, "chunk"));
        line.push_str(&format!(", {versions} removed with {chunks}"));
    }
    line
}

fn in_brackets(parts: &[(u64, &str)]) -> String {
    let parts: Vec<String> =
        parts.iter().filter(|(number, _)| *number > 0).map(|(number, what)| format!("{number} {what}")).collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

/// One line for each skip, but only one for all expected ones of a reason.
pub(crate) fn skipped_lines(skipped: &[Skip]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut expected: Vec<(&str, Vec<String>)> = Vec::new();
    for Skip { source, reason, kind } in skipped {
        let source = one_line(source, usize::MAX);
        if *kind != SkipKind::Expected {
            lines.push(format!("skipped {source}: {}", one_line(reason, usize::MAX)));
            continue;
        }
        match expected.iter_mut().find(|(known, _)| known == reason) {
            Some((_, sources)) => sources.push(source),
            None => expected.push((reason, vec![source])),
        }
    }
    for (reason, sources) in expected {
        let shown = sources.iter().take(NAMES_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = sources.len().saturating_sub(NAMES_SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        lines.push(format!("skipped {shown}{more}: {reason}"));
    }
    lines
}

/// A number with its noun.
pub(crate) fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(source: &str, reason: &str, kind: SkipKind) -> Skip {
        Skip { source: source.to_owned(), reason: reason.to_owned(), kind }
    }

    fn summary(counts: v1::IndexProgress, skipped: Vec<Skip>) -> Summary {
        let collection = "docs".to_owned();
        let changes = Vec::new();
        Summary { collection, is_dry_run: false, may_be_nothing: false, counts, skipped, untold: 0, changes }
    }

    #[test]
    fn the_line_has_all_counts() {
        let counts = v1::IndexProgress { added: 1, chunks: 2, embedded: 2, tokens: 100, ..Default::default() };
        let took = Duration::from_millis(1240);
        assert_eq!(
            summary(counts, Vec::new()).line(took),
            "collection \"docs\": 1 file (1 added), 2 chunks (2 embedded), 100 tokens at 81/s, 0 skipped, 1.2 s"
        );
        let counts = v1::IndexProgress {
            added: 1,
            updated: 2,
            skipped: 3,
            deleted: 1,
            chunks: 9,
            embedded: 4,
            reused: 3,
            resumed: 2,
            truncated: 1,
            chunks_deleted: 5,
            ..Default::default()
        };
        let skipped = vec![skip("a", "binary", SkipKind::Noted)];
        let dry = Summary { is_dry_run: true, untold: 2, ..summary(counts, skipped) };
        assert_eq!(
            dry.line(took),
            "nothing was changed: in collection \"docs\": 6 files (1 added, 2 written again, 3 unchanged), \
             9 chunks (4 embedded, 3 kept their vectors, 2 from an earlier run), 1 truncated, \
             1 old version removed with 5 chunks, 3 skipped, 1.2 s"
        );
    }

    #[test]
    fn expected_skips_share_a_line() {
        let mut skipped = vec![skip("bad.md", "binary", SkipKind::Noted)];
        for name in ["a.png", "b.png", "c.rs", "d.rs", "e.rs"] {
            skipped.push(skip(name, "not a text", SkipKind::Expected));
        }
        skipped.push(skip(".git", "hidden", SkipKind::Expected));
        assert_eq!(
            skipped_lines(&skipped),
            ["skipped bad.md: binary", "skipped a.png, b.png, c.rs and 2 more: not a text", "skipped .git: hidden"]
        );
    }

    #[test]
    fn failure_is_nothing_done_or_a_named_file_unused() {
        assert!(summary(v1::IndexProgress::default(), Vec::new()).is_failure());
        let meant = Summary { may_be_nothing: true, ..summary(v1::IndexProgress::default(), Vec::new()) };
        assert!(!meant.is_failure(), "the collection was empty already");
        let unchanged = v1::IndexProgress { skipped: 1, ..Default::default() };
        assert!(!summary(unchanged, vec![skip("a", "binary", SkipKind::Noted)]).is_failure());
        assert!(summary(unchanged, vec![skip("a", "binary", SkipKind::Failure)]).is_failure());
        let emptied = v1::IndexProgress { deleted: 1, ..Default::default() };
        assert!(!summary(emptied, Vec::new()).is_failure());
    }

    #[test]
    fn json_has_the_names_of_the_contract() {
        let counts =
            v1::IndexProgress { added: 1, skipped: 2, chunks: 3, embedded: 3, tokens: 10, ..Default::default() };
        let summary = summary(counts, vec![skip("a", "binary", SkipKind::Noted)]);
        let json = serde_json::to_value(summary.to_json(Duration::from_secs(2))).unwrap();
        for (name, expected) in [("files", 3), ("added", 1), ("unchanged", 2), ("embedded", 3), ("chunks_deleted", 0)] {
            assert_eq!(json[name], expected, "{name}");
        }
        assert_eq!((&json["tokens_per_s"], &json["skipped"][0]["source"]), (&5.0.into(), &"a".into()));
        assert!(json.get("changes").is_none());
    }
}
