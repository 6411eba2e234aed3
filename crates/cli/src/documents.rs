//! `toller documents`: look at the documents of a collection, and delete some.

use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;
use toller_api::convert::filter_to_message;
use toller_api::v1;
use toller_api::v1::documents_delete_request::Selector;
use toller_core::Filter;

use crate::client::{ServerArgs, block_on};
use crate::confirm::confirm;
use crate::error::{Error, Outcome};
use crate::output::Output;
use crate::terminal::say;
use crate::{filter, json, table};

/// Most documents of one page.
const PAGE: u32 = 1000;

/// Look at the documents of a collection, or delete some
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  toller documents count docs --filter '{\"lang\": \"en\"}'
  toller documents list docs --limit 10
  toller documents get docs 0198c2d1-7f7e-7c3b-9d0a-1f2e3d4c5b6a --json
  toller documents delete docs --filter '{\"source\": \"old.md\"}'")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print documents by id; exit code 1 when some are missing
    Get {
        /// Collection
        collection: String,
        /// Ids
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Print all fields as one JSON object
        #[arg(long)]
        json: bool,
        /// Print the vectors too
        #[arg(long, requires = "json")]
        with_vectors: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List documents, in the order of their ids
    List {
        /// Collection
        collection: String,
        /// Only those that match; see `toller query --help` for the syntax
        #[arg(long, value_name = "JSON", value_parser = filter::parse)]
        filter: Option<Filter>,
        /// Most documents
        #[arg(long, value_name = "N", default_value = "100")]
        limit: u64,
        /// Print all fields as one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Count documents
    Count {
        /// Collection
        collection: String,
        /// Only those that match; see `toller query --help` for the syntax
        #[arg(long, value_name = "JSON", value_parser = filter::parse)]
        filter: Option<Filter>,
        /// Print the count as a JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Delete documents by ids, by filter, or all of them
    #[command(group(clap::ArgGroup::new("which").required(true).args(["ids", "filter", "all"])))]
    Delete {
        /// Collection
        collection: String,
        /// Ids
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        /// All that match; see `toller query --help` for the syntax
        #[arg(long, value_name = "JSON", value_parser = filter::parse)]
        filter: Option<Filter>,
        /// Every document of the collection
        #[arg(long)]
        all: bool,
        /// Do not ask first
        #[arg(long, short)]
        yes: bool,
        /// Print the count as a JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// What `get --json` and `list --json` print.
#[derive(Debug, Serialize)]
struct Documents {
    documents: Vec<json::Document>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing_ids: Vec<String>,
}

/// What `count --json` prints.
#[derive(Debug, Serialize)]
struct Count {
    count: u64,
}

/// What `delete --json` prints.
#[derive(Debug, Serialize)]
struct Deleted {
    deleted: u64,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    block_on(async {
        match args.command {
            Command::Get { collection, ids, json, with_vectors, server } => {
                let request = v1::DocumentsGetRequest {
                    collection,
                    ids,
                    with_vectors: with_vectors.then_some(true),
                    ..Default::default()
                };
                get(request, json, &server).await
            }
            Command::List { collection, filter, limit, json, server } => {
                list(collection, filter, limit, json, &server).await
            }
            Command::Count { collection, filter, json, server } => count(collection, filter, json, &server).await,
            Command::Delete { collection, ids, filter, all, yes, json, server } => {
                let selector = match filter {
                    Some(filter) => Selector::Filter(filter_to_message(&filter)),
                    None if all => Selector::All(true),
                    None => Selector::Ids(v1::DocumentIds { ids }),
                };
                delete(collection, selector, yes, json, &server).await
            }
        }
    })
}

async fn get(request: v1::DocumentsGetRequest, json: bool, server: &ServerArgs) -> Outcome {
    let answer = server.connect().await?.documents().get(request).await?.into_inner();
    let is_complete = answer.missing_ids.is_empty();
    for id in &answer.missing_ids {
        say(format_args!("there is no document \"{id}\""));
    }
    print(answer.documents, answer.missing_ids, json)?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn list(collection: String, filter: Option<Filter>, limit: u64, json: bool, server: &ServerArgs) -> Outcome {
    let mut client = server.connect().await?.documents();
    let filter = filter.as_ref().map(filter_to_message);
    let mut found = Vec::new();
    let mut page_token = String::new();
    let mut left = limit;
    while left > 0 {
        let page_size = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let request = v1::DocumentsListRequest {
            collection: collection.clone(),
            filter: filter.clone(),
            page_size: Some(page_size),
            page_token,
            ..Default::default()
        };
        let page = client.list(request).await?.into_inner();
        left = left.saturating_sub(page.documents.len() as u64);
        found.extend(page.documents);
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    if !page_token.is_empty() {
        say(format_args!("there are more than {limit}: raise --limit"));
    }
    print(found, Vec::new(), json)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints documents that were read, as a table or as JSON with the ids of those that are not there.
pub(crate) fn print(documents: Vec<v1::Document>, missing_ids: Vec<String>, json: bool) -> Result<(), Error> {
    let mut output = Output::new();
    if json {
        output
            .json(&Documents { documents: documents.into_iter().map(json::Document::from).collect(), missing_ids })?;
    } else if documents.is_empty() {
        say("no documents");
    } else {
        output.line(table::documents(&documents, output.look))?;
    }
    output.flush()
}

async fn count(collection: String, filter: Option<Filter>, json: bool, server: &ServerArgs) -> Outcome {
    let request = v1::DocumentsCountRequest { collection, filter: filter.as_ref().map(filter_to_message) };
    let count = server.connect().await?.documents().count(request).await?.into_inner().count;
    let mut output = Output::new();
    if json {
        output.json(&Count { count })?;
    } else {
        output.line(count)?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn delete(collection: String, selector: Selector, yes: bool, json: bool, server: &ServerArgs) -> Outcome {
    let mut client = server.connect().await?.documents();
    let which = match &selector {
        Selector::Ids(ids) => format!("{} documents by id", ids.ids.len()),
        Selector::Filter(_) => "every document that matches".to_owned(),
        Selector::All(_) => "every document".to_owned(),
    };
    // Ids were typed one by one; a filter or --all may reach further than meant.
    let is_named = matches!(selector, Selector::Ids(_));
    if !confirm(&format!("delete {which} from collection \"{collection}\"?"), yes || is_named)? {
        say("nothing deleted");
        return Ok(ExitCode::FAILURE);
    }
    let request = v1::DocumentsDeleteRequest { collection, selector: Some(selector) };
    let deleted = client.delete(request).await?.into_inner().deleted;
    if json {
        let mut output = Output::new();
        output.json(&Deleted { deleted })?;
        output.flush()?;
    } else {
        say(format_args!("deleted {deleted}"));
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    #[test]
    fn delete_wants_exactly_one_selector() {
        let parse = |arguments: &[&str]| {
            let line = ["documents", "delete", "docs"].iter().chain(arguments);
            Line::try_parse_from(line).map(|line| line.args).is_ok()
        };
        assert!(parse(&["a", "b"]) && parse(&["--all"]) && parse(&["--filter", r#"{"a":1}"#]));
        for wrong in [&[][..], &["a", "--all"], &["--filter", r#"{"a":1}"#, "--all"], &["--filter", "{}"]] {
            assert!(!parse(wrong), "{wrong:?} must be refused");
        }
    }
}
