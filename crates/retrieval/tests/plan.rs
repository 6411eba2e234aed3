//! Planning and running declared retrievers over the memory backend.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::sync::Arc;

use toller_core::filter::{FilterLimits, KeyPath};
use toller_core::retriever::{RetrieverKind, RetrieverName, RetrieverSpec, SearchType, VectorStoreRetrieverSpec};
use toller_core::{
    Catalog, CollectionName, Error, Filter, Metadata, Metric, Models, Principal, Query, RelevanceFunction,
    RequestContext, Retriever, ScoredDocument, Tenant, Value, VectorStore,
};
use toller_retrieval::stored::WriteCondition;
use toller_retrieval::{PlanLimits, Planner, StoredRetrievers};
use toller_store::{Collections, MemoryStore, NewCollection, NewDocument, VectorSource};

struct World {
    context: RequestContext,
    planner: Planner,
    stored: StoredRetrievers,
}

/// Collection `docs`, cosine, dimension 2: five documents at 0, 10, 20, 80 and 90 degrees, ids `a` to `e`, with their `degrees`.
async fn world() -> World {
    let context = RequestContext::new(Principal::anonymous());
    let memory = MemoryStore::new();
    let catalog = Arc::clone(&memory.catalog) as Arc<dyn Catalog>;
    let store = Arc::clone(&memory.vectors) as Arc<dyn VectorStore>;
    let collections = Arc::new(Collections::new(store, Arc::clone(&catalog), Models::default()));
    let new = NewCollection {
        name: CollectionName::new("docs").unwrap(),
        description: String::new(),
        labels: Default::default(),
        metric: Metric::Cosine,
        vectors: VectorSource::Client { dimension: 2 },
    };
    collections.create(&context, new).await.unwrap();
    let handle = collections.open(&context, &CollectionName::new("docs").unwrap()).await.unwrap();
    let documents = [("a", 0), ("b", 10), ("c", 20), ("d", 80), ("e", 90)].map(|(id, degrees)| NewDocument {
        id: Some(id.to_owned()),
        page_content: format!("at {degrees} degrees"),
        metadata: Metadata::from([("degrees".to_owned(), Value::Int(degrees))]),
        vector: Some(at(degrees as f32)),
        ..NewDocument::default()
    });
    handle.add(&context, documents.into(), None).await.unwrap();
    let stored = StoredRetrievers::new(catalog);
    let planner = Planner::new(collections, stored.clone(), PlanLimits::default());
    World { context, planner, stored }
}

fn at(degrees: f32) -> Vec<f32> {
    let (sin, cos) = degrees.to_radians().sin_cos();
    vec![cos, sin]
}

fn search() -> VectorStoreRetrieverSpec {
    VectorStoreRetrieverSpec::new(CollectionName::new("docs").unwrap())
}

fn spec(parameters: VectorStoreRetrieverSpec) -> RetrieverSpec {
    RetrieverSpec::new(RetrieverKind::VectorStore(parameters))
}

fn name(name: &str) -> RetrieverName {
    RetrieverName::new(name).unwrap()
}

fn named_ref(own: Option<&str>, target: &str) -> RetrieverSpec {
    RetrieverSpec { name: own.map(name), ..RetrieverSpec::new(RetrieverKind::Ref(name(target))) }
}

impl World {
    async fn run(&self, spec: &RetrieverSpec, degrees: f32) -> Vec<ScoredDocument> {
        let retriever = self.planner.plan(&self.context, spec).await.unwrap();
        retriever.retrieve(&self.context, &Query::Vector(at(degrees))).await.unwrap()
    }

    async fn fault(&self, parameters: VectorStoreRetrieverSpec) -> String {
        match self.planner.plan(&self.context, &spec(parameters)).await {
            Ok(_) => panic!("the plan must be refused"),
            Err(error) => error.to_string(),
        }
    }
}

fn ids(hits: &[ScoredDocument]) -> Vec<&str> {
    hits.iter().map(|hit| hit.document.id.as_str()).collect()
}

#[tokio::test]
async fn defaults_are_langchains() {
    let world = world().await;
    let hits = world.run(&spec(search()), 1.0).await;
    assert_eq!(ids(&hits), ["a", "b", "c", "d"]);
    assert_eq!(hits.iter().map(|hit| hit.rank).collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(hits.iter().all(|hit| hit.vector.is_none() && hit.metric == Some(Metric::Cosine)));
}

#[tokio::test]
async fn a_threshold_is_inclusive_and_applies_to_every_search_type() {
    let world = world().await;
    let at_20 = world.run(&spec(VectorStoreRetrieverSpec { k: Some(5), ..search() }), 0.0).await[2].relevance;
    for search_type in [SearchType::Similarity, SearchType::SimilarityScoreThreshold, SearchType::Mmr] {
        let parameters = VectorStoreRetrieverSpec { search_type, score_threshold: at_20, ..search() };
        let hits = world.run(&spec(parameters), 0.0).await;
        let mut found = ids(&hits);
        found.sort_unstable();
        assert_eq!(found, ["a", "b", "c"], "{search_type:?}");
    }
}

#[tokio::test]
async fn mmr_weighs_novelty_and_tells_both_scores() {
    let world = world().await;
    let mmr = |lambda_mult| VectorStoreRetrieverSpec {
        search_type: SearchType::Mmr,
        k: Some(2),
        lambda_mult: Some(lambda_mult),
        ..search()
    };
    assert_eq!(ids(&world.run(&spec(mmr(1.0)), 1.0).await), ["a", "b"]);
    let hits = world.run(&spec(mmr(0.0)), 1.0).await;
    assert_eq!(ids(&hits), ["a", "e"]);
    let sources: Vec<_> = hits[1].sources.iter().map(|source| (source.source.as_str(), source.rank)).collect();
    assert_eq!(sources, [("similarity", 5), ("mmr", 2)]);
    assert!(
        (hits[1].score - 89_f64.to_radians().cos()).abs() < 1e-6,
        "the score stays the metric's: {}",
        hits[1].score
    );
}

#[tokio::test]
async fn a_pool_smaller_than_k_is_widened_to_k() {
    let world = world().await;
    let parameters =
        VectorStoreRetrieverSpec { search_type: SearchType::Mmr, k: Some(3), fetch_k: Some(1), ..search() };
    assert_eq!(world.run(&spec(parameters), 0.0).await.len(), 3);
}

#[tokio::test]
async fn filters_come_before_the_search() {
    let world = world().await;
    let filter = Some(Filter::Gte(KeyPath::parse("degrees").unwrap(), Value::Int(80)));
    let hits = world.run(&spec(VectorStoreRetrieverSpec { filter, k: Some(2), ..search() }), 0.0).await;
    assert_eq!(ids(&hits), ["d", "e"]);
}

#[tokio::test]
async fn every_fault_is_named_with_its_path() {
    let world = world().await;
    let all = VectorStoreRetrieverSpec {
        k: Some(0),
        fetch_k: Some(1001),
        lambda_mult: Some(f64::NAN),
        score_threshold: Some(-0.1),
        raw_score_threshold: Some(f64::INFINITY),
        filter: Some(Filter::Lt(KeyPath::parse("x").unwrap(), Value::Bool(true))),
        ..search()
    };
    let error = world.fault(all).await;
    for path in ["k: ", "fetch_k: ", "lambda_mult: ", "score_threshold: ", "raw_score_threshold: ", "filter.lt.value: "]
    {
        assert!(error.contains(&format!("vector_store.{path}")), "{error} must name {path}");
    }

    let mmr_only = VectorStoreRetrieverSpec { lambda_mult: Some(0.5), ..search() };
    assert!(world.fault(mmr_only).await.contains("vector_store.lambda_mult: is of use with search_type mmr only"));
    let threshold = VectorStoreRetrieverSpec { search_type: SearchType::SimilarityScoreThreshold, ..search() };
    assert!(world.fault(threshold).await.starts_with("vector_store.score_threshold: "));
    let relevance = VectorStoreRetrieverSpec { relevance_fn: RelevanceFunction::HalfCosine, ..search() };
    assert!(world.planner.plan(&world.context, &spec(relevance)).await.is_ok());
    let too_large = VectorStoreRetrieverSpec { k: Some(1001), ..search() };
    assert!(world.fault(too_large).await.contains("from 1 to 1000 (limits.max_k), got 1001"));
}

#[tokio::test]
async fn a_missing_collection_is_not_found() {
    let world = world().await;
    let missing = VectorStoreRetrieverSpec { collection: CollectionName::new("nope").unwrap(), ..search() };
    let result = world.planner.plan(&world.context, &spec(missing.clone())).await;
    assert!(matches!(result.err(), Some(Error::NotFound { .. })));
    let violations = world.planner.validate(&world.context, &spec(missing)).await.unwrap();
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].field, "vector_store.collection");
}

#[tokio::test]
async fn filters_that_are_too_large_are_refused() {
    let world = world().await;
    let limits = FilterLimits::default();
    let mut deep = Filter::And(Vec::new());
    for _ in 0..=limits.max_depth {
        deep = Filter::Not(Box::new(deep));
    }
    let error = world.fault(VectorStoreRetrieverSpec { filter: Some(deep), ..search() }).await;
    assert!(error.contains("nested at most"), "{error}");
    let wide = Filter::In(KeyPath::parse("x").unwrap(), vec![Value::Null; limits.max_nodes]);
    let error = world.fault(VectorStoreRetrieverSpec { filter: Some(wide), ..search() }).await;
    assert!(error.contains("vector_store.filter: must have at most"), "{error}");
}

#[tokio::test]
async fn a_reference_runs_what_is_stored() {
    let world = world().await;
    let two = RetrieverSpec {
        name: Some(name("two")),
        tags: ["stored".to_owned()].into(),
        ..spec(VectorStoreRetrieverSpec { k: Some(2), ..search() })
    };
    let stored = world.stored.put(&world.context, two.clone(), WriteCondition::Always).await.unwrap();
    assert_eq!(world.stored.get(&world.context, &name("two")).await.unwrap(), stored);
    assert_eq!(world.run(&named_ref(None, "two"), 0.0).await.len(), 2);

    let retriever = world.planner.plan(&world.context, &named_ref(None, "two")).await.unwrap();
    assert_eq!((retriever.name(), retriever.kind()), ("two", "vector_store"));
    let renamed = world.planner.plan(&world.context, &named_ref(Some("mine"), "two")).await.unwrap();
    assert_eq!(renamed.name(), "mine");
    let missing = world.planner.plan(&world.context, &named_ref(None, "three")).await;
    assert!(matches!(missing.err(), Some(Error::NotFound { .. })));
}

#[tokio::test]
async fn writes_of_stored_retrievers_compare_and_swap() {
    let world = world().await;
    let spec = RetrieverSpec { name: Some(name("one")), ..spec(search()) };
    let put = async |condition| world.stored.put(&world.context, spec.clone(), condition).await;
    let first = put(WriteCondition::IfVersion(0)).await.unwrap();
    assert!(matches!(put(WriteCondition::IfVersion(0)).await, Err(Error::Aborted(_))));
    let second = put(WriteCondition::IfVersion(first.version)).await.unwrap();
    assert!(second.version > first.version);
    assert!(matches!(put(WriteCondition::IfVersion(first.version)).await, Err(Error::Aborted(_))));
    put(WriteCondition::Always).await.unwrap();
    assert_eq!(world.stored.list(&world.context).await.unwrap().len(), 1);
    world.stored.delete(&world.context, &name("one")).await.unwrap();
    assert!(matches!(world.stored.delete(&world.context, &name("one")).await, Err(Error::NotFound { .. })));
}

#[tokio::test]
async fn references_never_run_in_circles() {
    let world = world().await;
    // Storing `a -> a` is refused; a circle that came about by later writes is refused when it runs.
    let own = named_ref(Some("a"), "a");
    let refused = world.planner.check_storable(&world.context, &own).await;
    assert!(matches!(refused, Err(Error::FailedPrecondition { reason: "RETRIEVER_CYCLE", .. })), "{refused:?}");
    // Validation says what storing would.
    world.stored.put(&world.context, named_ref(Some("d"), "a"), WriteCondition::Always).await.unwrap();
    for (spec, way) in [(own, "a -> a"), (named_ref(Some("a"), "d"), "a -> d -> a")] {
        let [fault] = world.planner.validate(&world.context, &spec).await.unwrap().try_into().unwrap();
        assert_eq!(fault.field, "ref");
        assert!(fault.description.ends_with(way), "{}", fault.description);
    }
    for spec in [named_ref(Some("a"), "b"), named_ref(Some("b"), "a")] {
        world.stored.put(&world.context, spec, WriteCondition::Always).await.unwrap();
    }
    let result = world.planner.plan(&world.context, &named_ref(None, "a")).await;
    let error = result.err().unwrap().to_string();
    assert!(error.ends_with("a -> b -> a"), "{error}");
}

#[tokio::test]
async fn another_tenant_sees_neither_collection_nor_retriever() {
    let world = world().await;
    let stored = RetrieverSpec { name: Some(name("one")), ..spec(search()) };
    world.stored.put(&world.context, stored, WriteCondition::Always).await.unwrap();
    let principal = Principal { tenant: Tenant::new("other").unwrap(), ..Principal::anonymous() };
    let other = RequestContext::new(principal);
    for spec in [spec(search()), named_ref(None, "one")] {
        let result = world.planner.plan(&other, &spec).await;
        assert!(matches!(result.err(), Some(Error::NotFound { .. })));
    }
}

#[tokio::test]
async fn a_caller_that_is_gone_is_not_served() {
    let world = world().await;
    let retriever = world.planner.plan(&world.context, &spec(search())).await.unwrap();
    world.context.cancellation().cancel();
    let result = retriever.retrieve(&world.context, &Query::Vector(at(0.0))).await;
    assert_eq!(result.err(), Some(Error::Cancelled));
}
