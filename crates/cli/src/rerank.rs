//! `toller rerank`: how well texts fit a query.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use toller_api::v1;

use crate::client::{ServerArgs, block_on};
use crate::error::{Error, Outcome};
use crate::output::Output;
use crate::table;
use crate::terminal::say;

/// Score the lines of a file against a query, best first
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each line that is not blank is one text. The server must have a reranker: rerank.model in its configuration.

Examples:
  toller rerank --query \"how are documents split?\" candidates.txt
  toller query \"splitting\" --json | jq -r '.hits[].document.page_content | gsub(\"\\n\"; \" \")' |
    toller rerank --query \"how are documents split?\" --top-n 3 -")]
pub(crate) struct Args {
    /// File with one text a line; - for standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What the texts should answer
    #[arg(long, short, value_name = "TEXT")]
    query: String,
    /// Name of a loaded reranker, where it is not the server's default
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Most results; all where it is not given
    #[arg(long, value_name = "N")]
    top_n: Option<u32>,
    /// Print the results with all fields as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Answer {
    results: Vec<Scored>,
}

#[derive(Debug, Serialize)]
struct Scored {
    index: u32,
    score: f64,
    relevance: f64,
    token_count: Option<u32>,
    truncated: bool,
    text: String,
}

/// Runs the command.
pub(crate) fn run(args: Args) -> Outcome {
    let texts = texts(&args.file)?;
    let results = block_on(async {
        let request = v1::RerankRequest {
            query: args.query.clone(),
            documents: texts.clone(),
            model: args.model.clone(),
            top_n: args.top_n,
        };
        Ok(args.server.connect().await?.embedder().rerank(request).await?.into_inner().results)
    })?;
    let results: Vec<Scored> = results.into_iter().map(|result| scored(&result, &texts)).collect();
    let mut output = Output::new();
    if args.json {
        output.json(&Answer { results })?;
    } else if results.is_empty() {
        say("no texts");
    } else {
        let rows = results.into_iter().map(|result| {
            vec![
                format!("{:.4}", result.score),
                format!("{:.4}", result.relevance),
                result.index.to_string(),
                result.text,
            ]
        });
        output.line(table::plain(&["score", "relevance", "index", "text"], rows.collect(), output.look))?;
    }
    output.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn scored(result: &v1::RerankedText, texts: &[String]) -> Scored {
    let usage = result.usage.unwrap_or_default();
    Scored {
        index: result.index,
        score: result.score,
        relevance: result.relevance,
        token_count: usage.token_count,
        truncated: usage.truncated,
        text: texts.get(result.index as usize).cloned().unwrap_or_default(),
    }
}

fn texts(path: &Path) -> Result<Vec<String>, Error> {
    let mut content = String::new();
    let read = if path == Path::new("-") {
        io::stdin().read_to_string(&mut content)
    } else {
        File::open(path).and_then(|mut file| file.read_to_string(&mut content))
    };
    read.map_err(|source| Error::File { path: path.to_owned(), source })?;
    Ok(content.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_that_is_not_blank_is_a_text() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("texts");
        std::fs::write(&file, "one\r\n\n  \n two \nthree").unwrap();
        assert_eq!(texts(&file).unwrap(), ["one", " two ", "three"]);
        assert!(texts(&folder.path().join("none")).unwrap_err().to_string().contains("none"));
    }
}
