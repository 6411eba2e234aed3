//! Spans as a collector receives them: exact names, attributes, types, nesting, links, sampling; and collectors that are not there.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

mod collector;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use collector::{Collector, attributes, double, int, string};
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Runtime;
use toller_core::collection::VectorParams;
use toller_core::embeddings::Embedding;
use toller_core::keyword::keyword_not_indexed;
use toller_core::vector_store::{
    Applied, ChangeSet, MmrParams, RecordSink, ScoredRecord, Scoring, ScrollPage, Selector, VectorSearch,
};
use toller_core::{
    CollectionName, Document, DocumentId, Durability, EmbeddingRole, Embeddings, Error, Filter, Fingerprint,
    KeywordSearch, Metric, Principal, Record, RequestContext, ScoredDocument, Vector, VectorStore,
};
use toller_telemetry::setup::trace_layer;
use toller_telemetry::spans::{self, RetrievalSpan, RpcServerSpan};
use toller_telemetry::traces::TraceSettings;
use toller_telemetry::{TracedEmbeddings, TracedVectorStore, propagation};
use tracing::Instrument;
use tracing_subscriber::layer::SubscriberExt;

const TRACE_ID: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER_SPAN_ID: &str = "b7ad6b7169203331";

/// Traces to `url`, and a runtime that carries the exporter.
struct Traces {
    provider: SdkTracerProvider,
    runtime: Runtime,
}

impl Traces {
    fn to(url: &str, protocol: &str) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let settings = TraceSettings::from_variables("toller-test", false, |name| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(url.to_owned()),
            "OTEL_EXPORTER_OTLP_PROTOCOL" => Some(protocol.to_owned()),
            _ => None,
        })
        .unwrap();
        let provider = {
            let _entered = runtime.enter();
            settings.provider("9.9.9").unwrap().unwrap()
        };
        Self { provider, runtime }
    }

    /// Runs `work` with spans exported, and delivers them.
    fn record<T>(&self, work: impl Future<Output = T>) -> T {
        let subscriber = tracing_subscriber::registry().with(trace_layer(&self.provider));
        let _default = tracing::subscriber::set_default(subscriber);
        let current = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let value = current.block_on(work);
        self.provider.force_flush().unwrap();
        value
    }
}

fn headers(sampled: bool) -> http::HeaderMap {
    let flags = if sampled { "01" } else { "00" };
    let mut headers = http::HeaderMap::new();
    headers.insert("traceparent", format!("00-{TRACE_ID}-{CALLER_SPAN_ID}-{flags}").parse().unwrap());
    headers
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn context() -> RequestContext {
    RequestContext::new(Principal::anonymous())
}

fn vector(values: &[f32]) -> Vector {
    Vector::new(values.to_vec(), Metric::Cosine).unwrap()
}

/// Two documents, the first more similar to (1, 0) than the second.
fn scored_records() -> Vec<ScoredRecord> {
    [("first", [0.8, 0.6]), ("second", [0.6, 0.8])]
        .into_iter()
        .map(|(id, values)| {
            let document = Document {
                id: DocumentId::new(id).unwrap(),
                page_content: format!("secret {id}"),
                metadata: BTreeMap::new(),
            };
            let score = Metric::Cosine.score(&values, &[1.0, 0.0]);
            ScoredRecord { record: Record::new(Arc::new(document), vector(&values)), score }
        })
        .collect()
}

/// Embeds every text as (1, 0) of three tokens.
struct FixedEmbeddings(Fingerprint);

#[async_trait]
impl Embeddings for FixedEmbeddings {
    fn fingerprint(&self) -> &Fingerprint {
        &self.0
    }

    async fn embed(&self, _: &RequestContext, _: EmbeddingRole, texts: Vec<String>) -> Result<Vec<Embedding>, Error> {
        // The batch that serves this call has a trace of its own.
        let batch = spans::embedding_batch(texts.len(), 3 * texts.len(), "tiny");
        spans::link(&tracing::Span::current(), &batch);
        let answer = texts.iter().map(|_| Embedding { vector: vec![1.0, 0.0], token_count: Some(3), truncated: false });
        Ok(answer.collect())
    }
}

/// Finds the two documents, and fails at everything else.
struct FixedStore;

#[async_trait]
impl VectorStore for FixedStore {
    fn backend(&self) -> &'static str {
        "fixed"
    }

    fn durability(&self) -> Durability {
        Durability::None
    }

    async fn create(&self, _: &RequestContext, _: &CollectionName, _: VectorParams) -> Result<(), Error> {
        Err(Error::Unavailable("fixed".to_owned()))
    }

    async fn drop_collection(&self, _: &RequestContext, _: &CollectionName) -> Result<(), Error> {
        Err(Error::Unavailable("fixed".to_owned()))
    }

    async fn params(&self, _: &RequestContext, _: &CollectionName) -> Result<VectorParams, Error> {
        Ok(VectorParams::new(2, Metric::Cosine))
    }

    async fn upsert(&self, _: &RequestContext, _: &CollectionName, _: Vec<Record>) -> Result<(), Error> {
        Err(Error::Unavailable("the disk is gone".to_owned()))
    }

    async fn delete(&self, _: &RequestContext, _: &CollectionName, _: &Selector) -> Result<u64, Error> {
        Err(Error::Unavailable("fixed".to_owned()))
    }

    async fn apply(&self, _: &RequestContext, _: &CollectionName, _: ChangeSet) -> Result<Applied, Error> {
        Err(Error::Unavailable("fixed".to_owned()))
    }

    async fn ids(
        &self,
        _: &RequestContext,
        _: &CollectionName,
        _: Option<&DocumentId>,
        _: usize,
    ) -> Result<Vec<DocumentId>, Error> {
        Err(Error::Unavailable("fixed".to_owned()))
    }

    async fn get(
        &self,
        _: &RequestContext,
        _: &CollectionName,
        _: &[DocumentId],
    ) -> Result<Vec<Option<Record>>, Error> {
        Err(Error::Unavailable("fixed".to_owned()))
    }

    async fn search(
        &self,
        _: &RequestContext,
        _: &CollectionName,
        search: VectorSearch<'_>,
    ) -> Result<Vec<ScoredRecord>, Error> {
        Ok(scored_records().into_iter().take(search.limit).collect())
    }

    async fn keyword_search(
        &self,
        _: &RequestContext,
        collection: &CollectionName,
        search: KeywordSearch<'_>,
    ) -> Result<Vec<ScoredRecord>, Error> {
        if collection.as_str() == "plain" {
            return Err(keyword_not_indexed(collection));
        }
        Ok(scored_records().into_iter().take(search.limit).collect())
    }

    async fn scroll(
        &self,
        _: &RequestContext,
        _: &CollectionName,
        _: Option<&Filter>,
        _: Option<&DocumentId>,
        _: usize,
    ) -> Result<ScrollPage, Error> {
        Err(Error::Unavailable("fixed".to_owned()))
    }

    async fn count(&self, _: &RequestContext, _: &CollectionName, _: Option<&Filter>) -> Result<u64, Error> {
        Err(Error::Unavailable("fixed".to_owned()))
    }

    async fn snapshot(&self, _: &RequestContext, _: &CollectionName, _: RecordSink) -> Result<u64, Error> {
        Err(Error::Unavailable("fixed".to_owned()))
    }
}

/// A call that arrives with a trace, and retrieves two documents by marginal relevance.
async fn serve_call(sampled: bool) -> Vec<ScoredDocument> {
    let headers = headers(sampled);
    let rpc = spans::rpc_server(&RpcServerSpan {
        method: Some("toller.v1.Retrieval/Retrieve"),
        original: "toller.v1.Retrieval/Retrieve",
        peer: Some("10.0.0.7:4711".parse().unwrap()),
        local: Some("10.0.0.1:50051".parse().unwrap()),
        headers: &headers,
    });
    let hits = retrieve().instrument(rpc.clone()).await;
    spans::record_rpc_status(&rpc, "OK", false, "");
    hits
}

async fn retrieve() -> Vec<ScoredDocument> {
    let mut fingerprint = Fingerprint::client(2);
    fingerprint.provider = "candle".to_owned();
    fingerprint.model = "tiny".to_owned();
    let embeddings = TracedEmbeddings::new(Arc::new(FixedEmbeddings(fingerprint)));
    let store = TracedVectorStore::new(Arc::new(FixedStore));
    let collection = CollectionName::new("docs").unwrap();
    let span = spans::retrieval(&RetrievalSpan {
        name: "support",
        kind: "vector_store",
        store: Some("fixed"),
        collection: Some("docs"),
        embedding_provider: Some("candle"),
        embedding_model: Some("tiny"),
        search_type: Some("mmr"),
        k: Some(2),
        tags: vec!["a", "b"],
    });
    spans::record_query(&span, "secret query");
    let search = async {
        let texts = vec!["secret query".to_owned()];
        let answer = embeddings.embed(&context(), EmbeddingRole::Query, texts).await?;
        let query = vector(&answer[0].vector);
        let params = MmrParams { k: 2, fetch_k: 20, lambda_mult: 0.5 };
        store.max_marginal_relevance(&context(), &collection, &query, None, None, params, Scoring::default()).await
    };
    let result = search.instrument(span.clone()).await;
    spans::record_result(&span, &result);
    result.unwrap()
}

fn assert_exported_tree(collector: &Collector) {
    let rpc = collector.span("toller.v1.Retrieval/Retrieve");
    let retrieval = collector.span("retrieval support");
    let embeddings = collector.span("embeddings tiny");
    let search = collector.span("search docs");
    let mmr = collector.span("mmr");
    let batch = collector.span("embedding batch tiny");
    assert_eq!(collector.spans().len(), 6);

    for span in [&rpc, &retrieval, &embeddings, &search, &mmr] {
        assert_eq!(hexadecimal(&span.trace_id), TRACE_ID, "{}", span.name);
        assert_eq!(span.status.as_ref().map_or(0, |status| status.code), StatusCode::Unset as i32, "{}", span.name);
    }
    assert_eq!(hexadecimal(&rpc.parent_span_id), CALLER_SPAN_ID);
    assert_eq!(retrieval.parent_span_id, rpc.span_id);
    for child in [&embeddings, &search, &mmr] {
        assert_eq!(child.parent_span_id, retrieval.span_id, "{}", child.name);
    }
    assert!(search.end_time_unix_nano <= mmr.start_time_unix_nano);
    for (span, kind) in [
        (&rpc, SpanKind::Server),
        (&retrieval, SpanKind::Internal),
        (&embeddings, SpanKind::Internal),
        (&search, SpanKind::Client),
        (&mmr, SpanKind::Internal),
    ] {
        assert_eq!(span.kind, kind as i32, "{}", span.name);
    }

    // The batch is a trace of its own that the call links to.
    assert_ne!(hexadecimal(&batch.trace_id), TRACE_ID);
    assert!(batch.parent_span_id.is_empty());
    assert_eq!(embeddings.links.len(), 1);
    assert_eq!((&embeddings.links[0].trace_id, &embeddings.links[0].span_id), (&batch.trace_id, &batch.span_id));

    let expect = |pairs: Vec<(&str, String)>| -> BTreeMap<String, String> {
        pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    };
    let rpc_expected = expect(vec![
        ("rpc.system.name", string("grpc")),
        ("rpc.method", string("toller.v1.Retrieval/Retrieve")),
        ("rpc.status_code", string("OK")),
        ("client.address", string("10.0.0.7")),
        ("network.peer.address", string("10.0.0.7")),
        ("network.peer.port", int(4711)),
        ("server.address", string("10.0.0.1")),
        ("server.port", int(50051)),
    ]);
    assert_eq!(attributes(&rpc.attributes), rpc_expected);

    let mut retrieval_attributes = attributes(&retrieval.attributes);
    let tags = retrieval_attributes.remove("tag.tags").unwrap();
    assert!(tags.starts_with("ArrayValue") && tags.contains("\"a\"") && tags.contains("\"b\""), "{tags}");
    let score = Metric::Cosine.score(&[0.8, 0.6], &[1.0, 0.0]);
    let retrieval_expected = expect(vec![
        ("toller.retriever.name", string("support")),
        ("toller.retriever.kind", string("vector_store")),
        ("toller.retriever.search_type", string("mmr")),
        ("toller.retriever.k", int(2)),
        ("toller.retriever.hits", int(2)),
        ("toller.retriever.top_score", double(score)),
        ("toller.retriever.top_relevance", double(score)),
        ("toller.store", string("fixed")),
        ("toller.collection", string("docs")),
        ("toller.embedding.provider", string("candle")),
        ("toller.embedding.model", string("tiny")),
        ("gen_ai.operation.name", string("retrieval")),
        ("gen_ai.provider.name", string("fixed")),
        ("gen_ai.request.model", string("tiny")),
        ("gen_ai.data_source.id", string("docs")),
        ("gen_ai.retrieval.top_k", int(2)),
        ("gen_ai.request.top_k", double(2.0)),
        ("openinference.span.kind", string("RETRIEVER")),
        ("langsmith.span.kind", string("retriever")),
        ("langsmith.span.tags", string("a,b")),
        ("langsmith.metadata.ls_retriever_name", string("support")),
        ("langsmith.metadata.ls_vector_store_provider", string("fixed")),
        ("langsmith.metadata.ls_embedding_provider", string("candle")),
        ("langsmith.metadata.ls_embedding_model", string("tiny")),
    ]);
    assert_eq!(retrieval_attributes, retrieval_expected);

    let embeddings_expected = expect(vec![
        ("toller.embedding.provider", string("candle")),
        ("toller.embedding.model", string("tiny")),
        ("toller.embedding.role", string("query")),
        ("toller.embedding.texts", int(1)),
        ("toller.embedding.truncated", int(0)),
        ("gen_ai.operation.name", string("embeddings")),
        ("gen_ai.provider.name", string("candle")),
        ("gen_ai.request.model", string("tiny")),
        ("gen_ai.embeddings.dimension.count", int(2)),
        ("gen_ai.usage.input_tokens", int(3)),
        ("openinference.span.kind", string("EMBEDDING")),
        ("embedding.model_name", string("tiny")),
        ("llm.token_count.prompt", int(3)),
        ("langsmith.span.kind", string("embedding")),
        ("langsmith.metadata.ls_embedding_provider", string("candle")),
        ("langsmith.metadata.ls_embedding_model", string("tiny")),
    ]);
    assert_eq!(attributes(&embeddings.attributes), embeddings_expected);

    let search_expected = expect(vec![
        ("toller.store", string("fixed")),
        ("toller.collection", string("docs")),
        ("toller.retriever.k", int(20)),
        ("db.system.name", string("fixed")),
        ("db.collection.name", string("docs")),
        ("db.operation.name", string("search")),
        ("db.response.returned_rows", int(2)),
    ]);
    assert_eq!(attributes(&search.attributes), search_expected);

    let mmr_expected = expect(vec![
        ("toller.mmr.candidates", int(2)),
        ("toller.mmr.k", int(2)),
        ("toller.mmr.lambda_mult", double(0.5)),
    ]);
    assert_eq!(attributes(&mmr.attributes), mmr_expected);

    let resource = collector.exports()[0].request.resource_spans[0].resource.clone().unwrap();
    let resource = attributes(&resource.attributes);
    assert_eq!(resource["service.name"], string("toller-test"));
    assert_eq!(resource["service.version"], string("9.9.9"));

    // Content is off unless it is turned on.
    let everything = format!("{:?}", collector.spans());
    assert!(!everything.contains("secret"), "{everything}");
}

#[test]
fn a_retrieval_over_grpc_has_exactly_these_spans_and_attributes() {
    let collector = Collector::grpc();
    let traces = Traces::to(&collector.url(), "grpc");
    assert_eq!(traces.record(serve_call(true)).len(), 2);
    assert_exported_tree(&collector);
}

#[test]
fn a_retrieval_over_http_has_exactly_these_spans_and_attributes() {
    let collector = Collector::http();
    let traces = Traces::to(&collector.url(), "http/protobuf");
    assert_eq!(traces.record(serve_call(true)).len(), 2);
    assert_exported_tree(&collector);
}

#[test]
fn a_caller_that_does_not_sample_is_not_traced_but_is_passed_on() {
    let collector = Collector::grpc();
    let traces = Traces::to(&collector.url(), "grpc");
    traces.record(async {
        let headers = headers(false);
        let rpc = spans::rpc_server(&RpcServerSpan {
            method: Some("x.Y/Z"),
            original: "x.Y/Z",
            peer: None,
            local: None,
            headers: &headers,
        });
        let _entered = rpc.enter();
        let mut outgoing = http::HeaderMap::new();
        propagation::inject(&tracing::Span::current(), &mut outgoing);
        let parent = outgoing["traceparent"].to_str().unwrap();
        assert!(parent.starts_with(&format!("00-{TRACE_ID}-")) && parent.ends_with("-00"), "{parent}");
        assert!(!propagation::current_trace_parent().unwrap().sampled);
    });
    assert!(collector.spans().is_empty());
}

#[test]
fn a_keyword_search_is_a_span_of_the_store_without_its_text() {
    let collector = Collector::grpc();
    let traces = Traces::to(&collector.url(), "grpc");
    traces.record(async {
        let store = TracedVectorStore::new(Arc::new(FixedStore));
        let search = KeywordSearch { text: "secret words", filter: None, limit: 7 };
        let [docs, plain] = ["docs", "plain"].map(|name| CollectionName::new(name).unwrap());
        assert_eq!(store.keyword_search(&context(), &docs, search).await.unwrap().len(), 2);
        store.keyword_search(&context(), &plain, search).await.unwrap_err();
    });
    let found = collector.span("keyword_search docs");
    assert_eq!(found.kind, SpanKind::Client as i32);
    let expected: BTreeMap<String, String> = [
        ("toller.store", string("fixed")),
        ("toller.collection", string("docs")),
        ("toller.retriever.k", int(7)),
        ("db.system.name", string("fixed")),
        ("db.collection.name", string("docs")),
        ("db.operation.name", string("keyword_search")),
        ("db.response.returned_rows", int(2)),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    assert_eq!(attributes(&found.attributes), expected);
    let refused = collector.span("keyword_search plain");
    assert_eq!(attributes(&refused.attributes)["error.type"], string("FAILED_PRECONDITION"));
    assert!(!format!("{:?}", collector.spans()).contains("secret"));
}

#[test]
fn an_error_has_its_class_and_a_bounded_description() {
    let collector = Collector::grpc();
    let traces = Traces::to(&collector.url(), "grpc");
    traces.record(async {
        let store = TracedVectorStore::new(Arc::new(FixedStore));
        let collection = CollectionName::new("docs").unwrap();
        let records: Vec<Record> = scored_records().into_iter().map(|hit| hit.record).collect();
        store.upsert(&context(), &collection, records).await.unwrap_err();
        let span = spans::retrieval(&RetrievalSpan { name: "long", kind: "vector_store", ..RetrievalSpan::default() });
        spans::record_error(&span, &Error::Internal("ü".repeat(10_000)));
    });
    let upsert = collector.span("upsert docs");
    let upsert_attributes = attributes(&upsert.attributes);
    assert_eq!(upsert_attributes["error.type"], string("UNAVAILABLE"));
    assert_eq!(upsert_attributes["db.operation.batch.size"], int(2));
    let status = upsert.status.unwrap();
    assert_eq!((status.code, status.message.as_str()), (StatusCode::Error as i32, "the disk is gone"));
    let long = collector.span("retrieval long");
    assert_eq!(attributes(&long.attributes)["error.type"], string("INTERNAL"));
    let description = long.status.unwrap().message;
    assert!(description.len() <= 512 && description.starts_with("internal error: ü"), "{description}");
}

#[test]
fn an_unknown_method_is_other_and_a_client_fault_is_no_error_of_the_server() {
    let collector = Collector::grpc();
    let traces = Traces::to(&collector.url(), "grpc");
    traces.record(async {
        let headers = http::HeaderMap::new();
        let rpc = spans::rpc_server(&RpcServerSpan {
            method: None,
            original: "evil.Service/Method",
            peer: None,
            local: None,
            headers: &headers,
        });
        spans::record_rpc_status(&rpc, "UNIMPLEMENTED", false, "no such method");
    });
    let span = collector.span("_OTHER");
    let expected: BTreeMap<String, String> = [
        ("rpc.system.name", string("grpc")),
        ("rpc.method", string("_OTHER")),
        ("rpc.method_original", string("evil.Service/Method")),
        ("rpc.status_code", string("UNIMPLEMENTED")),
        ("error.type", string("UNIMPLEMENTED")),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value))
    .collect();
    assert_eq!(attributes(&span.attributes), expected);
    assert_eq!(span.status.unwrap_or_default().code, StatusCode::Unset as i32);
}

/// Many more spans than the queue holds, while the collector takes none: each must cost next to nothing.
fn assert_unhurt_by(url: &str, protocol: &str) {
    const SPANS: u32 = 20_000;
    let traces = Traces::to(url, protocol);
    let subscriber = tracing_subscriber::registry().with(trace_layer(&traces.provider));
    let started = Instant::now();
    tracing::subscriber::with_default(subscriber, || {
        for _ in 0..SPANS {
            spans::mmr(20, 4, 0.5).in_scope(|| ());
        }
    });
    let per_span = started.elapsed() / SPANS;
    assert!(per_span < Duration::from_micros(500), "{per_span:?} per span");
    let stopping = Instant::now();
    let _ = traces.provider.shutdown_with_timeout(Duration::from_millis(300));
    assert!(stopping.elapsed() < Duration::from_secs(5), "{:?}", stopping.elapsed());
    traces.runtime.shutdown_background();
}

#[test]
fn a_collector_that_refuses_connections_slows_nobody() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_unhurt_by(&url, "grpc");
    assert_unhurt_by(&url, "http/protobuf");
}

#[test]
fn a_collector_that_never_answers_slows_nobody() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    assert_unhurt_by(&url, "grpc");
    assert_unhurt_by(&url, "http/protobuf");
}
