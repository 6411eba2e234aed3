//! `toller ingest`: brings a collection in step with files.
//!
//! The command finds and reads files; the server understands, cuts and compares them, and embeds what is new. All of it is one
//! run, a stream that ends with a commit: until then readers see what they saw before.

mod changes;
mod collection;
mod flags;
mod generated_flags;
mod load_flags;
mod messages;
mod progress;
mod retry;
mod run;
mod skip;
mod splitter_flags;
mod summary;
mod walk_flags;
mod work;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::ValueEnum;
use toller_api::v1;

use crate::client::{ServerArgs, block_on};
use crate::error::{Error, Outcome};
use crate::ingest::retry::run_with_retries;
use crate::ingest::skip::SkipKind;
use crate::output::Output;
use crate::signals::StopSignals;

pub(crate) use crate::ingest::collection::{indexed_sources, open_or_create};
pub(crate) use crate::ingest::flags::Flags;
pub(crate) use crate::ingest::progress::Progress;
pub(crate) use crate::ingest::run::{Order, Report, run_once};
pub(crate) use crate::ingest::skip::Skip;
pub(crate) use crate::ingest::summary::{Summary, skipped_lines};
pub(crate) use crate::ingest::work::{FoundFile, Work};

/// Keep a collection in step with files: what is new or changed is embedded, the rest is left as it is
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Folders are searched for files of known extensions (text, Markdown, reStructuredText, HTML, PDF, JSON, CSV, source code), in the
order of their names. Hidden files and what .gitignore, .ignore and .tollerignore leave out are not taken, symbolic links are
followed. A file that is named is always tried, by its content when its extension says nothing. `-` is standard input.

The server compares each file with what is indexed of it. A file that is there in this form costs nothing; of one that changed
only chunks with new texts are embedded. Everything becomes visible at once, at the end. A chunk has the metadata source (PATH),
chunk (N, from 0), title, media_type, start_index (in characters), first_line and last_line, and what its format adds.

With --cleanup incremental older versions of the files that came are removed, and files that are gone stay; full removes all
that did not come again, and is refused when a path that is named cannot be used. Files that cannot be read keep what is
indexed of them.

A server that is busy or goes away meanwhile is tried again for two minutes. After a failure, or Ctrl-C, run the command again:
it goes on with what is embedded.

Exit code 0 when the files are in the collection, changed or not; 1 when nothing is, when a file or folder that was named cannot
be used (after the rest is done), or when the server refuses; 2 for wrong usage. Files in folders that cannot be used, and named
files that are empty, are listed and do not count as failures.

Examples:
  toller ingest docs README.md
  toller ingest docs --cleanup full --dry-run
  toller ingest src --include '*.rs' --exclude target --collection code
  toller ingest manual.txt --collection manuals --chunk-size 500 --json
  curl -s https://example.com | toller ingest - --source page.html")]
pub(crate) struct Args {
    /// Files, folders with all that is below them, and `-` for standard input
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    flags: Flags,
    /// What standard input is known by; its extension tells what it holds
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Which old documents are removed
    #[arg(long, value_enum, default_value_t = Cleanup::Incremental)]
    cleanup: Cleanup,
    /// Only print what would change
    #[arg(long)]
    dry_run: bool,
    /// Embed and write what did not change, too
    #[arg(long)]
    force: bool,
    /// Let --cleanup full remove everything when there is no file
    #[arg(long)]
    allow_empty_full: bool,
    /// Fail when another run is under way in the collection, instead of waiting for it
    #[arg(long)]
    refuse: bool,
    /// Print the counts as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Which old documents are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Cleanup {
    /// None
    None,
    /// Older versions of the files that came
    #[value(alias = "scoped-full", alias = "scoped_full")]
    Incremental,
    /// All that did not come again
    Full,
}

impl From<Cleanup> for v1::IndexCleanup {
    fn from(cleanup: Cleanup) -> Self {
        match cleanup {
            Cleanup::None => Self::None,
            Cleanup::Incremental => Self::Incremental,
            Cleanup::Full => Self::Full,
        }
    }
}

impl Args {
    /// What is to be done.
    ///
    /// # Errors
    /// `Usage`, naming the argument; `Failed` when what would be done is not what can be meant.
    fn order(&self) -> Result<Order, Error> {
        let begin = v1::IndexBegin {
            dry_run: self.dry_run,
            allow_empty_full: self.allow_empty_full,
            force: self.force,
            conflict: if self.refuse { v1::IndexConflict::Refuse } else { v1::IndexConflict::Wait }.into(),
            ..self.flags.begin(self.cleanup.into())?
        };
        let standard_inputs = self.paths.iter().filter(|path| *path == Path::new("-")).count();
        match (standard_inputs, &self.source) {
            (0, Some(_)) => return Err(Error::Usage("--source names standard input: give the path -".to_owned())),
            (2.., _) => return Err(Error::Usage("standard input can be read once: give the path - once".to_owned())),
            _ => {}
        }
        let loader = self.flags.walk.loader();
        let work = Work::find(&self.paths, self.flags.walk.options(self.source.as_deref()), &loader)?;
        let kept = work.unusable_sources();
        let order = Order { begin, work: Arc::new(work), loader, removed: Vec::new(), kept };
        self.refuse_to_remove_by_mistake(&order.work)?;
        Ok(order)
    }

    /// With --cleanup full what does not come is removed, so it must not be a mistake that it does not come.
    fn refuse_to_remove_by_mistake(&self, work: &Work) -> Result<(), Error> {
        if self.cleanup != Cleanup::Full {
            return Ok(());
        }
        if let Some(skip) = work.skipped.iter().find(|skip| skip.kind == SkipKind::Failure) {
            return Err(Error::Failed(format!(
                "{}: {}; with --cleanup full what is indexed of it would be removed, so nothing was done",
                skip.source, skip.reason
            )));
        }
        if work.files.is_empty() && !self.allow_empty_full {
            return Err(Error::Failed(format!(
                "there is no file, and with --cleanup full all that is indexed in collection {:?} would be removed; if that is meant, pass --allow-empty-full",
                self.flags.collection
            )));
        }
        Ok(())
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    let started = Instant::now();
    let order = args.order()?;
    let progress = Progress::new();
    let mut report = Report::default();
    // A full run without files has something to do.
    let has_work = !order.work.files.is_empty() || args.cleanup == Cleanup::Full;
    let outcome = if has_work { block_on(index(&args, &order, &progress, &mut report)) } else { Ok(()) };
    progress.clear();
    let summary = Summary::new(&order, report);
    summary.tell_skipped();
    if let Err(error) = outcome {
        summary.tell_partial();
        return Err(error);
    }

    let mut output = Output::new();
    if args.json {
        output.json(&summary.to_json(started.elapsed()))?;
    } else {
        for line in summary.change_lines() {
            output.line(line)?;
        }
        output.line(summary.line(started.elapsed()))?;
    }
    output.flush()?;
    summary.tell_hints();
    Ok(if summary.is_failure() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Makes the run, until a signal ends it.
async fn index(args: &Args, order: &Order, progress: &Progress, report: &mut Report) -> Result<(), Error> {
    let mut signals = StopSignals::catch()?;
    tokio::select! {
        outcome = index_to_the_end(args, order, progress, report) => outcome,
        signal = signals.next() => Err(Error::Failed(format!("stopped by {signal}"))),
    }
}

async fn index_to_the_end(args: &Args, order: &Order, progress: &Progress, report: &mut Report) -> Result<(), Error> {
    let connection = args.server.connect_unhurried().await?;
    let collection = &args.flags.collection;
    if args.dry_run {
        if !collection::exists(&connection, collection, progress).await? {
            return Err(Error::Failed(format!(
                "there is no collection {collection:?}, and a dry run makes none: everything would be added"
            )));
        }
    } else {
        open_or_create(&connection, collection, progress).await?;
    }
    let mut order = order.clone();
    if args.cleanup == Cleanup::Full && !order.kept.is_empty() {
        // A folder that cannot be read may hold anything that is indexed.
        let indexed = indexed_sources(&connection, collection, progress).await?;
        order.kept.extend(below(&order.kept, &indexed));
    }
    Ok(run_with_retries(&connection, &Arc::new(order), progress, report).await?)
}

/// The sources whose paths are below one of the folders.
fn below(folders: &[String], sources: &BTreeSet<String>) -> Vec<String> {
    let is_below = |source: &&String| folders.iter().any(|folder| Path::new(source).starts_with(folder));
    sources.iter().filter(is_below).cloned().collect()
}

#[cfg(test)]
mod tests;
