//! How far a run is, and what it has to tell.

use std::sync::Arc;

use parking_lot::Mutex;

/// Most problems that wait to be told; of more only their number is.
const MAX_UNTOLD: usize = 1000;

/// How far a run is. Documents are counted as they come: one whose content changed is one added and one deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// Documents that were not there in this form.
    pub added: u64,
    /// Documents that were there and are written again.
    pub updated: u64,
    /// Documents that were there, or came twice.
    pub skipped: u64,
    /// Documents that are removed; known at the commit.
    pub deleted: u64,
    /// Documents that could not be indexed.
    pub failed: u64,
    /// Chunks of the documents that were added or updated.
    pub chunks: u64,
    /// Chunks of them that this run embedded.
    pub embedded: u64,
    /// Chunks of them whose text was there before and kept its vector.
    pub reused: u64,
    /// Chunks of them that an earlier run had embedded that did not come to its end.
    pub resumed: u64,
    /// Tokens that the model saw.
    pub tokens: u64,
    /// Chunks that were embedded by their beginning, since they are over the model's longest input.
    pub truncated: u64,
    /// Chunks that are removed; known at the commit.
    pub chunks_deleted: u64,
}

/// A document that could not be indexed, or not whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What it is known by.
    pub source: String,
    /// What is wrong and what to do.
    pub message: String,
}

/// What would become of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It is new in this form.
    Add,
    /// It is there and written again.
    Update,
    /// It is there.
    Skip,
    /// It is removed.
    Delete,
}

/// What would become of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// What.
    pub action: Action,
    /// What it is known by.
    pub source: String,
    /// Chunks that are written or removed.
    pub chunks: u64,
}

/// What there is to tell since the last time.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct News {
    /// How far the run is.
    pub progress: Progress,
    /// Documents that could not be indexed.
    pub problems: Vec<Problem>,
    /// Problems that are not told, since there are too many.
    pub untold_problems: u64,
    /// What would change, in a dry run.
    pub changes: Vec<Change>,
}

/// Where a run tells its news, and somebody else reads them. Cheap to clone; clones are one board.
#[derive(Debug, Clone, Default)]
pub struct Board(Arc<Mutex<News>>);

impl Board {
    /// What there is to tell, with at most `most` problems and as many changes; each is told once.
    pub fn take_some(&self, most: usize) -> News {
        let mut news = self.0.lock();
        let problems = most.min(news.problems.len());
        let changes = most.min(news.changes.len());
        News {
            progress: news.progress,
            problems: news.problems.drain(..problems).collect(),
            untold_problems: std::mem::take(&mut news.untold_problems),
            changes: news.changes.drain(..changes).collect(),
        }
    }

    /// How far the run is.
    pub fn progress(&self) -> Progress {
        self.0.lock().progress
    }

    pub(crate) fn count(&self, count: impl FnOnce(&mut Progress)) {
        count(&mut self.0.lock().progress);
    }

    pub(crate) fn problem(&self, source: &str, message: impl Into<String>) {
        let mut news = self.0.lock();
        if news.problems.len() < MAX_UNTOLD {
            news.problems.push(Problem { source: source.to_owned(), message: message.into() });
        } else {
            news.untold_problems += 1;
        }
    }

    pub(crate) fn change(&self, action: Action, source: &str, chunks: u64) {
        self.0.lock().changes.push(Change { action, source: source.to_owned(), chunks });
    }

    /// Changes that wait to be told.
    pub fn untold_changes(&self) -> usize {
        self.0.lock().changes.len()
    }

    /// How often [`Self::take_some`] of one is to be called until all is told.
    pub fn untold(&self) -> usize {
        let news = self.0.lock();
        news.changes.len().max(news.problems.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_told_once_and_not_without_end() {
        let board = Board::default();
        for number in 0..MAX_UNTOLD + 3 {
            board.problem("a", number.to_string());
        }
        board.count(|progress| progress.failed += 2);
        let news = board.take_some(MAX_UNTOLD - 1);
        assert_eq!((news.problems.len(), news.untold_problems, news.progress.failed), (MAX_UNTOLD - 1, 3, 2));
        assert_eq!(board.take_some(9).problems.len(), 1);
        let news = board.take_some(9);
        assert_eq!((news.problems.len(), news.untold_problems, news.progress.failed), (0, 0, 2));
    }
}
