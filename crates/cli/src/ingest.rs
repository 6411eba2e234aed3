//! `toller ingest`: reads files, splits them, and adds the chunks to a collection.
//!
//! One thread reads and splits ([`batches`]) while batches are on their way to the server ([`sender`]); both wait for each
//! other, so memory holds a few batches and one file, however much there is to read.

mod batches;
mod progress;
mod retry;
mod sender;
mod summary;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use toller_api::v1;
use toller_ingest::{DEFAULT_CHUNK_OVERLAP, DEFAULT_CHUNK_SIZE, DEFAULT_MAX_FILE_BYTES, Loader, RecursiveSplitter};
use tonic::Code;

use crate::client::{Connection, ServerArgs, block_on};
use crate::error::{Error, Outcome};
use crate::ingest::batches::{Plan, Work};
use crate::ingest::progress::Progress;
use crate::ingest::retry::with_retries;
use crate::ingest::sender::Sender;
use crate::ingest::summary::Summary;
use crate::output::Output;
use crate::terminal::say;

/// Read files, split them into chunks, and add the chunks to a collection
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Folders are searched for text, Markdown, reStructuredText, HTML, PDF, JSON, JSON lines, CSV, TSV and source code, told by their
extensions, in the order of their names. Hidden files and what .gitignore, .ignore and .tollerignore name are left out; symbolic
links are followed. A file that is named is always tried, as what its content looks like when its extension is none of these.

Chunks begin at headings, paragraphs, lines, sentences or words, whatever fits, and never cut a character. A chunk has the id
PATH#N and the metadata source (PATH), chunk (N, from 0), title, media_type, start_index (in characters), first_line and
last_line. Reading a file again replaces its chunks and deletes those that it no longer has; chunks of files that are gone stay
(toller documents delete docs --filter '{\"source\": \"gone.md\"}').

A server that is busy or goes away meanwhile is tried again for two minutes. After a failure, run the command again: what is
there already is replaced.

Exit code 0 when files were indexed, 1 when none was, when a file or folder that was named cannot be used (after the rest is
done), or when the server refuses; 2 for wrong usage. Files in folders that cannot be used, and named files that are empty, are
listed and do not count as failures.

Examples:
  toller ingest docs README.md
  toller ingest manual.txt --collection manuals --chunk-size 500 --json")]
pub(crate) struct Args {
    /// Files, and folders with all that is below them
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Collection; made when there is none, with the server's model and cosine
    #[arg(long, value_name = "NAME", default_value = "docs")]
    collection: String,
    /// Longest chunk, in characters (Unicode code points)
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CHUNK_SIZE)]
    chunk_size: usize,
    /// Most characters that a chunk repeats of the one before [default: 15 % of the chunk size]
    #[arg(long, value_name = "N")]
    chunk_overlap: Option<usize>,
    /// Chunks of one request
    #[arg(long, value_name = "N", default_value = "32", value_parser = clap::value_parser!(u32).range(1..))]
    batch_size: u32,
    /// Largest file, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MAX_FILE_BYTES)]
    max_file_bytes: u64,
    /// Print the counts as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

impl Args {
    /// # Errors
    /// `Usage`, naming the argument.
    fn plan(&self) -> Result<Plan, Error> {
        // With the defaults exactly the default overlap; in proportion otherwise.
        let overlap = self
            .chunk_overlap
            .unwrap_or_else(|| self.chunk_size.saturating_mul(DEFAULT_CHUNK_OVERLAP) / DEFAULT_CHUNK_SIZE);
        let splitter = RecursiveSplitter::builder().chunk_size(self.chunk_size).chunk_overlap(overlap).build();
        Ok(Plan {
            loader: Loader::default().max_file_bytes(self.max_file_bytes),
            splitter: splitter
                .map_err(|fault| Error::Usage(format!("--{}", fault.to_string().replacen('_', "-", 1))))?,
            batch_size: self.batch_size as usize,
        })
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    let started = Instant::now();
    let plan = args.plan()?;
    if args.chunk_overlap.is_some_and(|overlap| overlap > args.chunk_size / 2) {
        say("warning: with --chunk-overlap above half of --chunk-size most text is stored several times over");
    }
    let progress = Progress::new();
    let work = Work::find(&args.paths);
    let mut summary = Summary::new(&args.collection);
    let outcome = if work.has_files() {
        block_on(index(&args, plan, work, &progress, &mut summary))
    } else {
        work.into_skipped().for_each(|skip| summary.skip(skip));
        Ok(())
    };
    progress.clear();
    summary.tell_skipped();
    if let Err(error) = outcome {
        summary.tell_partial();
        return Err(error);
    }

    let mut output = Output::new();
    if args.json {
        output.json(&summary.to_json(started.elapsed()))?;
    } else {
        output.line(summary.line(started.elapsed()))?;
    }
    output.flush()?;
    summary.tell_hints();
    Ok(if summary.is_failure() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

async fn index(args: &Args, plan: Plan, work: Work, progress: &Progress, summary: &mut Summary) -> Result<(), Error> {
    let connection = args.server.connect().await?;
    let is_new = open_or_create(&connection, &args.collection, progress).await?;
    progress.begin(work.bytes());
    let (batches, incoming) = tokio::sync::mpsc::channel(1);
    let reader = tokio::task::spawn_blocking(move || work.read(&plan, |event| batches.blocking_send(event).is_ok()));
    Sender::new(connection.documents(), &args.collection, is_new, progress.clone())?.run(incoming, summary).await?;
    reader.await.map_err(|fault| Error::Failed(format!("the thread that reads files ended: {fault}")))
}

/// Makes the collection when there is none; says whether it did.
async fn open_or_create(connection: &Connection, name: &str, progress: &Progress) -> Result<bool, Error> {
    let mut client = connection.collections();
    let found = with_retries(progress, || {
        let mut client = client.clone();
        async move { client.get(v1::CollectionsGetRequest { name: name.to_owned() }).await }
    })
    .await;
    match found {
        Ok(_) => return Ok(false),
        Err(status) if status.code() == Code::NotFound => {}
        Err(status) => return Err(status.into()),
    }
    let request =
        v1::CollectionsCreateRequest { name: name.to_owned(), metric: v1::Metric::Cosine.into(), ..Default::default() };
    match client.create(request).await {
        Ok(_) => Ok(true),
        // Someone else was quicker.
        Err(status) if status.code() == Code::AlreadyExists => Ok(false),
        Err(status) => Err(status.into()),
    }
}

#[cfg(test)]
mod tests;
