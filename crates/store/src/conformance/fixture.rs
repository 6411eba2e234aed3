//! What the cases are written with.

use std::sync::Arc;

use toller_core::collection::VectorParams;
use toller_core::filter::KeyPath;
use toller_core::vector_store::{ScoredRecord, VectorSearch};
use toller_core::{
    CollectionName, Document, DocumentId, Filter, Metadata, Metric, Principal, Record, RequestContext, Role, Tenant,
    Value, Vector, VectorStore,
};

/// How far a score may be from its definition.
pub const SCORE_TOLERANCE: f64 = 2e-6;

/// A context of a tenant with every right.
pub fn context(tenant: &str) -> RequestContext {
    let tenant = Tenant::new(tenant).unwrap();
    RequestContext::new(Principal { name: "conformance".into(), tenant, role: Role::Admin })
}

/// A collection's name.
pub fn collection(name: &str) -> CollectionName {
    CollectionName::new(name).unwrap()
}

/// A document's id.
pub fn id(id: &str) -> DocumentId {
    DocumentId::new(id).unwrap()
}

/// Ids of documents.
pub fn ids<const N: usize>(texts: [&str; N]) -> Vec<DocumentId> {
    texts.into_iter().map(id).collect()
}

/// Metadata from pairs.
pub fn metadata<const N: usize>(entries: [(&str, Value); N]) -> Metadata {
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A path in a filter.
pub fn key(path: &str) -> KeyPath {
    KeyPath::parse(path).unwrap()
}

/// A document whose content is its id.
pub fn document(text: &str, metadata: Metadata) -> Document {
    Document { id: id(text), page_content: format!("content of {text}"), metadata }
}

/// A record; the vector is not checked against a metric.
pub fn record(id: &str, vector: &[f32], metadata: Metadata) -> Record {
    Record::new(Arc::new(document(id, metadata)), vector_of(vector))
}

/// A vector; zero vectors pass.
pub fn vector_of(values: &[f32]) -> Vector {
    Vector::new(values.to_vec(), Metric::Dot).unwrap()
}

/// The ids of records.
pub fn id_texts<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<String> {
    records.into_iter().map(|record| record.document.id.to_string()).collect()
}

/// Is `score` what it should be, within [`SCORE_TOLERANCE`]?
pub fn assert_score(score: f64, expected: f64) {
    assert!((score - expected).abs() <= SCORE_TOLERANCE, "score {score} must be {expected}");
}

/// A store with one collection (`docs`, where the name does not matter) of the tenant `conformance`.
pub struct Scene {
    /// The store under test.
    pub store: Arc<dyn VectorStore>,
    /// The tenant's context.
    pub context: RequestContext,
    /// The collection.
    pub collection: CollectionName,
}

impl Scene {
    /// Makes the collection.
    pub async fn new(store: Arc<dyn VectorStore>, metric: Metric, dimension: u32) -> Self {
        Self::named("docs", store, metric, dimension).await
    }

    /// Makes a collection of another name, for cases that need several.
    pub async fn named(name: &str, store: Arc<dyn VectorStore>, metric: Metric, dimension: u32) -> Self {
        let scene = Self { store, context: context("conformance"), collection: collection(name) };
        let params = VectorParams::new(dimension, metric);
        scene.store.create(&scene.context, &scene.collection, params).await.unwrap();
        scene
    }

    /// Writes records.
    pub async fn put(&self, records: Vec<Record>) {
        self.store.upsert(&self.context, &self.collection, records).await.unwrap();
    }

    /// The best records for a query.
    pub async fn search(&self, query: &[f32], filter: Option<&Filter>, limit: usize) -> Vec<ScoredRecord> {
        let search = VectorSearch { vector: &vector_of(query), using: None, filter, limit };
        self.store.search(&self.context, &self.collection, search).await.unwrap()
    }

    /// Their ids.
    pub async fn search_ids(&self, query: &[f32], filter: Option<&Filter>, limit: usize) -> Vec<String> {
        let hits = self.search(query, filter, limit).await;
        id_texts(hits.iter().map(|hit| &hit.record))
    }

    /// All ids that match, in the order of id bytes.
    pub async fn all_ids(&self, filter: Option<&Filter>) -> Vec<String> {
        let page = self.store.scroll(&self.context, &self.collection, filter, None, usize::MAX).await.unwrap();
        assert_eq!(page.next, None, "a page without a limit is the last one");
        id_texts(&page.records)
    }

    /// How many match.
    pub async fn count(&self, filter: Option<&Filter>) -> u64 {
        self.store.count(&self.context, &self.collection, filter).await.unwrap()
    }
}

/// Numbers that look random and are the same in every run (SplitMix64; Steele, Lea and Flood 2014).
pub struct Numbers(pub u64);

impl Numbers {
    /// The next one.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A vector with elements in [-1, 1).
    pub fn vector(&mut self, dimension: usize) -> Vec<f32> {
        let unit = |bits: u64| (bits >> 40) as f32 / (1_u64 << 24) as f32;
        (0..dimension).map(|_| unit(self.next_u64()) * 2.0 - 1.0).collect()
    }
}
