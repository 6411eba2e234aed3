//! Metrics: typed handles that are made once and passed in, and the table of all of them with units, help and buckets.
//!
//! Handles belong to the recorder that is installed when they are made: make them after [`crate::Telemetry::start`]. Without a
//! recorder they cost next to nothing and do nothing. Labels come from closed sets, so that the number of series is bounded by
//! the code and the configuration, never by requests: a collection's name is no label.

use std::collections::HashMap;
use std::sync::OnceLock;
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, Unit, counter, gauge, histogram};
use toller_core::language_model::TokenUsage;
use toller_core::{EmbeddingRole, Error as CoreError, Result as CoreResult};

use crate::classes::error_class;
use crate::names::metric::{self, label};
use crate::names::values;
use crate::spans::{EmbeddingUsage, RerankUsage, role_name};

/// Bounds in seconds for what should take milliseconds: 0.25 ms to 30 s, about 2 to 2.5 apart.
const SECONDS: &[f64] =
    &[0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
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

/// What one embedding provider did, by model and role.
pub struct EmbeddingMetrics {
    provider: String,
    model: String,
    document_duration: Histogram,
    query_duration: Histogram,
    call_texts: Histogram,
    tokens: Counter,
    texts: Counter,
    truncated: Counter,
}

impl EmbeddingMetrics {
    /// The handles for a configured provider and model.
    pub fn new(provider: &str, model: &str) -> Self {
        let labels = [(label::PROVIDER, provider.to_owned()), (label::MODEL, model.to_owned())];
        let duration = |role| {
            histogram!(
                metric::GEN_AI_OPERATION_DURATION,
                label::PROVIDER => provider.to_owned(),
                label::MODEL => model.to_owned(),
                label::GEN_AI_OPERATION => values::OPERATION_EMBEDDINGS,
                label::ROLE => role_name(role),
            )
        };
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            document_duration: duration(EmbeddingRole::Document),
            query_duration: duration(EmbeddingRole::Query),
            call_texts: histogram!(metric::EMBEDDING_CALL_TEXTS, &labels),
            tokens: counter!(metric::EMBEDDING_TOKENS, &labels),
            texts: counter!(metric::EMBEDDING_TEXTS, &labels),
            truncated: counter!(metric::EMBEDDING_TRUNCATED, &labels),
        }
    }

    /// Records one call of `texts` texts.
    pub fn record(
        &self,
        role: EmbeddingRole,
        texts: usize,
        elapsed: Duration,
        result: CoreResult<EmbeddingUsage, &CoreError>,
    ) {
        match role {
            EmbeddingRole::Document => self.document_duration.record(elapsed),
            EmbeddingRole::Query => self.query_duration.record(elapsed),
        }
        self.call_texts.record(count(texts));
        match result {
            Ok(usage) => {
                self.texts.increment(u64::try_from(texts).unwrap_or(u64::MAX));
                self.tokens.increment(usage.tokens.unwrap_or(0));
                self.truncated.increment(usage.truncated);
            }
            Err(error) => counter!(
                metric::EMBEDDING_ERRORS,
                label::PROVIDER => self.provider.clone(),
                label::MODEL => self.model.clone(),
                label::ERROR_TYPE => error_class(error),
            )
            .increment(1),
        }
    }
}

/// What one reranker did.
pub struct RerankMetrics {
    provider: String,
    model: String,
    duration: Histogram,
    documents: Histogram,
    tokens: Counter,
    truncated: Counter,
}

impl RerankMetrics {
    /// The handles for a configured provider and model.
    pub fn new(provider: &str, model: &str) -> Self {
        let labels = [(label::PROVIDER, provider.to_owned()), (label::MODEL, model.to_owned())];
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            duration: histogram!(metric::RERANK_DURATION, &labels),
            documents: histogram!(metric::RERANK_DOCUMENTS, &labels),
            tokens: counter!(metric::RERANK_TOKENS, &labels),
            truncated: counter!(metric::RERANK_TRUNCATED, &labels),
        }
    }

    /// Records one call of `documents` documents.
    pub fn record(&self, documents: usize, elapsed: Duration, result: CoreResult<RerankUsage, &CoreError>) {
        self.duration.record(elapsed);
        self.documents.record(count(documents));
        match result {
            Ok(usage) => {
                self.tokens.increment(usage.tokens.unwrap_or(0));
                self.truncated.increment(usage.truncated);
            }
            Err(error) => counter!(
                metric::RERANK_ERRORS,
                label::PROVIDER => self.provider.clone(),
                label::MODEL => self.model.clone(),
                label::ERROR_TYPE => error_class(error),
            )
            .increment(1),
        }
    }
}

/// What one language model did.
pub struct LanguageModelMetrics {
    provider: String,
    model: String,
    duration: Histogram,
    input_tokens: Counter,
    output_tokens: Counter,
}

impl LanguageModelMetrics {
    /// The handles for a configured provider and model.
    pub fn new(provider: &str, model: &str) -> Self {
        let labels = [(label::PROVIDER, provider.to_owned()), (label::MODEL, model.to_owned())];
        Self {
            provider: provider.to_owned(),
            model: model.to_owned(),
            duration: histogram!(metric::LLM_DURATION, &labels),
            input_tokens: counter!(metric::LLM_INPUT_TOKENS, &labels),
            output_tokens: counter!(metric::LLM_OUTPUT_TOKENS, &labels),
        }
    }

    /// Records one question.
    pub fn record(&self, elapsed: Duration, result: CoreResult<TokenUsage, &CoreError>) {
        self.duration.record(elapsed);
        match result {
            Ok(usage) => {
                self.input_tokens.increment(usage.input.unwrap_or(0));
                self.output_tokens.increment(usage.output.unwrap_or(0));
            }
            Err(error) => counter!(
                metric::LLM_ERRORS,
                label::PROVIDER => self.provider.clone(),
                label::MODEL => self.model.clone(),
                label::ERROR_TYPE => error_class(error),
            )
            .increment(1),
        }
    }
}

/// Why an embedding request was not let into the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalReason {
    /// There is no room.
    QueueFull,
    /// It would not be ready before its deadline.
    Deadline,
}

impl RefusalReason {
    /// Its name in labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::QueueFull => "queue_full",
            Self::Deadline => "deadline",
        }
    }
}

/// What the queue and the forward passes of one model did.
#[derive(Debug)]
pub struct BatchMetrics {
    model: String,
    texts: Histogram,
    tokens: Histogram,
    duration: Histogram,
    queries: QueueMetrics,
    documents: QueueMetrics,
    joined: Counter,
    preemptions: Counter,
}

/// What waits in one role.
#[derive(Debug)]
struct QueueMetrics {
    wait: Histogram,
    tokens: Gauge,
}

impl BatchMetrics {
    /// The handles for a loaded model.
    pub fn new(model: &str) -> Self {
        let labels = [(label::MODEL, model.to_owned())];
        let queue = |role| {
            let labels = [(label::MODEL, model.to_owned()), (label::ROLE, role_name(role).to_owned())];
            QueueMetrics {
                wait: histogram!(metric::EMBEDDING_QUEUE_WAIT, &labels),
                tokens: gauge!(metric::EMBEDDING_QUEUE_TOKENS, &labels),
            }
        };
        Self {
            model: model.to_owned(),
            texts: histogram!(metric::EMBEDDING_BATCH_TEXTS, &labels),
            tokens: histogram!(metric::EMBEDDING_BATCH_TOKENS, &labels),
            duration: histogram!(metric::EMBEDDING_BATCH_DURATION, &labels),
            queries: queue(EmbeddingRole::Query),
            documents: queue(EmbeddingRole::Document),
            joined: counter!(metric::EMBEDDING_JOINED_TEXTS, &labels),
            preemptions: counter!(metric::EMBEDDING_PREEMPTIONS, &labels),
        }
    }

    fn queue(&self, role: EmbeddingRole) -> &QueueMetrics {
        match role {
            EmbeddingRole::Query => &self.queries,
            EmbeddingRole::Document => &self.documents,
        }
    }

    /// Records one forward pass, without the time in which others interrupted it.
    pub fn record_batch(&self, texts: usize, tokens: usize, elapsed: Duration) {
        self.texts.record(count(texts));
        self.tokens.record(count(tokens));
        self.duration.record(elapsed);
    }

    /// Records how long one text waited for its forward pass.
    pub fn record_wait(&self, role: EmbeddingRole, waited: Duration) {
        self.queue(role).wait.record(waited);
    }

    /// Sets how many tokens wait.
    pub fn set_queued_tokens(&self, role: EmbeddingRole, tokens: usize) {
        self.queue(role).tokens.set(count(tokens));
    }

    /// Counts texts that got the vector of the same text, which waited or ran already.
    pub fn add_joined(&self, texts: usize) {
        self.joined.increment(u64::try_from(texts).unwrap_or(u64::MAX));
    }

    /// Counts a pass that ran in the middle of a less urgent one.
    pub fn record_preemption(&self) {
        self.preemptions.increment(1);
    }

    /// Counts a request that was not let in.
    pub fn record_refusal(&self, role: EmbeddingRole, reason: RefusalReason) {
        counter!(
            metric::EMBEDDING_REFUSED,
            label::MODEL => self.model.clone(),
            label::ROLE => role_name(role),
            label::REASON => reason.as_str(),
        )
        .increment(1);
    }
}

/// What a cache of embeddings did, by role.
pub struct CacheMetrics {
    document_hits: Counter,
    document_misses: Counter,
    query_hits: Counter,
    query_misses: Counter,
    bytes: Gauge,
}

impl CacheMetrics {
    /// The handles.
    pub fn new() -> Self {
        let counter = |name, role| counter!(name, label::ROLE => role_name(role));
        Self {
            document_hits: counter(metric::EMBEDDING_CACHE_HITS, EmbeddingRole::Document),
            document_misses: counter(metric::EMBEDDING_CACHE_MISSES, EmbeddingRole::Document),
            query_hits: counter(metric::EMBEDDING_CACHE_HITS, EmbeddingRole::Query),
            query_misses: counter(metric::EMBEDDING_CACHE_MISSES, EmbeddingRole::Query),
            bytes: gauge!(metric::EMBEDDING_CACHE_BYTES),
        }
    }

    /// Records how many texts of one call were in the cache, and how many were not.
    pub fn record(&self, role: EmbeddingRole, hits: usize, misses: usize) {
        let (hit_counter, miss_counter) = match role {
            EmbeddingRole::Document => (&self.document_hits, &self.document_misses),
            EmbeddingRole::Query => (&self.query_hits, &self.query_misses),
        };
        hit_counter.increment(u64::try_from(hits).unwrap_or(u64::MAX));
        miss_counter.increment(u64::try_from(misses).unwrap_or(u64::MAX));
    }

    /// Sets how many bytes the cache holds.
    #[allow(clippy::cast_precision_loss)]
    pub fn set_bytes(&self, bytes: u64) {
        self.bytes.set(bytes as f64);
    }
}

impl Default for CacheMetrics {
    fn default() -> Self {
        Self::new()
    }
}

/// What a pool of embedding workers did. Workers come and go, so that none is a label.
pub struct PoolMetrics {
    workers: Gauge,
    healthy: Gauge,
    calls: [OnceLock<Counter>; RPC_CODES.len()],
    retries: Counter,
    retries_refused: Counter,
}

impl PoolMetrics {
    /// The handles.
    pub fn new() -> Self {
        Self {
            workers: gauge!(metric::POOL_WORKERS),
            healthy: gauge!(metric::POOL_HEALTHY_WORKERS),
            calls: [const { OnceLock::new() }; RPC_CODES.len()],
            retries: counter!(metric::POOL_RETRIES),
            retries_refused: counter!(metric::POOL_RETRIES_REFUSED),
        }
    }

    /// Sets how many workers are known, and how many of them calls are sent to.
    pub fn set_workers(&self, known: usize, healthy: usize) {
        self.workers.set(count(known));
        self.healthy.set(count(healthy));
    }

    /// Counts a worker that calls are no longer sent to; `reason` comes from a closed set.
    pub fn record_ejection(&self, reason: &'static str) {
        counter!(metric::POOL_EJECTIONS, label::REASON => reason).increment(1);
    }

    /// Counts a call to a worker by its gRPC status code.
    pub fn record_call(&self, code: i32) {
        let name = rpc_code_name(code);
        let position = RPC_CODES.iter().position(|known| *known == name);
        if let Some(calls) = position.and_then(|position| self.calls.get(position)) {
            calls.get_or_init(|| counter!(metric::POOL_CALLS, label::RPC_STATUS_CODE => name)).increment(1);
        }
    }

    /// Counts a call that is sent again.
    pub fn record_retry(&self) {
        self.retries.increment(1);
    }

    /// Counts a call that is not sent again since the budget of retries is spent.
    pub fn record_refused_retry(&self) {
        self.retries_refused.increment(1);
    }
}

impl Default for PoolMetrics {
    fn default() -> Self {
        Self::new()
    }
}

/// An operation of a vector store that is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreOperation {
    /// Make a collection.
    Create,
    /// Drop a collection.
    DropCollection,
    /// Write records.
    Upsert,
    /// Delete records.
    Delete,
    /// Write and delete records in one commit.
    Apply,
    /// A page of ids.
    Ids,
    /// Records by id.
    Get,
    /// Search by vector.
    Search,
    /// Search by keywords.
    KeywordSearch,
    /// A page of records.
    Scroll,
    /// How many records.
    Count,
    /// Every record, as of one moment.
    Snapshot,
}

impl StoreOperation {
    /// Every operation.
    pub const ALL: [Self; 12] = [
        Self::Create,
        Self::DropCollection,
        Self::Upsert,
        Self::Delete,
        Self::Apply,
        Self::Ids,
        Self::Get,
        Self::Search,
        Self::KeywordSearch,
        Self::Scroll,
        Self::Count,
        Self::Snapshot,
    ];

    /// Its name in spans and labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::DropCollection => "drop",
            Self::Upsert => "upsert",
            Self::Delete => "delete",
            Self::Apply => "apply",
            Self::Ids => "ids",
            Self::Get => "get",
            Self::Search => "search",
            Self::KeywordSearch => "keyword_search",
            Self::Scroll => "scroll",
            Self::Count => "count",
            Self::Snapshot => "snapshot",
        }
    }
}

/// What one store did, by operation.
pub struct StoreMetrics {
    backend: &'static str,
    durations: HashMap<StoreOperation, Histogram>,
    written: Counter,
}

impl StoreMetrics {
    /// The handles for a backend.
    pub fn new(backend: &'static str) -> Self {
        let duration = |operation: StoreOperation| {
            histogram!(
                metric::DB_OPERATION_DURATION,
                label::DB_SYSTEM => backend,
                label::DB_OPERATION => operation.as_str(),
            )
        };
        Self {
            backend,
            durations: StoreOperation::ALL.into_iter().map(|operation| (operation, duration(operation))).collect(),
            written: counter!(metric::STORE_WRITTEN_RECORDS, label::DB_SYSTEM => backend),
        }
    }

    /// Records one operation.
    pub fn record(&self, operation: StoreOperation, elapsed: Duration, error: Option<&CoreError>) {
        if let Some(duration) = self.durations.get(&operation) {
            duration.record(elapsed);
        }
        if let Some(error) = error {
            counter!(
                metric::STORE_ERRORS,
                label::DB_SYSTEM => self.backend,
                label::DB_OPERATION => operation.as_str(),
                label::ERROR_TYPE => error_class(error),
            )
            .increment(1);
        }
    }

    /// Counts acknowledged records.
    pub fn add_written(&self, records: usize) {
        self.written.increment(u64::try_from(records).unwrap_or(u64::MAX));
    }
}

/// What the retrievers of one kind did.
pub struct RetrievalMetrics {
    kind: &'static str,
    duration: Histogram,
    hits: Histogram,
}

impl RetrievalMetrics {
    /// The handles for a kind of retriever.
    pub fn new(kind: &'static str) -> Self {
        Self {
            kind,
            duration: histogram!(metric::RETRIEVAL_DURATION, label::RETRIEVER_KIND => kind),
            hits: histogram!(metric::RETRIEVAL_HITS, label::RETRIEVER_KIND => kind),
        }
    }

    /// Records one retrieval: its number of hits, or its error.
    pub fn record(&self, elapsed: Duration, result: CoreResult<usize, &CoreError>) {
        self.duration.record(elapsed);
        match result {
            Ok(hits) => self.hits.record(count(hits)),
            Err(error) => counter!(
                metric::RETRIEVAL_ERRORS,
                label::RETRIEVER_KIND => self.kind,
                label::ERROR_TYPE => error_class(error),
            )
            .increment(1),
        }
    }
}

/// The names of gRPC's status codes, by number.
pub const RPC_CODES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The name of a gRPC status code; a number that is none is `UNKNOWN`, as in every gRPC library.
pub fn rpc_code_name(code: i32) -> &'static str {
    usize::try_from(code).ok().and_then(|code| RPC_CODES.get(code)).copied().unwrap_or("UNKNOWN")
}

/// What a server answered, by method and status code.
pub struct RpcMetrics {
    /// Made when a method first answers with a code: most pairs never happen.
    durations: HashMap<String, [OnceLock<Histogram>; RPC_CODES.len()]>,
    active: Gauge,
    refused: Counter,
}

impl RpcMetrics {
    /// The handles for a server's methods, fully qualified and without a leading slash.
    pub fn new<'a>(methods: impl IntoIterator<Item = &'a str>) -> Self {
        let methods = methods.into_iter().chain([values::RPC_METHOD_OTHER]);
        Self {
            durations: methods
                .map(|method| (method.to_owned(), [const { OnceLock::new() }; RPC_CODES.len()]))
                .collect(),
            active: gauge!(metric::RPC_SERVER_ACTIVE),
            refused: counter!(metric::RPC_SERVER_REFUSED),
        }
    }

    /// Is it one of the server's methods?
    pub fn knows(&self, method: &str) -> bool {
        method != values::RPC_METHOD_OTHER && self.durations.contains_key(method)
    }

    /// Records one answered call; a method that the server does not have counts as `_OTHER`.
    pub fn record(&self, method: &str, code: i32, elapsed: Duration) {
        let Some((method, codes)) =
            self.durations.get_key_value(method).or_else(|| self.durations.get_key_value(values::RPC_METHOD_OTHER))
        else {
            return;
        };
        let name = rpc_code_name(code);
        let position = RPC_CODES.iter().position(|known| *known == name);
        if let Some(duration) = position.and_then(|position| codes.get(position)) {
            duration
                .get_or_init(|| {
                    histogram!(
                        metric::RPC_SERVER_CALL_DURATION,
                        label::RPC_METHOD => method.clone(),
                        label::RPC_STATUS_CODE => name,
                    )
                })
                .record(elapsed);
        }
    }

    /// Counts a call as being worked on until the guard is dropped.
    pub fn begin(&self) -> ActiveCall {
        self.active.increment(1.0);
        ActiveCall(self.active.clone())
    }

    /// Counts a refused call.
    pub fn refuse(&self) {
        self.refused.increment(1);
    }
}

/// See [`RpcMetrics::begin`].
pub struct ActiveCall(Gauge);

impl Drop for ActiveCall {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// Counts below 2^53 are exact; metrics are doubles.
#[allow(clippy::cast_precision_loss)]
fn count(items: usize) -> f64 {
    items as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics_exporter_prometheus::PrometheusBuilder;

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
    fn an_unknown_method_is_counted_as_other_and_an_unknown_code_as_unknown() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            let rpc = RpcMetrics::new(["toller.v1.Retrieval/Search"]);
            assert!(rpc.knows("toller.v1.Retrieval/Search") && !rpc.knows("x.Y/Z") && !rpc.knows("_OTHER"));
            rpc.record("toller.v1.Retrieval/Search", 0, Duration::from_millis(3));
            rpc.record("x.Y/Z", 12, Duration::from_millis(1));
            rpc.record("x.Y/Z", 99, Duration::from_millis(1));
            let active = rpc.begin();
            assert!(handle.render().contains("rpc_server_active_calls 1"));
            drop(active);
        });
        let text = handle.render();
        let expected = [
            "rpc_server_call_duration_seconds_count{rpc_method=\"toller.v1.Retrieval/Search\",rpc_status_code=\"OK\"} 1",
            "rpc_server_call_duration_seconds_count{rpc_method=\"_OTHER\",rpc_status_code=\"UNIMPLEMENTED\"} 1",
            "rpc_server_call_duration_seconds_count{rpc_method=\"_OTHER\",rpc_status_code=\"UNKNOWN\"} 1",
            "rpc_server_active_calls 0",
        ];
        for line in expected {
            assert!(text.contains(line), "{line} is not in\n{text}");
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
            "toller_retrieval_hits_count{retriever_kind=\"vector_store\"} 1".to_owned(),
            "toller_retrieval_errors_total{retriever_kind=\"vector_store\",error_type=\"CANCELLED\"} 1".to_owned(),
        ];
        for line in expected {
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
    }
}
