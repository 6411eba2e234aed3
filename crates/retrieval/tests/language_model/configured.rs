//! A tree that needs a language model where there is none.

use toller_core::retriever::{
    AskSpec, CompressorKind, DecomposeSpec, FieldKind, FieldSpec, HydeSpec, LlmRerankSpec, LlmRouterSpec,
    MultiQuerySpec, OnError, OnInvalid, RephraseSpec, RetrieverKind, RetrieverName, RetrieverSpec, RouteSpec,
    SelfQuerySpec,
};
use toller_core::{ChatMessage, Error};

use crate::world::{World, compressed, ids, leaf, search, warnings};

/// Every kind that asks, and where its model is named.
fn asking() -> Vec<(RetrieverKind, &'static str)> {
    asking_of(None)
}

/// As [`asking`], of the model of that name.
fn asking_of(model: Option<&str>) -> Vec<(RetrieverKind, &'static str)> {
    let ask = || AskSpec { model: model.map(str::to_owned), prompt: None };
    let route = |name: &str| RouteSpec {
        name: RetrieverName::new(name).unwrap(),
        description: format!("all about {name}"),
        retriever: *leaf(1),
    };
    let compressor = |kind| compressed(kind, OnError::Fail);
    vec![
        (
            RetrieverKind::MultiQuery(MultiQuerySpec {
                retriever: leaf(1),
                ask: ask(),
                max_queries: None,
                include_original: None,
                queries: Vec::new(),
                k: None,
            }),
            "multi_query.model",
        ),
        (RetrieverKind::Hyde(HydeSpec { retriever: leaf(1), ask: ask(), include_query: None }), "hyde.model"),
        (RetrieverKind::Rephrase(RephraseSpec { retriever: leaf(1), ask: ask() }), "rephrase.model"),
        (
            RetrieverKind::Decompose(DecomposeSpec {
                retriever: leaf(1),
                ask: ask(),
                max_queries: None,
                include_original: None,
                k: None,
            }),
            "decompose.model",
        ),
        (
            RetrieverKind::SelfQuery(SelfQuerySpec {
                search: search(1),
                fields: vec![FieldSpec { name: "a".to_owned(), kind: FieldKind::String, description: String::new() }],
                ask: ask(),
                contents: String::new(),
                on_invalid: OnInvalid::Ignore,
            }),
            "self_query.model",
        ),
        (
            RetrieverKind::LlmRouter(LlmRouterSpec {
                routes: vec![route("cats"), route("dogs")],
                ask: ask(),
                max_routes: None,
                default_route: Some(RetrieverName::new("dogs").unwrap()),
                k: None,
            }),
            "llm_router.model",
        ),
        (compressor(CompressorKind::LlmExtract(ask())), "contextual_compression.compressors[0].llm_extract.model"),
        (compressor(CompressorKind::LlmFilter(ask())), "contextual_compression.compressors[0].llm_filter.model"),
        (
            compressor(CompressorKind::LlmRerank(LlmRerankSpec { ask: ask(), top_n: None })),
            "contextual_compression.compressors[0].llm_rerank.model",
        ),
    ]
}

#[tokio::test]
async fn it_is_refused_and_the_setting_is_named() {
    let world = World::without_language_model().await;
    for (kind, path) in asking() {
        let fault = world.fault(kind.clone()).await;
        let Error::FailedPrecondition { reason: "LLM_NOT_CONFIGURED", message } = &fault else { panic!("{fault:?}") };
        assert!(message.contains("llm.address"), "{message}");
        let [violation] =
            world.planner.validate(&world.context, &RetrieverSpec::new(kind)).await.unwrap().try_into().unwrap();
        assert_eq!(violation.field, path);
    }
    let skipped = compressed(CompressorKind::LlmFilter(AskSpec::default()), OnError::Skip);
    let answer = world.run(skipped, "the toller").await;
    assert_eq!(ids(&answer.hits).len(), 4);
    assert!(warnings(&answer)[0].contains("llm.address"), "{:?}", answer.warnings);
}

#[tokio::test]
async fn where_there_is_one_every_kind_is_planned() {
    let world = World::new().await;
    for (kind, _) in asking() {
        let faults = world.planner.validate(&world.context, &RetrieverSpec::new(kind)).await.unwrap();
        assert_eq!(faults, []);
    }
}

#[tokio::test]
async fn the_model_that_a_retriever_names_is_the_one_that_is_asked() {
    let world = World::new().await;
    let history = [ChatMessage::user("hello")];
    for (named, expected) in [(None, "talker"), (Some("talker"), "talker"), (Some("thinker"), "thinker")] {
        for (kind, path) in asking_of(named) {
            world.try_run(kind, "the toller", &history).await.unwrap();
            let asked = world.service.take_models();
            assert!(!asked.is_empty() && asked.iter().all(|model| model == expected), "{path}: {asked:?}");
        }
    }
    for (kind, _) in asking_of(Some("nobody")) {
        assert!(matches!(world.fault(kind).await, Error::NotFound { name, .. } if name == "nobody"));
    }
}
