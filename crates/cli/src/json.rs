//! The JSON that commands print with `--json`: field names of the contract, integers and doubles exact, enums in words.

use std::collections::BTreeMap;

use serde::Serialize;
use toller_api::convert::{value_from_message, vector_from_message};
use toller_api::v1;
use toller_core::Value;

use crate::names::{Durability, Language, Metric, OperationState, Pooling, QuantizationKind};

/// A document.
#[derive(Debug, Serialize)]
pub(crate) struct Document {
    id: String,
    page_content: String,
    metadata: BTreeMap<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<Vec<f32>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    named_vectors: BTreeMap<String, Vec<f32>>,
}

impl From<v1::Document> for Document {
    fn from(message: v1::Document) -> Self {
        let v1::Vectors { dense, named } = message.vectors.unwrap_or_default();
        Self {
            id: message.id.unwrap_or_default(),
            page_content: message.page_content,
            metadata: metadata(message.metadata),
            vector: dense.and_then(elements),
            named_vectors: named.into_iter().filter_map(|(name, vector)| Some((name, elements(vector)?))).collect(),
        }
    }
}

/// Typed metadata. A kind of value that this version does not know reads as null.
pub(crate) fn metadata(entries: BTreeMap<String, v1::Value>) -> BTreeMap<String, Value> {
    entries.into_iter().map(|(key, value)| (key, value_from_message(value).unwrap_or(Value::Null))).collect()
}

fn elements(vector: v1::Vector) -> Option<Vec<f32>> {
    vector_from_message(vector).ok()
}

/// A hit.
#[derive(Debug, Serialize)]
pub(crate) struct Hit {
    rank: u32,
    score: f64,
    relevance: Option<f64>,
    metric: Option<Metric>,
    document: Option<Document>,
    sources: Vec<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vector: Option<Vec<f32>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    matched_children: Vec<Child>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extracts: Vec<Span>,
}

/// A small document that led to a hit.
#[derive(Debug, Serialize)]
struct Child {
    rank: u32,
    score: f64,
    relevance: Option<f64>,
    document: Option<Document>,
    span: Option<Span>,
}

impl From<v1::MatchedChild> for Child {
    fn from(message: v1::MatchedChild) -> Self {
        Self {
            rank: message.rank,
            score: message.score,
            relevance: message.relevance,
            document: message.document.map(Document::from),
            span: message.span.map(Span::from),
        }
    }
}

/// A part of a text, in code points.
#[derive(Debug, Serialize)]
struct Span {
    start: u64,
    end: u64,
}

impl From<v1::TextSpan> for Span {
    fn from(v1::TextSpan { start, end }: v1::TextSpan) -> Self {
        Self { start, end }
    }
}

/// Something that the caller should know about an answer.
#[derive(Debug, Serialize)]
pub(crate) struct Warning {
    path: String,
    message: String,
}

impl From<v1::RetrievalWarning> for Warning {
    fn from(v1::RetrievalWarning { path, message }: v1::RetrievalWarning) -> Self {
        Self { path, message }
    }
}

/// One retriever that ran.
#[derive(Debug, Serialize)]
pub(crate) struct TraceNode {
    path: String,
    kind: String,
    name: String,
    /// Such as `0.0125s`.
    duration: Option<String>,
    hits: Option<u32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
}

impl From<v1::TraceNode> for TraceNode {
    fn from(message: v1::TraceNode) -> Self {
        Self {
            path: message.path,
            kind: message.kind,
            name: message.name,
            duration: message.duration.map(|duration| duration.to_string()),
            hits: message.hits,
            error: message.error,
        }
    }
}

/// What one leg said about a hit.
#[derive(Debug, Serialize)]
struct Source {
    source: String,
    score: f64,
    rank: u32,
}

impl From<v1::ScoredDocument> for Hit {
    fn from(message: v1::ScoredDocument) -> Self {
        let sources = message.sources.into_iter();
        Self {
            rank: message.rank,
            score: message.score,
            relevance: message.relevance,
            metric: Metric::from_message(message.metric),
            document: message.document.map(Document::from),
            sources: sources
                .map(|source| Source { source: source.source, score: source.score, rank: source.rank })
                .collect(),
            vector: message.vector.and_then(elements),
            matched_children: message.matched_children.into_iter().map(Child::from).collect(),
            extracts: message.extracts.into_iter().map(Span::from).collect(),
        }
    }
}

/// A collection.
#[derive(Debug, Serialize)]
pub(crate) struct Collection {
    name: String,
    description: String,
    labels: BTreeMap<String, String>,
    metric: Option<Metric>,
    fingerprint: Option<Fingerprint>,
    store: String,
    durability: Option<Durability>,
    created_at: Option<String>,
    keyword: Option<KeywordIndex>,
    named_vectors: BTreeMap<String, VectorSpace>,
    quantization: Option<Quantization>,
    require_tenant: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    document_count: Option<u64>,
}

impl Collection {
    /// The JSON of a collection, with the number of its documents where that was asked for.
    pub(crate) fn new(message: v1::Collection, document_count: Option<u64>) -> Self {
        Self {
            name: message.name,
            description: message.description,
            labels: message.labels,
            metric: Metric::from_message(message.metric),
            fingerprint: message.fingerprint.map(Fingerprint::from),
            store: message.store,
            durability: Durability::from_message(message.durability),
            created_at: message.created_at.map(|moment| moment.to_string()),
            keyword: message.keyword.map(|index| KeywordIndex { language: Language::from_message(index.language) }),
            named_vectors: message.named_vectors.into_iter().map(|(name, space)| (name, space.into())).collect(),
            quantization: message.quantization.map(Quantization::from),
            require_tenant: message.require_tenant,
            document_count,
        }
    }
}

/// A vector space beside the main one.
#[derive(Debug, Serialize)]
struct VectorSpace {
    dimension: u32,
    metric: Option<Metric>,
}

impl From<v1::VectorSpace> for VectorSpace {
    fn from(message: v1::VectorSpace) -> Self {
        Self { dimension: message.dimension, metric: Metric::from_message(message.metric) }
    }
}

/// How the vectors of a collection are kept beside their full form.
#[derive(Debug, Serialize)]
struct Quantization {
    kind: Option<QuantizationKind>,
    oversampling: Option<f64>,
}

impl From<v1::Quantization> for Quantization {
    fn from(message: v1::Quantization) -> Self {
        Self { kind: QuantizationKind::from_message(message.kind), oversampling: message.oversampling }
    }
}

/// What runs longer than a call.
#[derive(Debug, Serialize)]
pub(crate) struct Operation {
    id: String,
    kind: String,
    subject: String,
    state: Option<OperationState>,
    done: u64,
    total: Option<u64>,
    started_at: Option<String>,
    ended_at: Option<String>,
    error_code: i32,
    error_message: String,
}

impl From<v1::Operation> for Operation {
    fn from(message: v1::Operation) -> Self {
        Self {
            id: message.id,
            kind: message.kind,
            subject: message.subject,
            state: OperationState::from_message(message.state),
            done: message.done,
            total: message.total,
            started_at: message.started_at.map(|moment| moment.to_string()),
            ended_at: message.ended_at.map(|moment| moment.to_string()),
            error_code: message.error_code,
            error_message: message.error_message,
        }
    }
}

/// How the texts of a collection are indexed for keyword search.
#[derive(Debug, Serialize)]
struct KeywordIndex {
    language: Option<Language>,
}

/// What fills a collection.
#[derive(Debug, Serialize)]
struct Fingerprint {
    provider: String,
    model: String,
    revision: String,
    dimension: u32,
    pooling: Option<Pooling>,
    normalized: bool,
    query_instruction: String,
    document_instruction: String,
    max_tokens: u32,
    weights_sha256: String,
}

impl From<v1::Fingerprint> for Fingerprint {
    fn from(message: v1::Fingerprint) -> Self {
        Self {
            provider: message.provider,
            model: message.model,
            revision: message.revision,
            dimension: message.dimension,
            pooling: Pooling::from_message(message.pooling),
            normalized: message.normalized,
            query_instruction: message.query_instruction,
            document_instruction: message.document_instruction,
            max_tokens: message.max_tokens,
            weights_sha256: message.weights_sha256,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use toller_api::convert::{Encoding, metadata_to_message, vector_to_message};

    use super::*;

    /// A hit for tests of what is printed.
    pub(crate) fn hit(rank: u32, source: &str, text: &str) -> v1::ScoredDocument {
        let metadata = BTreeMap::from([
            ("source".to_owned(), Value::from(source)),
            ("big".to_owned(), Value::Int((1 << 53) + 1)),
            ("ratio".to_owned(), Value::Double(1.0)),
        ]);
        v1::ScoredDocument {
            document: Some(v1::Document {
                id: Some(format!("id-{rank}")),
                page_content: text.to_owned(),
                metadata: metadata_to_message(&metadata),
                vectors: None,
            }),
            score: 0.875,
            relevance: Some(0.875),
            metric: v1::Metric::Cosine.into(),
            rank,
            sources: vec![v1::SourceScore { source: "similarity".to_owned(), score: 0.875, rank }],
            vector: Some(vector_to_message(&[0.1, 1.0], Encoding::Packed)),
            ..Default::default()
        }
    }

    #[test]
    fn hits_keep_types_and_all_fields() {
        let json = serde_json::to_string(&Hit::from(hit(1, "a.md", "text"))).unwrap();
        let expected = concat!(
            r#"{"rank":1,"score":0.875,"relevance":0.875,"metric":"cosine","#,
            r#""document":{"id":"id-1","page_content":"text","metadata":{"big":9007199254740993,"ratio":1.0,"source":"a.md"}},"#,
            r#""sources":[{"source":"similarity","score":0.875,"rank":1}],"vector":[0.1,1.0]}"#
        );
        assert_eq!(json, expected);
    }

    #[test]
    fn a_fused_hit_has_no_relevance_and_no_metric() {
        let fused = v1::ScoredDocument { relevance: None, metric: 0, ..hit(1, "a", "b") };
        let json = serde_json::to_value(Hit::from(fused)).unwrap();
        assert!(json["relevance"].is_null() && json["metric"].is_null(), "{json}");
    }
}
