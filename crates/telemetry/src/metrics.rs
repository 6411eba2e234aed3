//! Metrics: typed handles that are made once and passed in, and the table of all of them with units, help and buckets.
//!
//! Handles belong to the recorder that is installed when they are made: make them after [`crate::Telemetry::start`]. Without a
//! recorder they cost next to nothing and do nothing. Labels come from closed sets, so that the number of series is bounded by
//! the code and the configuration, never by requests: a collection's name is no label.

mod batches;
mod cache;
mod indexing;
mod models;
mod pool;
mod retrieval;
mod rpc;
mod store;

use metrics::Unit;

pub use self::batches::{BatchMetrics, RefusalReason};
pub use self::cache::CacheMetrics;
pub use self::indexing::{IndexMetrics, IndexedDocuments};
pub use self::models::{EmbeddingMetrics, LanguageModelMetrics, RerankMetrics};
pub use self::pool::PoolMetrics;
pub use self::retrieval::RetrievalMetrics;
pub use self::rpc::{ActiveCall, RPC_CODES, RpcMetrics, rpc_code_name};
pub use self::store::{StoreMetrics, StoreOperation};
use crate::names::metric;

/// Bounds in seconds for what should take milliseconds: 0.25 ms to 30 s, about 2 to 2.5 apart.
const SECONDS: &[f64] =
    &[0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Bounds in seconds for what may take hours.
const RUN_SECONDS: &[f64] = &[0.1, 0.5, 2.0, 10.0, 60.0, 300.0, 1800.0, 7200.0, 28_800.0];
/// Bounds for numbers of texts and hits.
const ITEMS: &[f64] = &[0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
/// Bounds for numbers of tokens.
const TOKENS: &[f64] = &[16.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0, 32768.0];

/// What kind of series a metric is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    /// With the upper bounds of its buckets.
    Histogram(&'static [f64]),
}

/// One row of [`CATALOGUE`].
pub(crate) struct Description {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    unit: Unit,
    pub(crate) help: &'static str,
}

const fn row(name: &'static str, kind: Kind, unit: Unit, help: &'static str) -> Description {
    Description { name, kind, unit, help }
}

/// Every metric of Toller.
pub(crate) const CATALOGUE: &[Description] = &[
    row(
        metric::RPC_SERVER_CALL_DURATION,
        Kind::Histogram(SECONDS),
        Unit::Seconds,
        "Time from a call's headers to the end of its answer.",
    ),
    row(metric::RPC_SERVER_ACTIVE, Kind::Gauge, Unit::Count, "Calls that the server is working on."),
    row(
        metric::RPC_SERVER_REFUSED,
        Kind::Counter,
        Unit::Count,
        "Calls that were refused since the server was at its limit of concurrent calls.",
    ),
    row(
        metric::GEN_AI_OPERATION_DURATION,
        Kind::Histogram(SECONDS),
        Unit::Seconds,
        "Time of one embedding call, its wait in the queue included.",
    ),
    row(metric::EMBEDDING_TOKENS, Kind::Counter, Unit::Count, "Tokens that embedding models read."),
    row(metric::EMBEDDING_TEXTS, Kind::Counter, Unit::Count, "Texts that were embedded."),
    row(
        metric::EMBEDDING_TRUNCATED,
        Kind::Counter,
        Unit::Count,
        "Texts that were cut to the longest input of their model.",
    ),
    row(metric::EMBEDDING_ERRORS, Kind::Counter, Unit::Count, "Embedding calls that failed."),
    row(metric::EMBEDDING_CALL_TEXTS, Kind::Histogram(ITEMS), Unit::Count, "Texts of one embedding call."),
    row(metric::EMBEDDING_BATCH_TEXTS, Kind::Histogram(ITEMS), Unit::Count, "Texts of one forward pass."),
    row(metric::EMBEDDING_BATCH_TOKENS, Kind::Histogram(TOKENS), Unit::Count, "Tokens of one forward pass."),
    row(metric::EMBEDDING_BATCH_DURATION, Kind::Histogram(SECONDS), Unit::Seconds, "Time of one forward pass."),
    row(
        metric::EMBEDDING_QUEUE_WAIT,
        Kind::Histogram(SECONDS),
        Unit::Seconds,
        "Time that a text waited for its forward pass.",
    ),
    row(metric::EMBEDDING_QUEUE_TOKENS, Kind::Gauge, Unit::Count, "Tokens that wait for a forward pass."),
    row(
        metric::RERANK_DURATION,
        Kind::Histogram(SECONDS),
        Unit::Seconds,
        "Time of scoring the documents of one query, the wait in the queue included.",
    ),
    row(metric::RERANK_DOCUMENTS, Kind::Histogram(ITEMS), Unit::Count, "Documents that were scored for one query."),
    row(metric::RERANK_TOKENS, Kind::Counter, Unit::Count, "Tokens that rerankers read."),
    row(
        metric::RERANK_TRUNCATED,
        Kind::Counter,
        Unit::Count,
        "Pairs that were cut to the longest input of their model.",
    ),
    row(metric::RERANK_ERRORS, Kind::Counter, Unit::Count, "Calls of rerankers that failed."),
    row(
        metric::LLM_DURATION,
        Kind::Histogram(SECONDS),
        Unit::Seconds,
        "Time of one question to a language model, with all its tries.",
    ),
    row(metric::LLM_INPUT_TOKENS, Kind::Counter, Unit::Count, "Tokens that language models read."),
    row(metric::LLM_OUTPUT_TOKENS, Kind::Counter, Unit::Count, "Tokens that language models wrote."),
    row(metric::LLM_ERRORS, Kind::Counter, Unit::Count, "Questions to language models that failed."),
    row(metric::EMBEDDING_CACHE_HITS, Kind::Counter, Unit::Count, "Texts whose embedding was in the cache."),
    row(metric::EMBEDDING_CACHE_MISSES, Kind::Counter, Unit::Count, "Texts whose embedding was not in the cache."),
    row(metric::EMBEDDING_CACHE_BYTES, Kind::Gauge, Unit::Bytes, "Bytes that the cache of embeddings holds."),
    row(metric::POOL_WORKERS, Kind::Gauge, Unit::Count, "Embedding workers that are known."),
    row(metric::POOL_HEALTHY_WORKERS, Kind::Gauge, Unit::Count, "Embedding workers that calls are sent to."),
    row(
        metric::POOL_EJECTIONS,
        Kind::Counter,
        Unit::Count,
        "Times that an embedding worker was left out until it recovers.",
    ),
    row(metric::POOL_CALLS, Kind::Counter, Unit::Count, "Calls to embedding workers, repeated ones included."),
    row(metric::POOL_RETRIES, Kind::Counter, Unit::Count, "Calls to embedding workers that were sent again."),
    row(
        metric::POOL_RETRIES_REFUSED,
        Kind::Counter,
        Unit::Count,
        "Calls to embedding workers that were not sent again since too many were.",
    ),
    row(
        metric::EMBEDDING_REFUSED,
        Kind::Counter,
        Unit::Count,
        "Embedding requests that were refused since the queue was full or their deadline too near.",
    ),
    row(
        metric::EMBEDDING_JOINED_TEXTS,
        Kind::Counter,
        Unit::Count,
        "Texts that got the vector of the same text, which waited or ran already.",
    ),
    row(
        metric::EMBEDDING_PREEMPTIONS,
        Kind::Counter,
        Unit::Count,
        "Forward passes that ran in the middle of a less urgent one.",
    ),
    row(metric::DB_OPERATION_DURATION, Kind::Histogram(SECONDS), Unit::Seconds, "Time of one operation of a store."),
    row(metric::STORE_ERRORS, Kind::Counter, Unit::Count, "Operations of a store that failed."),
    row(metric::STORE_WRITTEN_RECORDS, Kind::Counter, Unit::Count, "Records that a store acknowledged."),
    row(
        metric::RETRIEVAL_DURATION,
        Kind::Histogram(SECONDS),
        Unit::Seconds,
        "Time of one retriever, those below it included.",
    ),
    row(metric::RETRIEVAL_HITS, Kind::Histogram(ITEMS), Unit::Count, "Documents that one retriever found."),
    row(metric::RETRIEVAL_ERRORS, Kind::Counter, Unit::Count, "Retrievals that failed."),
    row(metric::INDEX_RUNS, Kind::Counter, Unit::Count, "Index runs that ended."),
    row(
        metric::INDEX_RUN_DURATION,
        Kind::Histogram(RUN_SECONDS),
        Unit::Seconds,
        "Time of one index run, its wait for its turn included.",
    ),
    row(metric::INDEX_DOCUMENTS, Kind::Counter, Unit::Count, "Documents of index runs that were committed."),
    row(metric::INDEX_CHUNKS, Kind::Counter, Unit::Count, "Chunks of index runs that were committed."),
    row(
        metric::TRACE_EXPORT_FAILURES,
        Kind::Counter,
        Unit::Count,
        "Batches of spans that could not be delivered to the collector.",
    ),
];

/// Gives every metric its unit and help in the installed recorder.
pub(crate) fn describe() {
    for description in CATALOGUE {
        let Description { name, kind, unit, help } = *description;
        match kind {
            Kind::Counter => metrics::describe_counter!(name, unit, help),
            Kind::Gauge => metrics::describe_gauge!(name, unit, help),
            Kind::Histogram(_) => metrics::describe_histogram!(name, unit, help),
        }
    }
}

/// Counts below 2^53 are exact; metrics are doubles.
#[allow(clippy::cast_precision_loss)]
fn count(items: usize) -> f64 {
    items as f64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metrics_exporter_prometheus::PrometheusBuilder;
    use toller_core::language_model::TokenUsage;
    use toller_core::{EmbeddingRole, Error as CoreError};

    use super::*;
    use crate::spans::{EmbeddingUsage, RerankUsage};

    #[test]
    fn the_catalogue_names_each_metric_once_with_help_and_ordered_buckets() {
        let names: std::collections::BTreeSet<_> = CATALOGUE.iter().map(|description| description.name).collect();
        assert_eq!(names.len(), CATALOGUE.len());
        for description in CATALOGUE {
            assert!(description.help.ends_with('.'), "{}", description.name);
            match description.kind {
                Kind::Counter => assert!(description.name.ends_with("_total"), "{}", description.name),
                Kind::Gauge => assert!(!description.name.ends_with("_total"), "{}", description.name),
                Kind::Histogram(buckets) => assert!(buckets.is_sorted(), "{}", description.name),
            }
        }
    }

    #[test]
    fn metrics_of_models_and_stores_count_what_happened() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            let embeddings = EmbeddingMetrics::new("candle", "tiny");
            let usage = EmbeddingUsage { tokens: Some(12), truncated: 1 };
            embeddings.record(EmbeddingRole::Document, 3, Duration::from_millis(5), Ok(usage));
            embeddings.record(EmbeddingRole::Query, 1, Duration::from_millis(1), Err(&CoreError::Cancelled));
            let rerank = RerankMetrics::new("candle", "pairs");
            rerank.record(3, Duration::from_millis(5), Ok(RerankUsage { tokens: Some(30), truncated: 2 }));
            rerank.record(1, Duration::from_millis(5), Err(&CoreError::Cancelled));
            let language_model = LanguageModelMetrics::new("openai", "talker");
            language_model.record(Duration::from_millis(5), Ok(TokenUsage { input: Some(70), output: Some(7) }));
            language_model.record(Duration::from_millis(5), Ok(TokenUsage::default()));
            language_model.record(Duration::from_millis(5), Err(&CoreError::Cancelled));
            let batches = BatchMetrics::new("tiny");
            batches.set_queued_tokens(EmbeddingRole::Query, 9);
            batches.record_wait(EmbeddingRole::Document, Duration::from_millis(1));
            batches.add_joined(2);
            batches.record_preemption();
            batches.record_refusal(EmbeddingRole::Document, RefusalReason::Deadline);
            let store = StoreMetrics::new("memory");
            store.add_written(7);
            store.record(StoreOperation::Upsert, Duration::from_millis(1), None);
            store.record(StoreOperation::Search, Duration::from_millis(1), Some(&CoreError::Cancelled));
            let runs = IndexMetrics::new();
            let done = IndexedDocuments { added: 3, chunks_embedded: 9, ..IndexedDocuments::default() };
            runs.record_committed(Duration::from_secs(70), done);
            runs.record_failed(Duration::from_secs(1));
            let retrieval = RetrievalMetrics::new("vector_store");
            retrieval.record(Duration::from_millis(2), Ok(4));
            retrieval.record(Duration::from_millis(2), Err(&CoreError::Cancelled));
        });
        let text = handle.render();
        let model = "gen_ai_provider_name=\"candle\",gen_ai_request_model=\"tiny\"";
        let talker = "gen_ai_provider_name=\"openai\",gen_ai_request_model=\"talker\"";
        let pairs = "gen_ai_provider_name=\"candle\",gen_ai_request_model=\"pairs\"";
        let expected = [
            format!("toller_llm_duration_seconds_count{{{talker}}} 3"),
            format!("toller_llm_input_tokens_total{{{talker}}} 70"),
            format!("toller_llm_output_tokens_total{{{talker}}} 7"),
            format!("toller_llm_errors_total{{{talker},error_type=\"CANCELLED\"}} 1"),
            format!("toller_rerank_documents_count{{{pairs}}} 2"),
            format!("toller_rerank_tokens_total{{{pairs}}} 30"),
            format!("toller_rerank_truncated_pairs_total{{{pairs}}} 2"),
            format!("toller_rerank_errors_total{{{pairs},error_type=\"CANCELLED\"}} 1"),
            format!("toller_embedding_tokens_total{{{model}}} 12"),
            format!("toller_embedding_texts_total{{{model}}} 3"),
            format!("toller_embedding_truncated_texts_total{{{model}}} 1"),
            format!("toller_embedding_errors_total{{{model},error_type=\"CANCELLED\"}} 1"),
            "toller_embedding_queue_tokens{gen_ai_request_model=\"tiny\",role=\"query\"} 9".to_owned(),
            "toller_embedding_queue_wait_seconds_count{gen_ai_request_model=\"tiny\",role=\"document\"} 1".to_owned(),
            "toller_embedding_joined_texts_total{gen_ai_request_model=\"tiny\"} 2".to_owned(),
            "toller_embedding_preemptions_total{gen_ai_request_model=\"tiny\"} 1".to_owned(),
            "toller_embedding_refused_requests_total{gen_ai_request_model=\"tiny\",role=\"document\",reason=\"deadline\"} 1"
                .to_owned(),
            "toller_store_written_records_total{db_system_name=\"memory\"} 7".to_owned(),
            "toller_store_errors_total{db_system_name=\"memory\",db_operation_name=\"search\",error_type=\"CANCELLED\"} 1"
                .to_owned(),
            "toller_index_runs_total{outcome=\"committed\"} 1".to_owned(),
            "toller_index_runs_total{outcome=\"failed\"} 1".to_owned(),
            "toller_index_run_duration_seconds_count 2".to_owned(),
            "toller_index_documents_total{outcome=\"added\"} 3".to_owned(),
            "toller_index_chunks_total{outcome=\"embedded\"} 9".to_owned(),
            "toller_retrieval_hits_count{retriever_kind=\"vector_store\"} 1".to_owned(),
            "toller_retrieval_errors_total{retriever_kind=\"vector_store\",error_type=\"CANCELLED\"} 1".to_owned(),
        ];
        for line in expected {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}
