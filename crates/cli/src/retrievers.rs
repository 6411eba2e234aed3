//! `toller retrievers`: retrievers that the server keeps by name.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;
use toller_api::v1;

use crate::client::{ServerArgs, block_on};
use crate::error::{Error, Outcome};
use crate::output::Output;
use crate::retriever_file::RetrieverFile;
use crate::table;
use crate::terminal::say;

/// Keep retrievers under a name, for `toller query --retriever`
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A retriever in a file:
  {\"name\": \"docs-mmr\",
   \"vector_store\": {\"collection\": \"docs\", \"search_type\": \"mmr\", \"k\": 4, \"filter\": {\"lang\": \"en\"}}}

Examples:
  toller retrievers validate docs-mmr.json
  toller retrievers put docs-mmr.json          (or .yaml, in the same words)
  toller query \"fusion\" --retriever docs-mmr")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Store a retriever under its name, replacing the one of that name
    Put {
        /// JSON or YAML file of the retriever; - is standard input
        file: PathBuf,
        /// Only when the stored version is this one; 0: only when there is none
        #[arg(long, value_name = "N")]
        expected_version: Option<u64>,
        /// Print what was stored as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Print a stored retriever as JSON
    Get {
        /// Its name
        name: String,
        /// Print version and time too
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List the stored retrievers
    List {
        /// Print them whole, as one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Delete a stored retriever
    Delete {
        /// Its name
        name: String,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Check a retriever without running or storing it; exit code 1 when it has faults
    Validate {
        /// JSON or YAML file of the retriever; - is standard input
        file: PathBuf,
        /// Print the faults as JSON
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// A stored retriever in JSON.
#[derive(Debug, Serialize)]
struct Stored {
    retriever: RetrieverFile,
    version: u64,
    updated_at: Option<String>,
}

impl Stored {
    fn from_message(message: Option<v1::StoredRetriever>) -> Result<Self, Error> {
        let message = message.unwrap_or_default();
        Ok(Self {
            retriever: RetrieverFile::from_message(message.retriever.unwrap_or_default())?,
            version: message.version,
            updated_at: message.updated_at.map(|moment| moment.to_string()),
        })
    }
}

/// What `list --json` prints.
#[derive(Debug, Serialize)]
struct List {
    retrievers: Vec<Stored>,
}

/// What `validate --json` prints.
#[derive(Debug, Serialize)]
struct Faults {
    violations: Vec<Fault>,
}

#[derive(Debug, Serialize)]
struct Fault {
    field: String,
    description: String,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    block_on(async {
        match args.command {
            Command::Put { file, expected_version, json, server } => put(file, expected_version, json, &server).await,
            Command::Get { name, json, server } => get(name, json, &server).await,
            Command::List { json, server } => list(json, &server).await,
            Command::Delete { name, server } => delete(name, &server).await,
            Command::Validate { file, json, server } => validate(file, json, &server).await,
        }
    })
}

async fn put(file: PathBuf, expected_version: Option<u64>, json: bool, server: &ServerArgs) -> Outcome {
    let retriever = Some(RetrieverFile::read(&file)?.into_message()?);
    let request = v1::RetrieversPutRequest { retriever, expected_version };
    let stored = server.connect().await?.retrievers().put(request).await?.into_inner().stored;
    let stored = Stored::from_message(stored)?;
    if json {
        let mut output = Output::new();
        output.json(&stored)?;
        output.flush()?;
    } else {
        say(format_args!("stored retriever \"{}\", version {}", stored.retriever.name(), stored.version));
    }
    Ok(ExitCode::SUCCESS)
}

async fn get(name: String, json: bool, server: &ServerArgs) -> Outcome {
    let request = v1::RetrieversGetRequest { name };
    let stored = server.connect().await?.retrievers().get(request).await?.into_inner().stored;
    let stored = Stored::from_message(stored)?;
    let mut output = Output::new();
    if json {
        output.json(&stored)?;
    } else {
        // What `put` reads.
        output.json(&stored.retriever)?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn list(json: bool, server: &ServerArgs) -> Outcome {
    let request = v1::RetrieversListRequest {};
    let stored = server.connect().await?.retrievers().list(request).await?.into_inner().retrievers;
    let retrievers = stored.into_iter().map(|one| Stored::from_message(Some(one))).collect::<Result<Vec<_>, _>>()?;
    let mut output = Output::new();
    if json {
        output.json(&List { retrievers })?;
    } else if retrievers.is_empty() {
        say("no stored retrievers");
    } else {
        let rows = retrievers.iter().map(|stored| {
            let (kind, of) = stored.retriever.summary();
            let moment = stored.updated_at.clone().unwrap_or_default();
            let tags = stored.retriever.tags().join(", ");
            vec![stored.retriever.name().to_owned(), kind.to_owned(), of, tags, stored.version.to_string(), moment]
        });
        output.line(table::plain(
            &["name", "kind", "of", "tags", "version", "updated"],
            rows.collect(),
            output.look,
        ))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn delete(name: String, server: &ServerArgs) -> Outcome {
    let request = v1::RetrieversDeleteRequest { name: name.clone() };
    server.connect().await?.retrievers().delete(request).await?;
    say(format_args!("deleted retriever \"{name}\""));
    Ok(ExitCode::SUCCESS)
}

async fn validate(file: PathBuf, json: bool, server: &ServerArgs) -> Outcome {
    let retriever = Some(RetrieverFile::read(&file)?.into_message()?);
    let request = v1::RetrieversValidateRequest { retriever };
    let violations = server.connect().await?.retrievers().validate(request).await?.into_inner().violations;
    let is_right = violations.is_empty();
    let mut output = Output::new();
    if json {
        let violations =
            violations.into_iter().map(|fault| Fault { field: fault.field, description: fault.description }).collect();
        output.json(&Faults { violations })?;
    } else if is_right {
        say("no faults");
    } else {
        for fault in violations {
            let field = if fault.field.is_empty() { "retriever" } else { &fault.field };
            output.line(format_args!("{field}: {}", fault.description))?;
        }
    }
    output.flush()?;
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
