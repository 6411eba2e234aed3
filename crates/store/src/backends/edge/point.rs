//! Records as the engine keeps them: one point each, with the document in its payload.
//!
//! Metadata lies there as plain JSON, in which integers and doubles stay what they are, so that the engine can filter on it.
//! For cosine, vectors are brought to unit length here and not by the engine, which leaves very short ones as they are; a
//! vector of unit length stays itself to the bit.

use std::collections::HashMap;
use std::iter::Peekable;
use std::sync::Arc;

use qdrant_edge as engine;
use qdrant_edge::external::serde_json::{Map, Value as Json};
use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::metric::squared_norm;
use toller_core::{Document, DocumentId, Metadata, Metric, Record, Tenant, Vector};
use uuid::Uuid;

use super::engine::{DENSE, named};
use super::keywords::KEYWORDS;
use crate::keyword::{Analyzer, document_vector};

/// Namespace of the ids of points; never changed, since they stand in every folder.
const NAMESPACE: Uuid = Uuid::from_u128(0x0d5b_91c4_7a3e_4f16_8b20_5e97_c1d8_34af);

/// Names in a payload.
pub(super) const ID: &str = "id";
const TEXT: &str = "text";
pub(super) const METADATA: &str = "metadata";

/// How far a squared length may be from 1 and still be unit length: what rounding to `f32` leaves.
const UNIT_TOLERANCE: f64 = 1e-6;

/// The id of a record's point: UUIDv5 of the tenant and the document's id, each after its length.
pub(super) fn point_id(tenant: &Tenant, id: &DocumentId) -> Uuid {
    let mut name = Vec::new();
    for part in [tenant.as_str(), id.as_str()] {
        name.extend_from_slice(&(part.len() as u64).to_le_bytes());
        name.extend_from_slice(part.as_bytes());
    }
    Uuid::new_v5(&NAMESPACE, &name)
}

/// A record as a point.
pub(super) fn point_of(
    tenant: &Tenant,
    record: &Record,
    params: &VectorParams,
) -> Result<engine::PointStructPersisted> {
    let document = &record.document;
    let metadata = serde_json::to_value(&document.metadata)
        .map_err(|fault| Error::Internal(format!("metadata cannot be written: {fault}")))?;
    let payload = Map::from_iter([
        (ID.to_owned(), Json::String(document.id.to_string())),
        (TEXT.to_owned(), Json::String(document.page_content.clone())),
        (METADATA.to_owned(), metadata),
    ]);
    let dense = engine::VectorPersisted::Dense(as_compared(&record.vector, params.metric));
    let mut vectors = HashMap::from([(DENSE.to_owned(), dense)]);
    for (name, vector) in &record.named {
        // The record was checked: it has no others.
        let Some(space) = params.named.get(name) else { continue };
        vectors.insert(named(name), engine::VectorPersisted::Dense(as_compared(vector, space.metric)));
    }
    if let Some(keyword) = params.keyword {
        let terms = document_vector(Analyzer::new(keyword.language), &document.page_content);
        // A text without terms has no such vector.
        if !terms.is_empty() {
            let (indices, values) = terms.iter().map(|element| (element.term, element.weight)).unzip();
            let terms = engine::SparseVector { indices, values };
            vectors.insert(KEYWORDS.to_owned(), engine::VectorPersisted::Sparse(terms));
        }
    }
    Ok(engine::PointStructPersisted {
        id: engine::PointId::Uuid(point_id(tenant, &document.id)),
        vector: engine::VectorStructPersisted::Named(vectors),
        payload: Some(engine::Payload(payload)),
    })
}

/// The elements that the engine is to compare: for cosine, those of the vector brought to unit length.
pub(super) fn as_compared(vector: &Vector, metric: Metric) -> Vec<f32> {
    let elements = vector.as_slice();
    let squared = squared_norm(elements);
    if metric != Metric::Cosine || (squared - 1.0).abs() <= UNIT_TOLERANCE {
        return elements.to_vec();
    }
    let length = squared.sqrt();
    elements.iter().map(|element| (f64::from(*element) / length) as f32).collect()
}

/// The id that stands in a payload.
pub(super) fn id_of(payload: Option<&engine::Payload>) -> Result<DocumentId> {
    let id =
        payload.and_then(|payload| payload.0.get(ID)).and_then(Json::as_str).ok_or_else(|| damaged("has no id"))?;
    DocumentId::new(id).map_err(|fault| damaged(&format!("has an id that {fault}")))
}

/// The document that stands in a payload.
pub(super) fn document_of(payload: Option<engine::Payload>) -> Result<Arc<Document>> {
    let id = id_of(payload.as_ref())?;
    let mut payload = payload.ok_or_else(|| damaged("has no payload"))?.0;
    let Some(Json::String(page_content)) = payload.remove(TEXT) else { return Err(damaged("has no text")) };
    let metadata = metadata_of(Some(engine::Payload(payload)))?;
    Ok(Arc::new(Document { id, page_content, metadata }))
}

/// The metadata that stands in a payload.
pub(super) fn metadata_of(payload: Option<engine::Payload>) -> Result<Metadata> {
    let mut payload = payload.ok_or_else(|| damaged("has no payload"))?.0;
    let metadata = payload.remove(METADATA).ok_or_else(|| damaged("has no metadata"))?;
    serde_json::from_value(metadata).map_err(|fault| damaged(&format!("has unreadable metadata: {fault}")))
}

/// What is to come with a point: its id and its metadata, without its text.
pub(super) fn with_metadata() -> Result<engine::WithPayloadInterface> {
    let path = |name: &str| name.parse().map_err(|()| Error::Internal(format!("the path {name} cannot be parsed")));
    Ok(engine::WithPayloadInterface::Fields(vec![path(ID)?, path(METADATA)?]))
}

/// The record that a document and the vectors of its point are: the main one, and those of named spaces where it has one.
pub(super) fn record_of(
    document: Arc<Document>,
    vectors: Option<engine::VectorStructInternal>,
    params: &VectorParams,
) -> Result<Record> {
    let Some(engine::VectorStructInternal::Named(mut stored)) = vectors else { return Err(damaged("has no vectors")) };
    let mut take = |space: &str, metric: Metric| match stored.remove(space) {
        Some(engine::VectorInternal::Dense(elements)) => {
            let vector = Vector::new(elements, metric);
            vector.map(Some).map_err(|fault| damaged(&format!("has a vector that {fault}")))
        }
        _ => Ok(None),
    };
    let vector = take(DENSE, params.metric)?.ok_or_else(|| damaged("has no dense vector"))?;
    let mut record = Record::new(document, vector);
    for (name, space) in &params.named {
        if let Some(vector) = take(&named(name), space.metric)? {
            record.named.insert(name.clone(), vector);
        }
    }
    Ok(record)
}

/// The terms of a point's text, ascending, with their weights; none for a text without terms.
#[derive(Debug, Default)]
pub(super) struct TermsOfPoint(engine::SparseVector);

impl TermsOfPoint {
    /// Each term with its weight.
    pub(super) fn elements(&self) -> Peekable<impl Iterator<Item = (u32, f32)> + '_> {
        self.0.indices.iter().copied().zip(self.0.values.iter().copied()).peekable()
    }

    /// The terms.
    pub(super) fn terms(&self) -> &[u32] {
        &self.0.indices
    }
}

/// The terms that stand in the vectors of a point.
pub(super) fn terms_of(vectors: Option<&engine::VectorStructInternal>) -> TermsOfPoint {
    let Some(engine::VectorStructInternal::Named(named)) = vectors else { return TermsOfPoint::default() };
    let Some(engine::VectorInternal::Sparse(terms)) = named.get(KEYWORDS) else { return TermsOfPoint::default() };
    let mut elements: Vec<(u32, f32)> = terms.indices.iter().copied().zip(terms.values.iter().copied()).collect();
    // The engine gives them in an order of its own.
    elements.sort_unstable_by_key(|(term, _)| *term);
    let (indices, values) = elements.into_iter().unzip();
    TermsOfPoint(engine::SparseVector { indices, values })
}

/// The terms of a point that is to be written.
pub(super) fn terms_of_new(point: &engine::PointStructPersisted) -> &[u32] {
    match &point.vector {
        engine::VectorStructPersisted::Named(named) => match named.get(KEYWORDS) {
            Some(engine::VectorPersisted::Sparse(terms)) => &terms.indices,
            _ => &[],
        },
        _ => &[],
    }
}

/// Which vectors are to come with a point: the dense ones, named or not.
pub(super) fn with_dense(params: &VectorParams) -> engine::WithVector {
    engine::WithVector::Selector(dense_names(params).collect())
}

/// Which vectors are to come with a point: the terms of its text.
pub(super) fn with_keywords() -> engine::WithVector {
    engine::WithVector::Selector(vec![KEYWORDS.to_owned()])
}

/// Which vectors are to come with a point: the dense ones and the terms.
pub(super) fn with_all(params: &VectorParams) -> engine::WithVector {
    engine::WithVector::Selector(dense_names(params).chain([KEYWORDS.to_owned()]).collect())
}

fn dense_names(params: &VectorParams) -> impl Iterator<Item = String> + '_ {
    std::iter::once(DENSE.to_owned()).chain(params.named.keys().map(named))
}

fn damaged(what: &str) -> Error {
    Error::Internal(format!("a stored point {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(tenant: &str, id: &str) -> String {
        point_id(&Tenant::new(tenant).unwrap(), &DocumentId::new(id).unwrap()).to_string()
    }

    #[test]
    fn tenant_and_id_do_not_run_together() {
        assert_ne!(id("a", "bc"), id("ab", "c"));
    }

    #[test]
    fn ids_never_change() {
        assert_eq!(id("default", "a"), "e03fbf02-3ece-5572-b330-5e251485295d");
    }

    #[test]
    fn cosine_vectors_get_unit_length_however_short_or_long_they_are() {
        for scale in [1e-30_f32, 1e-4, 1.0, 1e30] {
            let vector = Vector::new(vec![3.0 * scale, 4.0 * scale], Metric::Cosine).unwrap();
            let unit = as_compared(&vector, Metric::Cosine);
            assert!((squared_norm(&unit) - 1.0).abs() < 1e-6, "{unit:?}");
        }
        let unit = Vector::new(vec![0.6, 0.8], Metric::Cosine).unwrap();
        assert_eq!(as_compared(&unit, Metric::Cosine), unit.as_slice());
    }
}
