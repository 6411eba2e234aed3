//! One run: a stream to the server with what is to be indexed, and what the server tells meanwhile.
//!
//! A thread reads files and puts them into messages; the channel between it and the stream holds a few of them, so that it
//! reads no faster than the server takes. Memory holds these and one file, however much there is to read.

use std::sync::Arc;

use tokio::sync::mpsc;
use toller_api::v1;
use toller_api::v1::documents_index_request::Step;
use toller_ingest::Loader;
use tonic::Status;

use crate::client::Connection;
use crate::ingest::messages::Packer;
use crate::ingest::progress::Progress;
use crate::ingest::skip::{Skip, SkipKind};
use crate::ingest::work::{Work, is_source_name};

/// Messages that wait for the stream. The thread that reads is never far ahead of what the server has taken.
const WAITING: usize = 4;

/// What is to be indexed, and how. A run can be begun from it again and again.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) begin: v1::IndexBegin,
    pub(crate) work: Arc<Work>,
    pub(crate) loader: Loader,
    /// Sources that are gone.
    pub(crate) removed: Vec<String>,
    /// Sources of which nothing is removed, besides those that cannot be read.
    pub(crate) kept: Vec<String>,
}

/// What a run did, as far as it came.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) progress: v1::IndexProgress,
    pub(crate) problems: Vec<v1::IndexProblem>,
    pub(crate) untold_problems: u64,
    /// What would change; in a dry run.
    pub(crate) changes: Vec<v1::IndexChange>,
    /// Files that could not be read.
    pub(crate) unread: Vec<Skip>,
}

/// Makes a run, from its beginning to the commit. Dropping it ends the stream without a commit.
///
/// # Errors
/// What the stream ended with before the commit was answered; the report is that of the server until then.
pub(crate) async fn run_once(
    connection: &Connection,
    order: &Arc<Order>,
    progress: &Progress,
    report: &mut Report,
) -> Result<(), Status> {
    *report = Report::default();
    progress.begin(order.work.bytes());
    let (messages, mut waiting) = mpsc::channel(WAITING);
    let reading = tokio::task::spawn_blocking({
        let (order, progress) = (Arc::clone(order), progress.clone());
        move || {
            order.read(&progress, |step| messages.blocking_send(v1::DocumentsIndexRequest { step: Some(step) }).is_ok())
        }
    });
    let requests = futures::stream::poll_fn(move |context| waiting.poll_recv(context));
    let mut answers = connection.documents().index(requests).await?.into_inner();
    let mut is_committed = false;
    while !is_committed {
        let Some(answer) = answers.message().await? else { break };
        if let Some(counts) = answer.progress {
            progress.tell(&counts);
            report.progress = counts;
        }
        if answer.waiting {
            progress.say("another run is under way in the collection, or was killed a moment ago; waiting for it");
        }
        report.problems.extend(answer.problems);
        report.changes.extend(answer.changes);
        report.untold_problems += answer.untold_problems;
        is_committed = answer.committed;
    }
    if !is_committed {
        return Err(Status::unavailable("the server ended the stream before the run was committed"));
    }
    report.unread =
        reading.await.map_err(|fault| Status::internal(format!("the thread that reads files ended: {fault}")))?;
    Ok(())
}

impl Order {
    /// Sends everything, the commit last; ends early when `send` says that nobody listens any more. Gives what could not be
    /// read.
    fn read(&self, progress: &Progress, mut send: impl FnMut(Step) -> bool) -> Vec<Skip> {
        let mut unread = Vec::new();
        if !send(Step::Begin(self.begin.clone())) {
            return unread;
        }
        let mut packer = Packer::default();
        let send_all = |messages: Vec<v1::IndexDocuments>, send: &mut dyn FnMut(Step) -> bool| {
            messages.into_iter().all(|message| send(Step::Documents(message)))
        };
        for source in &self.removed {
            if !send_all(packer.remove(source), &mut send) {
                return unread;
            }
        }
        for source in self.kept.iter().filter(|source| is_source_name(source)) {
            if !send_all(packer.keep(source), &mut send) {
                return unread;
            }
        }
        for found in &self.work.files {
            let source = &found.file.source;
            let messages = match found.read(&self.loader) {
                Ok(data) => {
                    progress.sent(found.bytes());
                    packer.add(source, data)
                }
                Err(reason) => {
                    let kind = if found.file.named { SkipKind::Failure } else { SkipKind::Noted };
                    unread.push(Skip { source: source.clone(), reason: reason.to_string(), kind });
                    progress.passed_over(found.bytes());
                    if is_source_name(source) { packer.keep(source) } else { Vec::new() }
                }
            };
            if !send_all(messages, &mut send) {
                return unread;
            }
        }
        if send_all(packer.finish().into_iter().collect(), &mut send) {
            send(Step::Commit(v1::IndexCommit {}));
        }
        unread
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use toller_ingest::WalkOptions;

    use super::*;

    fn order(root: &Path) -> Order {
        let loader = Loader::default().max_file_bytes(10);
        let work = Work::find(&[root.to_owned()], WalkOptions::default(), &loader).unwrap();
        Order {
            begin: v1::IndexBegin { collection: "docs".to_owned(), ..Default::default() },
            work: Arc::new(work),
            loader,
            removed: vec!["gone.md".to_owned()],
            kept: vec!["kept.md".to_owned(), "x".repeat(1000)],
        }
    }

    #[test]
    fn a_run_begins_sends_and_commits() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "text").unwrap();
        fs::write(root.path().join("b.txt"), "longer than ten bytes").unwrap();
        let mut steps = Vec::new();
        let unread = order(root.path()).read(&Progress::new(), |step| {
            steps.push(step);
            true
        });
        let [Step::Begin(begin), Step::Documents(documents), Step::Commit(_)] = steps.as_slice() else {
            panic!("{steps:?}");
        };
        assert_eq!(begin.collection, "docs");
        assert_eq!(documents.removed_sources, ["gone.md"]);
        assert!(documents.documents[0].source.ends_with("a.txt"));
        // What no source can be called is not said; what cannot be read is.
        assert_eq!(documents.kept_sources[0], "kept.md");
        assert!(documents.kept_sources[1].ends_with("b.txt") && documents.kept_sources.len() == 2);
        assert_eq!(unread.iter().map(|skip| skip.kind).collect::<Vec<_>>(), [SkipKind::Noted]);
    }

    #[test]
    fn reading_stops_when_nobody_listens() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "text").unwrap();
        for listens_to in 0..3 {
            let mut steps = 0;
            order(root.path()).read(&Progress::new(), |step| {
                assert!(!matches!(step, Step::Commit(_)) || listens_to == 2, "a run that was cut off is not committed");
                steps += 1;
                steps <= listens_to
            });
            assert_eq!(steps, listens_to + 1);
        }
    }
}
