//! A model chooses where to search.

use toller_core::retriever::{
    AskSpec, LlmRouterSpec, RetrieverKind, RetrieverName, RetrieverSpec, RouteSpec, VectorStoreRetrieverSpec,
};
use toller_core::{Error, Filter, Query, Value};

use crate::service::Answer::{Cut, Status, Text};
use crate::world::{World, ids, prompt, search, warnings};

fn name(name: &str) -> RetrieverName {
    RetrieverName::new(name).unwrap()
}

/// A search of the documents of one kind.
fn route(kind: &str) -> RouteSpec {
    let of_kind = Filter::Eq(toller_core::filter::KeyPath::parse("kind").unwrap(), Value::from(kind));
    let search = VectorStoreRetrieverSpec { filter: Some(of_kind), ..search(4) };
    RouteSpec {
        name: name(kind),
        description: format!(" everything about the {kind} "),
        retriever: RetrieverSpec::new(RetrieverKind::VectorStore(search)),
    }
}

fn router(change: impl FnOnce(&mut LlmRouterSpec)) -> RetrieverKind {
    let routes = ["dog", "cat", "bird"].map(route).into();
    let mut spec = LlmRouterSpec { routes, ask: AskSpec::default(), max_routes: None, default_route: None, k: None };
    change(&mut spec);
    RetrieverKind::LlmRouter(spec)
}

#[tokio::test]
async fn what_the_chosen_routes_find_is_fused() {
    let world = World::new().await;
    world.service.next(Text(r#"Sure: {"routes": ["bird", "dog"]}"#));
    let answer = world.run(router(|_| ()), "who flies and who swims?").await;
    assert_eq!(ids(&answer.hits), ["d", "a"], "of equal ranks that of the route that was named first");
    for (hit, route) in answer.hits.iter().zip(["bird", "dog"]) {
        assert!((hit.score - 1.0 / 61.0).abs() < 1e-12 && hit.relevance.is_none() && hit.metric.is_none());
        assert_eq!((hit.sources.len(), hit.sources[0].source.as_str()), (1, route));
    }
    assert!(answer.warnings.is_empty(), "{:?}", answer.warnings);
    assert_eq!(world.take_embedded().len(), 1, "one vector for all routes");
    let [question] = world.service.take_questions().try_into().unwrap();
    for part in ["- \"dog\": everything about the dog\n", "3 at most", "Query: who flies and who swims?", "{\"routes\""]
    {
        assert!(question.contains(part), "{question} must contain {part}");
    }

    // One alone is fused too, so that scores mean the same.
    world.service.next(Text(r#"{"routes": ["cat"]}"#));
    let answer = world.run(router(|spec| spec.k = Some(1)), "a cat").await;
    assert_eq!(ids(&answer.hits), ["b"]);
    assert!((answer.hits[0].score - 1.0 / 61.0).abs() < 1e-12);
    assert_eq!(world.service.take_schemas(), [Some("routes".to_owned())]);
}

#[tokio::test]
async fn where_one_route_may_be_chosen_its_hits_come_as_they_were_found() {
    let world = World::new().await;
    world.service.next(Text(r#"{"routes": ["cat", "dog"]}"#));
    let answer = world.run(router(|spec| spec.max_routes = Some(1)), "a cat").await;
    assert_eq!(ids(&answer.hits), ["b"]);
    assert!(answer.hits[0].relevance.unwrap() > 0.9 && answer.hits[0].metric.is_some());
    assert_eq!(warnings(&answer), [": the language model chose 2 routes, and the first 1 were taken"]);
}

#[tokio::test]
async fn an_answer_of_no_use_fails_or_takes_the_default_with_a_warning() {
    let world = World::new().await;
    for (wrong, expected) in [
        (Text(""), "names no route"),
        (Text("I would look among the birds."), "names no route"),
        (Text(r#"{"routes": ["fish"]}"#), "names no route"),
        (Text(r#"{"places": ["cat"]}"#), "no list of routes"),
        (Cut(r#"{"routes": ["cat"]}"#), "was cut"),
    ] {
        world.service.next(wrong.clone());
        let result = world.try_run(router(|_| ()), "a cat", &[]).await;
        let Err(Error::FailedPrecondition { reason: "LLM_ANSWER_INVALID", message }) = result else {
            panic!("{result:?}")
        };
        assert!(message.contains(expected) && message.contains("default_route"), "{message}");

        world.service.next(wrong);
        let answer = world.run(router(|spec| spec.default_route = Some(name("bird"))), "a cat").await;
        assert_eq!(ids(&answer.hits), ["d"]);
        let [warning] = warnings(&answer).try_into().unwrap();
        assert!(warning.contains("\"bird\"") && warning.contains(expected), "{warning}");
    }
    // A service that fails is no wrong answer.
    world.service.next(Status(401, "no"));
    let failed = world.try_run(router(|spec| spec.default_route = Some(name("bird"))), "a cat", &[]).await;
    assert!(matches!(failed, Err(Error::FailedPrecondition { reason: "PROVIDER_REFUSED", .. })), "{failed:?}");
}

#[tokio::test]
async fn a_choice_of_none_and_names_that_there_are_not_are_told() {
    let world = World::new().await;
    world.service.next(Text(r#"{"routes": []}"#));
    let answer = world.run(router(|_| ()), "a cat").await;
    assert!(answer.hits.is_empty());
    assert!(warnings(&answer)[0].contains("chose no route"), "{:?}", answer.warnings);
    world.service.next(Text("NONE"));
    let answer = world.run(router(|spec| spec.default_route = Some(name("dog"))), "a cat").await;
    assert_eq!(ids(&answer.hits), ["a"]);
    assert!(warnings(&answer)[0].contains("default \"dog\""), "{:?}", answer.warnings);

    world.service.next(Text("- cat\n- lion"));
    let answer = world.run(router(|_| ()), "a cat").await;
    assert_eq!(ids(&answer.hits), ["b"]);
    assert_eq!(warnings(&answer), [": 1 routes that the language model chose do not exist"]);
}

#[tokio::test]
async fn a_failing_route_has_its_path_and_a_vector_no_words() {
    let world = World::new().await;
    let spec = RetrieverSpec::new(router(|_| ()));
    let plan = world.planner.plan(&world.context, &spec).await.unwrap();
    let result = plan.run(&world.context, &Query::Vector(vec![1.0, 0.0, 0.0, 0.0]), Default::default()).await;
    assert_eq!(result.err(), Some(Error::invalid("query.vector", "llm_router needs a query by text")));
    world.service.next(Text("dog"));
    let options = toller_retrieval::RunOptions { with_trace: true, ..Default::default() };
    let answer = plan.run(&world.context, &Query::Text("a cat".to_owned()), options).await.unwrap();
    let paths: Vec<&str> = answer.trace.iter().map(|node| node.path.as_str()).collect();
    assert_eq!(paths, ["", "llm_router.routes[0].retriever"], "the others did not run");
}

#[tokio::test]
async fn a_declaration_is_checked_whole() {
    let world = World::new().await;
    let wrong = router(|spec| {
        spec.routes[1].name = name("dog");
        spec.routes[2].description = " ".to_owned();
        spec.routes[2].retriever = RetrieverSpec::new(RetrieverKind::VectorStore(search(0)));
        spec.max_routes = Some(4);
        spec.default_route = Some(name("fish"));
        spec.k = Some(0);
        spec.ask = prompt("{query}");
    });
    let fault = world.fault(wrong).await.to_string();
    for part in [
        "llm_router.k: must be from 1",
        "llm_router.routes[1].name: is the name of another route",
        "llm_router.routes[2].description: must not be empty",
        "llm_router.routes[2].retriever.vector_store.k: must be from 1",
        "llm_router.max_routes: must be from 1 to the number of routes, 3, got 4",
        "llm_router.default_route: must be the name of a route, got \"fish\"",
        "llm_router.prompt: must have the placeholder {routes}",
    ] {
        assert!(fault.contains(part), "{fault} must contain {part}");
    }
    let fault = world.fault(router(|spec| spec.routes.truncate(1))).await.to_string();
    assert_eq!(fault, "llm_router.routes: must be from 2 to 32, got 1");
}
