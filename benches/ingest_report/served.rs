//! Over gRPC: a real server in a process of its own.

use std::error::Error;
use std::fs;
use std::time::{Duration, Instant};

use futures::StreamExt;
use toller_api::v1;
use toller_api::v1::documents_index_request::Step;
use toller_benches::report::Report;
use toller_tests::client::Client;
use toller_tests::server::{Server, Settings};

use crate::documents::text;

/// Texts of one call of the embedder, and calls at a time: as an index run has them.
const BATCH: usize = 64;
const IN_FLIGHT: usize = 4;

/// Documents of one message.
const MESSAGE: usize = 16;

/// Documents that fall into chunks of one length.
struct Corpus {
    name: &'static str,
    documents: u64,
    /// Chunks of each document.
    chunks: u64,
    /// Bytes of a chunk, at most.
    length: usize,
}

const LONG: Corpus = Corpus { name: "long_chunks", documents: 32, chunks: 25, length: 1000 };
const SHORT: Corpus = Corpus { name: "short_chunks", documents: 2000, chunks: 25, length: 100 };

pub async fn measure(model: &str, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let server = Settings::new()
        .on_disk()
        .set("embedding.model", model)
        .set("embedding.cache_bytes", "0")
        .unset("embedding.threads")
        .start()
        .await;
    let client = server.client().await;
    for corpus in [&LONG, &SHORT] {
        client.create(corpus.name).await;
    }
    let before = embedder_speed(&client, &LONG).await?;
    let (progress, seconds) = index(&client, &LONG).await?;
    let after = embedder_speed(&client, &LONG).await?;
    let speed = progress.tokens as f64 / seconds;
    let own = (before + after) / 2.0;
    report.number(LONG.name, "chunks", progress.chunks as f64);
    report.number(LONG.name, "chunks_per_s", progress.chunks as f64 / seconds);
    report.number(LONG.name, "tokens_per_s", speed);
    report.number(LONG.name, "embedder_tokens_per_s", own);
    report.number(LONG.name, "share_of_embedder", speed / own);

    let idle = resident_mb(&server, "VmRSS");
    forget_peak(&server)?;
    let (progress, seconds) = index(&client, &SHORT).await?;
    report.number(SHORT.name, "chunks", progress.chunks as f64);
    report.number(SHORT.name, "chunks_per_s", progress.chunks as f64 / seconds);
    report.number(SHORT.name, "tokens_per_s", progress.tokens as f64 / seconds);
    report.number(SHORT.name, "idle_rss_mb", idle);
    report.number(SHORT.name, "peak_rss_mb", resident_mb(&server, "VmHWM"));
    report.number(SHORT.name, "peak_above_idle_mb", resident_mb(&server, "VmHWM") - idle);
    let (progress, seconds) = index(&client, &SHORT).await?;
    report.number(SHORT.name, "unchanged_run_s", seconds);
    report.number(SHORT.name, "unchanged_run_embeddings", progress.embedded as f64);
    server.stop().await;
    Ok(())
}

/// Tokens per second of `EmbedDocuments` for the chunks of a corpus.
async fn embedder_speed(client: &Client, corpus: &Corpus) -> Result<f64, Box<dyn Error>> {
    let texts: Vec<String> = (0..corpus.documents)
        .flat_map(|document| {
            let text = text(document, corpus.chunks, corpus.length);
            text.trim_end().split("\n\n").map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    let started = Instant::now();
    let calls = texts.chunks(BATCH).map(|texts| {
        let request = v1::EmbedDocumentsRequest { texts: texts.to_vec(), ..Default::default() };
        async move { client.embedder().embed_documents(request).await }
    });
    let mut calls = futures::stream::iter(calls).buffer_unordered(IN_FLIGHT);
    let mut tokens = 0;
    while let Some(answer) = calls.next().await {
        tokens += answer?.into_inner().usage.iter().filter_map(|usage| usage.token_count).map(u64::from).sum::<u64>();
    }
    Ok(tokens as f64 / started.elapsed().as_secs_f64())
}

/// A full run over a corpus, with how long it took.
async fn index(client: &Client, corpus: &Corpus) -> Result<(v1::IndexProgress, f64), Box<dyn Error>> {
    let splitter =
        v1::RecursiveSplitter { chunk_size: Some(corpus.length as u32), chunk_overlap: Some(0), ..Default::default() };
    let begin = v1::IndexBegin {
        collection: corpus.name.to_owned(),
        cleanup: v1::IndexCleanup::Full.into(),
        splitter: Some(v1::Splitter { kind: Some(v1::splitter::Kind::Recursive(splitter)), overlong: 0 }),
        ..Default::default()
    };
    let Corpus { documents, chunks, length, .. } = *corpus;
    let numbers: Vec<u64> = (0..documents).collect();
    let messages: Vec<Vec<u64>> = numbers.chunks(MESSAGE).map(<[u64]>::to_vec).collect();
    let sent = futures::stream::iter(messages).map(move |numbers| {
        let documents = numbers.into_iter().map(|number| v1::SourceDocument {
            source: format!("{number:06}.txt"),
            content: Some(v1::source_document::Content::Text(text(number, chunks, length))),
            ..Default::default()
        });
        Step::Documents(v1::IndexDocuments { documents: documents.collect(), ..Default::default() })
    });
    let steps = futures::stream::iter([Step::Begin(begin)])
        .chain(sent)
        .chain(futures::stream::iter([Step::Commit(v1::IndexCommit {})]))
        .map(|step| v1::DocumentsIndexRequest { step: Some(step) });
    let started = Instant::now();
    let mut request = tonic::Request::new(steps);
    request.set_timeout(Duration::from_secs(3600));
    let mut answers = client.documents().index(request).await?.into_inner();
    let mut told = Duration::ZERO;
    while let Some(answer) = answers.next().await {
        let answer = answer?;
        let progress = answer.progress.unwrap_or_default();
        if let Some(problem) = answer.problems.first() {
            return Err(format!("{}: {}", problem.source, problem.message).into());
        }
        if answer.committed {
            return Ok((progress, started.elapsed().as_secs_f64()));
        }
        if started.elapsed() > told + Duration::from_secs(2) {
            told = started.elapsed();
            eprint!("\r{} chunks of {} ", progress.embedded, corpus.name);
        }
    }
    Err("the run ended without a commit".into())
}

fn resident_mb(server: &Server, name: &str) -> f64 {
    let status = fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1024.0
}

/// Has the peak begin again at what is resident now.
fn forget_peak(server: &Server) -> std::io::Result<()> {
    fs::write(format!("/proc/{}/clear_refs", server.id()), "5")
}
