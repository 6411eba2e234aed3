//! Ensemble and merger.

use toller_core::retriever::Fusion;
use toller_core::{Metadata, Metric};

use crate::specs::*;
use crate::world::{World, cos, ids, metadata, paths};

/// Collections `near` (0, 10, 20, 30 degrees) and `far` (20, 10, 60 degrees); ids are degrees.
async fn two_lists() -> World {
    let world = World::new();
    world.fill_degrees("near", &[0, 10, 20, 30]).await;
    world.fill_degrees("far", &[20, 10, 60]).await;
    world
}

#[tokio::test]
async fn fused_hits_name_their_legs_and_have_no_relevance() {
    let world = two_lists().await;
    let spec = ensemble(vec![named("first", all_of("near")), all_of("far"), all_of("far")], |_| ());
    let hits = world.hits(&spec, "at 0").await;
    assert_eq!(ids(&hits), ["10", "20", "60", "0", "30"]);
    let sources: Vec<_> = hits[1].sources.iter().map(|source| (source.source.as_str(), source.rank)).collect();
    assert_eq!(sources, [("first", 3), ("vector_store", 2), ("vector_store#2", 2)]);
    assert!((hits[1].sources[0].score - cos(20.0)).abs() < 1e-6, "a leg's own score");
    assert!(hits.iter().all(|hit| hit.relevance.is_none() && hit.metric.is_none()));
    assert_eq!(hits.iter().map(|hit| hit.rank).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    let expected = 1.0 / 3.0 / 63.0 + 2.0 / 3.0 / 62.0;
    assert!((hits[1].score - expected).abs() < 1e-12);
}

#[tokio::test]
async fn the_best_are_the_first_of_more() {
    let world = two_lists().await;
    let fused = |k| ensemble(vec![all_of("near"), all_of("far")], |spec| spec.k = k);
    let all = world.hits(&fused(None), "at 12").await;
    for k in 1..=all.len() {
        let some = world.hits(&fused(Some(k as u32)), "at 12").await;
        assert_eq!(some, all[..k]);
    }
}

#[tokio::test]
async fn what_is_found_twice_beats_what_one_list_has_first() {
    let world = two_lists().await;
    // Rank 3 in `near` and rank 2 in `far` against rank 1 in `near` alone.
    let spec = |c| ensemble(vec![all_of("near"), all_of("far")], |spec| spec.c = Some(c));
    let first = |hits: Vec<toller_core::ScoredDocument>| hits[0].document.id.to_string();
    assert_eq!(first(world.hits(&spec(60), "at 0").await), "10");
    let hits = world.hits(&spec(60), "at 0").await;
    let place = |id| ids(&hits).iter().position(|found| *found == id).unwrap();
    assert!(place("20") < place("0"));
}

#[tokio::test]
async fn a_weight_of_zero_asks_nobody() {
    let world = two_lists().await;
    world.fill_degrees("broken", &[1]).await;
    let spec = ensemble(vec![all_of("near"), all_of("broken")], |spec| spec.weights = vec![1.0, 0.0]);
    assert_eq!(ids(&world.hits(&spec, "at 0").await), ["0", "10", "20", "30"]);
}

#[tokio::test]
async fn the_copy_that_survives_is_the_best_ranked_one() {
    let world = World::new();
    let copy = |text: &str| metadata("from", text);
    world.fill("first", [("a", "at 0", Metadata::new()), ("x", "at 10", copy("first"))]).await;
    world.fill("second", [("x", "at 0", copy("second")), ("b", "at 10", Metadata::new())]).await;
    for order in [["first", "second"], ["second", "first"]] {
        let legs = order.map(all_of).into();
        let hits = world.hits(&ensemble(legs, |_| ()), "at 0").await;
        assert_eq!(hits[0].document.id.as_str(), "x");
        assert_eq!(hits[0].document.metadata, copy("second"));
    }
}

#[tokio::test]
async fn scores_are_fused_in_three_other_ways() {
    let world = two_lists().await;
    let fused = |fusion, weights: &[f64]| {
        ensemble(vec![all_of("near"), all_of("far")], |spec| {
            spec.fusion = fusion;
            spec.weights = weights.to_vec();
        })
    };
    // Both lists scaled: the least has 0, the greatest 1.
    let hits = world.hits(&fused(Fusion::MinMax, &[1.0, 1.0]), "at 0").await;
    let score = |id: &str| hits.iter().find(|hit| hit.document.id.as_str() == id).unwrap().score;
    let near = |degrees| (cos(degrees) - cos(30.0)) / (1.0 - cos(30.0));
    let far = |degrees| (cos(degrees) - cos(60.0)) / (cos(10.0) - cos(60.0));
    assert!((score("0") - 1.0).abs() < 1e-6);
    assert!((score("10") - near(10.0) - 1.0).abs() < 1e-6);
    assert!((score("20") - near(20.0) - far(20.0)).abs() < 1e-6);
    assert!(score("30").abs() < 1e-6 && score("60").abs() < 1e-6);

    let hits = world.hits(&fused(Fusion::Convex, &[3.0, 1.0]), "at 0").await;
    let top = &hits[0];
    assert_eq!(top.document.id.as_str(), "10");
    assert!((top.score - cos(10.0)).abs() < 1e-6, "weights add up to 1: {}", top.score);
    let alone = hits.iter().find(|hit| hit.document.id.as_str() == "60").unwrap();
    assert!((alone.score - 0.25 * cos(60.0)).abs() < 1e-6, "missing is a relevance of 0");

    let hits = world.hits(&fused(Fusion::DistributionBased, &[1.0, 1.0]), "at 0").await;
    assert_eq!(hits[0].document.id.as_str(), "10");
    assert!(hits.iter().all(|hit| (0.0..=2.0).contains(&hit.score)));
}

#[tokio::test]
async fn distances_are_turned_round() {
    let world = World::new();
    let documents = [("near", "at 0", Metadata::new()), ("far", "at 90", Metadata::new())];
    world.fill_as(&world.context, "distances", Metric::Euclidean, documents).await;
    let spec = ensemble(vec![all_of("distances")], |spec| spec.fusion = Fusion::MinMax);
    let hits = world.hits(&spec, "at 1").await;
    assert_eq!(ids(&hits), ["near", "far"]);
    assert_eq!(hits.iter().map(|hit| hit.score).collect::<Vec<_>>(), [1.0, 0.0]);
}

#[tokio::test]
async fn relevances_that_are_missing_cannot_be_fused() {
    let world = two_lists().await;
    let inner = ensemble(vec![all_of("near")], |_| ());
    let spec = ensemble(vec![inner], |spec| spec.fusion = Fusion::Convex);
    let error = world.ask(&spec, "at 0").await.unwrap_err().to_string();
    assert!(error.starts_with("ensemble.fusion: convex needs a relevance"), "{error}");
}

#[tokio::test]
async fn hits_without_the_key_are_told_apart_by_their_ids() {
    let world = World::new();
    let uid = |uid: &str| metadata("uid", uid);
    world.fill("a", [("1", "at 0", uid("x")), ("2", "at 1", Metadata::new())]).await;
    world.fill("b", [("3", "at 0", uid("x")), ("2", "at 1", Metadata::new())]).await;
    let spec = ensemble(vec![all_of("a"), all_of("b")], |spec| spec.id_key = Some("uid".to_owned()));
    let answer = world.ask(&spec, "at 0").await.unwrap();
    assert_eq!(ids(&answer.hits), ["1", "2"]);
    assert_eq!(paths(&answer), ["", ""]);
    assert!(answer.warnings[0].message.contains("\"uid\""), "{:?}", answer.warnings);
}

#[tokio::test]
async fn the_merger_keeps_scores_and_says_who_found_what() {
    let world = two_lists().await;
    let spec = merger(vec![all_of("near"), all_of("far")], |spec| spec.k = Some(4));
    let hits = world.hits(&spec, "at 0").await;
    assert_eq!(ids(&hits), ["0", "10", "20", "60"]);
    assert!((hits[1].score - cos(10.0)).abs() < 1e-6 && hits[1].metric == Some(Metric::Cosine));
    let sources: Vec<_> = hits[1].sources.iter().map(|source| (source.source.as_str(), source.rank)).collect();
    assert_eq!(sources, [("vector_store#2", 1), ("vector_store", 2)]);
    let all = merger(vec![all_of("near"), all_of("far")], |spec| spec.allow_duplicates = true);
    assert_eq!(ids(&world.hits(&all, "at 0").await), ["0", "10", "10", "20", "20", "60", "30"]);
}
