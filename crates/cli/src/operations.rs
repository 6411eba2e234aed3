//! `toller operations`: look at what runs longer than a call, wait for it, and stop it.

use std::process::ExitCode;

use clap::Subcommand;
use serde::Serialize;
use toller_api::v1;

use crate::client::{ServerArgs, block_on};
use crate::error::Outcome;
use crate::names::{OperationState, or_dash};
use crate::output::Output;
use crate::terminal::say;
use crate::waiting::{line, wait_until_ended};
use crate::{json, table};

/// Look at what runs longer than a call, such as embedding a collection anew
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  toller operations list
  toller operations wait 0198c2d1-7f7e-7c3b-9d0a-1f2e3d4c5b6a
  toller operations cancel 0198c2d1-7f7e-7c3b-9d0a-1f2e3d4c5b6a")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the operations, the newest first
    List {
        /// Print all fields as one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Show an operation: what it does, how far it is, why it failed
    Get(One),
    /// Ask an operation to stop; what it did until then is undone
    Cancel(One),
    /// Wait until an operation has ended; exit code 1 when it did not succeed
    Wait(One),
}

/// One operation.
#[derive(Debug, clap::Args)]
struct One {
    /// Its id
    id: String,
    /// Print all fields as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// What `list --json` prints.
#[derive(Debug, Serialize)]
struct List {
    operations: Vec<json::Operation>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    block_on(async {
        match args.command {
            Command::List { json, server } => list(json, &server).await,
            Command::Get(one) => get(one).await,
            Command::Cancel(one) => cancel(one).await,
            Command::Wait(one) => wait(one).await,
        }
    })
}

async fn list(json: bool, server: &ServerArgs) -> Outcome {
    let request = v1::OperationsListRequest {};
    let operations = server.connect().await?.operations().list(request).await?.into_inner().operations;
    let mut output = Output::new();
    if json {
        output.json(&List { operations: operations.into_iter().map(json::Operation::from).collect() })?;
    } else if operations.is_empty() {
        say("no operations");
    } else {
        let rows = operations.iter().map(|operation| {
            vec![
                operation.id.clone(),
                operation.kind.clone(),
                operation.subject.clone(),
                or_dash(OperationState::from_message(operation.state)),
                done(operation),
            ]
        });
        let header = ["id", "kind", "on", "state", "done"];
        output.line(table::plain(&header, rows.collect(), output.look))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn get(one: One) -> Outcome {
    let request = v1::OperationsGetRequest { id: one.id };
    let operation = one.server.connect().await?.operations().get(request).await?.into_inner().operation;
    print(operation.unwrap_or_default(), one.json)?;
    Ok(ExitCode::SUCCESS)
}

async fn cancel(one: One) -> Outcome {
    let request = v1::OperationsCancelRequest { id: one.id };
    let operation = one.server.connect().await?.operations().cancel(request).await?.into_inner().operation;
    let operation = operation.unwrap_or_default();
    if one.json {
        print(operation, true)?;
    } else if OperationState::from_message(operation.state) == Some(OperationState::Running) {
        say(format_args!("asked operation {} to stop", operation.id));
    } else {
        say(line(&operation));
    }
    Ok(ExitCode::SUCCESS)
}

async fn wait(one: One) -> Outcome {
    let connection = one.server.connect().await?;
    let operation = wait_until_ended(&connection, one.id).await?;
    let has_succeeded = OperationState::from_message(operation.state) == Some(OperationState::Succeeded);
    if one.json {
        print(operation, true)?;
    } else {
        say(line(&operation));
    }
    Ok(if has_succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print(operation: v1::Operation, json: bool) -> Result<(), crate::error::Error> {
    let mut output = Output::new();
    if json {
        output.json(&json::Operation::from(operation))?;
    } else {
        output.line(table::pairs(&[
            ("id", operation.id.clone()),
            ("kind", operation.kind.clone()),
            ("on", operation.subject.clone()),
            ("state", or_dash(OperationState::from_message(operation.state))),
            ("done", done(&operation)),
            ("started", moment(operation.started_at.as_ref())),
            ("ended", moment(operation.ended_at.as_ref())),
            ("error", operation.error_message.clone()),
        ]))?;
    }
    output.flush()
}

fn done(operation: &v1::Operation) -> String {
    match operation.total {
        Some(total) => format!("{} of {total}", operation.done),
        None => operation.done.to_string(),
    }
}

fn moment(moment: Option<&prost_types::Timestamp>) -> String {
    moment.map(ToString::to_string).unwrap_or_default()
}
