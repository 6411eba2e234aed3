//! `toller backup`: everything that a tenant keeps, into one file.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use toller_api::v1;
use toller_api::v1::backup_item::Item;

use crate::backup_file::{BackupWriter, Summary, count};
use crate::client::{ServerArgs, block_on};
use crate::error::{Error, Outcome};
use crate::output::Output;
use crate::terminal::say;

const TEMPLATE: &str = "{spinner} {msg}  {elapsed}";

/// Save collections, document stores and stored retrievers to a file, while the server is used
#[derive(Debug, clap::Args)]
#[command(after_help = "\
What is in it: collections with their documents and all vectors, document stores, stored retrievers; those of the tenant of the
API key. What is not: API keys, settings, models. The key needs the role admin.

Examples:
  toller backup monday.toller
  toller backup docs.toller --collection docs")]
pub(crate) struct Args {
    /// File to write; appears when it is complete
    file: PathBuf,
    /// Save only this collection, and neither document stores nor retrievers; may be repeated
    #[arg(long = "collection", value_name = "NAME")]
    collections: Vec<String>,
    /// Overwrite the file where it exists
    #[arg(long)]
    force: bool,
    /// Print what was saved as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    block_on(async {
        let mut writer = BackupWriter::create(&args.file, args.force)?;
        let connection = args.server.connect_unhurried().await?;
        let request = v1::BackupsSaveRequest { collections: args.collections };
        let mut messages = connection.backups().save(request).await?.into_inner();
        let bar = spinner();
        let mut counts = v1::BackupCounts::default();
        let mut end = None;
        while let Some(message) = messages.message().await? {
            for item in message.items {
                writer.write(&item)?;
                count(&mut counts, &item);
                end = match item.item {
                    Some(Item::End(found)) => Some(found),
                    _ => None,
                };
            }
            bar.set_message(format!("{} documents", counts.documents + counts.stored_documents));
            bar.tick();
        }
        bar.finish_and_clear();
        if end.and_then(|end| end.counts) != Some(counts) {
            return Err(Error::Failed(
                "the server ended before the backup was complete; look at its log, and try again".to_owned(),
            ));
        }
        let bytes = writer.finish()?;
        report(&args.file, bytes, counts, args.json)
    })
}

fn report(file: &Path, bytes: u64, counts: v1::BackupCounts, json: bool) -> Outcome {
    let summary = Summary::new(file, bytes, counts);
    if json {
        let mut output = Output::new();
        output.json(&summary)?;
        output.flush()?;
    } else {
        say(format_args!("saved {summary} to {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn spinner() -> ProgressBar {
    let bar = ProgressBar::hidden();
    if io::stderr().is_terminal() {
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    bar
}
