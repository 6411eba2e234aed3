//! Query texts, documents and vectors in spans: only when turned on, and hidden part by part.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a test may panic")]

mod collector;

use std::collections::BTreeMap;
use std::sync::Arc;

use collector::{Collector, attributes, double, string};
use opentelemetry_proto::tonic::trace::v1::Span;
use toller_core::embeddings::Embedding;
use toller_core::{Document, DocumentId, EmbeddingRole, Metric, ScoredDocument, Value};
use toller_telemetry::ContentPolicy;
use toller_telemetry::setup::trace_layer;
use toller_telemetry::spans::{self, EmbeddingUsage, EmbeddingsSpan, RetrievalSpan};
use toller_telemetry::traces::TraceSettings;
use tracing_subscriber::layer::SubscriberExt;

fn hit(id: &str, metadata: &[(&str, Value)]) -> ScoredDocument {
    let metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let document = Document { id: DocumentId::new(id).unwrap(), page_content: format!("text of {id}"), metadata };
    ScoredDocument {
        document: Arc::new(document),
        score: 0.75,
        relevance: Some(0.5),
        metric: Some(Metric::Cosine),
        rank: 1,
        sources: Vec::new(),
        vector: None,
        matched_children: Vec::new(),
        extracts: Vec::new(),
    }
}

/// A retrieval span and an embeddings span as exported under `policy`.
fn export(policy: ContentPolicy, hits: &[ScoredDocument]) -> (Span, Span) {
    export_role(policy, EmbeddingRole::Document, hits)
}

fn export_role(policy: ContentPolicy, role: EmbeddingRole, hits: &[ScoredDocument]) -> (Span, Span) {
    let collector = Collector::grpc();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let url = collector.url();
    let settings = TraceSettings::from_variables("test", policy.record, |name| match name {
        "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(url.clone()),
        "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("grpc".to_owned()),
        _ => None,
    })
    .unwrap();
    let entered = runtime.enter();
    let provider = settings.provider("0").unwrap().unwrap();
    drop(entered);
    policy.install();
    tracing::subscriber::with_default(tracing_subscriber::registry().with(trace_layer(&provider)), || {
        let span = spans::retrieval(&RetrievalSpan { name: "r", kind: "vector_store", ..RetrievalSpan::default() });
        spans::record_query(&span, "the query");
        span.in_scope(|| ());
        spans::record_hits(&span, hits);
        let span =
            spans::embeddings(&EmbeddingsSpan { provider: "candle", model: "tiny", role, texts: 1, dimension: 2 });
        spans::record_texts(&span, role, &["the text".to_owned()]);
        let answer = [Embedding { vector: vec![0.5, -1.0], token_count: None, truncated: true }];
        spans::record_embeddings(&span, EmbeddingUsage::of(&answer), &answer);
    });
    provider.force_flush().unwrap();
    (collector.span("retrieval r"), collector.span("embeddings tiny"))
}

/// One test, since the policy is one for the whole process.
#[test]
fn content_is_recorded_when_turned_on_and_hidden_part_by_part() {
    let own_score = [("score", Value::Int(7)), ("page", Value::Int(3))];
    let hits = [hit("a", &[("source", Value::from("a.md"))]), hit("b", &own_score)];

    let (retrieval, embeddings) = export(ContentPolicy { record: true, ..ContentPolicy::default() }, &hits);
    let found = attributes(&retrieval.attributes);
    assert_eq!(found["gen_ai.retrieval.query.text"], string("the query"));
    assert_eq!(found["input.value"], string("the query"));
    assert_eq!(found["input.mime_type"], string("text/plain"));
    assert_eq!(found["gen_ai.retrieval.documents"], string(r#"[{"id":"a","score":0.75},{"id":"b","score":0.75}]"#));
    assert_eq!(found["retrieval.documents.0.document.id"], string("a"));
    assert_eq!(found["retrieval.documents.0.document.content"], string("text of a"));
    assert_eq!(found["retrieval.documents.0.document.score"], double(0.75));
    assert_eq!(
        found["retrieval.documents.0.document.metadata"],
        string(r#"{"source":"a.md","score":0.75,"relevance":0.5}"#)
    );
    // A document's own `score` is not overwritten.
    assert_eq!(found["retrieval.documents.1.document.metadata"], string(r#"{"page":3,"score":7,"relevance":0.5}"#));
    let embedded = attributes(&embeddings.attributes);
    assert_eq!(embedded["embedding.embeddings.0.embedding.text"], string("the text"));
    let vector = &embedded["embedding.embeddings.0.embedding.vector"];
    assert!(
        vector.starts_with("ArrayValue") && vector.contains("DoubleValue(0.5)") && vector.contains("DoubleValue(-1.0)")
    );
    assert_eq!(embedded["toller.embedding.truncated"], collector::int(1));
    assert!(!embedded.contains_key("gen_ai.usage.input_tokens"), "the provider did not count tokens");

    let hidden = ContentPolicy {
        record: true,
        hide_inputs: true,
        hide_outputs: true,
        hide_embeddings_text: true,
        hide_embeddings_vectors: true,
    };
    let (retrieval, embeddings) = export(hidden, &hits);
    let found = attributes(&retrieval.attributes);
    for name in [
        "gen_ai.retrieval.query.text",
        "input.value",
        "gen_ai.retrieval.documents",
        "retrieval.documents.0.document.id",
        "retrieval.documents.1.document.content",
        "retrieval.documents.1.document.metadata",
    ] {
        assert_eq!(found[name], string("__REDACTED__"), "{name}");
    }
    assert_eq!(found["retrieval.documents.0.document.score"], double(0.75));
    let embedded = attributes(&embeddings.attributes);
    assert_eq!(embedded["embedding.embeddings.0.embedding.text"], string("__REDACTED__"));
    assert_eq!(embedded["embedding.embeddings.0.embedding.vector"], string("__REDACTED__"));

    // Hidden inputs hide a query where it is embedded, and documents no more than before.
    let inputs = ContentPolicy { record: true, hide_inputs: true, ..ContentPolicy::default() };
    for (role, text) in [(EmbeddingRole::Query, "__REDACTED__"), (EmbeddingRole::Document, "the text")] {
        let (_, embeddings) = export_role(inputs, role, &[]);
        assert_eq!(
            attributes(&embeddings.attributes)["embedding.embeddings.0.embedding.text"],
            string(text),
            "{role:?}"
        );
    }

    // Many documents: the attributes of the first 32, none of them dropped, and the scores of all.
    let many: Vec<ScoredDocument> = (0..100).map(|index| hit(&format!("d{index}"), &[])).collect();
    let (retrieval, _) = export(ContentPolicy { record: true, ..ContentPolicy::default() }, &many);
    assert_eq!(retrieval.dropped_attributes_count, 0);
    let found = attributes(&retrieval.attributes);
    assert!(found.contains_key("retrieval.documents.31.document.metadata"));
    assert!(!found.contains_key("retrieval.documents.32.document.id"));
    assert!(found["gen_ai.retrieval.documents"].contains("d99"));

    // A long text is cut at a character.
    let mut long = hit("long", &[]);
    long.document = Arc::new(Document {
        id: DocumentId::new("long").unwrap(),
        page_content: "日".repeat(10_000),
        metadata: BTreeMap::new(),
    });
    let (retrieval, _) = export(ContentPolicy { record: true, ..ContentPolicy::default() }, &[long]);
    assert_eq!(
        attributes(&retrieval.attributes)["retrieval.documents.0.document.content"],
        string(&"日".repeat(8192 / 3))
    );

    let (retrieval, embeddings) = export(ContentPolicy { hide_inputs: true, ..ContentPolicy::default() }, &hits);
    let off = format!("{retrieval:?}{embeddings:?}");
    for absent in ["the query", "the text", "text of", "a.md", "__REDACTED__", "retrieval.documents"] {
        assert!(!off.contains(absent), "{absent} is in {off}");
    }
}
