//! What every backend refuses, in the same words.

use std::collections::{BTreeSet, HashMap};

use toller_core::collection::VectorParams;
use toller_core::error::{Error, FieldViolation, ResourceKind, Result, join_path};
use toller_core::metric::squared_norm;
use toller_core::value::check_metadata;
use toller_core::vector::MAX_DIMENSION;
use toller_core::vector_space::{check_named_spaces, no_such_space};
use toller_core::{CollectionName, Document, DocumentId, Metric, Record, Vector, VectorName, VectorSpace};

/// The dimension of a new collection is within its range, and so are its named spaces.
pub(super) fn check_params(params: &VectorParams) -> Result<()> {
    if !(1..=MAX_DIMENSION).contains(&(params.dimension as usize)) {
        let description = format!("must be between 1 and {MAX_DIMENSION}, got {}", params.dimension);
        return Err(Error::invalid("dimension", description));
    }
    check_named_spaces(&params.named)
}

/// A query fits the space that it is for, which is the answer.
pub(super) fn check_query(params: &VectorParams, using: Option<&VectorName>, vector: &Vector) -> Result<VectorSpace> {
    let space = params.space(using)?;
    check_vector(space, vector).map_err(|description| Error::invalid("vector", description))?;
    Ok(space)
}

/// Ids within one call are distinct, metadata can be written to a file, and vectors fit the collection.
#[cfg(any(feature = "edge", feature = "qdrant"))]
pub(super) fn check_records(params: &VectorParams, records: &[Record]) -> Result<()> {
    CheckedIds::default().check(params, records)
}

/// The ids of records that come some at a time, each with its place among all of them.
#[derive(Debug, Default)]
pub(super) struct CheckedIds(HashMap<DocumentId, usize>);

impl CheckedIds {
    /// Ids are distinct, metadata can be written to a file, and vectors fit the collection; for records that come after those that were checked
    /// before.
    pub(super) fn check(&mut self, params: &VectorParams, records: &[Record]) -> Result<()> {
        let main = params.space(None)?;
        let mut violations = Vec::new();
        let before = self.0.len();
        self.0.reserve(records.len());
        for (index, record) in (before..).zip(records) {
            let mut fault = |field: &str, description: String| {
                violations.push(FieldViolation { field: format!("records[{index}].{field}"), description });
            };
            if let Some(earlier) = self.0.insert(record.document.id.clone(), index) {
                fault("id", format!("\"{}\" stands at records[{earlier}] already", record.document.id));
            }
            if let Err((path, description)) = check_metadata(&record.document.metadata) {
                fault(&join_path("metadata", &path), description);
            }
            if let Err(description) = check_vector(main, &record.vector) {
                fault("vector", description);
            }
            for (name, vector) in &record.named {
                let space = params.named.get(name).ok_or_else(|| no_such_space(name, &params.named));
                if let Err(description) = space.and_then(|space| check_vector(*space, vector)) {
                    fault(&format!("named[\"{name}\"]"), description);
                }
            }
        }
        Error::from_violations(violations)
    }

    /// All of them, in no order.
    #[cfg(any(feature = "edge", feature = "qdrant"))]
    pub(super) fn into_ids(self) -> impl Iterator<Item = DocumentId> {
        self.0.into_keys()
    }

    fn contains(&self, id: &DocumentId) -> bool {
        self.0.contains_key(id)
    }

    /// Those of `ids` that are not among them, each once.
    pub(super) fn others(&self, ids: Vec<DocumentId>) -> BTreeSet<DocumentId> {
        ids.into_iter().filter(|id| !self.contains(id)).collect()
    }
}

/// Ids within one call are distinct, and metadata can be written to a file.
pub(super) fn check_documents(documents: &[Document]) -> Result<()> {
    let mut violations = Vec::new();
    let mut first_index = HashMap::with_capacity(documents.len());
    for (index, document) in documents.iter().enumerate() {
        if let Some(earlier) = first_index.insert(&document.id, index) {
            let description = format!("\"{}\" stands at documents[{earlier}] already", document.id);
            violations.push(FieldViolation { field: format!("documents[{index}].id"), description });
        }
        if let Err((path, description)) = check_metadata(&document.metadata) {
            let field = join_path(&format!("documents[{index}].metadata"), &path);
            violations.push(FieldViolation { field, description });
        }
    }
    Error::from_violations(violations)
}

/// A [`Vector`] may have been made for another space.
fn check_vector(space: VectorSpace, vector: &Vector) -> Result<(), String> {
    space.check_dimension(vector.dimension())?;
    if space.metric == Metric::Cosine && squared_norm(vector.as_slice()) == 0.0 {
        return Err("must not be the zero vector: its cosine similarity is undefined".to_owned());
    }
    Ok(())
}

/// There is no such collection.
pub(super) fn not_found(name: &CollectionName) -> Error {
    Error::NotFound { kind: ResourceKind::Collection, name: name.to_string() }
}

/// There is such a collection.
pub(super) fn already_exists(name: &CollectionName) -> Error {
    Error::AlreadyExists { kind: ResourceKind::Collection, name: name.to_string() }
}
