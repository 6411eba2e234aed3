//! The progress bar, on a terminal; nothing otherwise.

use std::collections::VecDeque;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use parking_lot::Mutex;
use toller_api::v1;

use crate::terminal::say;

const TEMPLATE: &str = "{bar:30} {percent:>3} %  {msg}  {eta} left";

/// A bar on stderr while files are indexed. Hidden where stderr is no terminal. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
    sent: Arc<Mutex<SentFiles>>,
}

/// Files that were sent and not counted by the server yet, which counts them in their order.
#[derive(Default)]
struct SentFiles {
    /// The bytes of each.
    waiting: VecDeque<u64>,
    counted: u64,
}

impl SentFiles {
    /// The bytes of those that the server has counted since the last time, when it has counted so many in all.
    fn counted(&mut self, files: u64) -> u64 {
        let new = usize::try_from(files.saturating_sub(self.counted)).unwrap_or(usize::MAX);
        let counted = new.min(self.waiting.len());
        self.counted += counted as u64;
        self.waiting.drain(..counted).sum()
    }
}

impl Progress {
    /// Shows nothing yet.
    pub(crate) fn new() -> Self {
        Self { bar: ProgressBar::hidden(), sent: Arc::default() }
    }

    /// Shows the bar, at the beginning of so many bytes.
    pub(crate) fn begin(&self, bytes: u64) {
        self.bar.reset();
        *self.sent.lock() = SentFiles::default();
        self.bar.set_length(bytes);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            self.bar.set_style(style);
        }
        // A target that is no terminal draws nothing.
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
    }

    /// A file of so many bytes is on its way.
    pub(crate) fn sent(&self, bytes: u64) {
        self.sent.lock().waiting.push_back(bytes);
    }

    /// A file of so many bytes is not sent.
    pub(crate) fn passed_over(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Shows what the server counts: a file that it has counted is done, or nearly.
    pub(crate) fn tell(&self, counts: &v1::IndexProgress) {
        let done = self.sent.lock().counted(files(counts));
        self.bar.inc(done);
        self.bar.set_message(message(counts, self.bar.elapsed().as_secs_f64()));
    }

    /// Writes a line to stderr, above the bar.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| say(line));
    }

    /// Takes the bar away.
    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn message(counts: &v1::IndexProgress, seconds: f64) -> String {
    let v1::IndexProgress { chunks, tokens, .. } = counts;
    let files = files(counts);
    if *tokens == 0 {
        // Nothing is embedded yet, or by a service that does not say how much it read.
        return format!("{files} files  {chunks} chunks");
    }
    format!("{files} files  {chunks} chunks  {:.0} tokens/s", tokens_per_second(*tokens, seconds))
}

fn files(counts: &v1::IndexProgress) -> u64 {
    let v1::IndexProgress { added, updated, skipped, failed, .. } = counts;
    added + updated + skipped + failed
}

/// 0 where no time has passed.
pub(crate) fn tokens_per_second(tokens: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { tokens as f64 / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_message_has_files_chunks_and_speed() {
        let counts =
            v1::IndexProgress { added: 2, skipped: 3, failed: 1, chunks: 40, tokens: 1000, ..Default::default() };
        assert_eq!(message(&counts, 2.0), "6 files  40 chunks  500 tokens/s");
        assert_eq!(message(&counts, 0.0), "6 files  40 chunks  0 tokens/s");
        assert_eq!(message(&v1::IndexProgress { added: 1, chunks: 2, ..Default::default() }, 2.0), "1 files  2 chunks");
    }

    #[test]
    fn what_is_done_is_what_the_server_counted() {
        let progress = Progress::new();
        progress.begin(60);
        [10, 20, 30].into_iter().for_each(|bytes| progress.sent(bytes));
        let tell = |added| {
            progress.tell(&v1::IndexProgress { added, ..Default::default() });
            progress.bar.position()
        };
        assert_eq!([tell(0), tell(2), tell(2), tell(3), tell(9)], [0, 30, 30, 60, 60]);
        progress.begin(10);
        assert_eq!(tell(3), 0, "another attempt begins at the start");
    }
}
