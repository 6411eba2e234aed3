//! The progress bar, on a terminal; nothing otherwise.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

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
        self.bar.set_length(bytes);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            self.bar.set_style(style);
        }
        // A target that is no terminal draws nothing.
        self.bar.set_draw_target(ProgressDrawTarget::stderr());
    }

    /// So many bytes more are done, and so many chunks in all.
    pub(crate) fn advance(&self, bytes: u64, chunks: u64) {
        self.bar.set_message(format!("{chunks} chunks"));
        self.bar.inc(bytes);
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
