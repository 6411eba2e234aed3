//! `toller document-stores`: documents without vectors, such as the parents of chunks.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Subcommand;
use serde::{Deserialize, Serialize};
use toller_api::convert::metadata_to_message;
use toller_api::v1;
use toller_api::v1::document_stores_delete_request::Selector;
use toller_core::Value;

use crate::client::{ServerArgs, block_on};
use crate::confirm::confirm;
use crate::documents::print;
use crate::error::{Error, Outcome};
use crate::filter::check_integers;
use crate::output::Output;
use crate::terminal::say;

/// Most documents of one page.
const PAGE: u32 = 1000;
/// Documents of one write.
const BATCH: usize = 500;

/// Keep documents without vectors, such as the parents that parent_document and multi_vector answer with
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A file of documents, which is also what list --json prints:
  {\"documents\": [{\"id\": \"guide\", \"page_content\": \"All of the guide.\", \"metadata\": {\"lang\": \"en\"}}]}

Examples:
  toller document-stores put parents guide.json
  toller document-stores list parents --limit 10
  toller document-stores get parents guide --json
  toller document-stores delete parents guide --children-of chunks")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write documents, replacing those with the same ids
    Put {
        /// Document store; it comes to be with its first document
        document_store: String,
        /// JSON file of the documents; - is standard input
        file: PathBuf,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Print documents by id; exit code 1 when some are missing
    Get {
        /// Document store
        document_store: String,
        /// Ids
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Print all fields as one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// List documents, in the order of their ids
    List {
        /// Document store
        document_store: String,
        /// Most documents
        #[arg(long, value_name = "N", default_value = "100")]
        limit: u64,
        /// Print all fields as one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Delete documents by ids, or all of them
    #[command(group(clap::ArgGroup::new("which").required(true).args(["ids", "all"])))]
    Delete {
        /// Document store
        document_store: String,
        /// Ids
        #[arg(value_name = "ID")]
        ids: Vec<String>,
        /// Every document of the store
        #[arg(long)]
        all: bool,
        /// Delete their children in this collection too
        #[arg(long, value_name = "COLLECTION", conflicts_with = "all")]
        children_of: Option<String>,
        /// Path of the parent's id in the children's metadata [default: doc_id]
        #[arg(long, value_name = "PATH", requires = "children_of")]
        id_key: Option<String>,
        /// Do not ask first
        #[arg(long, short)]
        yes: bool,
        /// Print the counts as a JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
}

/// What `delete --json` prints.
#[derive(Debug, Serialize)]
struct Deleted {
    deleted: u64,
    deleted_children: u64,
}

/// What `put` reads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentsFile {
    documents: Vec<DocumentInFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DocumentInFile {
    id: String,
    #[serde(default)]
    page_content: String,
    #[serde(default)]
    metadata: BTreeMap<String, Value>,
}

impl DocumentsFile {
    fn read(path: &Path) -> Result<Self, Error> {
        let text = if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(path)
        };
        let text = text.map_err(|source| Error::File { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|fault| Error::Failed(format!("{}: {fault}", path.display())))
    }

    fn parse(text: &str) -> Result<Self, String> {
        check_integers(text)?;
        let mut reader = serde_json::Deserializer::from_str(text);
        let file = serde_path_to_error::deserialize(&mut reader)
            .map_err(|fault| format!("{}: {}", fault.path(), fault.inner()))?;
        reader.end().map_err(|fault| fault.to_string())?;
        Ok(file)
    }
}

impl DocumentInFile {
    fn to_message(&self) -> v1::Document {
        v1::Document {
            id: Some(self.id.clone()),
            page_content: self.page_content.clone(),
            metadata: metadata_to_message(&self.metadata),
            vectors: None,
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    block_on(async {
        match args.command {
            Command::Put { document_store, file, server } => put(document_store, &file, &server).await,
            Command::Get { document_store, ids, json, server } => {
                get(v1::DocumentStoresGetRequest { document_store, ids }, json, &server).await
            }
            Command::List { document_store, limit, json, server } => list(document_store, limit, json, &server).await,
            Command::Delete { document_store, ids, all, children_of, id_key, yes, json, server } => {
                let selector = if all { Selector::All(true) } else { Selector::Ids(v1::DocumentIds { ids }) };
                let children = children_of.map(|collection| v1::Children { collection, id_key });
                let request = v1::DocumentStoresDeleteRequest { document_store, selector: Some(selector), children };
                delete(request, yes, json, &server).await
            }
        }
    })
}

async fn put(document_store: String, file: &Path, server: &ServerArgs) -> Outcome {
    let file = DocumentsFile::read(file)?;
    let mut client = server.connect().await?.document_stores();
    let mut written = 0;
    for batch in file.documents.chunks(BATCH) {
        let documents = batch.iter().map(DocumentInFile::to_message).collect();
        let request = v1::DocumentStoresPutRequest { document_store: document_store.clone(), documents };
        if let Err(status) = client.put(request).await {
            if written > 0 {
                say(format_args!("the first {written} documents were written"));
            }
            return Err(status.into());
        }
        written += batch.len();
    }
    say(format_args!("wrote {written} documents to document store \"{document_store}\""));
    Ok(ExitCode::SUCCESS)
}

async fn get(request: v1::DocumentStoresGetRequest, json: bool, server: &ServerArgs) -> Outcome {
    let answer = server.connect().await?.document_stores().get(request).await?.into_inner();
    let is_complete = answer.missing_ids.is_empty();
    for id in &answer.missing_ids {
        say(format_args!("there is no document \"{id}\""));
    }
    print(answer.documents, answer.missing_ids, json)?;
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn list(document_store: String, limit: u64, json: bool, server: &ServerArgs) -> Outcome {
    let mut client = server.connect().await?.document_stores();
    let mut found = Vec::new();
    let mut page_token = String::new();
    let mut left = limit;
    while left > 0 {
        let page_size = u32::try_from(left).unwrap_or(PAGE).min(PAGE);
        let request = v1::DocumentStoresListRequest {
            document_store: document_store.clone(),
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

async fn delete(request: v1::DocumentStoresDeleteRequest, yes: bool, json: bool, server: &ServerArgs) -> Outcome {
    let mut client = server.connect().await?.document_stores();
    // Ids were typed one by one; --all may reach further than meant.
    let is_all = matches!(request.selector, Some(Selector::All(_)));
    let question = format!("delete every document from document store \"{}\"?", request.document_store);
    if is_all && !confirm(&question, yes)? {
        say("nothing deleted");
        return Ok(ExitCode::FAILURE);
    }
    let has_children = request.children.is_some();
    let v1::DocumentStoresDeleteResponse { deleted, deleted_children } = client.delete(request).await?.into_inner();
    if json {
        let mut output = Output::new();
        output.json(&Deleted { deleted, deleted_children })?;
        output.flush()?;
    } else if has_children {
        say(format_args!("deleted {deleted}, and {deleted_children} children"));
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
            let line = ["document-stores", "delete", "parents"].iter().chain(arguments);
            Line::try_parse_from(line).map(|line| line.args).is_ok()
        };
        assert!(parse(&["a", "b"]) && parse(&["--all"]) && parse(&["a", "--children-of", "c", "--id-key", "k"]));
        for wrong in [&[][..], &["a", "--all"], &["--all", "--children-of", "c"], &["a", "--id-key", "k"]] {
            assert!(!parse(wrong), "{wrong:?} must be refused");
        }
    }

    #[test]
    fn a_file_is_read_with_its_types_and_faults_have_their_path() {
        let text = r#"{"documents": [{"id": "a", "page_content": "t", "metadata": {"n": 1, "x": 1.0}}, {"id": "b"}]}"#;
        let file = DocumentsFile::parse(text).unwrap();
        assert_eq!(file.documents[0].metadata["n"], Value::Int(1));
        assert_eq!(file.documents[0].metadata["x"], Value::Double(1.0));
        assert_eq!(file.documents[1].to_message(), v1::Document { id: Some("b".to_owned()), ..Default::default() });
        for (text, expected) in [
            (r#"{"documents": [{"id": "a"}, {"text": "b"}]}"#, "documents[1].text: unknown field"),
            (r#"{"documents": [{"page_content": "b"}]}"#, "documents[0]: missing field `id`"),
            (r#"{"documents": [{"id": "a", "metadata": {"n": 99999999999999999999}}]}"#, "99999999999999999999"),
            (r#"[{"id": "a"}]"#, "invalid type"),
        ] {
            let fault = DocumentsFile::parse(text).unwrap_err();
            assert!(fault.contains(expected), "{fault}");
        }
    }
}
