//! `Index`: documents come in, news of the run go out.
//!
//! The run is a task of its own, which ends when its caller goes away. It reads no further than it can work: until the model has room for more, HTTP/2
//! holds the caller up. News that find no room wait and grow together, so that a caller who sends everything before it
//! reads is not held up by them; only the changes of a dry run are.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};
use toller_api::convert;
use toller_api::v1;
use toller_api::v1::documents_index_request::Step;
use toller_core::{DocumentStore, Error, RequestContext, Result};
use toller_indexing::{Action, Board, IndexRun, News, Progress};
use toller_serving::status::status;
use toller_store::Collections;
use toller_telemetry::metrics::{IndexMetrics, IndexedDocuments};
use toller_telemetry::spans;
use tonic::Status;
use tracing::{Instrument, Span};

use super::index_settings::{document_from_message, settings_from_message};
use crate::limits::Limits;

/// How often news are told, when there are any.
const TELL_EVERY: Duration = Duration::from_millis(500);

/// News on their way to the caller.
const ANSWERS: usize = 4;

/// How long a caller may say nothing: a run keeps others from their turn.
const SILENCE: Duration = Duration::from_secs(120);

/// Changes or problems of one message.
const CHANGES: usize = 500;

/// The server's side of the stream.
pub(crate) type IndexAnswers = BoxStream<'static, Result<v1::DocumentsIndexResponse, Status>>;

type Sender = mpsc::Sender<Result<v1::DocumentsIndexResponse, Status>>;

/// What every run needs.
pub(super) struct Indexing {
    pub(super) collections: Arc<Collections>,
    pub(super) parents: Arc<dyn DocumentStore>,
    pub(super) limits: Limits,
    pub(super) metrics: Arc<IndexMetrics>,
}

/// The answers to `messages`; when `drain` completes, the run ends.
pub(super) fn answers<M>(
    indexing: Indexing,
    messages: M,
    context: RequestContext,
    drain: BoxFuture<'static, ()>,
) -> IndexAnswers
where
    M: Stream<Item = Result<v1::DocumentsIndexRequest, Status>> + Send + Unpin + 'static,
{
    let (sender, mut receiver) = mpsc::channel(ANSWERS);
    let work = async move {
        let run = async {
            let mut session = Session::new(messages, &sender);
            tokio::select! {
                outcome = session.run(&indexing, &context) => outcome,
                () = drain => {
                    Err(Status::unavailable("the service is shutting down; run the index again, it goes on from here"))
                }
            }
        };
        let outcome = tokio::select! {
            outcome = run => outcome,
            () = sender.closed() => return,
        };
        if let Err(status) = outcome {
            // Who is gone need not be told.
            let _ = sender.send(Err(status)).await;
        }
    };
    tokio::spawn(work.in_current_span());
    stream::poll_fn(move |context| receiver.poll_recv(context)).boxed()
}

struct Session<'a, M> {
    messages: M,
    answers: &'a Sender,
    board: Board,
    told: Progress,
    ticks: Interval,
}

impl<'a, M> Session<'a, M>
where
    M: Stream<Item = Result<v1::DocumentsIndexRequest, Status>> + Unpin,
{
    fn new(messages: M, answers: &'a Sender) -> Self {
        let mut ticks = tokio::time::interval(TELL_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { messages, answers, board: Board::default(), told: Progress::default(), ticks }
    }

    async fn run(&mut self, indexing: &Indexing, context: &RequestContext) -> Result<(), Status> {
        let begin = match self.step().await? {
            Some(Step::Begin(begin)) => begin,
            _ => return Err(status(&Error::invalid("begin", "must be the first message of the stream"))),
        };
        let span = spans::operation("index", &begin.collection, "", "");
        let account = Account {
            span: span.clone(),
            board: self.board.clone(),
            metrics: (!begin.dry_run).then(|| Arc::clone(&indexing.metrics)),
            started: Instant::now(),
            is_settled: false,
        };
        let outcome = self.index(indexing, context, begin).instrument(span).await;
        account.settle(&outcome);
        outcome.map_err(|fault| match fault {
            Ending::Fault(fault) => status(&fault),
            Ending::Stream(status) => status,
        })
    }

    async fn index(
        &mut self,
        indexing: &Indexing,
        context: &RequestContext,
        begin: v1::IndexBegin,
    ) -> Result<(), Ending> {
        let name = convert::collection_name_from_message("begin.collection", &begin.collection)?;
        let settings = settings_from_message(begin, &indexing.limits).map_err(|fault| fault.within("begin"))?;
        let Indexing { collections, parents, limits, .. } = indexing;
        let begun = IndexRun::begin(collections, Arc::clone(parents), context, &name, settings, self.board.clone());
        let mut run = self.waiting(begun).await.map_err(|fault| fault.within("begin"))?;
        loop {
            let step = self.step().await.map_err(Ending::Stream)?;
            match step {
                Some(Step::Documents(documents)) => {
                    for source in &documents.removed_sources {
                        run.remove(source)?;
                    }
                    for source in &documents.kept_sources {
                        run.keep(source)?;
                    }
                    for document in documents.documents {
                        let (source, continued) = (document.source.clone(), document.continued);
                        match document_from_message(document, limits) {
                            Ok(document) => self.telling(run.add(document)).await?,
                            Err(fault) => run.refuse(&source, continued, fault),
                        }
                        if self.board.untold_changes() >= CHANGES {
                            self.tell(false).await?;
                        }
                    }
                }
                Some(Step::Commit(v1::IndexCommit {})) => {
                    self.telling(run.commit()).await?;
                    while self.board.untold() > CHANGES {
                        self.tell(false).await?;
                    }
                    return self.tell(true).await;
                }
                Some(Step::Begin(_)) => {
                    return Err(Error::invalid(
                        "begin",
                        "must be the first message of the stream, and the only one of its kind",
                    )
                    .into());
                }
                None => {
                    return Err(
                        Error::Aborted("the stream ended without a commit: nothing is changed".to_owned()).into()
                    );
                }
            }
        }
    }

    /// The next message's step; none at the end of the stream. News are told meanwhile.
    async fn step(&mut self) -> Result<Option<Step>, Status> {
        let mut silence = std::pin::pin!(tokio::time::sleep(SILENCE));
        loop {
            tokio::select! {
                () = &mut silence => {
                    let said = format!("no message came for {} s, and the run ends: nothing is changed", SILENCE.as_secs());
                    return Err(Status::deadline_exceeded(said));
                }
                message = self.messages.next() => {
                    return match message {
                        None => Ok(None),
                        Some(Ok(message)) => match message.step {
                            Some(step) => Ok(Some(step)),
                            None => Err(status(&Error::invalid("step", "must be begin, documents or commit"))),
                        },
                        Some(Err(status)) => Err(status),
                    };
                }
                _ = self.ticks.tick() => tell_what_fits(self.answers, &self.board, &mut self.told),
            }
        }
    }

    /// Waits for something, and says so once it takes a while.
    async fn waiting<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let patience = tokio::time::sleep(TELL_EVERY);
        tokio::select! {
            done = &mut work => return done,
            () = patience => {}
        }
        let answer = v1::DocumentsIndexResponse { waiting: true, ..to_message(self.board.take_some(0)) };
        // Nothing was sent before it, so that there is room.
        let _ = self.answers.try_send(Ok(answer));
        work.await
    }

    /// Does some work, and tells news meanwhile.
    async fn telling<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = self.ticks.tick() => tell_what_fits(self.answers, &self.board, &mut self.told),
            }
        }
    }

    /// Tells what there is, and waits until there is room for it.
    async fn tell(&mut self, committed: bool) -> Result<(), Ending> {
        let news = self.board.take_some(CHANGES);
        self.told = news.progress;
        let answer = v1::DocumentsIndexResponse { committed, ..to_message(news) };
        // Who is gone ends the run in another way.
        let _ = self.answers.send(Ok(answer)).await;
        Ok(())
    }
}

/// Tells what there is, when there is anything and room for it.
fn tell_what_fits(answers: &Sender, board: &Board, told: &mut Progress) {
    let Ok(place) = answers.try_reserve() else { return };
    let news = board.take_some(CHANGES);
    if news.progress != *told || !news.problems.is_empty() || !news.changes.is_empty() || news.untold_problems > 0 {
        *told = news.progress;
        place.send(Ok(to_message(news)));
    }
}

/// Why a run ends that does not succeed.
enum Ending {
    Fault(Error),
    /// The stream broke.
    Stream(Status),
}

impl From<Error> for Ending {
    fn from(fault: Error) -> Self {
        Self::Fault(fault)
    }
}

/// What is recorded of a run at its end; also when its client goes away, and nobody waits for its end.
struct Account {
    span: Span,
    board: Board,
    /// None in a dry run.
    metrics: Option<Arc<IndexMetrics>>,
    started: Instant,
    is_settled: bool,
}

impl Account {
    fn settle(mut self, outcome: &Result<(), Ending>) {
        if let Err(Ending::Fault(fault)) = outcome {
            spans::record_error(&self.span, fault);
        }
        self.record(outcome.is_ok());
    }

    fn record(&mut self, succeeded: bool) {
        self.is_settled = true;
        let progress = self.board.progress();
        spans::record_documents(&self.span, progress.added + progress.updated);
        match &self.metrics {
            None => {}
            Some(metrics) if succeeded => metrics.record_committed(self.started.elapsed(), counted(progress)),
            Some(metrics) => metrics.record_failed(self.started.elapsed()),
        }
        let Progress { added, updated, skipped, deleted, failed, chunks, embedded, reused, resumed, tokens, .. } =
            progress;
        self.span.in_scope(|| {
            tracing::info!(
                succeeded,
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
                "an index run ended"
            );
        });
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if !self.is_settled {
            spans::record_error(&self.span, &Error::Cancelled);
            self.record(false);
        }
    }
}

fn counted(progress: Progress) -> IndexedDocuments {
    let Progress { added, updated, skipped, deleted, failed, embedded, reused, resumed, .. } = progress;
    let chunks_reused = reused + resumed;
    IndexedDocuments { added, updated, skipped, deleted, failed, chunks_embedded: embedded, chunks_reused }
}

fn to_message(news: News) -> v1::DocumentsIndexResponse {
    let Progress {
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
    } = news.progress;
    v1::DocumentsIndexResponse {
        progress: Some(v1::IndexProgress {
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
        }),
        problems: news
            .problems
            .into_iter()
            .map(|problem| v1::IndexProblem { source: problem.source, message: problem.message })
            .collect(),
        changes: news
            .changes
            .into_iter()
            .map(|change| v1::IndexChange {
                action: match change.action {
                    Action::Add => v1::IndexAction::Add,
                    Action::Update => v1::IndexAction::Update,
                    Action::Skip => v1::IndexAction::Skip,
                    Action::Delete => v1::IndexAction::Delete,
                }
                .into(),
                source: change.source,
                chunks: change.chunks,
            })
            .collect(),
        committed: false,
        waiting: false,
        untold_problems: news.untold_problems,
    }
}
