//! Ids that the server makes.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};
use toller_core::{CollectionName, DocumentId, Metadata, Tenant, Value};
use uuid::Uuid;

/// Namespace of the ids of writes with a request id; never changed, since retries of old requests must find their documents.
const NAMESPACE: Uuid = Uuid::from_u128(0x6f1d_3c52_8e0b_4a4e_9c55_a1b7_40d2_77e3);

/// A new id that sorts by time (UUIDv7).
pub(crate) fn fresh_id() -> Result<DocumentId, String> {
    DocumentId::new(Uuid::now_v7().to_string())
}

/// Where a document stands: what, besides its content, decides the id of a write with a request id.
pub(crate) struct Place<'a> {
    pub(crate) tenant: &'a Tenant,
    pub(crate) collection: &'a CollectionName,
    pub(crate) request_id: &'a str,
    pub(crate) index: usize,
}

/// The id that the same document of the same request always gets: UUIDv5 of place and content.
///
/// The content is part of it, so that a request id that is used again for something else overwrites nothing.
pub(crate) fn repeatable_id(
    place: &Place<'_>,
    page_content: &str,
    metadata: &Metadata,
    vector: Option<&[f32]>,
    named: &BTreeMap<String, Vec<f32>>,
) -> Result<DocumentId, String> {
    let mut content = Sha256Sink(Sha256::new());
    put_text(page_content, &mut content);
    put_map(metadata, &mut content);
    if let Some(vector) = vector {
        put_vector(vector, &mut content);
    }
    // After a sign that no vector begins with: documents without named vectors keep the ids that they always had.
    if !named.is_empty() {
        content.put(b"named");
        put_count(named.len(), &mut content);
        for (name, vector) in named {
            put_text(name, &mut content);
            put_vector(vector, &mut content);
        }
    }
    let mut name = Vec::new();
    put_text(place.tenant.as_str(), &mut name);
    put_text(place.collection.as_str(), &mut name);
    put_text(place.request_id, &mut name);
    put_count(place.index, &mut name);
    name.put(&content.0.finalize());
    DocumentId::new(Uuid::new_v5(&NAMESPACE, &name).to_string())
}

/// Takes the bytes of an encoding in which no two values look alike: every part has its type and its length before it.
/// Written out here rather than left to a JSON library, whose spelling of numbers may change with its version.
trait Sink {
    fn put(&mut self, bytes: &[u8]);
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

struct Sha256Sink(Sha256);

impl Sink for Sha256Sink {
    fn put(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }
}

fn put_count(count: usize, sink: &mut impl Sink) {
    sink.put(&(count as u64).to_le_bytes());
}

fn put_vector(vector: &[f32], sink: &mut impl Sink) {
    put_count(vector.len(), sink);
    for value in vector {
        sink.put(&value.to_bits().to_le_bytes());
    }
}

fn put_text(text: &str, sink: &mut impl Sink) {
    put_count(text.len(), sink);
    sink.put(text.as_bytes());
}

fn put_map(entries: &Metadata, sink: &mut impl Sink) {
    put_count(entries.len(), sink);
    for (key, value) in entries {
        put_text(key, sink);
        put_value(value, sink);
    }
}

fn put_value(value: &Value, sink: &mut impl Sink) {
    match value {
        Value::Null => sink.put(b"n"),
        Value::Bool(value) => sink.put(if *value { b"t" } else { b"f" }),
        Value::Int(value) => {
            sink.put(b"i");
            sink.put(&value.to_le_bytes());
        }
        Value::Double(value) => {
            sink.put(b"d");
            sink.put(&value.to_bits().to_le_bytes());
        }
        Value::String(value) => {
            sink.put(b"s");
            put_text(value, sink);
        }
        Value::List(items) => {
            sink.put(b"l");
            put_count(items.len(), sink);
            for item in items {
                put_value(item, sink);
            }
        }
        Value::Map(entries) => {
            sink.put(b"m");
            put_map(entries, sink);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(tenant: &str, collection: &str, request: &str, index: usize, text: &str, metadata: &Metadata) -> String {
        let (tenant, collection) = (Tenant::new(tenant).unwrap(), CollectionName::new(collection).unwrap());
        let place = Place { tenant: &tenant, collection: &collection, request_id: request, index };
        repeatable_id(&place, text, metadata, None, &BTreeMap::new()).unwrap().to_string()
    }

    #[test]
    fn every_part_counts_and_nothing_else() {
        let empty = Metadata::new();
        let one = Metadata::from([("a".to_owned(), Value::Int(1))]);
        let same_by_value = Metadata::from([("a".to_owned(), Value::Double(1.0))]);
        let ids = [
            id("t", "c", "r", 0, "x", &empty),
            id("u", "c", "r", 0, "x", &empty),
            id("t", "d", "r", 0, "x", &empty),
            id("tc", "r", "", 0, "x", &empty),
            id("t", "c", "s", 0, "x", &empty),
            id("t", "c", "r", 1, "x", &empty),
            id("t", "c", "r", 0, "y", &empty),
            id("t", "c", "r", 0, "x", &one),
            id("t", "c", "r", 0, "x", &same_by_value),
        ];
        let distinct: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert_eq!(id("t", "c", "r", 0, "x", &one), id("t", "c", "r", 0, "x", &one));
    }

    #[test]
    fn vectors_count_with_their_names() {
        let (tenant, collection) = (Tenant::new("t").unwrap(), CollectionName::new("c").unwrap());
        let place = Place { tenant: &tenant, collection: &collection, request_id: "r", index: 0 };
        let id = |vector: Option<&[f32]>, named: &[(&str, &[f32])]| {
            let named = named.iter().map(|(name, vector)| ((*name).to_owned(), vector.to_vec())).collect();
            repeatable_id(&place, "x", &Metadata::new(), vector, &named).unwrap().to_string()
        };
        let ids = [
            id(None, &[]),
            id(Some(&[1.0]), &[]),
            id(Some(&[2.0]), &[]),
            id(None, &[("a", &[1.0])]),
            id(None, &[("b", &[1.0])]),
            id(None, &[("a", &[1.0]), ("b", &[1.0])]),
            id(Some(&[1.0]), &[("a", &[1.0])]),
        ];
        let distinct: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
    }

    #[test]
    fn the_encoding_never_changes() {
        let metadata = Metadata::from([
            ("double".to_owned(), Value::Double(0.1)),
            ("list".to_owned(), Value::from(vec![Value::Null, Value::Bool(true), Value::Int(-7)])),
            ("text".to_owned(), Value::from("ü")),
        ]);
        assert_eq!(id("tenant", "docs", "request-1", 3, "hello", &metadata), "a54380cb-2df4-5328-9509-e1bf84a24352");
    }
}
