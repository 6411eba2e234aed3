//! `toller watch`: keeps a collection in step with folders while they change.
//!
//! The system says that something changed ([`events`]), never reliably what. So each time the folders are walked again
//! and compared with what was indexed ([`known`]), and one run brings the difference. A rename is a removal and an
//! addition, a folder all that is below it, and what changes while a run is under way is the next run.

mod events;
mod known;
mod roots;
mod stamp;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use toller_api::v1;
use tonic::{Code, Status};

use crate::client::{Connection, ServerArgs, block_on};
use crate::error::{Error, Outcome};
use crate::ingest::{
    Flags, Order, Progress, Report, Skip, Summary, Work, indexed_sources, open_or_create, run_once, skipped_lines,
};
use crate::signals::StopSignals;
use crate::status::describe;
use crate::terminal::say;
use crate::watch::events::Events;
use crate::watch::known::{Difference, Known};
use crate::watch::roots::Roots;

/// First pause after a run that failed; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Longest pause after a run that failed.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// How often it is made sure that the watched paths are still there: of a parent folder that is renamed no event tells.
const LOOK_AT_ROOTS_EVERY: Duration = Duration::from_secs(10);

/// Keep a collection in step with files and folders while they change, until Ctrl-C
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A first run brings the collection in step: what is new or changed is indexed, and what is indexed of files below these paths that
are gone is removed. Then each change, once it is quiet for a moment, makes a run of its own. Standard error says what each
run did. A run that fails is told and tried again, at the next change or after a pause.

Which files are taken, and how, is as with toller ingest. What a glob or an ignore file leaves out is not removed while its file
is there; toller ingest --cleanup full removes it. Run both commands in the same folder, since files are known by their
paths as they are named.

A watched path that disappears ends the command with exit code 1, and nothing is removed then. Ctrl-C and SIGTERM end it with
exit code 0; what was not finished is done by the next run. Changes that another machine makes on a network file system are not
seen until one on this machine is.

Examples:
  toller watch docs
  toller watch src --include '*.rs' --collection code --debounce-ms 2000")]
pub(crate) struct Args {
    /// Files, and folders with all that is below them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    flags: Flags,
    /// How long it must be quiet before a change is taken up, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..=600_000))]
    debounce_ms: u64,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    let begin = args.flags.begin(v1::IndexCleanup::Incremental)?;
    let roots = Roots::new(&args.paths)?;
    let progress = Progress::new();
    let outcome = block_on(async {
        let mut signals = StopSignals::catch()?;
        tokio::select! {
            error = Watch::until_it_fails(&args, begin, roots, &progress) => Err(error),
            signal = signals.next() => Ok(signal),
        }
    });
    progress.clear();
    say(format_args!("stopped by {}", outcome?));
    Ok(ExitCode::SUCCESS)
}

/// A watch that is under way.
struct Watch<'a> {
    args: &'a Args,
    begin: v1::IndexBegin,
    roots: Roots,
    progress: &'a Progress,
    connection: Connection,
    known: Known,
    has_succeeded: bool,
    /// What could not be used and was told; of a walk that found it again it is told no more.
    told: BTreeSet<(String, String)>,
}

impl<'a> Watch<'a> {
    /// Watches until there is an error that waiting does not mend.
    async fn until_it_fails(args: &'a Args, begin: v1::IndexBegin, roots: Roots, progress: &'a Progress) -> Error {
        match Self::watch(args, begin, roots, progress).await {
            Ok(never) => match never {},
            Err(error) => error,
        }
    }

    async fn watch(
        args: &'a Args,
        begin: v1::IndexBegin,
        roots: Roots,
        progress: &'a Progress,
    ) -> Result<std::convert::Infallible, Error> {
        // Whatever changes from here on is told, also while the first run is under way.
        let events = Events::of(&roots)?;
        let connection = args.server.connect_unhurried().await?;
        say(format_args!("watching {} for collection {:?}", roots.names(), args.flags.collection));
        let mut watch = Self {
            args,
            begin,
            roots,
            progress,
            connection,
            known: Known::default(),
            has_succeeded: false,
            told: BTreeSet::new(),
        };
        let mut is_known = false;
        let mut pause = FIRST_PAUSE;
        loop {
            watch.roots.check()?;
            let began = Instant::now();
            let outcome = match is_known {
                true => watch.catch_up(began).await,
                // What is indexed has to be asked for, at first and when somebody else changed the collection.
                false => match watch.ask_what_is_known().await {
                    Ok(()) => watch.catch_up(began).await,
                    Err(status) => Err(Failure::Call(status)),
                },
            };
            match outcome {
                Ok(()) => {
                    is_known = true;
                    pause = FIRST_PAUSE;
                    watch.has_succeeded = true;
                    watch.wait_for_change(&events).await?;
                }
                Err(Failure::Local(error)) => return Err(error),
                Err(Failure::Call(status)) if !watch.has_succeeded && is_of_the_request(&status) => {
                    return Err(status.into());
                }
                Err(Failure::Call(status)) => {
                    progress.clear();
                    say(format_args!(
                        "a run failed and is tried again in {} s: {}",
                        pause.as_secs(),
                        describe(&status)
                    ));
                    is_known &= !matches!(status.code(), Code::NotFound | Code::FailedPrecondition);
                    let change = watch.wait_for_change(&events);
                    match tokio::time::timeout(pause, change).await {
                        // A change is worth an attempt at once; a server that is away is not asked more often for it.
                        Ok(outcome) => outcome?,
                        Err(_) => pause = (pause * 2).min(LONGEST_PAUSE),
                    }
                }
            }
        }
    }

    /// Makes the collection when there is none, and asks what is indexed of the watched paths.
    async fn ask_what_is_known(&mut self) -> Result<(), Status> {
        let collection = &self.args.flags.collection;
        open_or_create(&self.connection, collection, self.progress).await?;
        let sources = indexed_sources(&self.connection, collection, self.progress).await?;
        self.known = Known::of(sources.into_iter().filter(|source| self.roots.holds(source)));
        Ok(())
    }

    /// Walks the paths, and makes a run when something is not as it was indexed.
    async fn catch_up(&mut self, began: Instant) -> Result<(), Failure> {
        let (paths, walk) = (self.args.paths.clone(), self.args.flags.walk.clone());
        let walking = tokio::task::spawn_blocking(move || Work::find(&paths, walk.options(None), &walk.loader()));
        let work = walking.await.map_err(|fault| Error::Failed(format!("the thread that walks ended: {fault}")))??;
        // What went with them is not gone by itself.
        self.roots.check()?;
        let kept = work.unusable_sources();
        let Difference { changed, removed, stamps } = self.known.compare(work.files, stamp::is_gone);
        let skipped = self.not_told(work.skipped);
        if changed.is_empty() && removed.is_empty() {
            skipped_lines(&skipped).iter().for_each(say);
            return Ok(());
        }
        let work = Work { files: changed, skipped };
        let order = Arc::new(Order {
            begin: self.begin.clone(),
            work: Arc::new(work),
            loader: self.args.flags.walk.loader(),
            removed,
            kept,
        });
        let mut report = Report::default();
        let outcome = run_once(&self.connection, &order, self.progress, &mut report).await;
        self.progress.clear();
        outcome.map_err(Failure::Call)?;
        self.known.settle(&order.removed, stamps);
        let summary = Summary::new(&order, report);
        summary.tell_failed();
        say(summary.line(began.elapsed()));
        Ok(())
    }

    /// What could not be used, and was not told after the walk before.
    fn not_told(&mut self, skipped: Vec<Skip>) -> Vec<Skip> {
        let name = |skip: &Skip| (skip.source.clone(), skip.reason.clone());
        let unusable: Vec<Skip> = skipped.into_iter().filter(Skip::is_unusable).collect();
        let found = unusable.iter().map(name).collect();
        let told = std::mem::replace(&mut self.told, found);
        unusable.into_iter().filter(|skip| !told.contains(&name(skip))).collect()
    }

    /// Waits until something changed and it is quiet again. Losing a race against another branch loses no change.
    async fn wait_for_change(&self, events: &Events) -> Result<(), Error> {
        let quiet = events.next_quiet_moment(Duration::from_millis(self.args.debounce_ms));
        tokio::pin!(quiet);
        loop {
            match tokio::time::timeout(LOOK_AT_ROOTS_EVERY, &mut quiet).await {
                Ok(()) => return Ok(()),
                Err(_) => self.roots.check()?,
            }
        }
    }
}

/// Why there was no run.
enum Failure {
    /// The server, or the way to it.
    Call(Status),
    /// Something here.
    Local(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Local(error)
    }
}

/// Is it the request that is wrong, so that waiting does not help?
fn is_of_the_request(status: &Status) -> bool {
    matches!(
        status.code(),
        Code::InvalidArgument
            | Code::OutOfRange
            | Code::FailedPrecondition
            | Code::NotFound
            | Code::Unauthenticated
            | Code::PermissionDenied
            | Code::Unimplemented
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_wrong_request_ends_the_first_run() {
        for code in [Code::InvalidArgument, Code::PermissionDenied, Code::Unimplemented] {
            assert!(is_of_the_request(&Status::new(code, "")), "{code:?}");
        }
        for code in [Code::Unavailable, Code::ResourceExhausted, Code::Aborted, Code::Unknown, Code::Internal] {
            assert!(!is_of_the_request(&Status::new(code, "")), "{code:?}");
        }
    }
}
