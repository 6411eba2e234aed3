//! The progress bar, on a terminal; nothing otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use toller_api::v1;

use crate::terminal::say;

const TEMPLATE: &str = "{bar:30} {percent:>3} %  {msg}  {eta} left";

/// A bar on stderr while files are sent. Hidden where stderr is no terminal. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Shows nothing yet.
    pub(crate) fn new() -> Self {
        Self { bar: ProgressBar::hidden() }
    }

    /// Shows the bar, at the beginning of so many bytes.
    pub(crate) fn begin(&self, bytes: u64) {
        self.bar.reset();
        self.bar.set_length(bytes);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            self.bar.set_style(style);
        }
        // A target that is no terminal draws nothing.
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
    }

    /// So many bytes more are on their way.
    pub(crate) fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }

    /// Shows what the server counts.
    pub(crate) fn tell(&self, counts: &v1::IndexProgress) {
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
    let v1::IndexProgress { added, updated, skipped, failed, chunks, tokens, .. } = counts;
    let files = added + updated + skipped + failed;
    format!("{files} files  {chunks} chunks  {:.0} tokens/s", tokens_per_second(*tokens, seconds))
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
    }
}
