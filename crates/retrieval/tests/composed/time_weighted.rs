//! Recency.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use toller_core::retriever::{Fusion, RetrieverSpec};
use toller_core::{DocumentStore, Metadata, Principal, RequestContext, Tenant, Value};
use toller_retrieval::{PlanLimits, Planner, RunOptions};

use crate::specs::*;
use crate::world::{World, cos, ids, metadata};

const NOW: i64 = 1_700_000_000;

fn now() -> RunOptions {
    RunOptions { now: Some(UNIX_EPOCH + Duration::from_secs(NOW as u64)), ..Default::default() }
}

fn hours_ago(hours: i64) -> Metadata {
    metadata("last_accessed_at", NOW - hours * 3600)
}

#[tokio::test]
async fn the_score_is_relevance_and_recency() {
    let world = World::new();
    let documents = [("a", "at 0", hours_ago(2)), ("b", "at 30", hours_ago(0)), ("c", "at 50", hours_ago(10))];
    world.fill("docs", documents).await;
    let spec = |k| time_weighted(leaf("docs"), |spec| (spec.decay_rate, spec.k) = (Some(0.5), k));
    let hits = world.ask_with(&spec(None), "at 0", now()).await.unwrap().hits;
    assert_eq!(ids(&hits), ["b", "a", "c"]);
    for (hit, expected) in hits.iter().zip([cos(30.0) + 1.0, 1.0 + 0.25, cos(50.0) + 0.5_f64.powi(10)]) {
        assert!((hit.score - expected).abs() < 1e-6, "{}: {}", hit.document.id, hit.score);
        assert!(hit.metric.is_none());
    }
    assert!((hits[1].relevance.unwrap() - 1.0).abs() < 1e-6, "relevance stays what it was");
    assert_eq!(ids(&world.ask_with(&spec(Some(2)), "at 0", now()).await.unwrap().hits), ["b", "a"]);
}

#[tokio::test]
async fn the_future_counts_as_now_and_times_may_be_texts() {
    let world = World::new();
    let later = metadata("at", "2999-01-01T00:00:00Z");
    let earlier = metadata("at", "2023-11-14T20:13:20Z");
    world.fill("docs", [("later", "at 0", later), ("earlier", "at 0", earlier)]).await;
    let spec = time_weighted(leaf("docs"), |spec| {
        spec.decay_rate = Some(0.5);
        spec.timestamp_field = Some("at".to_owned());
    });
    let hits = world.ask_with(&spec, "at 0", now()).await.unwrap().hits;
    assert_eq!(ids(&hits), ["later", "earlier"]);
    assert!((hits[0].score - 2.0).abs() < 1e-6 && (hits[1].score - 1.25).abs() < 1e-6, "{hits:?}");
}

#[tokio::test]
async fn without_a_time_there_is_nothing_for_recency() {
    let world = World::new();
    world.fill("docs", [("a", "at 0", Metadata::new()), ("b", "at 60", hours_ago(0))]).await;
    let answer = world.ask_with(&time_weighted(leaf("docs"), |_| ()), "at 0", now()).await.unwrap();
    assert_eq!(ids(&answer.hits), ["b", "a"]);
    assert!(answer.warnings[0].message.starts_with("1 hits have no time at \"last_accessed_at\""));
}

#[tokio::test]
async fn other_scores_are_added_and_never_make_no_number() {
    let world = World::new();
    let mut important = hours_ago(0);
    important.insert("importance".to_owned(), Value::Int(3));
    let mut huge = hours_ago(0);
    huge.extend([("importance".to_owned(), Value::Double(f64::MAX)), ("more".to_owned(), Value::Double(f64::MAX))]);
    world
        .fill("docs", [("plain", "at 0", hours_ago(0)), ("important", "at 0", important), ("huge", "at 0", huge)])
        .await;
    let keys = ["importance", "more"].map(str::to_owned).to_vec();
    let spec = time_weighted(leaf("docs"), |spec| spec.other_score_keys = keys);
    let hits = world.ask_with(&spec, "at 0", now()).await.unwrap().hits;
    assert_eq!(ids(&hits), ["huge", "important", "plain"]);
    assert!(hits.iter().all(|hit| hit.score.is_finite()));
    assert!((hits[1].score - hits[2].score - 3.0).abs() < 1e-9);
    for fusion in [Fusion::MinMax, Fusion::DistributionBased] {
        let fused = ensemble(vec![spec.clone()], |spec| spec.fusion = fusion);
        let hits = world.ask_with(&fused, "at 0", now()).await.unwrap().hits;
        assert!(hits.iter().all(|hit| hit.score.is_finite()), "{fusion:?}: {hits:?}");
        assert_eq!(ids(&hits)[0], "huge");
    }
}

#[tokio::test]
async fn a_hundred_candidates_are_looked_at() {
    let world = World::new();
    let degrees: Vec<(String, String, Metadata)> =
        (0..50).map(|number| (number.to_string(), format!("at {number}"), hours_ago(100 * (50 - number)))).collect();
    world.fill("docs", degrees.iter().map(|(id, text, metadata)| (id.as_str(), text.as_str(), metadata.clone()))).await;
    let spec = time_weighted(leaf("docs"), |spec| spec.decay_rate = Some(0.5));
    // The newest is the farthest, and far beyond the four that a search alone would give.
    let fresh = metadata("last_accessed_at", NOW);
    world.fill("fresh", [("old", "at 0", hours_ago(1000)), ("new", "at 40", fresh)]).await;
    assert_eq!(world.ask_with(&spec, "at 0", now()).await.unwrap().hits.len(), 4);
    let answer = world.ask_with(&time_weighted(leaf("fresh"), |spec| spec.decay_rate = Some(0.5)), "at 0", now()).await;
    assert_eq!(ids(&answer.unwrap().hits), ["new", "old"]);
    let options = RunOptions { with_trace: true, ..now() };
    assert_eq!(world.ask_with(&spec, "at 0", options).await.unwrap().trace[1].outcome, Ok(50));
}

/// `hours` after [`NOW`].
fn later(hours: u64) -> RunOptions {
    RunOptions { now: Some(UNIX_EPOCH + Duration::from_secs(NOW as u64 + hours * 3600)), ..Default::default() }
}

/// The best hit of the collection `docs`, half as fresh with each hour since it was last found.
fn remembering(log: &str) -> RetrieverSpec {
    time_weighted(leaf("docs"), |spec| {
        (spec.decay_rate, spec.k) = (Some(0.5), Some(1));
        spec.access_log = Some(collection(log));
    })
}

#[tokio::test]
async fn recency_follows_the_last_access_also_after_a_restart() {
    let world = World::new();
    // Both are old: relevance alone decides at first.
    world.fill("docs", [("a", "at 0", hours_ago(100)), ("b", "at 30", hours_ago(100))]).await;
    let hits = world.ask_with(&remembering("seen"), "at 0", later(0)).await.unwrap().hits;
    assert_eq!(ids(&hits), ["a"]);
    // An hour later: half of the freshness that `a` got by being found, and no more than relevance for `b`.
    let hits = world.ask_with(&remembering("seen"), "at 30", later(1)).await.unwrap().hits;
    assert_eq!(ids(&hits), ["a"], "found an hour ago, though `b` is more relevant");
    assert!((hits[0].score - (cos(30.0) + 0.5)).abs() < 1e-6, "{}", hits[0].score);
    assert_eq!(hits[0].document.metadata, hours_ago(100), "documents are never changed");

    world.planner.access_log().unwrap().flush().await.unwrap();
    let documents = Arc::clone(&world.memory.documents) as Arc<dyn DocumentStore>;
    let again = Planner::new(Arc::clone(&world.collections), world.stored.clone(), PlanLimits::default());
    let again = again.with_documents(documents);
    let ask = async |context: &RequestContext, spec: &RetrieverSpec, options: RunOptions| {
        let query = toller_core::Query::Text("at 30".to_owned());
        again.plan(context, spec).await.unwrap().run(context, &query, options).await.unwrap().hits
    };
    // Five hours after that second time relevance wins again.
    let hits = ask(&world.context, &remembering("seen"), later(6)).await;
    assert_eq!(ids(&hits), ["b"]);
    let all = time_weighted(leaf("docs"), |spec| {
        (spec.decay_rate, spec.access_log) = (Some(0.5), Some(collection("seen")));
    });
    let hits = ask(&world.context, &all, later(6)).await;
    assert_eq!(ids(&hits), ["b", "a"]);
    for (hit, expected) in hits.iter().zip([1.0 + 1.0, cos(30.0) + 0.5_f64.powi(5)]) {
        assert!((hit.score - expected).abs() < 1e-6, "{}: {}", hit.document.id, hit.score);
    }
    // Another log, and another tenant's log of that name, know nothing.
    let hits = ask(&world.context, &remembering("other"), later(6)).await;
    assert!(hits[0].score < 1.01, "{}", hits[0].score);
    let stranger = Principal { tenant: Tenant::new("other").unwrap(), ..Principal::anonymous() };
    let stranger = RequestContext::new(stranger);
    let document = [("b", "at 30", hours_ago(100))];
    world.fill_as(&stranger, "docs", toller_core::Metric::Cosine, document).await;
    assert!(ask(&stranger, &remembering("seen"), later(6)).await[0].score < 1.01);
}

#[tokio::test]
async fn a_documents_own_time_counts_where_it_is_later_than_the_last_access() {
    let world = World::new();
    world.fill("docs", [("a", "at 0", hours_ago(-5))]).await;
    world.ask_with(&remembering("seen"), "at 0", later(0)).await.unwrap();
    let hits = world.ask_with(&remembering("seen"), "at 0", later(6)).await.unwrap().hits;
    assert!((hits[0].score - 1.5).abs() < 1e-6, "{}", hits[0].score);
}

#[tokio::test]
async fn without_an_access_log_nothing_is_recorded() {
    let world = World::new();
    world.fill("docs", [("a", "at 0", Metadata::new())]).await;
    let spec = time_weighted(leaf("docs"), |_| ());
    for _ in 0..2 {
        let answer = world.ask_with(&spec, "at 0", now()).await.unwrap();
        assert!((answer.hits[0].score - 1.0).abs() < 1e-6 && answer.warnings.len() == 1, "{answer:?}");
    }
    // With one, what was found once has a time.
    for warnings in [1, 0] {
        assert_eq!(world.ask_with(&remembering("seen"), "at 0", now()).await.unwrap().warnings.len(), warnings);
    }
}

#[tokio::test]
async fn an_access_log_needs_a_place_and_a_name_that_fits() {
    let world = World::new();
    world.fill("docs", [("a", "at 0", Metadata::new())]).await;
    let [fault] = world.faults(&remembering(&"x".repeat(128))).await.try_into().unwrap();
    assert!(fault.starts_with("time_weighted.access_log: is too long"), "{fault}");
    let nowhere = Planner::new(Arc::clone(&world.collections), world.stored.clone(), PlanLimits::default());
    let [fault] = nowhere.validate(&world.context, &remembering("seen")).await.unwrap().try_into().unwrap();
    assert_eq!(fault.field, "time_weighted.access_log");
}
