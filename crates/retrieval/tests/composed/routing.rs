//! Router and fallback.

use toller_core::filter::KeyPath;
use toller_core::retriever::RouterCondition;
use toller_core::{Error, Filter, Query, Value};
use toller_retrieval::RunOptions;

use crate::specs::*;
use crate::world::{World, at, ids, metadata, paths};

async fn world() -> World {
    let world = World::new();
    for name in ["a", "b", "c", "d"] {
        world.fill(name, [(name, "at 0", Default::default())]).await;
    }
    world.fill_degrees("few", &[0, 80]).await;
    world.fill_degrees("many", &[0, 1, 2, 3]).await;
    world.fill_degrees("broken", &[0]).await;
    world.fill_degrees("slow60000", &[0]).await;
    world
}

fn rules() -> Vec<(RouterCondition, toller_core::retriever::RetrieverSpec)> {
    let plan = Filter::Eq(KeyPath::parse("plan").unwrap(), Value::from("pro"));
    vec![
        (RouterCondition::Metadata(plan), leaf("a")),
        (RouterCondition::Contains("STRASSE".to_owned()), leaf("b")),
        (RouterCondition::Regex(r"^\d+$".to_owned()), leaf("c")),
        (RouterCondition::Length { min: None, max: Some(3) }, leaf("d")),
    ]
}

#[tokio::test]
async fn the_first_rule_that_holds_chooses() {
    let world = world().await;
    let spec = router(rules(), Some(leaf("few")));
    for (text, expected) in
        [("Hauptstrasse 1", "b"), ("12345", "c"), ("123", "c"), ("äöü", "d"), ("something else, at 0", "0")]
    {
        assert_eq!(ids(&world.hits(&spec, text).await)[0], expected, "{text}");
    }
    let options = RunOptions { metadata: metadata("plan", "pro"), ..Default::default() };
    assert_eq!(ids(&world.ask_with(&spec, "123", options).await.unwrap().hits), ["a"]);
}

#[tokio::test]
async fn conditions_on_texts_never_hold_for_vectors() {
    let world = world().await;
    let everything = RouterCondition::Length { min: Some(0), max: None };
    let plan = world.planner.plan(&world.context, &router(vec![(everything, leaf("a"))], Some(leaf("b")))).await;
    let answer = plan.unwrap().run(&world.context, &Query::Vector(at(0.0)), Default::default()).await.unwrap();
    assert_eq!(ids(&answer.hits), ["b"]);
}

#[tokio::test]
async fn without_a_rule_and_a_default_there_is_an_empty_answer_with_a_warning() {
    let world = world().await;
    let answer = world.ask(&router(rules(), None), "something else").await.unwrap();
    assert!(answer.hits.is_empty());
    assert_eq!(paths(&answer), [""]);
}

#[tokio::test]
async fn conditions_that_make_no_sense_are_refused() {
    let world = world().await;
    let rules = vec![
        (RouterCondition::Contains(String::new()), leaf("a")),
        (RouterCondition::Regex("(".to_owned()), leaf("a")),
        (RouterCondition::Regex("a{1000}{1000}{1000}".to_owned()), leaf("a")),
        (RouterCondition::Length { min: None, max: None }, leaf("a")),
        (RouterCondition::Length { min: Some(2), max: Some(1) }, leaf("a")),
        (RouterCondition::Metadata(Filter::Lt(KeyPath::parse("x").unwrap(), Value::Null)), leaf("a")),
    ];
    let faults = world.faults(&router(rules, None)).await;
    for (index, field) in ["contains", "regex", "regex", "length", "length", "metadata.lt.value"].iter().enumerate() {
        let path = format!("router.rules[{index}].{field}: ");
        assert!(faults[index].starts_with(&path), "{path} is not in {faults:?}");
    }
}

#[tokio::test]
async fn a_fallback_goes_on_until_an_answer_is_good_enough() {
    let world = world().await;
    let spec =
        fallback(vec![leaf("broken"), within_millis(20, leaf("slow60000")), leaf("few"), leaf("many")], |spec| {
            spec.min_hits = Some(2);
            spec.min_relevance = Some(0.5);
        });
    let answer = world.ask(&spec, "at 0").await.unwrap();
    assert_eq!(ids(&answer.hits), ["0", "1", "2", "3"]);
    assert_eq!(paths(&answer), ["fallback.retrievers[0]", "fallback.retrievers[1]", "fallback.retrievers[2]"]);
    let messages: Vec<&str> = answer.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(messages[0], "passed over: the store is away");
    assert!(messages[1].contains("deadline passed"), "{messages:?}");
    assert_eq!(messages[2], "passed over: 1 hits are good enough, 2 are wanted");
}

#[tokio::test]
async fn when_none_is_good_enough_the_best_of_them_answers() {
    let world = world().await;
    let spec = |retrievers| fallback(retrievers, |spec| spec.min_hits = Some(5));
    let answer = world.ask(&spec(vec![leaf("few"), leaf("many"), leaf("a")]), "at 0").await.unwrap();
    assert_eq!(ids(&answer.hits), ["0", "1", "2", "3"]);
    assert_eq!(answer.warnings.len(), 3);
    let error = world.ask(&spec(vec![leaf("broken"), leaf("broken")]), "at 0").await.unwrap_err();
    assert_eq!(error, Error::Unavailable("fallback.retrievers[1]: the store is away".to_owned()));
}

#[tokio::test]
async fn hits_without_a_relevance_do_not_reach_one() {
    let world = world().await;
    let fused = ensemble(vec![leaf("many")], |_| ());
    let spec = fallback(vec![fused, leaf("few")], |spec| spec.min_relevance = Some(0.0));
    assert_eq!(ids(&world.hits(&spec, "at 0").await), ["0", "80"]);
}
