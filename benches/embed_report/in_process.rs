//! Inside this process: documents and queries through the queue, candle's stock model beside them, and the peak of products.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use toller_core::{EmbeddingRole, Embeddings, Principal, RequestContext};
use toller_embedder::bench::{ProductShape, product_flops_per_second};
use toller_embedder::folder::ModelFolder;
use toller_embedder::{EmbedderConfig, LocalEmbeddings, Model, Overrides, Precision, Source};

use crate::padded::Padded;
use crate::report::Report;
use crate::texts::Texts;

/// Rounds over all documents.
const ROUNDS: usize = 5;
/// Documents that candle's stock model gets in each round: it is slow.
const PADDED_DOCUMENTS: usize = 64;
/// How long the best product is looked for, before and after each round.
const PEAK_PATIENCE: Duration = Duration::from_millis(300);
/// Queries, one after another.
const QUERIES: usize = 400;

pub fn measure(folder: &Path, texts: &Texts, report: &mut Report) -> Result<(), Box<dyn Error>> {
    let model = Model::load(&Source::Folder(folder.to_owned()), &Overrides::default())?;
    let int8 = Overrides { dtype: Precision::Int8, ..Overrides::default() };
    let int8 = Model::load(&Source::Folder(folder.to_owned()), &int8)?;
    let config = EmbedderConfig::builder().build()?;
    let threads = config.workers() * config.threads_per_worker();
    let sequences: Vec<Vec<u32>> = texts
        .documents
        .iter()
        .map(|text| Ok(model.tokenizer().encode("", text)?.ids))
        .collect::<Result<_, String>>()?;
    let tokens: usize = sequences.iter().map(Vec::len).sum();
    let flops = ModelFolder::read(folder, &Overrides::default())?.config.linear_flops(tokens);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let peak_now = || pool.install(|| product_flops_per_second(ProductShape::FEED_FORWARD, PEAK_PATIENCE)) / 1e9;
    let padded = Padded::load(folder)?;
    let padded_sequences = &sequences[..PADDED_DOCUMENTS.min(sequences.len())];
    let padded_tokens: usize = padded_sequences.iter().map(Vec::len).sum();

    let embeddings = LocalEmbeddings::start(model, config)?;
    let int8 = LocalEmbeddings::start(int8, EmbedderConfig::builder().build()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let context = RequestContext::new(Principal::anonymous());
    runtime.block_on(embeddings.warm_up())?;
    let embed = |role, texts: Vec<String>| runtime.block_on(embeddings.embed(&context, role, texts));

    // In turns, and the best of each: what else runs on the machine only ever makes one slower.
    runtime.block_on(int8.warm_up())?;
    let embed_int8 = || runtime.block_on(int8.embed(&context, EmbeddingRole::Document, texts.documents.clone()));
    let exact = embed(EmbeddingRole::Document, texts.documents.clone())?;
    let cosines = exact.iter().zip(embed_int8()?).map(|(one, other)| {
        // Both have unit length.
        one.vector.iter().zip(&other.vector).map(|(a, b)| f64::from(a * b)).sum::<f64>()
    });
    let least_cosine = cosines.fold(f64::MAX, f64::min);
    let (mut seconds, mut int8_seconds, mut padded_seconds, mut peak) = (f64::MAX, f64::MAX, f64::MAX, 0_f64);
    for _ in 0..ROUNDS {
        peak = peak.max(peak_now());
        seconds = seconds.min(time(|| embed(EmbeddingRole::Document, texts.documents.clone()))?);
        int8_seconds = int8_seconds.min(time(embed_int8)?);
        padded_seconds = padded_seconds.min(time(|| padded.run(padded_sequences))?);
        peak = peak.max(peak_now());
    }
    let mut latencies = (0..QUERIES)
        .map(|number| time(|| embed(EmbeddingRole::Query, vec![Texts::query(number)])))
        .collect::<Result<Vec<f64>, _>>()?;
    latencies.sort_by(f64::total_cmp);

    report.number("tokens", tokens as f64);
    report.number("tokens_per_s", tokens as f64 / seconds);
    report.number("padded_candle_tokens_per_s", padded_tokens as f64 / padded_seconds);
    report.number("ratio_vs_padded", report.get("tokens_per_s") / report.get("padded_candle_tokens_per_s"));
    report.number("gflops", flops / seconds / 1e9);
    report.number("gemm_peak_gflops", peak);
    report.number("fraction_of_peak", report.get("gflops") / peak);
    report.number("int8_tokens_per_s", tokens as f64 / int8_seconds);
    report.number("int8_ratio", seconds / int8_seconds);
    report.number("int8_least_cosine", least_cosine);
    report.number("query_p50_ms", latencies[QUERIES / 2] * 1e3);
    Ok(())
}

/// Seconds that `work` takes.
fn time<T, E>(work: impl FnOnce() -> Result<T, E>) -> Result<f64, E> {
    let started = Instant::now();
    black_box(work()?);
    Ok(started.elapsed().as_secs_f64())
}
