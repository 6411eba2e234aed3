//! What LangChain computes, on the same inputs; where semantics differ on purpose, the right value instead.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests: they fail by panicking"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toller_core::collection::VectorParams;
use toller_core::filter::KeyPath;
use toller_core::metric::cosine;
use toller_core::mmr::maximal_marginal_relevance;
use toller_core::relevance::{cosine_relevance, euclidean_relevance};
use toller_core::vector_store::{MmrParams, Scoring, VectorSearch};
use toller_core::{
    CollectionName, Document, DocumentId, Filter, Metadata, Metric, Principal, Record, RelevanceFunction,
    RequestContext, Value, Vector, VectorStore,
};
use toller_store::backends::memory::MemoryVectorStore;

fn oracle<Case: DeserializeOwned>(name: &str) -> Vec<Case> {
    #[derive(Deserialize)]
    struct File<Case> {
        cases: Vec<Case>,
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
    serde_json::from_str::<File<Case>>(&text).unwrap().cases
}

#[derive(Deserialize)]
struct MmrCase {
    id: String,
    query: Vec<f32>,
    vectors: Vec<Vec<f32>>,
    k: i64,
    lambda_mult: f64,
    expected: Vec<usize>,
}

#[test]
fn mmr_picks_what_langchain_picks() {
    let cases = oracle::<MmrCase>("mmr.json");
    assert_eq!(cases.len(), 260);
    for case in cases {
        let k = usize::try_from(case.k).unwrap_or(0);
        let picks = maximal_marginal_relevance(&case.query, &case.vectors, k, case.lambda_mult);
        let indexes: Vec<usize> = picks.iter().map(|pick| pick.index).collect();
        assert_eq!(indexes, case.expected, "{}", case.id);
    }
}

#[derive(Deserialize)]
struct StoreCase {
    id: String,
    query: Vec<f32>,
    docs: Vec<StoreDocument>,
    filter: Option<BTreeMap<String, Value>>,
    k: usize,
    fetch_k: usize,
    lambda_mult: f64,
    expected_similarity: Vec<(String, f64)>,
    expected_mmr: Vec<String>,
}

#[derive(Deserialize)]
struct StoreDocument {
    id: String,
    vector: Vec<f32>,
    metadata: Metadata,
}

const SCORE_TOLERANCE: f64 = 2e-6;

#[tokio::test]
async fn the_memory_store_finds_what_langchains_finds() {
    let cases = oracle::<StoreCase>("vectorstore.json");
    assert_eq!(cases.len(), 80);
    let mut pools_below_k = 0;
    for case in cases {
        let context = RequestContext::new(Principal::anonymous());
        let name = CollectionName::new("docs").unwrap();
        let store = MemoryVectorStore::new();
        let params = VectorParams::new(case.query.len() as u32, Metric::Cosine);
        store.create(&context, &name, params).await.unwrap();
        let records = case.docs.iter().map(|document| {
            let id = DocumentId::new(&document.id).unwrap();
            let metadata = document.metadata.clone();
            let vector = Vector::new(document.vector.clone(), Metric::Cosine).unwrap();
            Record::new(Arc::new(Document { id, page_content: document.id.clone(), metadata }), vector)
        });
        store.upsert(&context, &name, records.collect()).await.unwrap();

        let filter = case.filter.as_ref().map(|entries| {
            let equal = |(key, value): (&String, &Value)| Filter::Eq(KeyPath::of_name(key).unwrap(), value.clone());
            Filter::And(entries.iter().map(equal).collect())
        });
        let query = Vector::new(case.query.clone(), Metric::Cosine).unwrap();
        let search = VectorSearch { vector: &query, using: None, filter: filter.as_ref(), limit: case.k };
        let hits = store.search(&context, &name, search).await.unwrap();
        assert_eq!(hits.len(), case.expected_similarity.len(), "{}", case.id);
        for (hit, (id, score)) in hits.iter().zip(&case.expected_similarity) {
            assert_eq!(hit.record.document.id.as_str(), id, "{}", case.id);
            assert!((hit.score - score).abs() <= SCORE_TOLERANCE, "{}: {} is not {score}", case.id, hit.score);
        }

        let params = MmrParams { k: case.k, fetch_k: case.fetch_k, lambda_mult: case.lambda_mult };
        let scoring = Scoring::default();
        let chosen =
            store.max_marginal_relevance(&context, &name, &query, None, filter.as_ref(), params, scoring).await;
        let chosen = chosen.unwrap();
        let chosen: Vec<&str> = chosen.iter().map(|hit| hit.document.id.as_str()).collect();
        // A pool below k gives LangChain fewer than k hits; ours takes at least k candidates.
        if case.fetch_k < case.k {
            pools_below_k += 1;
            let pool: Vec<&StoreDocument> = case
                .expected_similarity
                .iter()
                .map(|(id, _)| case.docs.iter().find(|document| &document.id == id).unwrap())
                .collect();
            assert_eq!(chosen, textbook_mmr(&case.query, &pool, case.k, case.lambda_mult), "{}", case.id);
        } else {
            assert_eq!(chosen, case.expected_mmr, "{}", case.id);
        }
    }
    assert_eq!(pools_below_k, 33);
}

/// The definition, written out without a running maximum: O(k²·n·d).
fn textbook_mmr<'a>(query: &[f32], pool: &[&'a StoreDocument], k: usize, lambda_mult: f64) -> Vec<&'a str> {
    let mut picked: Vec<usize> = Vec::new();
    while picked.len() < k.min(pool.len()) {
        let score = |candidate: usize| {
            let similarity = cosine(query, &pool[candidate].vector);
            let redundancies = picked.iter().map(|pick| cosine(&pool[*pick].vector, &pool[candidate].vector));
            match redundancies.reduce(f64::max) {
                None => similarity,
                Some(redundancy) => lambda_mult * similarity - (1.0 - lambda_mult) * redundancy,
            }
        };
        let left = (0..pool.len()).filter(|candidate| !picked.contains(candidate));
        let best = left.rev().max_by(|l, r| score(*l).total_cmp(&score(*r))).unwrap();
        picked.push(best);
    }
    picked.into_iter().map(|pick| pool[pick].id.as_str()).collect()
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum RelevanceCase {
    Fn {
        id: String,
        #[serde(rename = "fn")]
        function: Function,
        distance: f64,
        expected: f64,
    },
    Search {
        id: String,
        #[serde(rename = "fn")]
        function: Function,
        raw_in_store_order: Vec<f64>,
        k: usize,
        score_threshold: Option<f64>,
        expected: Vec<(usize, f64)>,
    },
}

/// LangChain's functions take distances.
#[derive(Deserialize, Debug, Clone, Copy, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Function {
    Euclidean,
    Cosine,
    MaxInnerProduct,
}

impl Function {
    /// Our metric and its value for LangChain's distance.
    fn metric_value(self, distance: f64) -> (Metric, f64) {
        match self {
            Self::Euclidean => (Metric::Euclidean, distance),
            Self::Cosine => (Metric::Cosine, 1.0 - distance),
            Self::MaxInnerProduct => (Metric::Dot, -distance),
        }
    }
}

const RELEVANCE_TOLERANCE: f64 = 1e-12;

#[test]
fn relevance_is_langchains_clamped_and_thresholds_are_inclusive() {
    let cases = oracle::<RelevanceCase>("relevance.json");
    assert_eq!(cases.len(), 120);
    for case in cases {
        match case {
            RelevanceCase::Fn { id, function, distance, expected } => {
                let unclamped = match function {
                    Function::Euclidean => euclidean_relevance(distance),
                    Function::Cosine => cosine_relevance(distance),
                    // LangChain turns a positive distance (a negative product) into 1 - d, which is not monotone; the right
                    // value is the product itself.
                    Function::MaxInnerProduct if distance > 0.0 => {
                        assert!((expected - (1.0 - distance)).abs() <= RELEVANCE_TOLERANCE, "{id}");
                        let (metric, value) = function.metric_value(distance);
                        assert_eq!(RelevanceFunction::Default.relevance(metric, value), 0.0, "{id}");
                        continue;
                    }
                    Function::MaxInnerProduct => -distance,
                };
                assert!((unclamped - expected).abs() <= RELEVANCE_TOLERANCE, "{id}: {unclamped} is not {expected}");
                let (metric, value) = function.metric_value(distance);
                let relevance = RelevanceFunction::Default.relevance(metric, value);
                assert!((relevance - expected.clamp(0.0, 1.0)).abs() <= RELEVANCE_TOLERANCE, "{id}");
            }
            RelevanceCase::Search { id, function, raw_in_store_order, k, score_threshold, expected } => {
                let ours: Vec<(usize, f64)> = raw_in_store_order
                    .iter()
                    .take(k)
                    .map(|distance| function.metric_value(*distance))
                    .map(|(metric, value)| RelevanceFunction::Default.relevance(metric, value))
                    .enumerate()
                    .filter(|(_, relevance)| score_threshold.is_none_or(|least| *relevance >= least))
                    .collect();
                let indexes: Vec<usize> = ours.iter().map(|(index, _)| *index).collect();
                let expected_indexes: Vec<usize> = expected.iter().map(|(index, _)| *index).collect();
                assert_eq!(indexes, expected_indexes, "{id}");
                for ((_, relevance), (_, expected)) in ours.iter().zip(&expected) {
                    assert!((relevance - expected.clamp(0.0, 1.0)).abs() <= RELEVANCE_TOLERANCE, "{id}");
                }
            }
        }
    }
}
