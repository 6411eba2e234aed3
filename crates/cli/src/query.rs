//! `toller query`: one query to a collection or a retriever, stored or in a file.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use toller_api::convert::{Encoding, filter_to_message, history_to_messages, metadata_to_message, vector_to_message};
use toller_api::v1;
use toller_core::{ChatMessage, Filter, Metadata};

use crate::client::{ServerArgs, block_on};
use crate::error::{Error, Outcome};
use crate::names::{RelevanceFunction, SearchType};
use crate::output::Output;
use crate::retriever_file::RetrieverFile;
use crate::terminal::say;
use crate::{filter, json, table};

/// Search a collection, or run a retriever
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  toller query \"how are documents split?\"
  toller query \"fusion\" -k 10 --search-type mmr --fetch-k 50 --lambda-mult 0.3
  toller query \"fusion\" --search-type similarity_score_threshold --score-threshold 0.6
  toller query \"fusion\" --filter '{\"lang\": \"en\", \"year\": {\"$gte\": 2020, \"$lt\": 2025}}'
  toller query --vector '[0.1, 0.2]' --collection notes
  toller query --vector '[0.1, 0.2]' --vector-name title --collection notes
  toller query \"fusion\" --retriever docs-mmr --json | jq '.hits[].document.id'
  toller query \"fusion\" --retriever ./both.yaml --metadata '{\"plan\": \"pro\"}' --trace

Filters: {\"key\": value} for equality; {\"key\": {\"$op\": value}} with $eq $ne $in $nin $lt $lte $gt $gte $exists
$contains $not; $and and $or with lists, $not with an object. Several conditions in one object are ANDed, and a dotted
key is a path. Types never coerce: 1 is not \"1\" (but 1 = 1.0).")]
pub(crate) struct Args {
    /// The text to find documents for
    #[arg(required_unless_present = "vector")]
    text: Option<String>,
    /// Your own vector instead of a text, as a JSON array in the collection's dimension; for collections of client vectors
    #[arg(long, value_name = "JSON", value_parser = parse_vector, conflicts_with = "text", allow_hyphen_values = true)]
    vector: Option<QueryVector>,
    /// The named vectors to search, with --vector in their dimension; the default are the main ones
    #[arg(long, value_name = "NAME", requires = "vector", conflicts_with = "text")]
    vector_name: Option<String>,
    /// Collection to search
    #[arg(long, short, value_name = "NAME", default_value = "docs")]
    collection: String,
    /// Run a retriever instead of searching a collection: a stored one's name, or a .yaml, .yml or .json file
    #[arg(long, value_name = "NAME|FILE", conflicts_with_all = [
        "collection", "k", "search_type", "fetch_k", "lambda_mult", "score_threshold", "raw_score_threshold",
        "relevance_fn", "filter", "with_vectors", "vector_name",
    ])]
    retriever: Option<String>,
    /// Facts about the request as a JSON object, for the routers of a retriever
    #[arg(long, value_name = "JSON", value_parser = parse_metadata, requires = "retriever")]
    metadata: Option<Metadata>,
    /// The conversation before the query as a JSON array of {"role": "user" or "assistant", "content": "…"}, for retrievers that rephrase
    #[arg(long, value_name = "JSON", value_parser = parse_history, requires = "retriever")]
    history: Option<History>,
    /// Say which retrievers ran, how long, and what they found
    #[arg(long, requires = "retriever")]
    trace: bool,
    /// Most hits; the server's default is 4
    #[arg(short, long, value_name = "N")]
    k: Option<u32>,
    /// How hits are chosen; the server's default is similarity
    #[arg(long, value_name = "TYPE")]
    search_type: Option<SearchType>,
    /// mmr only: candidates to choose from; the server's default is 20
    #[arg(long, value_name = "N")]
    fetch_k: Option<u32>,
    /// mmr only: 1 is pure relevance, 0 is pure diversity; the server's default is 0.5
    #[arg(long, value_name = "0..1", allow_negative_numbers = true)]
    lambda_mult: Option<f64>,
    /// Least relevance, inclusive
    #[arg(long, value_name = "0..1", allow_negative_numbers = true)]
    score_threshold: Option<f64>,
    /// Bound on the metric's own value, inclusive: at least this for cosine and dot, at most this for euclidean
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    raw_score_threshold: Option<f64>,
    /// How relevance follows from the score, where it is not the metric's own way
    #[arg(long, value_name = "NAME")]
    relevance_fn: Option<RelevanceFunction>,
    /// Which documents take part
    #[arg(long, value_name = "JSON", value_parser = filter::parse)]
    filter: Option<Filter>,
    /// Print hits with all fields as one JSON object
    #[arg(long)]
    json: bool,
    /// Print the hits' vectors too
    #[arg(long, requires = "json")]
    with_vectors: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// The elements of `--vector`.
#[derive(Debug, Clone, PartialEq)]
struct QueryVector(Vec<f32>);

fn parse_vector(text: &str) -> Result<QueryVector, String> {
    let elements: Vec<f32> = serde_json::from_str(text)
        .map_err(|fault| format!("must be a JSON array of numbers such as [0.1, 0.2]: {fault}"))?;
    if elements.is_empty() {
        return Err("must have at least one element".to_owned());
    }
    match elements.iter().position(|element| !element.is_finite()) {
        Some(index) => Err(format!("element {index} is beyond what 32-bit floats hold")),
        None => Ok(QueryVector(elements)),
    }
}

fn parse_metadata(text: &str) -> Result<Metadata, String> {
    filter::check_integers(text)?;
    serde_json::from_str(text).map_err(|fault| format!("must be a JSON object such as {{\"plan\": \"pro\"}}: {fault}"))
}

/// The messages of `--history`.
#[derive(Debug, Clone, PartialEq)]
struct History(Vec<ChatMessage>);

fn parse_history(text: &str) -> Result<History, String> {
    const FORM: &str = r#"must be a JSON array such as [{"role": "user", "content": "what is a toller?"}]"#;

    serde_json::from_str(text).map(History).map_err(|fault| format!("{FORM}: {fault}"))
}

/// The retriever of a file, which has a separator or an ending that says so, or the stored one of that name.
fn retriever_of(given: &str) -> Result<v1::Retriever, Error> {
    let path = Path::new(given);
    let is_file = path.components().count() > 1
        || path.extension().is_some_and(|ending| ["yaml", "yml", "json"].iter().any(|known| ending == *known));
    if is_file {
        return RetrieverFile::read(path)?.into_message();
    }
    let kind = Some(v1::retriever::Kind::Ref(given.to_owned()));
    Ok(v1::Retriever { kind, ..Default::default() })
}

/// Clap has seen to it that exactly one of text and vector is there.
fn query_of(args: &Args) -> v1::Query {
    let kind = match &args.vector {
        Some(QueryVector(elements)) => v1::query::Kind::Vector(vector_to_message(elements, Encoding::Packed)),
        None => v1::query::Kind::Text(args.text.clone().unwrap_or_default()),
    };
    v1::Query { kind: Some(kind) }
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Answer {
    hits: Vec<json::Hit>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<json::Warning>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    trace: Vec<json::TraceNode>,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    let v1::RetrieveResponse { hits, warnings, trace } = block_on(async {
        let query = Some(query_of(&args));
        Ok(match &args.retriever {
            Some(given) => {
                let request = v1::RetrieveRequest {
                    query,
                    retriever: Some(retriever_of(given)?),
                    metadata: args.metadata.as_ref().map(metadata_to_message).unwrap_or_default(),
                    with_trace: args.trace.then_some(true),
                    history: args.history.as_ref().map(|History(own)| history_to_messages(own)).unwrap_or_default(),
                    ..Default::default()
                };
                args.server.connect().await?.retrieval().retrieve(request).await?.into_inner()
            }
            None => {
                let request = v1::SearchRequest { query, search: Some(search(&args)), ..Default::default() };
                let answer = args.server.connect().await?.retrieval().search(request).await?.into_inner();
                v1::RetrieveResponse { hits: answer.hits, ..Default::default() }
            }
        })
    })?;

    let mut output = Output::new();
    if args.json {
        let hits = hits.into_iter().map(json::Hit::from).collect();
        let warnings = warnings.into_iter().map(json::Warning::from).collect();
        output.json(&Answer { hits, warnings, trace: trace.into_iter().map(json::TraceNode::from).collect() })?;
        output.flush()?;
        return Ok(ExitCode::SUCCESS);
    }
    for warning in warnings {
        let path = if warning.path.is_empty() { "retriever" } else { &warning.path };
        say(format_args!("warning: {path}: {}", warning.message));
    }
    if hits.is_empty() {
        say("no hits");
    } else {
        output.line(table::hits(&hits, output.look))?;
    }
    if !trace.is_empty() {
        let rows = trace.into_iter().map(trace_row).collect();
        output.line(table::plain(&["retriever", "path", "time", "hits"], rows, output.look))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn trace_row(node: v1::TraceNode) -> Vec<String> {
    let duration = node.duration.map(|duration| duration.to_string()).unwrap_or_default();
    let hits = node.hits.map_or_else(|| node.error.clone(), |hits| hits.to_string());
    vec![node.name, node.path, duration, hits]
}

/// Only what was given is set: the defaults, and what may go together, are the server's to say.
fn search(args: &Args) -> v1::VectorStoreRetriever {
    v1::VectorStoreRetriever {
        collection: args.collection.clone(),
        search_type: args.search_type.map_or(0, i32::from),
        k: args.k,
        fetch_k: args.fetch_k,
        lambda_mult: args.lambda_mult,
        score_threshold: args.score_threshold,
        raw_score_threshold: args.raw_score_threshold,
        filter: args.filter.as_ref().map(filter_to_message),
        relevance_fn: args.relevance_fn.map_or(0, i32::from),
        with_vectors: args.with_vectors.then_some(true),
        vector_name: args.vector_name.clone(),
    }
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

    fn parse(arguments: &[&str]) -> Result<Args, String> {
        let line = Line::try_parse_from(["query"].iter().chain(arguments));
        line.map(|line| line.args).map_err(|error| error.to_string())
    }

    #[test]
    fn what_was_not_given_is_absent_and_zero_is_zero() {
        let plain = search(&parse(&["text"]).unwrap());
        assert_eq!(plain, v1::VectorStoreRetriever { collection: "docs".to_owned(), ..Default::default() });
        let zeros = ["text", "-k", "0", "--lambda-mult", "0", "--raw-score-threshold", "-0.5", "--search-type", "mmr"];
        let zeros = search(&parse(&zeros).unwrap());
        assert_eq!((zeros.k, zeros.lambda_mult, zeros.raw_score_threshold), (Some(0), Some(0.0), Some(-0.5)));
        assert_eq!(zeros.search_type(), v1::SearchType::Mmr);
    }

    #[test]
    fn a_query_is_a_text_or_a_vector() {
        let text = query_of(&parse(&["a text"]).unwrap());
        assert_eq!(text.kind, Some(v1::query::Kind::Text("a text".to_owned())));
        let vector = query_of(&parse(&["--vector", "[-0.5, 2]"]).unwrap());
        let expected = vector_to_message(&[-0.5, 2.0], Encoding::Packed);
        assert_eq!(vector.kind, Some(v1::query::Kind::Vector(expected)));
        let named = search(&parse(&["--vector", "[1]", "--vector-name", "title"]).unwrap());
        assert_eq!(named.vector_name.as_deref(), Some("title"));
        assert!(parse(&["text", "--vector-name", "title"]).unwrap_err().contains("--vector"));
        assert!(parse(&[]).is_err());
        assert!(parse(&["text", "--vector", "[1]"]).unwrap_err().contains("cannot be used with"));
        for bad in ["[]", "[1e99]", "[\"a\"]", "1", "[NaN]"] {
            assert!(parse(&["--vector", bad]).is_err(), "{bad} must be refused");
        }
    }

    #[test]
    fn a_wrong_filter_is_refused_with_its_path() {
        let fault = parse(&["text", "--filter", r#"{"year":{"$gt3":1}}"#]).unwrap_err();
        assert!(fault.contains("year.$gt3: unknown operator"), "{fault}");
        assert!(parse(&["text", "--filter", r#"{"year":{"$gt":1}}"#]).unwrap().filter.is_some());
    }

    #[test]
    fn a_retriever_is_a_file_or_a_stored_one() {
        let stored = retriever_of("docs-mmr.v2").unwrap();
        assert_eq!(stored.kind, Some(v1::retriever::Kind::Ref("docs-mmr.v2".to_owned())));
        for file in ["nowhere.yaml", "./nowhere", "nowhere.json"] {
            assert!(retriever_of(file).unwrap_err().to_string().contains("nowhere"));
        }
        assert!(parse(&["text", "--metadata", "{}"]).unwrap_err().contains("--retriever"));
        assert!(parse(&["text", "--retriever", "a", "--metadata", "[]"]).is_err());
        let args = parse(&["text", "--retriever", "a", "--metadata", r#"{"plan":"pro"}"#, "--trace"]).unwrap();
        assert_eq!(args.metadata.unwrap().len(), 1);
        let history = r#"[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]"#;
        let args = parse(&["text", "--retriever", "a", "--history", history]).unwrap();
        assert_eq!(args.history.unwrap().0.len(), 2);
        assert!(parse(&["text", "--retriever", "a", "--history", r#"[{"role":"dog","content":"a"}]"#]).is_err());
    }

    #[test]
    fn a_stored_retriever_takes_no_parameters() {
        assert!(parse(&["text", "--retriever", "r"]).is_ok());
        for other in [["--collection", "docs"], ["-k", "3"], ["--filter", r#"{"a":1}"#]] {
            let fault = parse(&["text", "--retriever", "r", other[0], other[1]]).unwrap_err();
            assert!(fault.contains("cannot be used with"), "{fault}");
        }
    }
}
