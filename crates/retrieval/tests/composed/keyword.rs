//! Keyword and hybrid: what each leg finds, what both make of it, and what is refused.

use toller_core::filter::KeyPath;
use toller_core::retriever::*;
use toller_core::{Filter, Metadata, Metric, Query};
use toller_retrieval::RunOptions;
use toller_store::{CollectionOptions, NewCollection, VectorSource};

use crate::specs::*;
use crate::world::*;

/// A query at 0 degrees about terriers: `near` is near, `named` has the word, `both` both, `far` neither.
async fn world() -> World {
    let world = World::new();
    let documents = [
        ("near", "at 1", metadata("lang", "en")),
        ("named", "at 170 a terrier", metadata("lang", "en")),
        ("both", "at 10 some brown terriers", metadata("lang", "de")),
        ("far", "at 180", metadata("lang", "en")),
    ];
    world.fill("docs", documents).await;
    world
}

const QUERY: &str = "at 0: terriers";

#[tokio::test]
async fn keywords_find_documents_with_a_term_of_the_query_only() {
    let world = world().await;
    let hits = world.hits(&keyword("docs", |_| ()), "the terriers").await;
    assert_eq!(ids(&hits), ["named", "both"], "the shorter text first");
    assert!(hits[0].score > hits[1].score && hits[1].score > 0.0);
    for (hit, rank) in hits.iter().zip(1..) {
        assert_eq!((hit.rank, hit.relevance, hit.metric, hit.vector.is_none()), (rank, None, None, true));
        assert_eq!(hit.sources.iter().map(|source| source.source.as_str()).collect::<Vec<_>>(), ["keyword"]);
    }
    assert!(world.hits(&keyword("docs", |_| ()), "the").await.is_empty(), "stop words alone");
    assert_eq!(ids(&world.hits(&keyword("docs", |spec| spec.k = Some(1)), "terrier").await), ["named"]);
    let hits = world.hits(&keyword("docs", |spec| spec.with_vectors = true), "terrier").await;
    assert!(hits[0].vector.is_some());
    assert_eq!(world.compass.query_calls.load(std::sync::atomic::Ordering::SeqCst), 0, "nothing is embedded");
}

#[tokio::test]
async fn a_hybrid_search_is_the_ensemble_of_its_legs() {
    let world = world().await;
    let both = hybrid("docs", |_| ());
    let hits = world.hits(&both, QUERY).await;
    assert_eq!(ids(&hits), ["named", "both", "near", "far"], "who is in both legs comes before who is first in one");
    let sources: Vec<(&str, u32)> =
        hits[0].sources.iter().map(|source| (source.source.as_str(), source.rank)).collect();
    assert_eq!(sources, [("vector_store", 3), ("keyword", 1)]);
    assert!((hits[0].score - (1.0 / 63.0 + 1.0 / 61.0)).abs() < 1e-12);
    assert_eq!((hits[0].relevance, hits[0].metric), (None, None));

    let weights = |vector, keyword| {
        hybrid("docs", |spec| (spec.vector_weight, spec.keyword_weight) = (Some(vector), Some(keyword)))
    };
    assert_eq!(ids(&world.hits(&weights(1.0, 0.0), QUERY).await), ["near", "both", "named", "far"]);
    assert_eq!(ids(&world.hits(&weights(0.0, 1.0), QUERY).await), ["named", "both"]);
    let by_score = hybrid("docs", |spec| spec.fusion = Fusion::MinMax);
    assert_eq!(world.hits(&by_score, QUERY).await.len(), 4);
    let answer = world.ask_with(&both, QUERY, RunOptions { with_trace: true, ..RunOptions::default() }).await.unwrap();
    let paths: Vec<&str> = answer.trace.iter().map(|node| node.path.as_str()).collect();
    assert_eq!(paths, ["", "hybrid.vector", "hybrid.keyword"]);
}

#[tokio::test]
async fn the_filter_holds_in_each_leg_before_ranks_are_given() {
    let world = world().await;
    let english = Filter::Eq(KeyPath::parse("lang").unwrap(), "en".into());
    let spec = hybrid("docs", |spec| (spec.filter, spec.k) = (Some(english.clone()), Some(1000)));
    let hits = world.hits(&spec, QUERY).await;
    assert_eq!(ids(&hits), ["named", "near", "far"]);
    let ranks: Vec<(&str, u32)> = hits[0].sources.iter().map(|source| (source.source.as_str(), source.rank)).collect();
    assert_eq!(ranks, [("vector_store", 2), ("keyword", 1)]);
    let hits = world.hits(&keyword("docs", |spec| spec.filter = Some(english)), "terrier").await;
    assert_eq!((ids(&hits), hits[0].rank), (vec!["named"], 1));
}

#[tokio::test]
async fn k_is_a_bound_and_each_leg_finds_enough_for_it() {
    let world = World::new();
    let texts: Vec<(String, String)> =
        (0..60).map(|index| (format!("{index:02}"), format!("at {index} word"))).collect();
    world.fill("docs", texts.iter().map(|(id, text)| (id.as_str(), text.as_str(), Metadata::new()))).await;
    for k in [1, 4, 50] {
        let hits = world.hits(&hybrid("docs", |spec| spec.k = Some(k)), "at 0 word").await;
        assert_eq!(hits.len(), k as usize);
        assert_eq!(hits[0].document.id.as_str(), "00");
    }
    let one_each = hybrid("docs", |spec| (spec.k, spec.leg_k) = (Some(1), Some(1)));
    assert_eq!(world.hits(&one_each, "at 0 word").await.len(), 1);
}

#[tokio::test]
async fn what_cannot_be_is_refused_with_its_path() {
    let world = world().await;
    let tree = ensemble(
        vec![
            keyword("docs", |spec| spec.k = Some(0)),
            hybrid("docs", |spec| {
                spec.k = Some(5);
                spec.leg_k = Some(4);
                spec.fusion = Fusion::Convex;
                spec.c = Some(1);
                spec.vector_weight = Some(f64::NAN);
            }),
            hybrid("docs", |spec| (spec.vector_weight, spec.keyword_weight) = (Some(0.0), Some(0.0))),
            keyword("missing", |_| ()),
        ],
        |_| (),
    );
    let faults = world.faults(&tree).await;
    let starts = [
        "ensemble.retrievers[0].keyword.k: must be from 1 to 1000",
        "ensemble.retrievers[1].hybrid.leg_k: must be at least k, 5, got 4",
        "ensemble.retrievers[1].hybrid.fusion: must not be convex",
        "ensemble.retrievers[1].hybrid.c: is of use with fusion rrf only",
        "ensemble.retrievers[1].hybrid.vector_weight: must be from 0 to 1000000",
        "ensemble.retrievers[2].hybrid.keyword_weight: must be above 0",
        "ensemble.retrievers[3].keyword.collection: ",
    ];
    assert_eq!(faults.len(), starts.len(), "{faults:?}");
    for (fault, start) in faults.iter().zip(starts) {
        assert!(fault.starts_with(start), "{fault}");
    }

    let new = NewCollection {
        name: collection("plain"),
        description: String::new(),
        labels: Default::default(),
        metric: Metric::Cosine,
        vectors: VectorSource::Model,
    };
    let options = CollectionOptions { keyword: None, ..CollectionOptions::default() };
    world.collections.create_with(&world.context, new, options).await.unwrap();
    for tree in [keyword("plain", |_| ()), hybrid("plain", |_| ())] {
        let error = world.ask(&tree, "x").await.unwrap_err().to_string();
        assert!(error.contains("was made without a keyword index"), "{error}");
    }
    for tree in [keyword("docs", |_| ()), hybrid("docs", |_| ())] {
        let plan = world.planner.plan(&world.context, &tree).await.unwrap();
        let error = plan.run(&world.context, &Query::Vector(vec![1.0, 0.0]), RunOptions::default()).await.unwrap_err();
        assert!(error.to_string().contains("must be a text"), "{error}");
    }
}
