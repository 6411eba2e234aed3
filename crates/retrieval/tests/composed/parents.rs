//! Parents of children.

use toller_core::retriever::{ParentScore, ParentSource, RetrieverKind, SearchType};
use toller_core::{Document, DocumentId, DocumentStore, Metadata, Metric, ScoredDocument, TextSpan, Value};

use crate::specs::*;
use crate::world::{World, cos, ids, metadata};

fn child(parent: &str, start: i64) -> Metadata {
    let mut child = metadata("doc_id", parent);
    child.insert("start_index".to_owned(), Value::Int(start));
    child
}

/// Parents p1 and p2; p1 has the four best children for `at 0`, p2 the fifth, and one child's parent is missing.
async fn world() -> World {
    let world = World::new();
    let texts = [("p1", "at 0. at 1. at 2. at 3.", Metadata::new()), ("p2", "Ü. at 50.", Metadata::new())];
    world.fill("texts", texts).await;
    let children = [
        ("c1", "at 0.", child("p1", 0)),
        ("c2", "at 1.", child("p1", 6)),
        ("c3", "at 2.", child("p1", 12)),
        ("c4", "at 3.", child("p1", 18)),
        ("c5", "at 40.", child("gone", 0)),
        ("c6", "at 50.", child("p2", 3)),
        ("c7", "at 60.", Metadata::new()),
    ];
    world.fill("chunks", children).await;
    world
}

fn children(hit: &ScoredDocument) -> Vec<&str> {
    hit.matched_children.iter().map(|child| child.document.id.as_str()).collect()
}

#[tokio::test]
async fn k_counts_parents_however_many_children_the_first_has() {
    let world = world().await;
    let spec = |k, first| {
        parent_document("chunks", "texts", |spec| {
            spec.k = Some(k);
            spec.search.k = first;
        })
    };
    for first in [None, Some(1), Some(2), Some(100)] {
        let hits = world.hits(&spec(2, first), "at 0").await;
        assert_eq!(ids(&hits), ["p1", "p2"], "{first:?}");
        assert_eq!(hits.iter().map(|hit| hit.rank).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(children(&hits[0]), ["c1", "c2", "c3", "c4"]);
    }
    assert_eq!(ids(&world.hits(&spec(1, None), "at 0").await), ["p1"]);
    // The whole collection is not enough for nine.
    assert_eq!(ids(&world.hits(&spec(9, None), "at 0").await), ["p1", "p2"]);
}

#[tokio::test]
async fn children_say_where_they_are_and_what_they_scored() {
    let world = world().await;
    let hits = world.hits(&parent_document("chunks", "texts", |_| ()), "at 0").await;
    let second = &hits[0].matched_children[1];
    assert_eq!((second.rank, second.span), (2, Some(TextSpan { start: 6, end: 11 })));
    assert!((second.score - cos(1.0)).abs() < 1e-6 && second.relevance.is_some());
    assert_eq!(hits[1].matched_children[0].span, Some(TextSpan { start: 3, end: 9 }), "in code points");
    assert!((hits[0].score - 1.0).abs() < 1e-6, "the best child's");
    assert_eq!(hits[0].metric, Some(Metric::Cosine));
}

#[tokio::test]
async fn a_place_that_is_not_the_childs_is_not_told() {
    let world = World::new();
    world.fill("texts", [("p", "at 0. at 1.", Metadata::new())]).await;
    let wrong = [("a", "at 0.", child("p", 1)), ("b", "at 1.", child("p", 99)), ("c", "at 2.", child("p", -1))];
    world.fill("chunks", wrong).await;
    let hits = world.hits(&parent_document("chunks", "texts", |_| ()), "at 0").await;
    assert!(hits[0].matched_children.iter().all(|child| child.span.is_none()));
}

#[tokio::test]
async fn dangling_children_are_reported_and_count_for_nothing() {
    let world = world().await;
    let answer = world.ask(&parent_document("chunks", "texts", |spec| spec.k = Some(2)), "at 0").await.unwrap();
    let messages: Vec<&str> = answer.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(messages[0], "1 parents of matching children do not exist: gone");
    assert!(messages[1].starts_with("1 matching children have no parent's id"), "{messages:?}");
    // Nothing is said about children that no wanted parent lies behind.
    let answer = world.ask(&parent_document("chunks", "texts", |spec| spec.k = Some(1)), "at 0").await.unwrap();
    assert!(answer.warnings.is_empty(), "{:?}", answer.warnings);
}

#[tokio::test]
async fn parents_are_scored_in_four_ways() {
    let world = world().await;
    let score = async |score| {
        let spec = parent_document("chunks", "texts", |spec| spec.score = score);
        let hits = world.hits(&spec, "at 2").await;
        let hit = hits.into_iter().find(|hit| hit.document.id.as_str() == "p1").unwrap();
        (hit.score, hit.relevance)
    };
    let of = [cos(2.0), cos(1.0), 1.0, cos(1.0)];
    let sum: f64 = of.iter().sum();
    for (way, expected) in
        [(ParentScore::Max, 1.0), (ParentScore::First, 1.0), (ParentScore::Mean, sum / 4.0), (ParentScore::Sum, sum)]
    {
        let (value, relevance) = score(way).await;
        assert!((value - expected).abs() < 1e-6, "{way:?}: {value}");
        assert_eq!(relevance.is_none(), way == ParentScore::Sum, "{way:?}");
    }
}

#[tokio::test]
async fn sums_of_distances_are_refused_before_anything_runs() {
    let world = world().await;
    world.fill_as(&world.context, "distances", Metric::Euclidean, [("c", "at 0.", child("p1", 0))]).await;
    let spec = parent_document("distances", "texts", |spec| spec.score = ParentScore::Sum);
    let [fault] = world.faults(&spec).await.try_into().unwrap();
    assert!(fault.starts_with("parent_document.score: sum is not defined for Euclidean"), "{fault}");
    let anything = multi_vector(leaf("distances"), "texts", |spec| spec.score = ParentScore::Sum);
    let error = world.ask(&anything, "at 0").await.unwrap_err().to_string();
    assert!(error.starts_with("multi_vector.score: sum is not defined"), "{error}");
    // Less is better: the nearest child speaks for its parent.
    let best = parent_document("distances", "texts", |_| ());
    assert!(world.hits(&best, "at 0").await[0].score.abs() < 1e-6);
}

#[tokio::test]
async fn any_retriever_may_find_the_children() {
    let world = world().await;
    world.fill("questions", [("q", "what is at 50?", metadata("doc_id", "p2"))]).await;
    let found = ensemble(vec![all_of("chunks"), all_of("questions")], |_| ());
    let hits = world.hits(&multi_vector(found, "texts", |_| ()), "at 50").await;
    assert_eq!(ids(&hits), ["p2", "p1"]);
    assert!(hits[0].relevance.is_none(), "children of fused lists have none");
    let mmr = leaf_with("chunks", |spec| spec.search_type = SearchType::Mmr);
    assert_eq!(ids(&world.hits(&multi_vector(mmr, "texts", |spec| spec.k = Some(1)), "at 0").await), ["p1"]);
}

#[tokio::test]
async fn parents_may_be_in_the_document_store() {
    let world = world().await;
    let parent =
        Document { id: DocumentId::new("p2").unwrap(), page_content: "alone".to_owned(), metadata: Metadata::new() };
    let documents = &world.memory.documents;
    documents.put(&world.context, &collection("originals"), vec![parent]).await.unwrap();
    let spec = parent_document("chunks", "texts", |spec| {
        spec.parents = ParentSource::DocumentStore(collection("originals"));
    });
    let hits = world.hits(&spec, "at 0").await;
    assert_eq!(ids(&hits), ["p2"]);
    assert_eq!(hits[0].document.page_content, "alone");
}

#[tokio::test]
async fn thresholds_are_of_children() {
    let world = world().await;
    let spec = parent_document("chunks", "texts", |spec| spec.search.score_threshold = Some(0.9));
    assert_eq!(ids(&world.hits(&spec, "at 0").await), ["p1"]);
}

#[tokio::test]
async fn what_is_of_no_use_is_refused() {
    let world = world().await;
    let spec = parent_document("chunks", "texts", |spec| {
        spec.search.search_type = SearchType::Mmr;
        spec.search.with_vectors = true;
        spec.k = Some(0);
        spec.id_key = Some("a..b".to_owned());
    });
    let faults = world.faults(&spec).await;
    for path in ["search.search_type", "search.with_vectors", "k", "id_key"] {
        let path = format!("parent_document.{path}: ");
        assert!(faults.iter().any(|fault| fault.starts_with(&path)), "{path} is not in {faults:?}");
    }
    assert!(matches!(spec.kind, RetrieverKind::ParentDocument(_)));
}
