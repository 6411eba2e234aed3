//! Conditions in the query become a filter that can only narrow.

use toller_core::filter::KeyPath;
use toller_core::retriever::{
    AskSpec, FieldKind, FieldSpec, OnInvalid, RetrieverKind, SelfQuerySpec, VectorStoreRetrieverSpec,
};
use toller_core::{Error, Filter, Value};

use crate::service::Answer::{Cut, Status, Text};
use crate::world::{World, ids, prompt, search, warnings};

fn field(name: &str, kind: FieldKind) -> FieldSpec {
    FieldSpec { name: name.to_owned(), kind, description: format!("the {name}") }
}

fn self_query(on_invalid: OnInvalid) -> SelfQuerySpec {
    SelfQuerySpec {
        search: search(3),
        fields: vec![
            field("year", FieldKind::Integer),
            field("kind", FieldKind::String),
            field("tags", FieldKind::StringList),
        ],
        ask: AskSpec::default(),
        contents: "animals".to_owned(),
        on_invalid,
    }
}

#[tokio::test]
async fn the_models_filter_text_and_limit_are_used() {
    let world = World::new().await;
    world.service.next(Text(
        r#"Sure! ```json
        {"query": "cat", "filter": {"op": "and", "filters": [{"op": "gte", "field": "year", "value": 2021},
            {"op": "contains", "field": "tags", "value": "animal"}]}, "limit": 2}
        ```"#,
    ));
    let answer = world.run(RetrieverKind::SelfQuery(self_query(OnInvalid::Fail)), "two cats since 2021").await;
    assert_eq!(ids(&answer.hits), ["b", "c"]);
    assert_eq!(world.take_embedded()[0].1, "cat");
    let [question] = world.service.take_questions().try_into().unwrap();
    for part in
        ["- \"year\" (integer): the year", "What is searched: animals.", "Query: two cats since 2021", "{\"query\""]
    {
        assert!(question.contains(part), "{question} must contain {part}");
    }

    world.service.next(Text(r#"{"query": "", "filter": null, "limit": null}"#));
    let answer = world.run(RetrieverKind::SelfQuery(self_query(OnInvalid::Fail)), "a fish").await;
    assert_eq!(ids(&answer.hits), ["c", "a", "b"], "as it came");
    assert_eq!(world.service.take_schemas(), [Some("structured_query".to_owned())]);
}

#[tokio::test]
async fn neither_the_declared_filter_nor_k_can_be_widened() {
    let world = World::new().await;
    let own = Filter::Eq(KeyPath::parse("kind").unwrap(), Value::from("dog"));
    let own = SelfQuerySpec {
        search: VectorStoreRetrieverSpec { filter: Some(own), ..search(2) },
        ..self_query(OnInvalid::Fail)
    };
    world
        .service
        .next(Text(r#"{"query": "cat", "filter": {"op": "eq", "field": "kind", "value": "cat"}, "limit": 9}"#));
    assert!(world.run(RetrieverKind::SelfQuery(own.clone()), "cats").await.hits.is_empty());
    let any = r#"{"query": "x", "filter": {"op": "or", "filters": [{"op": "eq", "field": "kind", "value": "cat"},
        {"op": "ne", "field": "kind", "value": "cat"}]}, "limit": 1000000}"#;
    world.service.next(Text(any));
    assert_eq!(ids(&world.run(RetrieverKind::SelfQuery(own), "all").await.hits), ["a"]);
    world.service.next(Text(r#"{"query": "cat", "filter": null, "limit": 1000000}"#));
    let three = world.run(RetrieverKind::SelfQuery(self_query(OnInvalid::Fail)), "all").await;
    assert_eq!(three.hits.len(), 3);
}

#[tokio::test]
async fn a_wrong_answer_fails_or_is_ignored_whole() {
    let world = World::new().await;
    for (wrong, expected) in [
        (Text(""), "no JSON object"),
        (Text("I would filter by year."), "no JSON object"),
        (Cut(r#"{"query": "cat", "filter": {"op": "eq", "fie"#), "it was cut"),
        (
            Text(r#"{"query": "cat", "filter": {"op": "eq", "field": "owner", "value": "me"}}"#),
            "unknown field \"owner\"",
        ),
        (Text(r#"{"query": "cat", "filter": {"op": "eq", "field": "year", "value": "2021"}}"#), "type integer"),
        (
            Text(
                r#"{"query": "cat", "filter": {"op": "or", "filters": [{"op": "eq", "field": "kind", "value": "fish"},
                {"op": "eq", "field": "owner", "value": 1}]}}"#,
            ),
            "unknown field \"owner\"",
        ),
        (Text(r#"{"query": "cat", "limit": 0}"#), "limit"),
    ] {
        world.service.next(wrong.clone());
        let result = world.try_run(RetrieverKind::SelfQuery(self_query(OnInvalid::Fail)), "a bird", &[]).await;
        let Err(Error::FailedPrecondition { reason: "LLM_ANSWER_INVALID", message }) = result else {
            panic!("{result:?}")
        };
        assert!(message.contains(expected) && message.contains("on_invalid"), "{message}");

        world.service.next(wrong);
        let answer = world.run(RetrieverKind::SelfQuery(self_query(OnInvalid::Ignore)), "a bird").await;
        assert_eq!(ids(&answer.hits), ["d", "a", "b"], "the query as it came, and no part of the filter");
        assert!(warnings(&answer)[0].contains(expected), "{:?}", answer.warnings);
    }
    // A service that fails is no wrong answer.
    world.service.next(Status(401, "no"));
    let failed = world.try_run(RetrieverKind::SelfQuery(self_query(OnInvalid::Ignore)), "a bird", &[]).await;
    assert!(matches!(failed, Err(Error::FailedPrecondition { reason: "PROVIDER_REFUSED", .. })), "{failed:?}");
}

#[tokio::test]
async fn a_declaration_is_checked_whole() {
    let world = World::new().await;
    let wrong = SelfQuerySpec {
        search: search(0),
        fields: vec![
            field("year", FieldKind::Integer),
            field("year", FieldKind::String),
            field("a..b", FieldKind::String),
        ],
        ask: prompt("{query}"),
        ..self_query(OnInvalid::Fail)
    };
    let fault = world.fault(RetrieverKind::SelfQuery(wrong)).await.to_string();
    for part in [
        "self_query.fields[1].name: is the name of another field",
        "self_query.fields[2].name: ",
        "self_query.prompt: must have the placeholder {fields}",
        "self_query.search.k: must be from 1 to 1000",
    ] {
        assert!(fault.contains(part), "{fault} must contain {part}");
    }
    let none = SelfQuerySpec { fields: Vec::new(), ..self_query(OnInvalid::Fail) };
    let fault = world.fault(RetrieverKind::SelfQuery(none)).await.to_string();
    assert_eq!(fault, "self_query.fields: must be from 1 to 64, got 0");
}
