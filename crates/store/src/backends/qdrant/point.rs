//! Records as the server keeps them: one point for each version of a record, with the document in its payload.
//!
//! The metadata lies there twice: as text, from which it is read, since a server may round numbers; and as values, on which the
//! server filters. For cosine, vectors are brought to unit length here; a vector of unit length stays itself to the bit.

use std::collections::HashMap;
use std::sync::Arc;

use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::with_payload_selector::SelectorOptions;
use qdrant_client::qdrant::{
    DenseVector, ListValue, NamedVectors, PayloadIncludeSelector, PointId, PointStruct, SparseVector, Struct,
    Value as Stored, Vector as StoredVector, Vectors, VectorsOutput, VectorsSelector, WithPayloadSelector,
    WithVectorsSelector, point_id, vector, vector_output, vectors, vectors_output, with_vectors_selector,
};
use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::metric::squared_norm;
use toller_core::{Document, DocumentId, Metadata, Metric, Record, Tenant, Value, Vector, VectorName};
use uuid::Uuid;

use super::error::damaged;
use super::sort_key::{FIELDS, words_of};
use crate::keyword::{Analyzer, TermWeight, document_vector};

/// Namespace of the ids of points; never changed, since they stand in every server.
const NAMESPACE: Uuid = Uuid::from_u128(0x8f1e_27a0_54c3_4d0b_9e6d_30b7_7c12_e95a);

/// The name of the vectors that searches compare. Named, so that others can stand beside them.
pub(super) const DENSE: &str = "dense";

/// The name of the sparse vectors of terms.
pub(super) const KEYWORDS: &str = "keywords";

/// Names in a payload. What a caller may name lies below [`METADATA`], so that it cannot stand for anything else.
pub(super) const TENANT: &str = "tenant";
pub(super) const INSTANCE: &str = "instance";
pub(super) const BORN: &str = "born";
pub(super) const DIED: &str = "died";
pub(super) const ID: &str = "id";
pub(super) const TERMS: &str = "terms";
pub(super) const METADATA: &str = "metadata";
const TEXT: &str = "text";
const EXACT_METADATA: &str = "exact_metadata";

/// What [`DIED`] is for a row that lives: more than any number of a commit, and exact as a double.
pub(super) const ALIVE: u64 = (1 << 53) - 1;

/// How far a squared length may be from 1 and still be unit length: what rounding to `f32` leaves.
const UNIT_TOLERANCE: f64 = 1e-6;

/// A record that is ready to be written, but for the number of its commit.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    /// The document.
    pub(super) document: Arc<Document>,
    /// The elements of each dense vector, by the server's name of its space.
    dense: Vec<(String, Vec<f32>)>,
    terms: Vec<TermWeight>,
}

impl Prepared {
    /// Makes ready what a record becomes. O(length of its text).
    pub(super) fn new(record: Record, params: &VectorParams) -> Self {
        let terms = match params.keyword {
            Some(keyword) => document_vector(Analyzer::new(keyword.language), &record.document.page_content),
            None => Vec::new(),
        };
        let mut dense = vec![(DENSE.to_owned(), as_compared(&record.vector, params.metric))];
        for (name, space) in &params.named {
            dense.extend(record.named.get(name).map(|vector| (named(name), as_compared(vector, space.metric))));
        }
        Self { dense, document: record.document, terms }
    }

    /// The point, for a row that is born with a commit.
    pub(super) fn point(&self, tenant: &Tenant, instance: &str, born: u64) -> Result<PointStruct> {
        let document = &self.document;
        let exact = serde_json::to_string(&document.metadata)
            .map_err(|fault| Error::Internal(format!("metadata cannot be written: {fault}")))?;
        let mut payload = HashMap::from([
            (TENANT.to_owned(), text(tenant.as_str())),
            (INSTANCE.to_owned(), text(instance)),
            (BORN.to_owned(), number(born)),
            (DIED.to_owned(), number(ALIVE)),
            (ID.to_owned(), text(document.id.as_str())),
            (TEXT.to_owned(), text(&document.page_content)),
            (EXACT_METADATA.to_owned(), text(&exact)),
            (METADATA.to_owned(), map(&document.metadata)),
        ]);
        for (field, word) in FIELDS.iter().zip(words_of(&document.id)) {
            payload.insert((*field).to_owned(), number(word));
        }
        let mut named: HashMap<String, StoredVector> = HashMap::new();
        for (space, elements) in &self.dense {
            let dense = vector::Vector::Dense(DenseVector { data: elements.clone() });
            named.insert(space.clone(), StoredVector { vector: Some(dense), ..Default::default() });
        }
        // A text without terms has no such vector.
        if !self.terms.is_empty() {
            let (indices, values) = self.terms.iter().map(|element| (element.term, element.weight)).unzip();
            let terms = vector::Vector::Sparse(SparseVector { values, indices });
            named.insert(KEYWORDS.to_owned(), StoredVector { vector: Some(terms), ..Default::default() });
            let terms = self.terms.iter().map(|element| number(element.term.into())).collect();
            payload.insert(TERMS.to_owned(), list(terms));
        }
        let named = vectors::VectorsOptions::Vectors(NamedVectors { vectors: named });
        Ok(PointStruct {
            id: Some(point_id(&[tenant.as_str(), instance, document.id.as_str()], born)),
            payload,
            vectors: Some(Vectors { vectors_options: Some(named) }),
        })
    }
}

/// The id of a point: UUIDv5 of texts, each after its length, and a number.
pub(super) fn point_id(parts: &[&str], number: u64) -> PointId {
    let mut name = Vec::new();
    for part in parts {
        name.extend_from_slice(&(part.len() as u64).to_le_bytes());
        name.extend_from_slice(part.as_bytes());
    }
    name.extend_from_slice(&number.to_le_bytes());
    let id = Uuid::new_v5(&NAMESPACE, &name).to_string();
    PointId { point_id_options: Some(point_id::PointIdOptions::Uuid(id)) }
}

/// The elements that the server is to compare: for cosine, those of the vector brought to unit length.
pub(super) fn as_compared(vector: &Vector, metric: Metric) -> Vec<f32> {
    let elements = vector.as_slice();
    let squared = squared_norm(elements);
    if metric != Metric::Cosine || (squared - 1.0).abs() <= UNIT_TOLERANCE {
        return elements.to_vec();
    }
    let length = squared.sqrt();
    elements.iter().map(|element| (f64::from(*element) / length) as f32).collect()
}

/// A text in a payload.
pub(super) fn text(text: &str) -> Stored {
    Stored { kind: Some(Kind::StringValue(text.to_owned())) }
}

/// A number in a payload.
pub(super) fn number(number: u64) -> Stored {
    Stored { kind: Some(Kind::IntegerValue(number as i64)) }
}

/// A list in a payload.
pub(super) fn list(values: Vec<Stored>) -> Stored {
    Stored { kind: Some(Kind::ListValue(ListValue { values })) }
}

fn map(entries: &Metadata) -> Stored {
    let fields = entries.iter().map(|(key, value)| (key.clone(), stored(value))).collect();
    Stored { kind: Some(Kind::StructValue(Struct { fields })) }
}

fn stored(value: &Value) -> Stored {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Int(value) => Kind::IntegerValue(*value),
        Value::Double(value) => Kind::DoubleValue(*value),
        Value::String(value) => Kind::StringValue(value.clone()),
        Value::List(values) => return list(values.iter().map(stored).collect()),
        Value::Map(entries) => return map(entries),
    };
    Stored { kind: Some(kind) }
}

/// The text at a field of a payload.
pub(super) fn take_text(payload: &mut HashMap<String, Stored>, field: &str) -> Result<String> {
    match payload.remove(field).and_then(|value| value.kind) {
        Some(Kind::StringValue(text)) => Ok(text),
        _ => Err(damaged(format!("has no {field}"))),
    }
}

/// The id that stands in a payload.
pub(super) fn id_of(payload: &mut HashMap<String, Stored>) -> Result<DocumentId> {
    DocumentId::new(&take_text(payload, ID)?).map_err(|fault| damaged(format!("has an id that {fault}")))
}

/// The document that stands in a payload.
pub(super) fn document_of(mut payload: HashMap<String, Stored>) -> Result<Arc<Document>> {
    let id = id_of(&mut payload)?;
    let page_content = take_text(&mut payload, TEXT)?;
    let metadata = serde_json::from_str(&take_text(&mut payload, EXACT_METADATA)?)
        .map_err(|fault| damaged(format!("has unreadable metadata: {fault}")))?;
    Ok(Arc::new(Document { id, page_content, metadata }))
}

/// The vectors of a point.
#[derive(Debug, Default)]
pub(super) struct StoredVectors {
    dense: HashMap<String, Vec<f32>>,
    terms: Vec<(u32, f32)>,
}

impl StoredVectors {
    /// Takes a point's vectors apart.
    pub(super) fn of(vectors: Option<VectorsOutput>) -> Self {
        let mut found = Self::default();
        let Some(vectors_output::VectorsOptions::Vectors(named)) = vectors.and_then(|output| output.vectors_options)
        else {
            return found;
        };
        for (name, output) in named.vectors {
            match output.into_vector() {
                vector_output::Vector::Dense(dense) => drop(found.dense.insert(name, dense.data)),
                vector_output::Vector::Sparse(sparse) if name == KEYWORDS => {
                    found.terms = sparse.indices.into_iter().zip(sparse.values).collect();
                    found.terms.sort_unstable_by_key(|(term, _)| *term);
                }
                _ => {}
            }
        }
        found
    }

    /// The record of a document, when its dense vectors came along.
    pub(super) fn record(mut self, document: Arc<Document>, params: &VectorParams) -> Result<Record> {
        let mut take = |space: &str, metric: Metric| match self.dense.remove(space) {
            None => Ok(None),
            Some(elements) => {
                Vector::new(elements, metric).map(Some).map_err(|fault| damaged(format!("has a vector that {fault}")))
            }
        };
        let main = take(DENSE, params.metric)?.ok_or_else(|| damaged("has no dense vector"))?;
        let mut record = Record::new(document, main);
        for (name, space) in &params.named {
            if let Some(vector) = take(&named(name), space.metric)? {
                record.named.insert(name.clone(), vector);
            }
        }
        Ok(record)
    }

    /// The terms of the text, ascending, with their weights; none for a text without terms.
    pub(super) fn terms(&self) -> &[(u32, f32)] {
        &self.terms
    }
}

/// What of a payload is to come with a point.
pub(super) fn with_fields(fields: &[&str]) -> Option<WithPayloadSelector> {
    let fields = fields.iter().map(|field| (*field).to_owned()).collect();
    Some(WithPayloadSelector { selector_options: Some(SelectorOptions::Include(PayloadIncludeSelector { fields })) })
}

/// Of a payload, what makes a document.
pub(super) fn with_document() -> Option<WithPayloadSelector> {
    with_fields(&[ID, TEXT, EXACT_METADATA])
}

/// The server's name of a named space: never one of those above.
pub(super) fn named(name: &VectorName) -> String {
    format!("named-{name}")
}

/// The server's names of all dense vectors: those that make a record.
pub(super) fn dense_names(params: &VectorParams) -> Vec<String> {
    std::iter::once(DENSE.to_owned()).chain(params.named.keys().map(named)).collect()
}

/// The server's names of all vectors.
pub(super) fn all_names(params: &VectorParams) -> Vec<String> {
    dense_names(params).into_iter().chain([KEYWORDS.to_owned()]).collect()
}

/// Which vectors are to come with a point.
pub(super) fn with_vectors(names: Vec<String>) -> Option<WithVectorsSelector> {
    let options = if names.is_empty() {
        with_vectors_selector::SelectorOptions::Enable(false)
    } else {
        with_vectors_selector::SelectorOptions::Include(VectorsSelector { names })
    };
    Some(WithVectorsSelector { selector_options: Some(options) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_an_id_do_not_run_together() {
        assert_ne!(point_id(&["a", "bc"], 1), point_id(&["ab", "c"], 1));
        assert_ne!(point_id(&["a", "bc"], 1), point_id(&["a", "bc"], 2));
    }

    #[test]
    fn ids_never_change() {
        let point_id::PointIdOptions::Uuid(id) = point_id(&["default", "i", "a"], 1).point_id_options.unwrap() else {
            panic!("an id is a UUID");
        };
        assert_eq!(id, "76d386bf-f830-5130-a6ad-bcaa57a29318");
    }
}
