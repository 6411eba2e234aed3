//! The command line as a whole.

use clap::{Parser, Subcommand};

use crate::error::Outcome;
use crate::{
    backup, collections, document_stores, documents, health, ingest, key, model, operations, query, rerank, restore,
    retrievers, serve, spans, watch,
};

/// Toller, a retrieval service: embeds texts, keeps documents, and answers queries over gRPC.
#[derive(Debug, Parser)]
#[command(
    name = "toller",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "\
First steps:
  toller model pull BAAI/bge-small-en-v1.5
  toller serve
  toller ingest docs/
  toller query \"how are documents split?\" --collection docs

Client commands find the server by --server or TOLLER_SERVER and identify themselves by --api-key or TOLLER_API_KEY.
Standard output carries data (with --json, one JSON object), standard error carries talk.
Exit codes: 0 done, 1 failed, 2 wrong usage or configuration."
)]
pub(crate) struct Toller {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Args>),
    Ingest(Box<ingest::Args>),
    Watch(Box<watch::Args>),
    Query(Box<query::Args>),
    Rerank(rerank::Args),
    Collections(collections::Args),
    Documents(documents::Args),
    DocumentStores(document_stores::Args),
    Operations(operations::Args),
    Retrievers(retrievers::Args),
    Backup(backup::Args),
    Restore(restore::Args),
    Model(model::Args),
    Health(health::Args),
    Key(key::Args),
    Spans(spans::Args),
}

impl Toller {
    /// Runs the command that was asked for.
    pub(crate) fn run(self) -> Outcome {
        match self.command {
            Command::Serve(args) => serve::run(*args),
            Command::Ingest(args) => ingest::run(*args),
            Command::Watch(args) => watch::run(*args),
            Command::Query(args) => query::run(*args),
            Command::Rerank(args) => rerank::run(args),
            Command::Collections(args) => collections::run(args),
            Command::Documents(args) => documents::run(args),
            Command::DocumentStores(args) => document_stores::run(args),
            Command::Operations(args) => operations::run(args),
            Command::Retrievers(args) => retrievers::run(args),
            Command::Backup(args) => backup::run(args),
            Command::Restore(args) => restore::run(args),
            Command::Model(args) => model::run(args),
            Command::Health(args) => health::run(args),
            Command::Key(args) => key::run(args),
            Command::Spans(args) => spans::run(args),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Toller::command().debug_assert();
    }

    #[test]
    fn every_argument_of_every_command_has_a_help_text() {
        fn check(command: &clap::Command) {
            assert!(command.get_about().is_some(), "{} has no help text", command.get_name());
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "{} {} has no help text", command.get_name(), argument.get_id());
            }
            command.get_subcommands().for_each(check);
        }
        check(&Toller::command());
    }

    #[test]
    fn help_never_shows_the_value_of_a_secret() {
        let error = Toller::try_parse_from(["toller", "query", "--help"]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DisplayHelp);
        let help = error.to_string();
        assert!(help.contains("[env: TOLLER_API_KEY]"), "{help}");
    }
}
