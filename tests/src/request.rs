//! Short ways to write requests and to read answers.

use toller_api::v1;
use toller_api::v1::filter::Kind as FilterKind;
use toller_api::v1::value::Kind as ValueKind;

/// A document with an id.
pub fn document(id: &str, text: &str) -> v1::Document {
    v1::Document { id: Some(id.to_owned()), page_content: text.to_owned(), ..Default::default() }
}

/// A document without an id.
pub fn text_only(text: &str) -> v1::Document {
    v1::Document { page_content: text.to_owned(), ..Default::default() }
}

/// A document with a vector of the client's own.
pub fn point(id: &str, elements: &[f32]) -> v1::Document {
    document(id, &format!("text of {id}")).vector(elements)
}

/// Adds to a document.
pub trait DocumentExt {
    /// With one more metadata entry.
    fn with(self, key: &str, value: v1::Value) -> Self;
    /// With a vector of the client's own.
    fn vector(self, elements: &[f32]) -> Self;
    /// With a vector of the client's own in a named space.
    fn named_vector(self, name: &str, elements: &[f32]) -> Self;
    /// The id of a document in an answer.
    fn id_text(&self) -> &str;
    /// The vector of a document in an answer.
    fn elements(&self) -> Vec<f32>;
}

impl DocumentExt for v1::Document {
    fn with(mut self, key: &str, value: v1::Value) -> Self {
        self.metadata.insert(key.to_owned(), value);
        self
    }

    fn vector(mut self, elements: &[f32]) -> Self {
        self.vectors.get_or_insert_default().dense = Some(packed(elements));
        self
    }

    fn named_vector(mut self, name: &str, elements: &[f32]) -> Self {
        self.vectors.get_or_insert_default().named.insert(name.to_owned(), packed(elements));
        self
    }

    fn id_text(&self) -> &str {
        self.id.as_deref().expect("documents in answers have ids")
    }

    fn elements(&self) -> Vec<f32> {
        elements(self.vectors.as_ref().and_then(|vectors| vectors.dense.as_ref()).expect("the document has a vector"))
    }
}

/// The ids of what came back, in order.
pub trait Ids {
    /// The ids.
    fn ids(&self) -> Vec<String>;
}

impl Ids for Vec<v1::ScoredDocument> {
    fn ids(&self) -> Vec<String> {
        self.iter().map(|hit| hit.document.as_ref().expect("a hit has a document").id_text().to_owned()).collect()
    }
}

impl Ids for Vec<v1::Document> {
    fn ids(&self) -> Vec<String> {
        self.iter().map(|document| document.id_text().to_owned()).collect()
    }
}

/// A vector as bytes.
pub fn packed(elements: &[f32]) -> v1::Vector {
    v1::Vector {
        dimension: u32::try_from(elements.len()).expect("a dimension"),
        packed: elements.iter().flat_map(|element| element.to_le_bytes()).collect(),
        values: Vec::new(),
    }
}

/// A vector as a list of floats.
pub fn floats(elements: &[f32]) -> v1::Vector {
    v1::Vector { values: elements.to_vec(), ..Default::default() }
}

/// The elements of a vector in an answer, whichever way it carries them.
pub fn elements(vector: &v1::Vector) -> Vec<f32> {
    let elements: Vec<f32> = if vector.packed.is_empty() {
        vector.values.clone()
    } else {
        let (chunks, rest) = vector.packed.as_chunks::<4>();
        assert!(rest.is_empty(), "packed has whole elements");
        chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
    };
    assert_eq!(elements.len(), vector.dimension as usize, "the dimension is the number of elements");
    elements
}

/// A query by text.
pub fn text_query(text: &str) -> v1::Query {
    v1::Query { kind: Some(v1::query::Kind::Text(text.to_owned())) }
}

/// A query by vector.
pub fn vector_query(elements: &[f32]) -> v1::Query {
    v1::Query { kind: Some(v1::query::Kind::Vector(packed(elements))) }
}

/// A search of a collection with every default.
pub fn search_in(collection: &str) -> v1::VectorStoreRetriever {
    v1::VectorStoreRetriever { collection: collection.to_owned(), ..Default::default() }
}

/// A search by maximal marginal relevance.
pub fn mmr_in(collection: &str, k: u32, fetch_k: u32, lambda_mult: f64) -> v1::VectorStoreRetriever {
    v1::VectorStoreRetriever {
        search_type: v1::SearchType::Mmr.into(),
        k: Some(k),
        fetch_k: Some(fetch_k),
        lambda_mult: Some(lambda_mult),
        ..search_in(collection)
    }
}

/// A retriever of any kind.
pub fn retriever(name: &str, kind: v1::retriever::Kind) -> v1::Retriever {
    v1::Retriever { name: name.to_owned(), kind: Some(kind), ..Default::default() }
}

/// A retriever that searches by vector.
pub fn vector_store(name: &str, search: v1::VectorStoreRetriever) -> v1::Retriever {
    retriever(name, v1::retriever::Kind::VectorStore(search))
}

/// A retriever that runs a stored one.
pub fn reference(name: &str, to: &str) -> v1::Retriever {
    retriever(name, v1::retriever::Kind::Ref(to.to_owned()))
}

fn value(kind: ValueKind) -> v1::Value {
    v1::Value { kind: Some(kind) }
}

/// The null value.
pub fn null() -> v1::Value {
    value(ValueKind::NullValue(0))
}

/// A boolean.
pub fn boolean(flag: bool) -> v1::Value {
    value(ValueKind::BoolValue(flag))
}

/// A 64-bit integer.
pub fn int(number: i64) -> v1::Value {
    value(ValueKind::IntValue(number))
}

/// A double.
pub fn double(number: f64) -> v1::Value {
    value(ValueKind::DoubleValue(number))
}

/// A string.
pub fn string(text: &str) -> v1::Value {
    value(ValueKind::StringValue(text.to_owned()))
}

/// A list.
pub fn list(values: impl IntoIterator<Item = v1::Value>) -> v1::Value {
    value(ValueKind::ListValue(v1::ListValue { values: values.into_iter().collect() }))
}

/// A map.
pub fn map<'a>(entries: impl IntoIterator<Item = (&'a str, v1::Value)>) -> v1::Value {
    let entries = entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    value(ValueKind::MapValue(v1::MapValue { entries }))
}

/// A filter.
pub fn filter(kind: FilterKind) -> v1::Filter {
    v1::Filter { kind: Some(kind) }
}

/// A filter that compares the value at a key, such as `compare(Kind::Eq, "year", int(2001))`.
pub fn compare(kind: fn(v1::Comparison) -> FilterKind, key: &str, value: v1::Value) -> v1::Filter {
    filter(kind(v1::Comparison { key: key.to_owned(), value: Some(value) }))
}

/// A filter that compares the value at a key with several.
pub fn compare_list(
    kind: fn(v1::ListComparison) -> FilterKind,
    key: &str,
    values: impl IntoIterator<Item = v1::Value>,
) -> v1::Filter {
    filter(kind(v1::ListComparison { key: key.to_owned(), values: values.into_iter().collect() }))
}

/// A filter of several, such as `combine(Kind::AllOf, [...])`.
pub fn combine(kind: fn(v1::FilterList) -> FilterKind, filters: impl IntoIterator<Item = v1::Filter>) -> v1::Filter {
    filter(kind(v1::FilterList { filters: filters.into_iter().collect() }))
}

/// The opposite of a filter.
pub fn negate(inner: v1::Filter) -> v1::Filter {
    filter(FilterKind::Negate(Box::new(inner)))
}
