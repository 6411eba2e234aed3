//! What became of the files: counts, and what was skipped.

use std::time::Duration;

use serde::Serialize;
use toller_api::v1;

use crate::ingest::batches::{Skip, SkipKind};
use crate::terminal::say;

/// Names that one line about expected skips shows.
const NAMES_SHOWN: usize = 3;

/// Counts of what the server has acknowledged, and what was skipped.
pub(crate) struct Summary {
    collection: String,
    files: u64,
    chunks: u64,
    tokens: u64,
    truncated: u64,
    removed: u64,
    skipped: Vec<Skip>,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct Json<'a> {
    collection: &'a str,
    files: u64,
    chunks: u64,
    tokens: u64,
    truncated: u64,
    removed: u64,
    skipped: Vec<JsonSkip<'a>>,
    seconds: f64,
}

#[derive(Debug, Serialize)]
struct JsonSkip<'a> {
    source: &'a str,
    reason: &'a str,
}

impl Summary {
    pub(crate) fn new(collection: &str) -> Self {
        Self {
            collection: collection.to_owned(),
            files: 0,
            chunks: 0,
            tokens: 0,
            truncated: 0,
            removed: 0,
            skipped: Vec::new(),
        }
    }

    /// A file was written whole.
    pub(crate) fn add_file(&mut self) {
        self.files += 1;
    }

    /// Chunks were written. Tokens count as 0 where the provider does not say.
    pub(crate) fn add_chunks(&mut self, chunks: usize, usage: &[v1::TextUsage]) {
        self.chunks += chunks as u64;
        self.tokens += usage.iter().filter_map(|usage| usage.token_count).map(u64::from).sum::<u64>();
        self.truncated += usage.iter().filter(|usage| usage.truncated).count() as u64;
    }

    /// Chunks of older versions were deleted.
    pub(crate) fn add_removed(&mut self, removed: u64) {
        self.removed += removed;
    }

    /// A file was not used.
    pub(crate) fn skip(&mut self, skip: Skip) {
        self.skipped.push(skip);
    }

    /// Chunks written so far.
    pub(crate) fn chunks(&self) -> u64 {
        self.chunks
    }

    /// Nothing was indexed, or something that was named could not be used.
    pub(crate) fn is_failure(&self) -> bool {
        self.files == 0 || self.skipped.iter().any(|skip| skip.kind == SkipKind::Failure)
    }

    /// All counts on one line.
    pub(crate) fn line(&self, took: Duration) -> String {
        let Self { collection, files, chunks, tokens, truncated, removed, skipped } = self;
        let removed = if *removed > 0 { format!(", {removed} old chunks removed") } else { String::new() };
        format!(
            "collection {collection:?}: {}, {} skipped, {}, {}, {truncated} truncated{removed}, {:.1} s",
            count(*files, "file"),
            skipped.len(),
            count(*chunks, "chunk"),
            count(*tokens, "token"),
            took.as_secs_f64()
        )
    }

    /// All counts, and every skip.
    pub(crate) fn to_json(&self, took: Duration) -> Json<'_> {
        Json {
            collection: &self.collection,
            files: self.files,
            chunks: self.chunks,
            tokens: self.tokens,
            truncated: self.truncated,
            removed: self.removed,
            skipped: self.skipped.iter().map(|skip| JsonSkip { source: &skip.source, reason: &skip.reason }).collect(),
            seconds: took.as_secs_f64(),
        }
    }

    /// Lists on stderr what was skipped and why.
    pub(crate) fn tell_skipped(&self) {
        self.skipped_lines().iter().for_each(say);
    }

    /// One line for each skip, but only one for all expected ones of a reason.
    fn skipped_lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let mut expected: Vec<(&str, Vec<&str>)> = Vec::new();
        for Skip { source, reason, kind } in &self.skipped {
            if *kind != SkipKind::Expected {
                lines.push(format!("skipped {source}: {reason}"));
                continue;
            }
            match expected.iter_mut().find(|(known, _)| known == reason) {
                Some((_, sources)) => sources.push(source),
                None => expected.push((reason, vec![source])),
            }
        }
        for (reason, sources) in expected {
            let shown = sources.iter().take(NAMES_SHOWN).copied().collect::<Vec<_>>().join(", ");
            let more = sources.len().saturating_sub(NAMES_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            lines.push(format!("skipped {shown}{more}: {reason}"));
        }
        lines
    }

    /// After an error: how far it came.
    pub(crate) fn tell_partial(&self) {
        if self.chunks > 0 {
            say(format_args!(
                "stopped after {} and {} chunks; run the command again to go on, what is there is replaced",
                count(self.files, "file"),
                self.chunks
            ));
        }
    }

    /// Says what to do about what the counts show.
    pub(crate) fn tell_hints(&self) {
        if self.files == 0 {
            say("nothing was indexed: name text or Markdown files, or folders that hold some");
        }
        if self.truncated > 0 {
            say(format_args!(
                "{} longer than the model reads: the rest was not embedded, use a smaller --chunk-size",
                if self.truncated == 1 { "1 chunk is".to_owned() } else { format!("{} chunks are", self.truncated) }
            ));
        }
    }
}

fn count(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skip(source: &str, reason: &str, kind: SkipKind) -> Skip {
        Skip { source: source.to_owned(), reason: reason.to_owned(), kind }
    }

    #[test]
    fn the_line_has_all_counts() {
        let mut summary = Summary::new("docs");
        summary.add_file();
        let usage = |token_count, truncated| v1::TextUsage { token_count, truncated };
        summary.add_chunks(2, &[usage(Some(100), true), usage(None, false)]);
        let took = Duration::from_millis(1240);
        assert_eq!(
            summary.line(took),
            "collection \"docs\": 1 file, 0 skipped, 2 chunks, 100 tokens, 1 truncated, 1.2 s"
        );
        summary.add_removed(3);
        assert!(summary.line(took).contains("truncated, 3 old chunks removed, "));
    }

    #[test]
    fn expected_skips_share_a_line() {
        let mut summary = Summary::new("docs");
        summary.skip(skip("bad.md", "binary", SkipKind::Noted));
        for name in ["a.png", "b.png", "c.rs", "d.rs", "e.rs"] {
            summary.skip(skip(name, "not a text", SkipKind::Expected));
        }
        summary.skip(skip(".git", "hidden", SkipKind::Expected));
        assert_eq!(
            summary.skipped_lines(),
            ["skipped bad.md: binary", "skipped a.png, b.png, c.rs and 2 more: not a text", "skipped .git: hidden"]
        );
    }

    #[test]
    fn failure_is_nothing_indexed_or_a_named_file_unused() {
        let mut summary = Summary::new("docs");
        assert!(summary.is_failure());
        summary.add_file();
        summary.skip(skip("a", "binary", SkipKind::Noted));
        assert!(!summary.is_failure());
        summary.skip(skip("a", "binary", SkipKind::Failure));
        assert!(summary.is_failure());
    }
}
