//! How the engine is set up for a collection: the one place that knows.

use std::num::NonZeroUsize;

use qdrant_edge as engine;
use toller_core::collection::VectorParams;
use toller_core::{Metric, Quantization, QuantizationKind, VectorName, VectorSpace};

use super::config::EdgeConfig;
use super::keywords::KEYWORDS;

/// The name of the vectors that searches compare. Named, so that others can stand beside them.
pub(super) const DENSE: &str = "dense";

/// Bytes of a file of the log, which are taken from the disk at once. An operation that is larger makes its file larger.
const LOG_FILE_BYTES: usize = 4 << 20;

/// Threads that one search uses, on as many segments.
const SEARCH_THREADS: usize = 2;

/// Links of a node in the graph, and how many neighbours are looked at when one is added.
const LINKS: usize = 16;
const CANDIDATES_AT_BUILD: usize = 200;

/// Part of the elements that eight bits span; the outermost ones are cut, so that a few large ones cost the others nothing.
const QUANTILE: f32 = 0.99;

/// The set-up for a collection.
///
/// Cosine is handed over as the inner product of vectors of unit length, see [`super::point`].
#[allow(deprecated, reason = "the engine's structs have fields that it deprecates, and no other way to be made")]
pub(super) fn set_up(params: &VectorParams, config: &EdgeConfig) -> engine::EdgeConfig {
    let hnsw = engine::HnswIndexConfig {
        m: LINKS,
        ef_construct: CANDIDATES_AT_BUILD,
        full_scan_threshold: config.index_from_kib.max(1),
        max_indexing_threads: indexing_threads(),
        ..engine::HnswIndexConfig::default()
    };
    let optimizers = engine::EdgeOptimizersConfig {
        indexing_threshold: Some(config.index_from_kib.max(1)),
        ..engine::EdgeOptimizersConfig::default()
    };
    let log =
        engine::WalOptions { segment_capacity: LOG_FILE_BYTES, segment_queue_len: 0, retain_closed: NonZeroUsize::MIN };
    let main = VectorSpace { dimension: params.dimension, metric: params.metric };
    let mut set_up = engine::EdgeConfig::builder()
        .vector(DENSE, vectors_of(main, params.quantization))
        .hnsw_config(hnsw)
        .optimizers(optimizers)
        .wal_options(log)
        .max_search_threads(SEARCH_THREADS);
    for (name, space) in &params.named {
        set_up = set_up.vector(named(name), vectors_of(*space, params.quantization));
    }
    if params.keyword.is_some() {
        set_up = set_up.sparse_vector(KEYWORDS, engine::EdgeSparseVectorParams::builder().build());
    }
    set_up.build()
}

/// The engine's name of a named space: never one of the engine's own, nor of those above.
pub(super) fn named(name: &VectorName) -> String {
    format!("named-{name}")
}

fn vectors_of(space: VectorSpace, quantization: Option<Quantization>) -> engine::EdgeVectorParams {
    let distance = match space.metric {
        Metric::Cosine | Metric::Dot => engine::Distance::Dot,
        Metric::Euclidean => engine::Distance::Euclid,
    };
    let params = engine::EdgeVectorParams::builder(space.dimension as usize, distance);
    match quantization {
        None => params.build(),
        Some(quantization) => params.quantization_config(quantized(quantization.kind)).build(),
    }
}

/// Quantised vectors stay in RAM, whatever becomes of the full ones, which few of are read.
#[allow(deprecated, reason = "see set_up")]
fn quantized(kind: QuantizationKind) -> engine::QuantizationConfig {
    match kind {
        QuantizationKind::Int8 => engine::ScalarQuantizationConfig {
            r#type: engine::ScalarType::Int8,
            quantile: Some(QUANTILE),
            always_ram: None,
            memory: Some(engine::Memory::Pinned),
        }
        .into(),
        // The query keeps eight bits for each element, which costs little and ranks better.
        QuantizationKind::Binary => engine::BinaryQuantizationConfig {
            always_ram: None,
            memory: Some(engine::Memory::Pinned),
            encoding: None,
            query_encoding: Some(engine::BinaryQuantizationQueryEncoding::Scalar8Bits),
        }
        .into(),
    }
}

/// Half of the cores, so that searches have the other half while an index is built.
fn indexing_threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    (cores / 2).max(1)
}
