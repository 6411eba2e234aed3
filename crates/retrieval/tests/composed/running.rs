//! How trees run: at the same time, within their time, with traces and warnings, and for their tenant alone.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use toller_core::retriever::{CompressorKind, EmbeddingsFilterSpec, RouterCondition};
use toller_core::{Error, Metadata, Metric, Principal, Query, RequestContext, Retriever, Tenant};
use toller_retrieval::RunOptions;

use crate::specs::*;
use crate::world::{World, ids, metadata, paths};

#[tokio::test]
async fn siblings_run_at_the_same_time() {
    let world = World::new();
    for number in 0..5 {
        world.fill_degrees(&format!("slow500-{number}"), &[number]).await;
    }
    let legs = (0..5).map(|number| leaf(&format!("slow500-{number}"))).collect();
    assert_eq!(world.hits(&ensemble(legs, |_| ()), "at 0").await.len(), 5);
    assert_eq!(world.slow_searches.most.load(Ordering::Relaxed), 5);
}

#[tokio::test]
async fn a_query_is_embedded_once_however_many_leaves_want_it() {
    let world = World::new();
    world.fill_degrees("a", &[0]).await;
    world.fill_degrees("b", &[1]).await;
    let filter = CompressorKind::EmbeddingsFilter(EmbeddingsFilterSpec::default());
    let spec = compression(ensemble(vec![leaf("a"), leaf("b"), merger(vec![leaf("a")], |_| ())], |_| ()), vec![filter]);
    world.ask(&spec, "at 0").await.unwrap();
    assert_eq!(world.compass.query_calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_failure_has_the_path_of_the_node_that_failed() {
    let world = World::new();
    world.fill_degrees("docs", &[0]).await;
    world.fill_degrees("broken", &[0]).await;
    let tree = |leg| compression(ensemble(vec![leaf("docs"), leg], |_| ()), vec![CompressorKind::LongContextReorder]);
    let error = world.ask(&tree(leaf("broken")), "at 0").await.unwrap_err();
    let path = "contextual_compression.retriever.ensemble.retrievers[1]";
    assert_eq!(error, Error::Unavailable(format!("{path}: the store is away")));

    let answer = world.ask(&tree(skipping(leaf("broken"))), "at 0").await.unwrap();
    assert_eq!(ids(&answer.hits), ["0"]);
    assert_eq!(paths(&answer), [path]);
    assert_eq!(answer.warnings[0].message, format!("skipped: {path}: the store is away"));
}

#[tokio::test]
async fn a_timeout_bounds_all_that_is_below() {
    let world = World::new();
    world.fill_degrees("docs", &[0]).await;
    world.fill_degrees("slow60000", &[1]).await;
    let slow = |spec| ensemble(vec![leaf("docs"), spec], |_| ());
    let started = Instant::now();
    let error = world.ask(&within_millis(30, slow(leaf("slow60000"))), "at 0").await.unwrap_err();
    assert!(matches!(error, Error::DeadlineExceeded(_)), "{error}");
    let answer = world.ask(&slow(skipping(within_millis(30, leaf("slow60000")))), "at 0").await.unwrap();
    assert_eq!(ids(&answer.hits), ["0"]);
    assert_eq!(paths(&answer), ["ensemble.retrievers[1]"]);
    assert!(started.elapsed() < Duration::from_secs(30), "{:?}", started.elapsed());
}

#[tokio::test]
async fn the_callers_own_deadline_and_cancellation_are_never_skipped() {
    let world = World::new();
    world.fill_degrees("docs", &[0]).await;
    let spec = fallback(vec![skipping(leaf("docs")), skipping(leaf("docs"))], |_| ());
    let plan = world.planner.plan(&world.context, &spec).await.unwrap();
    let query = Query::Text("at 0".to_owned());
    let late = world.context.clone().with_deadline(Some(Instant::now()));
    let error = plan.run(&late, &query, RunOptions::default()).await.unwrap_err();
    assert!(matches!(error, Error::DeadlineExceeded(_)), "{error}");
    let gone = RequestContext::new(Principal::anonymous());
    gone.cancellation().cancel();
    assert_eq!(plan.run(&gone, &query, RunOptions::default()).await.unwrap_err(), Error::Cancelled);
}

#[tokio::test]
async fn a_trace_has_the_order_of_the_tree() {
    let world = World::new();
    world.fill_degrees("slow30", &[0, 1]).await;
    world.fill_degrees("docs", &[2]).await;
    world.fill_degrees("broken", &[0]).await;
    let legs = vec![leaf("slow30"), named("quick", leaf("docs")), skipping(leaf("broken"))];
    let spec = merger(vec![ensemble(legs, |_| ())], |_| ());
    assert!(world.ask(&spec, "at 0").await.unwrap().trace.is_empty(), "only when asked for");
    let options = RunOptions { with_trace: true, ..Default::default() };
    let trace = world.ask_with(&spec, "at 0", options).await.unwrap().trace;
    let nodes: Vec<_> = trace.iter().map(|node| (node.path.as_str(), node.kind, node.name.as_str())).collect();
    let expected = [
        ("", "merger", "merger"),
        ("merger.retrievers[0]", "ensemble", "ensemble"),
        ("merger.retrievers[0].ensemble.retrievers[0]", "vector_store", "vector_store"),
        ("merger.retrievers[0].ensemble.retrievers[1]", "vector_store", "quick"),
        ("merger.retrievers[0].ensemble.retrievers[2]", "vector_store", "vector_store"),
    ];
    assert_eq!(nodes, expected);
    let outcomes: Vec<_> = trace.iter().map(|node| node.outcome.clone()).collect();
    assert_eq!(outcomes, [Ok(3), Ok(3), Ok(2), Ok(1), Err("the store is away".to_owned())]);
    assert!(trace[2].duration >= Duration::from_millis(30));
}

#[tokio::test]
async fn the_tenant_reaches_every_leaf() {
    let world = World::new();
    let other = Principal { tenant: Tenant::new("other").unwrap(), ..Principal::anonymous() };
    let other = RequestContext::new(other);
    // The same names hold other documents for another tenant.
    for (context, id) in [(&world.context, "ours"), (&other, "theirs")] {
        for name in ["docs", "chunks", "texts"] {
            let document = [(id, "at 0", metadata("doc_id", id))];
            world.fill_as(context, name, Metric::Cosine, document).await;
        }
    }
    let leaves = || ensemble(vec![leaf("docs"), leaf("texts")], |_| ());
    let trees = [
        leaves(),
        merger(vec![leaf("docs")], |_| ()),
        compression(leaves(), vec![CompressorKind::LongContextReorder]),
        router(vec![(RouterCondition::Length { min: Some(1), max: None }, leaf("docs"))], None),
        fallback(vec![leaf("docs"), leaf("docs")], |_| ()),
        time_weighted(leaf("docs"), |_| ()),
        keyword("docs", |_| ()),
        hybrid("docs", |_| ()),
        parent_document("chunks", "texts", |_| ()),
        multi_vector(leaf("chunks"), "texts", |_| ()),
    ];
    for (context, expected) in [(&world.context, "ours"), (&other, "theirs")] {
        for tree in &trees {
            let plan = world.planner.plan(context, tree).await.unwrap();
            let hits = plan.retrieve(context, &Query::Text("at 0".to_owned())).await.unwrap();
            assert_eq!(ids(&hits), [expected], "{}", plan.kind());
        }
    }
}

#[tokio::test]
async fn filters_of_leaves_hold_before_ranks_are_given() {
    use toller_core::Filter;
    use toller_core::filter::KeyPath;
    let world = World::new();
    let german = |name: &str| {
        leaf_with(name, |spec| spec.filter = Some(Filter::Eq(KeyPath::parse("lang").unwrap(), "de".into())))
    };
    let documents = [("en", "at 0", metadata("lang", "en")), ("de", "at 10", metadata("lang", "de"))];
    world.fill("docs", documents).await;
    let hits = world.hits(&ensemble(vec![german("docs")], |_| ()), "at 0").await;
    assert_eq!(ids(&hits), ["de"]);
    assert_eq!(hits[0].sources[0].rank, 1, "what is left out takes no rank");
}

#[tokio::test]
async fn an_empty_collection_is_an_empty_answer() {
    let world = World::new();
    world.fill("docs", Vec::<(&str, &str, Metadata)>::new()).await;
    for tree in [ensemble(vec![leaf("docs")], |_| ()), merger(vec![leaf("docs")], |_| ())] {
        assert!(world.hits(&tree, "at 0").await.is_empty());
    }
}
