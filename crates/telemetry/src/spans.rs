//! The spans of a request: one constructor for each kind, with the attributes that every reader of traces looks for.
//!
//! A retrieval is readable in any OpenTelemetry backend (`gen_ai.*`, `db.*`, `rpc.*`), in OpenInference's tools
//! (`openinference.span.kind`, `retrieval.documents.*`), in LangSmith (`langsmith.*`) and in our own words (`toller.*`).
//! Constructors cost no allocation beyond the exported name while nobody listens, and never fail.
//!
//! ```
//! use toller_telemetry::spans::{self, RetrievalSpan};
//! use tracing::Instrument;
//!
//! # async fn search() -> Result<Vec<toller_core::ScoredDocument>, toller_core::Error> { Ok(Vec::new()) }
//! # async fn run() -> Result<(), toller_core::Error> {
//! let span = spans::retrieval(&RetrievalSpan {
//!     name: "docs",
//!     kind: "vector_store",
//!     collection: Some("docs"),
//!     k: Some(4),
//!     ..RetrievalSpan::default()
//! });
//! spans::record_query(&span, "what is a toller?");
//! let result = search().instrument(span.clone()).await;
//! spans::record_result(&span, &result);
//! # result.map(|_| ()) }
//! ```

use std::net::SocketAddr;

use opentelemetry::trace::{Status, TraceContextExt};
use opentelemetry::{Array, StringValue, Value};
use serde_json::json;
use toller_core::embeddings::Embedding;
use toller_core::language_model::{Completion, TokenUsage};
use toller_core::{ChatMessage, EmbeddingRole, Error, RerankScore, ScoredDocument};
use tracing::Span;
use tracing::field::Empty;
use tracing_opentelemetry::OpenTelemetrySpanExt;

use crate::classes::error_class;
use crate::content::{ContentPolicy, MAX_RECORDED_ITEMS, cut, shown};
use crate::names::{self, values};
use crate::propagation;

/// Longest description of an error in a span, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 512;

/// What a [`retrieval`] span says from its start. What is none does not apply, as a fused retriever has no single store.
#[derive(Debug, Clone, Default)]
pub struct RetrievalSpan<'a> {
    /// The retriever's name: the given one, or its kind; few distinct ones, since it is the span's name.
    pub name: &'a str,
    /// The retriever's kind, such as `vector_store`.
    pub kind: &'a str,
    /// The store's backend.
    pub store: Option<&'a str>,
    /// The collection.
    pub collection: Option<&'a str>,
    /// Who computes the vectors.
    pub embedding_provider: Option<&'a str>,
    /// The embedding model.
    pub embedding_model: Option<&'a str>,
    /// How hits are chosen, such as `mmr`.
    pub search_type: Option<&'a str>,
    /// Most hits.
    pub k: Option<u32>,
    /// The retriever's tags.
    pub tags: Vec<&'a str>,
}

/// The span of one retriever node, exported as `retrieval {name}`; a child of the current span, as the node is of its tree.
pub fn retrieval(retrieval: &RetrievalSpan<'_>) -> Span {
    let span = tracing::info_span!(
        "retrieval",
        { names::OTEL_NAME } = format_args!("retrieval {}", retrieval.name),
        { names::OTEL_KIND } = "internal",
        { names::TOLLER_RETRIEVER_NAME } = retrieval.name,
        { names::TOLLER_RETRIEVER_KIND } = retrieval.kind,
        { names::TOLLER_RETRIEVER_SEARCH_TYPE } = retrieval.search_type,
        { names::TOLLER_RETRIEVER_K } = retrieval.k.map(i64::from),
        { names::TOLLER_STORE } = retrieval.store,
        { names::TOLLER_COLLECTION } = retrieval.collection,
        { names::TOLLER_EMBEDDING_PROVIDER } = retrieval.embedding_provider,
        { names::TOLLER_EMBEDDING_MODEL } = retrieval.embedding_model,
        { names::GEN_AI_OPERATION_NAME } = values::OPERATION_RETRIEVAL,
        { names::GEN_AI_PROVIDER_NAME } = retrieval.store,
        { names::GEN_AI_REQUEST_MODEL } = retrieval.embedding_model,
        { names::GEN_AI_DATA_SOURCE_ID } = retrieval.collection,
        { names::GEN_AI_RETRIEVAL_TOP_K } = retrieval.k.map(i64::from),
        { names::GEN_AI_REQUEST_TOP_K } = retrieval.k.map(f64::from),
        { names::OPENINFERENCE_SPAN_KIND } = values::OPENINFERENCE_RETRIEVER,
        { names::LANGSMITH_SPAN_KIND } = values::LANGSMITH_RETRIEVER,
        { names::LANGSMITH_RETRIEVER_NAME } = retrieval.name,
        { names::LANGSMITH_VECTOR_STORE_PROVIDER } = retrieval.store,
        { names::LANGSMITH_EMBEDDING_PROVIDER } = retrieval.embedding_provider,
        { names::LANGSMITH_EMBEDDING_MODEL } = retrieval.embedding_model,
        { names::TOLLER_RETRIEVER_HITS } = Empty,
        { names::TOLLER_RETRIEVER_TOP_SCORE } = Empty,
        { names::TOLLER_RETRIEVER_TOP_RELEVANCE } = Empty,
        { names::ERROR_TYPE } = Empty,
    );
    if !retrieval.tags.is_empty() {
        let tags: Vec<StringValue> = retrieval.tags.iter().map(|tag| (*tag).to_owned().into()).collect();
        span.set_attribute(names::TAG_TAGS, Value::Array(Array::String(tags)));
        span.set_attribute(names::LANGSMITH_SPAN_TAGS, retrieval.tags.join(","));
    }
    span
}

/// Adds the query's text to a [`retrieval`] span, where content is recorded.
pub fn record_query(span: &Span, text: &str) {
    let policy = ContentPolicy::current();
    if policy.record {
        record_query_as(policy, span, text);
    }
}

fn record_query_as(policy: ContentPolicy, span: &Span, text: &str) {
    let text = shown(text, policy.hide_inputs).into_owned();
    span.set_attribute(names::GEN_AI_RETRIEVAL_QUERY_TEXT, text.clone());
    span.set_attribute(names::INPUT_VALUE, text);
    span.set_attribute(names::INPUT_MIME_TYPE, values::MIME_TEXT);
}

/// Adds the number of hits and the first hit's scores to a [`retrieval`] span; the documents too, where content is recorded.
///
/// O(1) unless content is recorded; then O(size of the first [`MAX_RECORDED_ITEMS`] documents).
pub fn record_hits(span: &Span, hits: &[ScoredDocument]) {
    span.record(names::TOLLER_RETRIEVER_HITS, count(hits.len()));
    if let Some(first) = hits.first() {
        span.record(names::TOLLER_RETRIEVER_TOP_SCORE, first.score);
        span.record(names::TOLLER_RETRIEVER_TOP_RELEVANCE, first.relevance);
    }
    let policy = ContentPolicy::current();
    if policy.record && is_recording(span) {
        record_documents_as(policy, span, hits);
    }
}

fn record_documents_as(policy: ContentPolicy, span: &Span, hits: &[ScoredDocument]) {
    let hidden = policy.hide_outputs;
    let scores: Vec<_> = hits.iter().map(|hit| json!({ "id": hit.document.id.as_str(), "score": hit.score })).collect();
    let documents = if hidden { values::REDACTED.to_owned() } else { serde_json::Value::from(scores).to_string() };
    span.set_attribute(names::GEN_AI_RETRIEVAL_DOCUMENTS, documents);
    for (index, hit) in hits.iter().take(MAX_RECORDED_ITEMS).enumerate() {
        let document = &hit.document;
        let id = shown(document.id.as_str(), hidden).into_owned();
        span.set_attribute(names::retrieval_document(index, "id"), id);
        let content = shown(&document.page_content, hidden).into_owned();
        span.set_attribute(names::retrieval_document(index, "content"), content);
        span.set_attribute(names::retrieval_document(index, "score"), hit.score);
        let metadata = if hidden { values::REDACTED.to_owned() } else { metadata_with_score(hit) };
        span.set_attribute(names::retrieval_document(index, "metadata"), metadata);
    }
}

/// The document's metadata as JSON, with the score and the relevance in it: LangSmith shows metadata and drops the score.
fn metadata_with_score(hit: &ScoredDocument) -> String {
    let mut metadata = match serde_json::to_value(&hit.document.metadata) {
        Ok(serde_json::Value::Object(metadata)) => metadata,
        _ => serde_json::Map::new(),
    };
    // A document's own `score` is left alone: it is the caller's data.
    metadata.entry("score").or_insert_with(|| json!(hit.score));
    if let Some(relevance) = hit.relevance {
        metadata.entry("relevance").or_insert_with(|| json!(relevance));
    }
    serde_json::Value::Object(metadata).to_string()
}

/// [`record_hits`] or [`record_error`].
pub fn record_result(span: &Span, result: &Result<Vec<ScoredDocument>, Error>) {
    match result {
        Ok(hits) => record_hits(span, hits),
        Err(error) => record_error(span, error),
    }
}

/// Marks a span of this module as failed: `error.type` and the error status with its (bounded) description.
pub fn record_error(span: &Span, error: &Error) {
    span.record(names::ERROR_TYPE, error_class(error));
    span.set_status(Status::error(cut(&error.to_string(), MAX_DESCRIPTION_BYTES).to_owned()));
}

/// What an [`embeddings`] span says from its start.
#[derive(Debug, Clone, Copy)]
pub struct EmbeddingsSpan<'a> {
    /// Who computes the vectors.
    pub provider: &'a str,
    /// The model.
    pub model: &'a str,
    /// What the texts are embedded as.
    pub role: EmbeddingRole,
    /// Number of texts.
    pub texts: usize,
    /// Dimension of the vectors.
    pub dimension: u32,
}

/// The span of one embedding call, exported as `embeddings {model}`.
pub fn embeddings(embeddings: &EmbeddingsSpan<'_>) -> Span {
    tracing::info_span!(
        "embeddings",
        { names::OTEL_NAME } = format_args!("embeddings {}", embeddings.model),
        { names::OTEL_KIND } = "internal",
        { names::TOLLER_EMBEDDING_PROVIDER } = embeddings.provider,
        { names::TOLLER_EMBEDDING_MODEL } = embeddings.model,
        { names::TOLLER_EMBEDDING_ROLE } = role_name(embeddings.role),
        { names::TOLLER_EMBEDDING_TEXTS } = count(embeddings.texts),
        { names::TOLLER_EMBEDDING_TRUNCATED } = Empty,
        { names::GEN_AI_OPERATION_NAME } = values::OPERATION_EMBEDDINGS,
        { names::GEN_AI_PROVIDER_NAME } = embeddings.provider,
        { names::GEN_AI_REQUEST_MODEL } = embeddings.model,
        { names::GEN_AI_EMBEDDINGS_DIMENSION_COUNT } = i64::from(embeddings.dimension),
        { names::GEN_AI_USAGE_INPUT_TOKENS } = Empty,
        { names::OPENINFERENCE_SPAN_KIND } = values::OPENINFERENCE_EMBEDDING,
        { names::EMBEDDING_MODEL_NAME } = embeddings.model,
        { names::LLM_TOKEN_COUNT_PROMPT } = Empty,
        { names::LANGSMITH_SPAN_KIND } = values::LANGSMITH_EMBEDDING,
        { names::LANGSMITH_EMBEDDING_PROVIDER } = embeddings.provider,
        { names::LANGSMITH_EMBEDDING_MODEL } = embeddings.model,
        { names::ERROR_TYPE } = Empty,
    )
}

/// Adds the embedded texts to an [`embeddings`] span, where content is recorded. Texts of queries are inputs too.
pub fn record_texts(span: &Span, role: EmbeddingRole, texts: &[String]) {
    let policy = ContentPolicy::current();
    let hidden = policy.hide_embeddings_text || (policy.hide_inputs && role == EmbeddingRole::Query);
    if policy.record && is_recording(span) {
        for (index, text) in texts.iter().take(MAX_RECORDED_ITEMS).enumerate() {
            let text = shown(text, hidden).into_owned();
            span.set_attribute(names::embedding_item(index, "text"), text);
        }
    }
}

/// What an answer of the embeddings says in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EmbeddingUsage {
    /// Tokens over all texts; none when the provider does not say.
    pub tokens: Option<u64>,
    /// Texts that were cut.
    pub truncated: u64,
}

impl EmbeddingUsage {
    /// The sums over an answer. O(texts).
    pub fn of(answer: &[Embedding]) -> Self {
        let mut usage = Self { tokens: None, truncated: 0 };
        for embedding in answer {
            if let Some(tokens) = embedding.token_count {
                usage.tokens = Some(usage.tokens.unwrap_or(0) + u64::from(tokens));
            }
            usage.truncated += u64::from(embedding.truncated);
        }
        usage
    }
}

/// Adds the usage to an [`embeddings`] span; the vectors too, where content is recorded.
pub fn record_embeddings(span: &Span, usage: EmbeddingUsage, answer: &[Embedding]) {
    if let Some(tokens) = usage.tokens {
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        span.record(names::GEN_AI_USAGE_INPUT_TOKENS, tokens);
        span.record(names::LLM_TOKEN_COUNT_PROMPT, tokens);
    }
    span.record(names::TOLLER_EMBEDDING_TRUNCATED, i64::try_from(usage.truncated).unwrap_or(i64::MAX));
    let policy = ContentPolicy::current();
    if policy.record && is_recording(span) {
        for (index, embedding) in answer.iter().take(MAX_RECORDED_ITEMS).enumerate() {
            let vector: Value = if policy.hide_embeddings_vectors {
                values::REDACTED.into()
            } else {
                Value::Array(Array::F64(embedding.vector.iter().map(|element| f64::from(*element)).collect()))
            };
            span.set_attribute(names::embedding_item(index, "vector"), vector);
        }
    }
}

/// The span of scoring `documents` documents against one query, exported as `rerank {model}`.
pub fn rerank(provider: &str, model: &str, documents: usize) -> Span {
    tracing::info_span!(
        "rerank",
        { names::OTEL_NAME } = format_args!("rerank {model}"),
        { names::OTEL_KIND } = "internal",
        { names::TOLLER_RERANK_PROVIDER } = provider,
        { names::TOLLER_RERANK_DOCUMENTS } = count(documents),
        { names::TOLLER_RERANK_TRUNCATED } = Empty,
        { names::GEN_AI_OPERATION_NAME } = values::OPERATION_RERANK,
        { names::GEN_AI_PROVIDER_NAME } = provider,
        { names::GEN_AI_REQUEST_MODEL } = model,
        { names::GEN_AI_USAGE_INPUT_TOKENS } = Empty,
        { names::OPENINFERENCE_SPAN_KIND } = values::OPENINFERENCE_RERANKER,
        { names::RERANKER_MODEL_NAME } = model,
        { names::ERROR_TYPE } = Empty,
    )
}

/// Adds query and documents to a [`rerank`] span, where content is recorded. Both are inputs.
pub fn record_pairs(span: &Span, query: &str, documents: &[String]) {
    let policy = ContentPolicy::current();
    if policy.record && is_recording(span) {
        span.set_attribute(names::RERANKER_QUERY, shown(query, policy.hide_inputs).into_owned());
        for (index, document) in documents.iter().take(MAX_RECORDED_ITEMS).enumerate() {
            let content = shown(document, policy.hide_inputs).into_owned();
            span.set_attribute(names::reranker_input(index, "content"), content);
        }
    }
}

/// What an answer of a reranker says in numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RerankUsage {
    /// Tokens over all pairs; none when the provider does not say.
    pub tokens: Option<u64>,
    /// Pairs that were cut.
    pub truncated: u64,
}

impl RerankUsage {
    /// The sums over an answer. O(pairs).
    pub fn of(answer: &[RerankScore]) -> Self {
        let mut usage = Self { tokens: None, truncated: 0 };
        for score in answer {
            if let Some(tokens) = score.token_count {
                usage.tokens = Some(usage.tokens.unwrap_or(0) + u64::from(tokens));
            }
            usage.truncated += u64::from(score.truncated);
        }
        usage
    }
}

/// Adds the usage to a [`rerank`] span.
pub fn record_rerank(span: &Span, usage: RerankUsage) {
    if let Some(tokens) = usage.tokens {
        span.record(names::GEN_AI_USAGE_INPUT_TOKENS, i64::try_from(tokens).unwrap_or(i64::MAX));
    }
    span.record(names::TOLLER_RERANK_TRUNCATED, i64::try_from(usage.truncated).unwrap_or(i64::MAX));
}

/// The span of one question to a language model, exported as `chat {model}`.
pub fn chat(provider: &str, model: &str) -> Span {
    tracing::info_span!(
        "chat",
        { names::OTEL_NAME } = format_args!("chat {model}"),
        { names::OTEL_KIND } = "client",
        { names::GEN_AI_OPERATION_NAME } = values::OPERATION_CHAT,
        { names::GEN_AI_PROVIDER_NAME } = provider,
        { names::GEN_AI_REQUEST_MODEL } = model,
        { names::GEN_AI_USAGE_INPUT_TOKENS } = Empty,
        { names::GEN_AI_USAGE_OUTPUT_TOKENS } = Empty,
        { names::OPENINFERENCE_SPAN_KIND } = values::OPENINFERENCE_LLM,
        { names::LLM_MODEL_NAME } = model,
        { names::LLM_TOKEN_COUNT_PROMPT } = Empty,
        { names::LLM_TOKEN_COUNT_COMPLETION } = Empty,
        { names::LANGSMITH_SPAN_KIND } = values::LANGSMITH_LLM,
        { names::ERROR_TYPE } = Empty,
    )
}

/// Adds the last message, which is the question, to a [`chat`] span, where content is recorded.
pub fn record_question(span: &Span, messages: &[ChatMessage]) {
    let policy = ContentPolicy::current();
    if let Some(last) = messages.last().filter(|_| policy.record && is_recording(span)) {
        span.set_attribute(names::INPUT_VALUE, shown(&last.content, policy.hide_inputs).into_owned());
        span.set_attribute(names::INPUT_MIME_TYPE, values::MIME_TEXT);
    }
}

/// Adds the usage to a [`chat`] span; the answer too, where content is recorded.
pub fn record_answer(span: &Span, answer: &Completion) {
    let TokenUsage { input, output } = answer.usage;
    let tokens = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    if let Some(input) = input.map(tokens) {
        span.record(names::GEN_AI_USAGE_INPUT_TOKENS, input);
        span.record(names::LLM_TOKEN_COUNT_PROMPT, input);
    }
    if let Some(output) = output.map(tokens) {
        span.record(names::GEN_AI_USAGE_OUTPUT_TOKENS, output);
        span.record(names::LLM_TOKEN_COUNT_COMPLETION, output);
    }
    let policy = ContentPolicy::current();
    if policy.record && is_recording(span) {
        span.set_attribute(names::OUTPUT_VALUE, shown(&answer.text, policy.hide_outputs).into_owned());
    }
}

/// The span of one forward pass, which serves the texts of many requests: a trace of its own, which each request's
/// [`embeddings`] span [`link`]s to.
pub fn embedding_batch(texts: usize, tokens: usize, model: &str) -> Span {
    tracing::info_span!(
        parent: None,
        "embedding batch",
        { names::OTEL_NAME } = format_args!("embedding batch {model}"),
        { names::OTEL_KIND } = "internal",
        { names::TOLLER_EMBEDDING_MODEL } = model,
        { names::TOLLER_EMBEDDING_TEXTS } = count(texts),
        { names::TOLLER_EMBEDDING_TOKENS } = count(tokens),
        { names::ERROR_TYPE } = Empty,
    )
}

/// The span of an operation of one process on a collection, exported as `{kind} {collection}`: a trace of its own, since it
/// outlives the request that started it.
pub fn operation(kind: &'static str, collection: &str, model: &str, id: &str) -> Span {
    tracing::info_span!(
        parent: None,
        "operation",
        { names::OTEL_NAME } = format_args!("{kind} {collection}"),
        { names::OTEL_KIND } = "internal",
        { names::TOLLER_OPERATION_KIND } = kind,
        { names::TOLLER_OPERATION_ID } = id,
        { names::TOLLER_COLLECTION } = collection,
        { names::TOLLER_EMBEDDING_MODEL } = model,
        { names::TOLLER_OPERATION_DOCUMENTS } = Empty,
        { names::ERROR_TYPE } = Empty,
    )
}

/// Adds the number of documents that are done to an operation's span.
pub fn record_documents(span: &Span, documents: u64) {
    span.record(names::TOLLER_OPERATION_DOCUMENTS, i64::try_from(documents).unwrap_or(i64::MAX));
}

/// The span of a search by keywords, exported as `keyword_search {collection}`, with `k` rows at most asked for.
pub fn store_keyword_search(backend: &str, collection: &str, k: usize) -> Span {
    let span = store_operation(backend, collection, "keyword_search");
    span.record(names::TOLLER_RETRIEVER_K, count(k));
    span
}

/// The span of a search by vector, exported as `search {collection}`, with `k` rows at most asked for.
pub fn store_search(backend: &str, collection: &str, k: usize) -> Span {
    let span = store_operation(backend, collection, "search");
    span.record(names::TOLLER_RETRIEVER_K, count(k));
    span
}

/// The span of any operation of a store, such as `upsert`, exported as `{operation} {collection}`.
pub fn store_operation(backend: &str, collection: &str, operation: &'static str) -> Span {
    tracing::info_span!(
        "store",
        { names::OTEL_NAME } = format_args!("{operation} {collection}"),
        { names::OTEL_KIND } = "client",
        { names::TOLLER_STORE } = backend,
        { names::TOLLER_COLLECTION } = collection,
        { names::DB_SYSTEM_NAME } = backend,
        { names::DB_COLLECTION_NAME } = collection,
        { names::DB_OPERATION_NAME } = operation,
        { names::DB_OPERATION_BATCH_SIZE } = Empty,
        { names::DB_RESPONSE_RETURNED_ROWS } = Empty,
        { names::TOLLER_RETRIEVER_K } = Empty,
        { names::ERROR_TYPE } = Empty,
    )
}

/// Adds the number of returned rows to a store's span.
pub fn record_rows(span: &Span, rows: usize) {
    span.record(names::DB_RESPONSE_RETURNED_ROWS, count(rows));
}

/// Adds the number of written rows to a store's span; the convention leaves out a batch of one.
pub fn record_batch_size(span: &Span, rows: usize) {
    if rows != 1 {
        span.record(names::DB_OPERATION_BATCH_SIZE, count(rows));
    }
}

/// The span of choosing `k` of `candidates` by maximal marginal relevance.
pub fn mmr(candidates: usize, k: usize, lambda_mult: f64) -> Span {
    tracing::info_span!(
        "mmr",
        { names::OTEL_KIND } = "internal",
        { names::TOLLER_MMR_CANDIDATES } = count(candidates),
        { names::TOLLER_MMR_K } = count(k),
        { names::TOLLER_MMR_LAMBDA } = lambda_mult,
        { names::ERROR_TYPE } = Empty,
    )
}

/// The span of making one list of `lists` lists with `candidates` hits altogether, exported as `fusion {method}`.
pub fn fusion(method: &'static str, lists: usize, candidates: usize) -> Span {
    tracing::info_span!(
        "fusion",
        { names::OTEL_NAME } = format_args!("fusion {method}"),
        { names::OTEL_KIND } = "internal",
        { names::TOLLER_FUSION_METHOD } = method,
        { names::TOLLER_FUSION_LISTS } = count(lists),
        { names::TOLLER_FUSION_CANDIDATES } = count(candidates),
        { names::TOLLER_FUSION_HITS } = Empty,
    )
}

/// Adds the number of hits of the one list to a [`fusion`] span.
pub fn record_fused(span: &Span, hits: usize) {
    span.record(names::TOLLER_FUSION_HITS, count(hits));
}

/// What an [`rpc_server`] span says from its start.
#[derive(Debug, Clone, Copy)]
pub struct RpcServerSpan<'a> {
    /// Fully qualified method without the leading slash; none for one that the server does not have.
    pub method: Option<&'a str>,
    /// What the client called, for when there is no such method.
    pub original: &'a str,
    /// The client's address.
    pub peer: Option<SocketAddr>,
    /// The server's address.
    pub local: Option<SocketAddr>,
    /// The request's headers, for the trace context in them.
    pub headers: &'a http::HeaderMap,
}

/// The span of a server's answer to one call, exported as the method's name; a child of the caller's span.
pub fn rpc_server(rpc: &RpcServerSpan<'_>) -> Span {
    let method = rpc.method.unwrap_or(values::RPC_METHOD_OTHER);
    let original = rpc.method.is_none().then(|| cut(rpc.original, MAX_DESCRIPTION_BYTES));
    let peer_address = rpc.peer.map(|peer| peer.ip().to_string());
    let span = tracing::info_span!(
        "rpc",
        { names::OTEL_NAME } = method,
        { names::OTEL_KIND } = "server",
        { names::RPC_SYSTEM_NAME } = values::RPC_SYSTEM_GRPC,
        { names::RPC_METHOD } = method,
        { names::RPC_METHOD_ORIGINAL } = original,
        { names::RPC_STATUS_CODE } = Empty,
        { names::CLIENT_ADDRESS } = peer_address,
        { names::NETWORK_PEER_ADDRESS } = peer_address,
        { names::NETWORK_PEER_PORT } = rpc.peer.map(|peer| i64::from(peer.port())),
        { names::SERVER_ADDRESS } = rpc.local.map(|local| local.ip().to_string()),
        { names::SERVER_PORT } = rpc.local.map(|local| i64::from(local.port())),
        { names::ERROR_TYPE } = Empty,
    );
    // Fails only where there is no OpenTelemetry layer to tell.
    let _ = span.set_parent(propagation::extract(rpc.headers));
    span
}

/// Adds the status to an [`rpc_server`] span. `code` is the status code's name. `is_fault` says whether the server is to blame:
/// the convention leaves a server's span without error status when the client was wrong.
pub fn record_rpc_status(span: &Span, code: &'static str, is_fault: bool, message: &str) {
    span.record(names::RPC_STATUS_CODE, code);
    if code != "OK" {
        span.record(names::ERROR_TYPE, code);
    }
    if is_fault {
        span.set_status(Status::error(cut(message, MAX_DESCRIPTION_BYTES).to_owned()));
    }
}

/// Adds a link from one span to another, possibly of another trace; nothing where either is not part of one.
pub fn link(from: &Span, to: &Span) {
    from.add_link(to.context().span().span_context().clone());
}

/// What `role` is called in spans and metrics.
pub fn role_name(role: EmbeddingRole) -> &'static str {
    match role {
        EmbeddingRole::Document => values::ROLE_DOCUMENT,
        EmbeddingRole::Query => values::ROLE_QUERY,
    }
}

fn is_recording(span: &Span) -> bool {
    span.context().span().is_recording()
}

fn count(items: usize) -> i64 {
    i64::try_from(items).unwrap_or(i64::MAX)
}
