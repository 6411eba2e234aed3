//! Whole trees are checked before anything runs.

use toller_core::Error;
use toller_core::retriever::{
    AskSpec, CompressorKind, EmbeddingsFilterSpec, ExtractSpec, Fusion, MultiQuerySpec, RedundantFilterSpec,
    RerankSpec, RetrieverKind, RetrieverSpec,
};
use toller_retrieval::{PlanLimits, RunOptions};

use crate::specs::*;
use crate::world::{World, ids};

async fn world() -> World {
    let world = World::new();
    world.fill_degrees("docs", &[0, 1, 2, 3, 4]).await;
    world
}

#[tokio::test]
async fn every_fault_of_a_tree_is_listed_with_its_path() {
    let world = world().await;
    let spec = ensemble(
        vec![
            leaf_with("docs", |spec| spec.k = Some(0)),
            leaf("nowhere"),
            reference("unknown"),
            merger(vec![], |spec| spec.id_key = Some(String::new())),
            fallback(vec![leaf("docs")], |spec| spec.min_relevance = Some(f64::NAN)),
            time_weighted(leaf("docs"), |spec| spec.decay_rate = Some(1.5)),
        ],
        |spec| {
            spec.weights = vec![1.0, -1.0];
            spec.c = Some(1);
            spec.fusion = Fusion::MinMax;
            spec.k = Some(1001);
        },
    );
    let faults = world.faults(&spec).await;
    for expected in [
        "ensemble.retrievers[2].ref: retriever \"unknown\" does not exist",
        "ensemble.k: must be from 1 to 1000 (limits.max_k), got 1001",
        "ensemble.c: is of use with fusion rrf only, not min_max",
        "ensemble.weights: must be as many as retrievers, 6, got 2",
        "ensemble.weights[1]: must be from 0 to 1000000, got -1",
        "ensemble.retrievers[0].vector_store.k: must be from 1 to 1000",
        "ensemble.retrievers[1].vector_store.collection: collection \"nowhere\" does not exist",
        "ensemble.retrievers[3].merger.retrievers: must be at least 1, got 0",
        "ensemble.retrievers[3].merger.id_key: must not be empty",
        "ensemble.retrievers[4].fallback.retrievers: must be at least 2, got 1",
        "ensemble.retrievers[4].fallback.min_relevance: must be from 0 to 1, got NaN",
        "ensemble.retrievers[5].time_weighted.decay_rate: must be from 0 to 1, got 1.5",
    ] {
        assert!(faults.iter().any(|fault| fault.starts_with(expected)), "{expected} is not in {faults:#?}");
    }
    assert_eq!(faults.len(), 12, "{faults:#?}");
    let error = world.planner.plan(&world.context, &spec).await.err().unwrap();
    assert!(matches!(error, Error::InvalidArgument(violations) if violations.len() == 12));
}

#[tokio::test]
async fn parameters_of_compressors_are_checked() {
    let world = world().await;
    let kinds = vec![
        CompressorKind::EmbeddingsFilter(EmbeddingsFilterSpec { threshold: Some(1.5), k: Some(0), model: None }),
        CompressorKind::RedundantFilter(RedundantFilterSpec { threshold: Some(f64::NAN), model: None }),
        CompressorKind::Rerank(RerankSpec { model: Some("numbers".to_owned()), top_n: Some(0) }),
        CompressorKind::Extract(ExtractSpec { max_sentences: Some(0), model: Some("who".to_owned()), threshold: None }),
    ];
    let faults = world.faults(&compression(leaf("docs"), kinds)).await;
    let fields = [
        "[0].embeddings_filter.threshold",
        "[0].embeddings_filter.k",
        "[1].redundant_filter.threshold",
        "[2].rerank.top_n",
        "[3].extract.max_sentences",
        "[3].extract.model",
    ];
    assert_eq!(faults.len(), fields.len(), "{faults:#?}");
    for (fault, field) in faults.iter().zip(fields) {
        assert!(fault.starts_with(&format!("contextual_compression.compressors{field}: ")), "{fault}");
    }
    assert_eq!(world.faults(&compression(leaf("docs"), vec![])).await.len(), 1);
}

#[tokio::test]
async fn what_alone_is_missing_is_told_as_such() {
    let world = world().await;
    let spec = merger(vec![leaf("docs"), leaf("nowhere")], |_| ());
    let error = world.planner.plan(&world.context, &spec).await.err().unwrap();
    assert!(matches!(error, Error::NotFound { .. }), "{error}");
}

#[tokio::test]
async fn references_are_followed_wherever_they_stand() {
    let world = world().await;
    world.store(named("two", leaf_with("docs", |spec| spec.k = Some(2)))).await;
    world.store(named("both", merger(vec![reference("two"), leaf("docs")], |_| ()))).await;
    let spec = ensemble(vec![reference("both"), named("again", skipping(reference("two")))], |_| ());
    let answer = world.ask(&spec, "at 0").await.unwrap();
    assert_eq!(ids(&answer.hits), ["0", "1", "2", "3"]);
    let legs: Vec<&str> = answer.hits[0].sources.iter().map(|source| source.source.as_str()).collect();
    assert_eq!(legs, ["both", "again"]);
}

#[tokio::test]
async fn circles_are_found_wherever_they_close() {
    let world = world().await;
    world.store(named("a", merger(vec![leaf("docs"), reference("b")], |_| ()))).await;
    world.store(named("b", ensemble(vec![reference("a")], |_| ()))).await;
    let [fault] = world.faults(&merger(vec![reference("a")], |_| ())).await.try_into().unwrap();
    let path = "merger.retrievers[0].merger.retrievers[1].ensemble.retrievers[0].ref";
    assert!(fault.starts_with(path) && fault.ends_with("a -> b -> a"), "{fault}");
    // The same retriever twice, side by side, is no circle.
    world.store(named("plain", leaf("docs"))).await;
    assert!(world.faults(&merger(vec![reference("plain"), reference("plain")], |_| ())).await.is_empty());
}

#[tokio::test]
async fn trees_are_bounded_in_depth_and_breadth() {
    let world = World::with_limits(PlanLimits { max_nodes: 8, max_depth: 3, ..PlanLimits::default() });
    world.fill_degrees("docs", &[0]).await;
    let nest = |levels: usize| (0..levels).fold(leaf("docs"), |inner: RetrieverSpec, _| merger(vec![inner], |_| ()));
    assert!(world.faults(&nest(2)).await.is_empty());
    let [fault] = world.faults(&nest(3)).await.try_into().unwrap();
    assert!(fault.ends_with("must be nested at most 3 levels deep"), "{fault}");
    let broad = |legs| merger((0..legs).map(|_| leaf("docs")).collect(), |_| ());
    assert!(world.faults(&broad(7)).await.is_empty());
    let [fault] = world.faults(&broad(100)).await.try_into().unwrap();
    assert!(fault.starts_with("merger.retrievers[7]: is beyond the 8 retrievers"), "{fault}");
}

#[tokio::test]
async fn references_cannot_make_a_small_declaration_a_large_tree() {
    let world = World::new();
    world.fill_degrees("docs", &[0]).await;
    world.store(named("x0", leaf("docs"))).await;
    for level in 1..12 {
        let inner = reference(&format!("x{}", level - 1));
        world.store(named(&format!("x{level}"), merger(vec![inner.clone(), inner.clone(), inner], |_| ()))).await;
    }
    // 3^11 leaves, were they counted.
    let [fault] = world.faults(&reference("x11")).await.try_into().unwrap();
    assert!(fault.contains("is beyond the 64 retrievers"), "{fault}");
}

#[tokio::test]
async fn what_a_reference_says_of_itself_wins() {
    let world = world().await;
    world.fill_degrees("slow4000", &[0]).await;
    world.store(within_millis(20, skipping(named("inner", leaf("slow4000"))))).await;
    let options = || RunOptions { with_trace: true, ..Default::default() };
    let patient = within_millis(60_000, named("outer", reference("inner")));
    let trace = world.ask_with(&patient, "at 0", options()).await.unwrap().trace;
    assert_eq!((trace[0].name.as_str(), &trace[0].outcome), ("outer", &Ok(1)));
    // Its own timeout and skip hold where the reference says nothing.
    let answer = world.ask_with(&reference("inner"), "at 0", options()).await.unwrap();
    assert_eq!((answer.trace[0].name.as_str(), answer.hits.len(), answer.warnings.len()), ("inner", 0, 1));
}

#[tokio::test]
async fn what_multiplies_searches_is_bounded_before_it_runs() {
    let world = World::new();
    world.fill_degrees("docs", &[0]).await;
    let many = |retriever| {
        RetrieverSpec::new(RetrieverKind::MultiQuery(MultiQuerySpec {
            retriever: Box::new(retriever),
            ask: AskSpec::default(),
            max_queries: None,
            include_original: None,
            queries: (0..20).map(|number| format!("at {number}")).collect(),
            k: None,
        }))
    };
    let twice = many(many(leaf("docs")));
    assert_eq!(world.faults(&twice).await, [] as [String; 0], "441 searches");
    assert_eq!(ids(&world.hits(&twice, "at 0").await), ["0"]);
    let faults = world.faults(&ensemble(vec![leaf("docs"), many(twice)], |_| ())).await;
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].starts_with("ensemble: may run 9262 searches, more than 1024"), "{faults:?}");
}
