//! `toller collections`: make, show, fill, re-embed and delete collections.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Subcommand, ValueEnum};
use serde::Serialize;
use toller_api::convert::fingerprint_from_message;
use toller_api::v1;
use toller_api::v1::collections_create_request::Vectors;

use crate::client::{ServerArgs, block_on};
use crate::confirm::confirm;
use crate::error::{Error, Outcome};
use crate::langchain_import::Import;
use crate::names::{Durability, Language, Metric, OperationState, QuantizationKind, or_dash};
use crate::output::Output;
use crate::terminal::say;
use crate::waiting::{line, wait_until_ended};
use crate::{json, table};

/// Make, show, fill, re-embed and delete collections
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  toller collections list
  toller collections create docs --description \"the user guide\" --label team=search
  toller collections create images --dimension 512 --metric dot --no-keyword
  toller collections create handbuch --keyword-language german
  toller collections create articles --vector title:384 --vector image:512:dot --quantization int8
  toller collections import notes langchain-dump.json
  toller collections reembed docs --model large --wait
  toller collections delete docs --yes")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the collections
    List {
        /// Print all fields as one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Make a collection; without --dimension, the server's model embeds its documents
    Create(Box<Create>),
    /// Show a collection: what fills it, what its writes survive, how many documents it holds
    Get {
        /// Its name
        name: String,
        /// Print all fields as one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Delete a collection with all its documents
    Delete {
        /// Its name
        name: String,
        /// Do not ask first
        #[arg(long, short)]
        yes: bool,
        /// Print the result as a JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Embed a collection anew from its stored texts, with another model, while it is read and written
    #[command(after_help = "\
It runs on the server, also when this command ends and when the server is started again: see `toller operations`. Until it has
succeeded the collection has its old vectors, whose model must stay loaded for its searches and writes by text. The old vectors
stay until the next time, and take as much room as they did.")]
    Reembed {
        /// Its name
        name: String,
        /// A model of the server, when it is not the default one
        #[arg(long, value_name = "NAME")]
        model: Option<String>,
        /// Wait until it has ended; exit code 1 when it did not succeed
        #[arg(long)]
        wait: bool,
        /// Print the operation as a JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Fill a collection with a dump of LangChain's InMemoryVectorStore, texts, metadata and vectors
    #[command(after_help = "\
The collection is made when it is missing: with client vectors, in the dump's dimension. Documents with the same ids are
replaced. The dump does not say which model made its vectors, so queries bring their own vectors too.")]
    Import {
        /// Collection
        name: String,
        /// File that `InMemoryVectorStore.dump` wrote
        file: PathBuf,
        /// Metric of the collection, when it is made; the default is cosine, as in LangChain
        #[arg(long)]
        metric: Option<Metric>,
        /// Print the counts as a JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        server: ServerArgs,
    },
}

#[derive(Debug, clap::Args)]
struct Create {
    /// Its name: ASCII letters, digits, '-', '_' and '.'
    name: String,
    /// How vectors are compared; the default is cosine
    #[arg(long)]
    metric: Option<Metric>,
    /// The client brings the vectors, in this dimension
    #[arg(long, value_name = "N", conflicts_with = "model")]
    dimension: Option<u32>,
    /// A model of the server, when it is not the default one
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The language of its texts, for keyword search; the default is english
    #[arg(long, value_name = "LANGUAGE", conflicts_with = "no_keyword")]
    keyword_language: Option<Language>,
    /// Make it without an index for keyword search
    #[arg(long)]
    no_keyword: bool,
    /// A further vector for each document, which the client brings: its name, dimension and metric (default cosine); may be
    /// given several times
    #[arg(long = "vector", value_name = "NAME:DIM[:METRIC]", value_parser = parse_named_vector)]
    vectors: Vec<NamedVector>,
    /// Refuse callers whose credential names no tenant
    #[arg(long)]
    require_tenant: bool,
    /// Keep vectors a second time with fewer bits, for searches in less memory; for the edge and Qdrant stores
    #[arg(long, value_name = "KIND")]
    quantization: Option<QuantizationKind>,
    /// How many times as many candidates as are wanted the quantised vectors give; the server's default is 1.5 for int8 and 3
    /// for binary
    #[arg(long, value_name = "FACTOR", requires = "quantization")]
    oversampling: Option<f64>,
    /// What it is for
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    description: String,
    /// A label for yourself; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE", value_parser = parse_label)]
    labels: Vec<(String, String)>,
    /// Print the collection as a JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// What `--vector` says.
#[derive(Debug, Clone, PartialEq)]
struct NamedVector {
    name: String,
    dimension: u32,
    metric: Option<Metric>,
}

fn parse_named_vector(text: &str) -> Result<NamedVector, String> {
    const FORM: &str = "must be NAME:DIM or NAME:DIM:METRIC, such as title:384:dot";

    let mut parts = text.split(':');
    let (Some(name), Some(dimension), metric, None) = (parts.next(), parts.next(), parts.next(), parts.next()) else {
        return Err(FORM.to_owned());
    };
    let dimension = dimension.parse().map_err(|fault| format!("{FORM}: {dimension:?}: {fault}"))?;
    let metric = metric.map(|metric| Metric::from_str(metric, false)).transpose();
    let metric = metric.map_err(|_| format!("{FORM}: the metric must be cosine, dot or euclidean"))?;
    Ok(NamedVector { name: name.to_owned(), dimension, metric })
}

fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("must be key=value".to_owned()),
    }
}

/// What `list --json` prints.
#[derive(Debug, Serialize)]
struct List {
    collections: Vec<json::Collection>,
}

/// What `delete --json` prints.
#[derive(Debug, Serialize)]
struct Deleted {
    deleted: String,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    block_on(async {
        match args.command {
            Command::List { json, server } => list(json, &server).await,
            Command::Create(create_args) => create(*create_args).await,
            Command::Get { name, json, server } => get(name, json, &server).await,
            Command::Delete { name, yes, json, server } => delete(name, yes, json, &server).await,
            Command::Reembed { name, model, wait, json, server } => reembed(name, model, wait, json, &server).await,
            Command::Import { name, file, metric, json, server } => {
                let imported = Import { collection: name, file, metric }.run(&server.connect().await?).await?;
                if json {
                    let mut output = Output::new();
                    output.json(&imported)?;
                    output.flush()?;
                } else {
                    say(&imported);
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    })
}

async fn list(json: bool, server: &ServerArgs) -> Outcome {
    let request = v1::CollectionsListRequest {};
    let collections = server.connect().await?.collections().list(request).await?.into_inner().collections;
    let mut output = Output::new();
    if json {
        let collections = collections.into_iter().map(|collection| json::Collection::new(collection, None)).collect();
        output.json(&List { collections })?;
    } else if collections.is_empty() {
        say("no collections; `toller collections create` makes one");
    } else {
        let rows = collections.iter().map(|collection| {
            let fingerprint = collection.fingerprint.clone().unwrap_or_default();
            let filled_by = if fingerprint.model.is_empty() { fingerprint.provider } else { fingerprint.model };
            vec![
                collection.name.clone(),
                or_dash(Metric::from_message(collection.metric)),
                fingerprint.dimension.to_string(),
                filled_by,
                collection.store.clone(),
                or_dash(Durability::from_message(collection.durability)),
                collection.description.clone(),
            ]
        });
        let header = ["name", "metric", "dimension", "vectors from", "store", "durability", "description"];
        output.line(table::plain(&header, rows.collect(), output.look))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

async fn create(args: Create) -> Outcome {
    let json = args.json;
    let server = args.server.clone();
    let request = create_request(args)?;
    let collection = server.connect().await?.collections().create(request).await?.into_inner().collection;
    let collection = collection.unwrap_or_default();
    if json {
        let mut output = Output::new();
        output.json(&json::Collection::new(collection, None))?;
        output.flush()?;
    } else {
        say(format_args!("made collection \"{}\": {}", collection.name, fingerprint_line(&collection)));
    }
    Ok(ExitCode::SUCCESS)
}

fn create_request(args: Create) -> Result<v1::CollectionsCreateRequest, Error> {
    let mut labels = BTreeMap::new();
    for (key, value) in args.labels {
        if let Some(other) = labels.insert(key.clone(), value) {
            return Err(Error::Usage(format!("--label {key} is given twice (once as {other:?})")));
        }
    }
    let mut named_vectors = BTreeMap::new();
    for NamedVector { name, dimension, metric } in args.vectors {
        let space = v1::VectorSpace { dimension, metric: metric.map_or(0, i32::from) };
        if named_vectors.insert(name.clone(), space).is_some() {
            return Err(Error::Usage(format!("--vector {name} is given twice")));
        }
    }
    Ok(v1::CollectionsCreateRequest {
        name: args.name,
        description: args.description,
        labels,
        metric: args.metric.map_or(0, i32::from),
        vectors: match args.dimension {
            Some(dimension) => Some(Vectors::Client(v1::ClientVectors { dimension })),
            None => args.model.map(Vectors::Model),
        },
        keyword: match (args.keyword_language, args.no_keyword) {
            (None, false) => None,
            (language, disabled) => Some(v1::KeywordIndex { language: language.map_or(0, i32::from), disabled }),
        },
        named_vectors,
        quantization: args
            .quantization
            .map(|kind| v1::Quantization { kind: kind.into(), oversampling: args.oversampling }),
        require_tenant: args.require_tenant,
    })
}

async fn reembed(name: String, model: Option<String>, wait: bool, json: bool, server: &ServerArgs) -> Outcome {
    let connection = server.connect().await?;
    let request = v1::CollectionsReembedRequest { name, model };
    let started = connection.collections().reembed(request).await?.into_inner().operation.unwrap_or_default();
    let operation = if wait {
        if !json {
            say(format_args!("started operation {}", started.id));
        }
        wait_until_ended(&connection, started.id).await?
    } else {
        started
    };
    let state = OperationState::from_message(operation.state);
    if json {
        let mut output = Output::new();
        output.json(&json::Operation::from(operation))?;
        output.flush()?;
    } else if state == Some(OperationState::Running) {
        say(format_args!(
            "started operation {id}; `toller operations wait {id}` says when it has ended",
            id = operation.id
        ));
    } else if operation.total == Some(0) {
        say(format_args!("nothing to do: \"{}\" has the vectors of that model, or no documents", operation.subject));
    } else {
        say(line(&operation));
    }
    let is_well = matches!(state, Some(OperationState::Running | OperationState::Succeeded));
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn get(name: String, json: bool, server: &ServerArgs) -> Outcome {
    let mut client = server.connect().await?.collections();
    let request = v1::CollectionsGetRequest { name: name.clone() };
    let collection = client.get(request).await?.into_inner().collection.unwrap_or_default();
    let stats = client.stats(v1::CollectionsStatsRequest { name }).await?.into_inner();
    let mut output = Output::new();
    if json {
        output.json(&json::Collection::new(collection, Some(stats.document_count)))?;
    } else {
        let labels: Vec<String> = collection.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        output.line(table::pairs(&[
            ("name", collection.name.clone()),
            ("description", collection.description.clone()),
            ("labels", labels.join(", ")),
            ("documents", stats.document_count.to_string()),
            ("metric", or_dash(Metric::from_message(collection.metric))),
            ("vectors", fingerprint_line(&collection)),
            ("named vectors", named_vectors_line(&collection.named_vectors)),
            ("quantization", quantization_line(collection.quantization)),
            ("keywords", keyword_line(collection.keyword)),
            ("requires a tenant", if collection.require_tenant { "yes" } else { "no" }.to_owned()),
            ("store", collection.store.clone()),
            ("durability", durability_line(collection.durability)),
            ("created", collection.created_at.as_ref().map(ToString::to_string).unwrap_or_default()),
        ]))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn fingerprint_line(collection: &v1::Collection) -> String {
    match collection.fingerprint.clone().map(fingerprint_from_message) {
        Some(Ok(fingerprint)) => fingerprint.to_string(),
        _ => "-".to_owned(),
    }
}

fn keyword_line(index: Option<v1::KeywordIndex>) -> String {
    match index.map(|index| Language::from_message(index.language)) {
        None => "not indexed".to_owned(),
        Some(Some(Language::None)) => "indexed, in no particular language".to_owned(),
        Some(language) => format!("indexed, in {}", or_dash(language)),
    }
}

fn named_vectors_line(spaces: &BTreeMap<String, v1::VectorSpace>) -> String {
    let described = spaces.iter().map(|(name, space)| {
        format!("{name} ({} dimensions, {})", space.dimension, or_dash(Metric::from_message(space.metric)))
    });
    or_none(described.collect::<Vec<_>>().join(", "))
}

fn quantization_line(quantization: Option<v1::Quantization>) -> String {
    let described = quantization.map(|quantization| {
        let kind = or_dash(QuantizationKind::from_message(quantization.kind));
        format!("{kind}, {} times as many candidates", quantization.oversampling.unwrap_or_default())
    });
    or_none(described.unwrap_or_default())
}

fn or_none(text: String) -> String {
    if text.is_empty() { "none".to_owned() } else { text }
}

fn durability_line(number: i32) -> String {
    let durability = Durability::from_message(number);
    let meaning = match durability {
        Some(Durability::None) => " (survives an orderly stop of the server, not a crash)",
        Some(Durability::Process) => " (survives a crash of the server)",
        Some(Durability::Fsync) => " (survives power loss)",
        None => "",
    };
    format!("{}{meaning}", or_dash(durability))
}

async fn delete(name: String, yes: bool, json: bool, server: &ServerArgs) -> Outcome {
    let mut client = server.connect().await?.collections();
    if !yes {
        // A name that does not exist is worth no question.
        let request = v1::CollectionsStatsRequest { name: name.clone() };
        let count = client.stats(request).await?.into_inner().document_count;
        if !confirm(&format!("delete collection \"{name}\" with its {count} documents?"), false)? {
            say("nothing deleted");
            return Ok(ExitCode::FAILURE);
        }
    }
    client.delete(v1::CollectionsDeleteRequest { name: name.clone() }).await?;
    if json {
        let mut output = Output::new();
        output.json(&Deleted { deleted: name })?;
        output.flush()?;
    } else {
        say(format_args!("deleted collection \"{name}\""));
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
        args: Create,
    }

    fn request(arguments: &[&str]) -> Result<v1::CollectionsCreateRequest, String> {
        let line = Line::try_parse_from(["create"].iter().chain(arguments)).map_err(|error| error.to_string())?;
        create_request(line.args).map_err(|error| error.to_string())
    }

    #[test]
    fn create_sets_only_what_was_given() {
        let plain = v1::CollectionsCreateRequest { name: "docs".to_owned(), ..Default::default() };
        assert_eq!(request(&["docs"]), Ok(plain));
        let full = request(&["docs", "--metric", "euclidean", "--dimension", "3", "--label", "a=b=c", "--label", "d="]);
        let full = full.unwrap();
        assert_eq!((full.metric(), full.keyword), (v1::Metric::Euclidean, None));
        assert_eq!(full.vectors, Some(Vectors::Client(v1::ClientVectors { dimension: 3 })));
        assert_eq!(full.labels, BTreeMap::from([("a".into(), "b=c".into()), ("d".into(), String::new())]));
    }

    #[test]
    fn the_keyword_index_has_a_language_or_is_left_out() {
        let keyword = |arguments: &[&str]| request(arguments).unwrap().keyword;
        let german = v1::KeywordIndex { language: v1::Language::German.into(), disabled: false };
        assert_eq!(keyword(&["docs", "--keyword-language", "german"]), Some(german));
        assert_eq!(keyword_line(Some(german)), "indexed, in german");
        let disabled = v1::KeywordIndex { language: 0, disabled: true };
        assert_eq!(keyword(&["docs", "--no-keyword"]), Some(disabled));
        assert_eq!(keyword_line(None), "not indexed");
        let both = request(&["docs", "--no-keyword", "--keyword-language", "german"]);
        assert!(both.unwrap_err().contains("cannot be used with"));
    }

    #[test]
    fn further_vectors_have_a_name_a_dimension_and_perhaps_a_metric() {
        let made = request(&["docs", "--vector", "title:3", "--vector", "image:512:euclidean"]).unwrap();
        let spaces: Vec<_> =
            made.named_vectors.iter().map(|(name, space)| (name.as_str(), space.dimension, space.metric())).collect();
        assert_eq!(spaces, [("image", 512, v1::Metric::Euclidean), ("title", 3, v1::Metric::Unspecified)]);
        assert_eq!(named_vectors_line(&BTreeMap::new()), "none");
        for wrong in ["title", "title:x", "title:3:near", "title:3:dot:4", "title:-1"] {
            assert!(request(&["docs", "--vector", wrong]).unwrap_err().contains("NAME:DIM"), "{wrong}");
        }
        assert!(request(&["docs", "--vector", "a:1", "--vector", "a:2"]).unwrap_err().contains("given twice"));
    }

    #[test]
    fn quantisation_has_a_kind_and_perhaps_an_oversampling() {
        assert_eq!(request(&["docs"]).unwrap().quantization, None);
        let int8 = request(&["docs", "--quantization", "int8"]).unwrap().quantization.unwrap();
        assert_eq!((int8.kind(), int8.oversampling), (v1::QuantizationKind::Int8, None));
        let binary = request(&["docs", "--quantization", "binary", "--oversampling", "4"]).unwrap().quantization;
        assert_eq!(quantization_line(binary), "binary, 4 times as many candidates");
        assert_eq!(quantization_line(None), "none");
        assert!(request(&["docs", "--oversampling", "4"]).is_err());
        assert!(request(&["docs", "--quantization", "int4"]).is_err());
    }

    #[test]
    fn contradictions_are_refused() {
        assert!(request(&["docs", "--label", "a"]).unwrap_err().contains("key=value"));
        assert!(request(&["docs", "--label", "a=1", "--label", "a=2"]).unwrap_err().contains("given twice"));
        assert!(request(&["docs", "--dimension", "3", "--model", "m"]).unwrap_err().contains("cannot be used with"));
    }
}
