//! What LangChain and Eino compute, on the same inputs through whole trees; where ours differs on purpose, the right value instead.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toller_core::retriever::{CompressorKind, EmbeddingsFilterSpec, RedundantFilterSpec, SearchType};
use toller_core::{Metadata, Metric, Query, RequestContext, ScoredDocument, Value};
use toller_store::{NewDocument, VectorSource};

use crate::specs::*;
use crate::world::{World, ids, metadata};

fn oracle<Case: DeserializeOwned>(name: &str) -> Vec<Case> {
    #[derive(Deserialize)]
    struct File<Case> {
        cases: Vec<Case>,
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|fault| panic!("{}: {fault}", path.display()));
    serde_json::from_str::<File<Case>>(&text).unwrap().cases
}

/// A collection that answers the query `at 0` with exactly these names, in this order: they are its documents' `uid`.
async fn fill_list(world: &World, name: &str, list: &[String]) {
    let texts: Vec<(String, String, &String)> = list
        .iter()
        .enumerate()
        .map(|(position, uid)| (format!("{name}.{position}"), format!("at {position}"), uid))
        .collect();
    let documents = texts.iter().map(|(id, text, uid)| (id.as_str(), text.as_str(), metadata("uid", uid.as_str())));
    world.fill(name, documents).await;
}

fn uids(hits: &[ScoredDocument]) -> Vec<String> {
    let uid = |hit: &ScoredDocument| match hit.document.metadata.get("uid") {
        Some(Value::String(uid)) => uid.clone(),
        other => panic!("{other:?}"),
    };
    hits.iter().map(uid).collect()
}

#[derive(Deserialize)]
struct RrfCase {
    id: String,
    lists: Vec<Vec<String>>,
    weights: Option<Vec<f64>>,
    effective_weights: Vec<f64>,
    c: u32,
    has_in_list_duplicates: bool,
    expected: Vec<String>,
    expected_scores: BTreeMap<String, f64>,
}

/// The sum of weight / (rank + c) over lists without their duplicates and with a weight.
fn reciprocal_rank_scores(lists: &[Vec<String>], weights: &[f64], c: u32) -> BTreeMap<String, f64> {
    let mut scores = BTreeMap::new();
    for (list, weight) in lists.iter().zip(weights).filter(|(_, weight)| **weight > 0.0) {
        let mut seen = BTreeSet::new();
        for (name, rank) in list.iter().filter(|name| seen.insert((*name).clone())).zip(1..) {
            *scores.entry(name.clone()).or_insert(0.0) += weight / f64::from(rank + c);
        }
    }
    scores
}

#[tokio::test]
async fn reciprocal_ranks_are_langchains_without_its_defects() {
    let cases = oracle::<RrfCase>("rrf.json");
    assert_eq!(cases.len(), 90);
    for case in cases {
        let world = World::new();
        let mut legs = Vec::new();
        for (number, list) in case.lists.iter().enumerate() {
            let name = format!("list{number}");
            fill_list(&world, &name, list).await;
            legs.push(all_of(&name));
        }
        if legs.is_empty() {
            continue;
        }
        let spec = ensemble(legs, |spec| {
            spec.weights = case.weights.clone().unwrap_or_default();
            spec.c = Some(case.c);
            spec.id_key = Some("uid".to_owned());
        });
        let hits = world.hits(&spec, "at 0").await;
        let found = uids(&hits);

        let right = reciprocal_rank_scores(&case.lists, &case.effective_weights, case.c);
        assert_eq!(found.len(), right.len(), "{}", case.id);
        for (hit, uid) in hits.iter().zip(&found) {
            assert!((hit.score - right[uid]).abs() < 1e-12, "{}: {uid}", case.id);
            assert!(hit.relevance.is_none() && hit.metric.is_none());
        }
        // A weight of zero asks nobody: LangChain lists such documents with the score 0.
        let is_asked = |uid: &&String| right.contains_key(*uid);
        let expected: Vec<String> = case.expected.iter().filter(is_asked).cloned().collect();
        if !case.has_in_list_duplicates {
            for uid in &expected {
                assert!((case.expected_scores[uid] - right[uid]).abs() < 1e-12, "{}: {uid}", case.id);
            }
            // Ties of LangChain are decided by the last bit of a sum; ours by rank and list.
            for (ours, theirs) in found.iter().zip(&expected) {
                assert!((right[ours] - right[theirs]).abs() < 1e-12, "{}: {found:?}, not {expected:?}", case.id);
            }
        }
        assert!(hits.is_sorted_by(|left, right| left.score >= right.score), "{}", case.id);
    }
}

#[derive(Deserialize)]
struct EinoCase {
    id: String,
    result: BTreeMap<String, Vec<String>>,
    expected: Vec<String>,
    scores: Option<BTreeMap<String, f64>>,
}

/// Eino counts ranks from 0 with the constant 60: that is ours, from 1, with 59.
#[tokio::test]
async fn einos_reciprocal_ranks_are_ours_with_59() {
    let cases = oracle::<EinoCase>("eino_rrf.json");
    assert_eq!(cases.len(), 45);
    for case in cases {
        let world = World::new();
        let mut legs = Vec::new();
        for (name, list) in &case.result {
            fill_list(&world, name, list).await;
            legs.push(all_of(name));
        }
        if legs.is_empty() {
            continue;
        }
        let spec = ensemble(legs, |spec| {
            spec.weights = vec![1.0; case.result.len()];
            spec.c = Some(59);
            spec.id_key = Some("uid".to_owned());
        });
        let hits = world.hits(&spec, "at 0").await;
        let found = uids(&hits);
        match &case.scores {
            Some(scores) => {
                let lists: Vec<Vec<String>> = case.result.values().cloned().collect();
                let right = reciprocal_rank_scores(&lists, &vec![1.0; lists.len()], 59);
                for (hit, uid) in hits.iter().zip(&found) {
                    assert!((hit.score - right[uid]).abs() < 1e-12, "{}: {uid}", case.id);
                }
                // Eino adds up the duplicates within a list.
                let has_duplicates = lists.iter().any(|list| list.iter().collect::<BTreeSet<_>>().len() < list.len());
                if !has_duplicates {
                    assert_eq!(found, case.expected, "{}", case.id);
                    assert!(scores.iter().all(|(uid, score)| (right[uid] - score).abs() < 1e-12), "{}", case.id);
                }
            }
            // One list is passed on by Eino with its duplicates; without them here.
            None => {
                let mut seen = BTreeSet::new();
                let distinct: Vec<String> = case.expected.into_iter().filter(|uid| seen.insert(uid.clone())).collect();
                assert_eq!(found, distinct, "{}", case.id);
            }
        }
    }
}

#[derive(Deserialize)]
struct MergerCase {
    id: String,
    lists: Vec<Vec<String>>,
    expected: Vec<String>,
}

#[tokio::test]
async fn the_merger_takes_turns_as_langchains_does() {
    let cases = oracle::<MergerCase>("merger.json");
    assert_eq!(cases.len(), 35);
    for case in cases.into_iter().filter(|case| !case.lists.is_empty()) {
        let world = World::new();
        let mut legs = Vec::new();
        for (number, list) in case.lists.iter().enumerate() {
            let name = format!("list{number}");
            fill_list(&world, &name, list).await;
            legs.push(all_of(&name));
        }
        let with_duplicates = merger(legs.clone(), |spec| spec.allow_duplicates = true);
        assert_eq!(uids(&world.hits(&with_duplicates, "at 0").await), case.expected, "{}", case.id);
        let without = merger(legs, |spec| spec.id_key = Some("uid".to_owned()));
        let mut seen = BTreeSet::new();
        let distinct: Vec<String> = case.expected.into_iter().filter(|uid| seen.insert(uid.clone())).collect();
        assert_eq!(uids(&world.hits(&without, "at 0").await), distinct, "{}", case.id);
    }
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum CompressorCase {
    Filter {
        id: String,
        query: Vec<f32>,
        vectors: Vec<Vec<f32>>,
        k: Option<u32>,
        similarity_threshold: Option<f64>,
        expected: Vec<(usize, f64)>,
    },
    Redundant {
        id: String,
        vectors: Vec<Vec<f32>>,
        similarity_threshold: f64,
        greedy_keep_first: Vec<usize>,
    },
    Reorder {
        n: u32,
        expected: Vec<usize>,
    },
}

/// A collection of the client's vectors in this order, whatever the query: all their products with it are 0.
async fn fill_vectors(world: &World, name: &str, vectors: &[Vec<f32>]) {
    let context: &RequestContext = &world.context;
    let dimension = vectors.first().map_or(1, Vec::len) as u32;
    world.create(context, name, Metric::Dot, VectorSource::Client { dimension }).await;
    let documents = vectors.iter().enumerate().map(|(index, vector)| NewDocument {
        id: Some(index.to_string()),
        page_content: String::new(),
        metadata: Metadata::new(),
        vector: Some(vector.clone()),
        ..NewDocument::default()
    });
    world.write(context, name, documents.collect()).await;
}

async fn positions(world: &World, spec: &toller_core::retriever::RetrieverSpec, query: Vec<f32>) -> Vec<usize> {
    let plan = world.planner.plan(&world.context, spec).await.unwrap();
    let answer = plan.run(&world.context, &Query::Vector(query), Default::default()).await.unwrap();
    ids(&answer.hits).iter().map(|id| id.parse().unwrap()).collect()
}

#[tokio::test]
async fn compressors_are_langchains_or_the_right_value() {
    let cases = oracle::<CompressorCase>("compressors.json");
    assert_eq!(cases.len(), 80);
    for case in cases {
        let world = World::new();
        match case {
            CompressorCase::Filter { id, query, vectors, k, similarity_threshold: threshold, expected } => {
                fill_vectors(&world, "vectors", &vectors).await;
                let base = leaf_with("vectors", |spec| {
                    spec.k = Some(1000);
                    spec.with_vectors = true;
                });
                // LangChain's k is 20 where none is given.
                let k = Some(k.unwrap_or(20));
                let filter = CompressorKind::EmbeddingsFilter(EmbeddingsFilterSpec { threshold, k, model: None });
                let plan = world.planner.plan(&world.context, &compression(base, vec![filter])).await.unwrap();
                let answer = plan.run(&world.context, &Query::Vector(query), Default::default()).await.unwrap();
                let found: Vec<usize> = ids(&answer.hits).iter().map(|id| id.parse().unwrap()).collect();
                assert_eq!(found, expected.iter().map(|(index, _)| *index).collect::<Vec<_>>(), "{id}");
                for (hit, (_, similarity)) in answer.hits.iter().zip(&expected) {
                    let source = hit.sources.last().unwrap();
                    assert_eq!(source.source, "embeddings_filter");
                    assert!((source.score - similarity).abs() < 1e-5, "{id}");
                }
            }
            CompressorCase::Redundant { id, vectors, similarity_threshold, greedy_keep_first } => {
                fill_vectors(&world, "vectors", &vectors).await;
                let base = leaf_with("vectors", |spec| {
                    spec.k = Some(1000);
                    spec.with_vectors = true;
                });
                let threshold = Some(similarity_threshold);
                let filter = CompressorKind::RedundantFilter(RedundantFilterSpec { threshold, model: None });
                // All products with a zero vector are 0, so that hits come as they were written.
                let zero = vec![0.0; vectors.first().map_or(1, Vec::len)];
                let found = positions(&world, &compression(base, vec![filter]), zero).await;
                assert_eq!(found, greedy_keep_first, "{id}");
            }
            CompressorCase::Reorder { n, expected } => {
                let degrees: Vec<u32> = (0..n).collect();
                world.fill_degrees("docs", &degrees).await;
                let spec = compression(all_of("docs"), vec![CompressorKind::LongContextReorder]);
                let hits = world.hits(&spec, "at 0").await;
                let found: Vec<usize> = ids(&hits).iter().map(|id| id.parse().unwrap()).collect();
                // LangChain puts the best one last when their number is even.
                let right = if n % 2 == 0 { expected.into_iter().rev().collect() } else { expected };
                assert_eq!(found, right, "{n}");
            }
        }
    }
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

#[tokio::test]
async fn marginal_relevance_through_a_retriever_is_langchains() {
    let cases = oracle::<MmrCase>("mmr.json");
    let mut compared = 0;
    for case in cases {
        let is_declarable = case.k > 0 && (0.0..=1.0).contains(&case.lambda_mult) && !case.vectors.is_empty();
        // The order of candidates that are equally near to the query decides ties; there must be none.
        let similarities: BTreeSet<u64> =
            case.vectors.iter().map(|vector| Metric::Cosine.score(&case.query, vector).to_bits()).collect();
        if !is_declarable || similarities.len() < case.vectors.len() {
            continue;
        }
        let world = World::new();
        fill_vectors(&world, "vectors", &case.vectors).await;
        let spec = leaf_with("vectors", |spec| {
            spec.search_type = SearchType::Mmr;
            spec.k = Some(u32::try_from(case.k).unwrap());
            spec.fetch_k = Some(1000);
            spec.lambda_mult = Some(case.lambda_mult);
        });
        assert_eq!(positions(&world, &spec, case.query).await, case.expected, "{}", case.id);
        compared += 1;
    }
    assert!(compared > 200, "only {compared} cases can be compared");
}
