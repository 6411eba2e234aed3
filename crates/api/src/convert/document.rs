//! Documents, their metadata and ids.

use std::collections::BTreeMap;
use std::sync::Arc;

use toller_core::{CollectionSpec, Document, DocumentId, Error, Metadata, Record, Result, VectorName};

use super::value::{entries_from_message, value_to_message};
use super::vector::vectors_from_message;
use crate::v1;

/// Metadata from its messages.
///
/// # Errors
/// `InvalidArgument` below `metadata`.
pub fn metadata_from_message(entries: BTreeMap<String, v1::Value>) -> Result<Metadata> {
    entries_from_message(entries).map_err(|error| error.within("metadata"))
}

/// The messages of metadata.
pub fn metadata_to_message(metadata: &Metadata) -> BTreeMap<String, v1::Value> {
    metadata.iter().map(|(key, value)| (key.clone(), value_to_message(value))).collect()
}

/// Ids of a request.
///
/// # Errors
/// `InvalidArgument` with `ids[i]`.
pub fn ids_from_message(ids: &[String]) -> Result<Vec<DocumentId>> {
    let ids = ids.iter().enumerate();
    ids.map(|(index, id)| DocumentId::new(id).map_err(|fault| Error::invalid(format!("ids[{index}]"), fault))).collect()
}

/// A whole document, without vectors.
///
/// # Errors
/// `InvalidArgument` for `id`, which must be there, and below `metadata`; for `vectors` where there are some.
pub fn document_from_message(message: v1::Document) -> Result<Document> {
    let v1::Document { id, page_content, metadata, vectors } = message;
    if vectors.is_some() {
        return Err(Error::invalid("vectors", "must be absent"));
    }
    let id = id.ok_or_else(|| Error::invalid("id", "must be given"))?;
    let id = DocumentId::new(id).map_err(|fault| Error::invalid("id", fault))?;
    Ok(Document { id, page_content, metadata: metadata_from_message(metadata)? })
}

/// A whole document of the collection `spec` with all its vectors, as a server gave it out.
///
/// # Errors
/// As [`document_from_message`]; `InvalidArgument` below `vectors`, which must be there, for what does not fit the collection.
pub fn record_from_message(mut message: v1::Document, spec: &CollectionSpec) -> Result<Record> {
    let vectors = message.vectors.take().ok_or_else(|| Error::invalid("vectors", "must be given"))?;
    let document = Arc::new(document_from_message(message)?);
    let read = || {
        let (main, named) = vectors_from_message(vectors)?;
        let main = main.ok_or_else(|| Error::invalid("dense", "must be given"))?;
        let vector = spec.space(None)?.vector(main).map_err(|fault| Error::invalid("dense", fault))?;
        let mut record = Record::new(document, vector);
        for (name, elements) in named {
            let field = format!("named[{name:?}]");
            let name = VectorName::new(&name).map_err(|fault| Error::invalid(field.as_str(), fault))?;
            let Some(space) = spec.named.get(&name) else {
                return Err(Error::invalid(field, "is a space that the collection does not have"));
            };
            let vector = space.vector(elements).map_err(|fault| Error::invalid(field, fault))?;
            record.named.insert(name, vector);
        }
        Ok(record)
    };
    read().map_err(|fault: Error| fault.within("vectors"))
}

/// The message of a document, with its vectors where given.
pub fn document_to_message(document: &Document, vectors: Option<v1::Vectors>) -> v1::Document {
    v1::Document {
        id: Some(document.id.as_str().to_owned()),
        page_content: document.page_content.clone(),
        metadata: metadata_to_message(&document.metadata),
        vectors,
    }
}

#[cfg(test)]
mod tests {
    use toller_core::{Fingerprint, Metric, Value, Vector, VectorSpace};

    use super::super::vector::{Encoding, vectors_to_message};
    use super::*;

    fn spec() -> CollectionSpec {
        let space = VectorSpace { dimension: 1, metric: Metric::Dot };
        CollectionSpec {
            name: toller_core::CollectionName::new("docs").unwrap(),
            description: String::new(),
            labels: BTreeMap::new(),
            metric: Metric::Cosine,
            fingerprint: Fingerprint::client(2),
            created_at_ms: 0,
            keyword: None,
            named: BTreeMap::from([(VectorName::new("title").unwrap(), space)]),
            quantization: None,
            require_tenant: false,
        }
    }

    fn record() -> Record {
        let document = Document {
            id: DocumentId::new("a").unwrap(),
            page_content: "text".to_owned(),
            metadata: Metadata::from([("n".to_owned(), Value::Int((1 << 53) + 1))]),
        };
        let mut record = Record::new(Arc::new(document), Vector::new(vec![0.25, -0.0], Metric::Cosine).unwrap());
        record.named.insert(VectorName::new("title").unwrap(), Vector::new(vec![3.5], Metric::Dot).unwrap());
        record
    }

    #[test]
    fn a_record_and_a_document_survive_the_round_trip() {
        let record = record();
        let vectors = vectors_to_message(&record, Encoding::Packed);
        let message = document_to_message(&record.document, Some(vectors));
        assert_eq!(record_from_message(message, &spec()), Ok(record.clone()));
        let message = document_to_message(&record.document, None);
        assert_eq!(document_from_message(message), Ok((*record.document).clone()));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let record = record();
        let good = document_to_message(&record.document, Some(vectors_to_message(&record, Encoding::Packed)));
        let vectors = good.vectors.clone().unwrap();
        let elements = |packed: &[f32]| v1::Vector { values: packed.to_vec(), ..Default::default() };
        let with = |vectors| v1::Document { vectors, ..good.clone() };
        let other = |name: &str| BTreeMap::from([(name.to_owned(), elements(&[1.0]))]);
        let cases = [
            (v1::Document { id: None, ..good.clone() }, "id: must be given"),
            (v1::Document { id: Some(String::new()), ..good.clone() }, "id: must not be empty"),
            (with(None), "vectors: must be given"),
            (with(Some(v1::Vectors { dense: None, ..vectors.clone() })), "vectors.dense: must be given"),
            (with(Some(v1::Vectors { dense: Some(elements(&[1.0])), ..vectors.clone() })), "vectors.dense: must have"),
            (with(Some(v1::Vectors { dense: Some(elements(&[0.0, 0.0])), ..vectors.clone() })), "vectors.dense: "),
            (with(Some(v1::Vectors { named: other("image"), ..vectors })), "vectors.named[\"image\"]: is a space that"),
        ];
        for (message, expected) in cases {
            let said = record_from_message(message, &spec()).unwrap_err().to_string();
            assert!(said.starts_with(expected), "{said} is not {expected}");
        }
        let said = document_from_message(good).unwrap_err().to_string();
        assert_eq!(said, "vectors: must be absent");
    }
}
