//! `toller restore`: a file of `toller backup` into a server, everything or nothing.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use prost::Message as _;
use tokio::sync::mpsc;
use toller_api::v1;

use crate::backup_file::{BackupReader, Summary, check};
use crate::client::{Connection, ServerArgs, block_on};
use crate::error::{Error, Outcome};
use crate::output::Output;
use crate::terminal::say;

const TEMPLATE: &str = "{msg} {bar:30} {percent:>3} %  {eta} left";

/// Most bytes of the items of a message; one larger item goes alone. gRPC servers take 4 MiB unless they are told otherwise.
const MESSAGE_BYTES: usize = 512 << 10;

/// Messages that are read and not yet sent.
const MESSAGES_AHEAD: usize = 4;

/// Bring everything of a backup into a server that has nothing of the same names
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The file is read to its end before anything is sent. Everything comes back, or nothing: collections can be seen once all of them
are complete. It comes to the tenant of the API key, which needs the role admin. The server may have another store than the one
that the backup is of.

Example:
  toller restore monday.toller")]
pub(crate) struct Args {
    /// File that `toller backup` wrote
    file: PathBuf,
    /// Print what was restored as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    block_on(async {
        let bar = bar();
        bar.set_message("checking ");
        let expected = check(&args.file, &bar)?;
        let connection = args.server.connect_unhurried().await?;
        bar.set_message("restoring");
        let counts = send(&connection, &args.file, &bar).await?;
        bar.finish_and_clear();
        if counts != expected {
            return Err(Error::Failed(format!(
                "the server restored {counts:?}, and {} holds {expected:?}; look at the server's log",
                args.file.display()
            )));
        }
        let bytes = std::fs::metadata(&args.file).map_or(0, |about| about.len());
        let summary = Summary::new(&args.file, bytes, counts);
        if args.json {
            let mut output = Output::new();
            output.json(&summary)?;
            output.flush()?;
        } else {
            say(format_args!("restored {summary} from {}", args.file.display()));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// Sends the file and waits for the answer.
async fn send(connection: &Connection, file: &Path, bar: &ProgressBar) -> Result<v1::BackupCounts, Error> {
    let (sender, mut receiver) = mpsc::channel(MESSAGES_AHEAD);
    let (file, bar) = (file.to_owned(), bar.clone());
    let reading = tokio::task::spawn_blocking(move || read(&file, &bar, &sender));
    let messages = futures::stream::poll_fn(move |polled| receiver.poll_recv(polled));
    let answer = connection.backups().restore(messages).await;
    // What is wrong with the file is the cause of what the server says then.
    match reading.await {
        Ok(Err(fault)) => Err(fault),
        Ok(Ok(())) => Ok(answer?.into_inner().counts.unwrap_or_default()),
        Err(fault) => Err(Error::Failed(format!("reading the file failed: {fault}"))),
    }
}

/// Reads a file into messages, as far as somebody takes them.
fn read(file: &Path, bar: &ProgressBar, messages: &mpsc::Sender<v1::BackupsRestoreRequest>) -> Result<(), Error> {
    let mut reader = BackupReader::open(file, bar)?;
    let (mut items, mut bytes) = (Vec::new(), 0);
    while let Some(item) = reader.next()? {
        let item_bytes = item.encoded_len();
        if bytes + item_bytes > MESSAGE_BYTES && !items.is_empty() {
            let message = v1::BackupsRestoreRequest { items: std::mem::take(&mut items) };
            if messages.blocking_send(message).is_err() {
                // The server has answered, or the connection is gone.
                return Ok(());
            }
            bytes = 0;
        }
        bytes += item_bytes;
        items.push(item);
    }
    let _ = messages.blocking_send(v1::BackupsRestoreRequest { items });
    Ok(())
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::hidden();
    if io::stderr().is_terminal() {
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    bar
}
