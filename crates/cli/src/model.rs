//! `toller model`: models on this machine.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;
use toller_embedder::hub::Snapshot;
use toller_embedder::{CachedModel, Hub, Repository};

use crate::error::{Error, Outcome};
use crate::output::Output;
use crate::table;
use crate::terminal::say;

/// Fetch models, which embed or rerank, from the hub, or list those that are here
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Models come from a Hugging Face hub and live in its cache. HF_HOME and HF_HUB_CACHE say where the cache is, HF_ENDPOINT
names a mirror, HF_TOKEN opens gated models, and HF_HUB_OFFLINE=1 forbids the network.")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Fetch a model into the cache; prints its folder
    #[command(after_help = "\
Examples:
  toller model pull BAAI/bge-small-en-v1.5
  toller model pull BAAI/bge-reranker-base
  toller model pull BAAI/bge-small-en-v1.5 --revision 5c38ec7c405ec4b44b94cc5a9bb96e735b38267a
  HF_ENDPOINT=https://hub.example.com toller model pull sentence-transformers/all-MiniLM-L6-v2")]
    Pull {
        /// Repository, owner/name
        repository: String,
        /// Commit, tag or branch; the default is main
        #[arg(long, value_name = "REV")]
        revision: Option<String>,
        /// Print repository, revision and folder as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// List the models in the cache, with size, revision and folder
    List {
        /// Print all fields as one JSON object
        #[arg(long)]
        json: bool,
    },
}

/// What `pull --json` prints.
#[derive(Debug, Serialize)]
struct Pulled {
    repository: String,
    revision: String,
    folder: PathBuf,
}

/// What `list --json` prints.
#[derive(Debug, Serialize)]
struct List {
    models: Vec<Listed>,
}

#[derive(Debug, Serialize)]
struct Listed {
    repository: String,
    revision: String,
    references: Vec<String>,
    bytes: u64,
    loadable: bool,
    folder: PathBuf,
}

impl From<CachedModel> for Listed {
    fn from(model: CachedModel) -> Self {
        Self {
            repository: model.repository,
            revision: model.revision,
            references: model.references,
            bytes: model.bytes,
            loadable: model.loadable,
            folder: model.folder,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Pull { repository, revision, json } => pull(&repository, revision.as_deref(), json),
        Command::List { json } => list(json),
    }
}

fn pull(repository: &str, revision: Option<&str>, json: bool) -> Outcome {
    let repository = match revision {
        // `owner/name@revision` is the spelling of the server's configuration.
        None => Repository::parse(repository),
        Some(_) => Repository::new(repository, revision),
    }
    .map_err(|fault| Error::Usage(fault.to_string()))?;
    let snapshot = hub()?.pull(&repository).map_err(|fault| Error::Failed(fault.to_string()))?;
    let mut output = Output::new();
    if json {
        let Snapshot { repository, revision, folder } = snapshot;
        output.json(&Pulled { repository, revision, folder })?;
    } else {
        say(format_args!("{} at {}", snapshot.repository, snapshot.revision));
        output.line(snapshot.folder.display())?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn list(json: bool) -> Outcome {
    let hub = hub()?;
    let models = hub.cached_models().map_err(|fault| Error::Failed(fault.to_string()))?;
    let mut output = Output::new();
    if json {
        output.json(&List { models: models.into_iter().map(Listed::from).collect() })?;
    } else if models.is_empty() {
        say(format_args!("no models in {}; `toller model pull` fetches one", hub.settings().cache.display()));
    } else {
        let rows = models.iter().map(|model| {
            let short = model.revision.get(..12).unwrap_or(&model.revision);
            let revision = match model.references.as_slice() {
                [] => short.to_owned(),
                references => format!("{short} ({})", references.join(", ")),
            };
            let size = if model.loadable { readable_size(model.bytes) } else { "incomplete".to_owned() };
            vec![model.repository.clone(), size, revision, model.folder.display().to_string()]
        });
        output.line(table::plain(&["model", "size", "revision", "folder"], rows.collect(), output.look))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn hub() -> Result<Hub, Error> {
    Hub::from_env().map_err(|fault| Error::Configuration(fault.to_string()))
}

/// Bytes in decimal units, three digits or so.
fn readable_size(bytes: u64) -> String {
    const UNITS: [(u64, &str); 3] = [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")];
    for (unit, name) in UNITS {
        if bytes >= unit {
            return format!("{:.1} {name}", bytes as f64 / unit as f64);
        }
    }
    format!("{bytes} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_readable() {
        assert_eq!(readable_size(0), "0 B");
        assert_eq!(readable_size(999), "999 B");
        assert_eq!(readable_size(1_500), "1.5 kB");
        assert_eq!(readable_size(133_466_304), "133.5 MB");
        assert_eq!(readable_size(2_270_000_000), "2.3 GB");
    }
}
