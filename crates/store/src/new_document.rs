//! A document as a caller gives it, and the checks that come before anything is paid for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use toller_core::error::{Error, FieldViolation, Result, join_path};
use toller_core::value::check_metadata;
use toller_core::vector_space::no_such_space;
use toller_core::{
    CollectionSpec, Document, DocumentId, Metadata, NamedVectors, RequestContext, Vector, VectorName, VectorSpace,
};

use crate::made_id::{Place, fresh_id, repeatable_id};

/// Longest request id in bytes.
pub const MAX_REQUEST_ID_BYTES: usize = 128;

/// Most violations that one error lists; a request where everything is wrong need not be told all of it.
const MAX_VIOLATIONS: usize = 32;

/// A document to be written.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NewDocument {
    /// Its id; made by the server when there is none.
    pub id: Option<String>,
    /// The text; may be empty.
    pub page_content: String,
    /// Typed metadata. Stored as a copy: nothing that the caller keeps is shared with the store.
    pub metadata: Metadata,
    /// Its main vector, when the caller brings one; else the text is embedded.
    pub vector: Option<Vec<f32>>,
    /// Its vectors in named spaces, which the caller always brings; it need not have one in each.
    pub named: BTreeMap<String, Vec<f32>>,
}

/// A [`NewDocument`] that passed its checks.
#[derive(Debug)]
pub(crate) struct CheckedDocument {
    pub(crate) document: Arc<Document>,
    pub(crate) vector: Option<Vector>,
    pub(crate) named: NamedVectors,
}

/// Checks documents for a collection and gives ids to those without. O(size of the documents).
pub(crate) fn check_documents(
    context: &RequestContext,
    spec: &CollectionSpec,
    documents: Vec<NewDocument>,
    request_id: Option<&str>,
) -> Result<Vec<CheckedDocument>> {
    check_request_id(request_id)?;
    let mut violations = Vec::new();
    let mut first_index: HashMap<DocumentId, usize> = HashMap::with_capacity(documents.len());
    let mut checked = Vec::with_capacity(documents.len());
    for (index, document) in documents.into_iter().enumerate() {
        if violations.len() >= MAX_VIOLATIONS {
            break;
        }
        let mut fault = |field: &str, description: String| {
            violations.push(FieldViolation { field: join_path(&format!("documents[{index}]"), field), description });
        };
        if let Err((path, description)) = check_metadata(&document.metadata) {
            fault(&join_path("metadata", &path), description);
        }
        let id = match &document.id {
            Some(id) if id.is_empty() => Err("must not be empty; leave it out to have one made".to_owned()),
            Some(id) => DocumentId::new(id),
            None => make_id(context, spec, request_id, index, &document),
        };
        let id = id.map_err(|description| fault("id", description)).ok();
        if let Some(id) = &id
            && let Some(earlier) = first_index.get(id)
        {
            fault("id", format!("\"{id}\" is the id of documents[{earlier}] already; ids in one request must differ"));
        }
        let NewDocument { page_content, metadata, vector, named: given, .. } = document;
        let vector = vector.map(|values| check_vector(spec, values)).transpose();
        let vector = vector.map_err(|description| fault("vectors.dense", description)).ok();
        let mut named = NamedVectors::new();
        for (name, values) in given {
            match check_named_vector(spec, &name, values) {
                Ok((name, vector)) => drop(named.insert(name, vector)),
                Err(description) => fault(&format!("vectors.named[{name:?}]"), description),
            }
        }
        if let (Some(id), Some(vector)) = (id, vector) {
            first_index.entry(id.clone()).or_insert(index);
            checked.push(CheckedDocument {
                document: Arc::new(Document { id, page_content, metadata }),
                vector,
                named,
            });
        }
    }
    Error::from_violations(violations)?;
    Ok(checked)
}

fn check_request_id(request_id: Option<&str>) -> Result<()> {
    match request_id {
        Some(id) if id.is_empty() || id.len() > MAX_REQUEST_ID_BYTES => Err(Error::invalid(
            "request_id",
            format!("must be 1 to {MAX_REQUEST_ID_BYTES} bytes long, got {}; leave it out for none", id.len()),
        )),
        _ => Ok(()),
    }
}

fn make_id(
    context: &RequestContext,
    spec: &CollectionSpec,
    request_id: Option<&str>,
    index: usize,
    document: &NewDocument,
) -> Result<DocumentId, String> {
    match request_id {
        None => fresh_id(),
        Some(request_id) => repeatable_id(
            &Place { tenant: context.tenant(), collection: &spec.name, request_id, index },
            &document.page_content,
            &document.metadata,
            document.vector.as_deref(),
            &document.named,
        ),
    }
}

/// A main vector that a caller brings, checked for the collection.
pub(crate) fn check_vector(spec: &CollectionSpec, values: Vec<f32>) -> Result<Vector, String> {
    main_space(spec).vector(values)
}

/// A vector of so many dimensions fits into the collection.
pub(crate) fn check_dimension(spec: &CollectionSpec, found: usize) -> Result<(), String> {
    main_space(spec).check_dimension(found)
}

fn main_space(spec: &CollectionSpec) -> VectorSpace {
    VectorSpace { dimension: spec.fingerprint.dimension, metric: spec.metric }
}

fn check_named_vector(spec: &CollectionSpec, name: &str, values: Vec<f32>) -> Result<(VectorName, Vector), String> {
    let known = VectorName::new(name).ok().and_then(|name| spec.named.get_key_value(&name));
    let (name, space) = known.ok_or_else(|| no_such_space(name, &spec.named))?;
    Ok((name.clone(), space.vector(values)?))
}
