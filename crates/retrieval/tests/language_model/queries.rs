//! Retrievers that change the query: several wordings, parts, a conversation's query, a made-up answer.

use std::time::Duration;

use toller_core::filter::KeyPath;
use toller_core::retriever::{
    AskSpec, DecomposeSpec, FallbackSpec, HydeSpec, MultiQuerySpec, OnError, RephraseSpec, RetrieverKind,
    RetrieverSpec, VectorStoreRetrieverSpec,
};
use toller_core::{ChatMessage, ChatRole, EmbeddingRole, Error, Filter, Query, Value};
use toller_retrieval::RunOptions;

use crate::service::Answer::{Cut, Stall, Status, Text};
use crate::world::{World, ids, leaf, prompt, search, warnings};

fn multi_query(k: u32) -> MultiQuerySpec {
    MultiQuerySpec {
        retriever: leaf(k),
        ask: AskSpec::default(),
        max_queries: None,
        include_original: None,
        queries: Vec::new(),
        k: None,
    }
}

fn hyde(include_query: bool) -> HydeSpec {
    HydeSpec { retriever: leaf(1), ask: AskSpec::default(), include_query: Some(include_query) }
}

#[tokio::test]
async fn wordings_are_retrieved_for_and_fused_by_ranks() {
    let world = World::new().await;
    world.service.next(Text("Here are 3 versions:\n\n1. the cat\n2. \"The  Toller\"\n3. a fish\n4. a bird\n5. more"));
    let answer = world.run(RetrieverKind::MultiQuery(multi_query(2)), "the toller").await;
    let embedded: Vec<String> = world.take_embedded().into_iter().map(|(_, text)| text).collect();
    assert_eq!(embedded, ["the toller", "the cat", "a fish", "a bird"], "the original first, none twice, three more");
    let [question] = world.service.take_questions().try_into().unwrap();
    assert!(question.contains("Query: the toller") && question.contains("Write 3 different"), "{question}");

    // Each search finds its animal first; ties come in the order of the documents, so that `a` is also second for the others.
    assert_eq!(ids(&answer.hits)[0], "a");
    let expected = 1.0 / 61.0 + 3.0 / 62.0;
    assert!((answer.hits[0].score - expected).abs() < 1e-12, "{}", answer.hits[0].score);
    assert!(answer.hits.iter().all(|hit| hit.relevance.is_none() && hit.metric.is_none()));
    let sources: Vec<_> = answer.hits[0].sources.iter().map(|source| (source.source.as_str(), source.rank)).collect();
    let second = ["vector_store#2", "vector_store#3", "vector_store#4"].map(|name| (name, 2));
    assert_eq!((sources[0], &sources[1..]), (("vector_store", 1), &second[..]));
    assert_eq!(answer.hits.iter().map(|hit| hit.rank).collect::<Vec<_>>(), [1, 2, 3, 4]);

    world.service.next(Text(r#"{"queries": ["a cat"]}"#));
    let alone = MultiQuerySpec { include_original: Some(false), k: Some(1), ..multi_query(2) };
    let answer = world.run(RetrieverKind::MultiQuery(alone), "the toller").await;
    assert_eq!(ids(&answer.hits), ["b"]);
}

#[tokio::test]
async fn without_a_usable_wording_the_query_goes_alone_with_a_warning() {
    let world = World::new().await;
    for useless in [Text(""), Text("Here are the queries:"), Text("The toller"), Cut("{\"queries\": [\"a ca")] {
        world.service.next(useless);
        let answer = world.run(RetrieverKind::MultiQuery(multi_query(1)), "the toller").await;
        assert_eq!(ids(&answer.hits), ["a"]);
        assert_eq!(answer.warnings.len(), 1);
        assert!(warnings(&answer)[0].contains("used alone"), "{:?}", answer.warnings);
    }
}

#[tokio::test]
async fn given_wordings_need_no_model() {
    let world = World::without_language_model().await;
    let given = |queries: &[&str]| MultiQuerySpec {
        queries: queries.iter().map(|query| (*query).to_owned()).collect(),
        ..multi_query(1)
    };
    let answer = world.run(RetrieverKind::MultiQuery(given(&["a cat", "A CAT", "the toller"])), "the toller").await;
    assert_eq!(ids(&answer.hits), ["a", "b"]);
    assert_eq!(world.take_embedded().len(), 2);
    assert!(answer.warnings.is_empty());

    let mut unused = given(&["a", " "]);
    unused.ask = AskSpec { model: Some("m".to_owned()), prompt: Some("{query}".to_owned()) };
    unused.max_queries = Some(2);
    let fault = world.fault(RetrieverKind::MultiQuery(unused)).await.to_string();
    for field in ["model: is of no use", "prompt: is of no use", "max_queries: is of no use", "queries[1]: must not be"]
    {
        assert!(fault.contains(&format!("multi_query.{field}")), "{fault}");
    }
    let fault = world.fault(RetrieverKind::MultiQuery(given(&["a"; 21]))).await.to_string();
    assert!(fault.contains("multi_query.queries: must be at most 20, got 21"), "{fault}");
}

#[tokio::test]
async fn a_question_is_retrieved_for_in_parts() {
    let world = World::without_schemas().await;
    let spec = DecomposeSpec {
        retriever: leaf(1),
        ask: AskSpec::default(),
        max_queries: Some(2),
        include_original: None,
        k: None,
    };
    world.service.next(Text("- Sub-question 1: what does a cat do?\n- Sub-question 2: what does a fish do?\n- third?"));
    let answer = world.run(RetrieverKind::Decompose(spec.clone()), "what do cats and fish do?").await;
    assert_eq!(ids(&answer.hits), ["b", "c"]);
    let embedded: Vec<String> = world.take_embedded().into_iter().map(|(_, text)| text).collect();
    assert_eq!(embedded, ["what does a cat do?", "what does a fish do?"]);
    assert_eq!(world.service.take_schemas(), [None], "this service knows none");

    world.service.next(Text("  "));
    let answer = world.run(RetrieverKind::Decompose(spec), "a bird?").await;
    assert_eq!(ids(&answer.hits), ["d"]);
    assert!(warnings(&answer)[0].contains("the question itself"), "{:?}", answer.warnings);
}

#[tokio::test]
async fn a_conversation_is_folded_into_the_query() {
    let world = World::new().await;
    let rephrase = || RetrieverKind::Rephrase(RephraseSpec { retriever: leaf(1), ask: AskSpec::default() });
    let answer = world.run(rephrase(), "and the cat?").await;
    assert_eq!(ids(&answer.hits), ["b"]);
    assert!(world.service.take_questions().is_empty(), "without history nobody is asked");

    let history = [
        ChatMessage::user("what is a toller?"),
        ChatMessage { role: ChatRole::Assistant, content: "A dog.".to_owned() },
    ];
    world.service.next(Text("Standalone question:\n\"What colour is a toller?\""));
    let answer = world.try_run(rephrase(), "what colour is it?", &history).await.unwrap();
    assert_eq!(ids(&answer.hits), ["a"]);
    assert_eq!(world.take_embedded().last().unwrap().1, "What colour is a toller?");
    let [question] = world.service.take_questions().try_into().unwrap();
    assert!(question.contains("user: what is a toller?\nassistant: A dog.\n"), "{question}");

    for useless in [Text(""), Cut("What colour is a f")] {
        world.service.next(useless);
        let answer = world.try_run(rephrase(), "the bird?", &history).await.unwrap();
        assert_eq!(ids(&answer.hits), ["d"]);
        assert!(warnings(&answer)[0].contains("as it came"), "{:?}", answer.warnings);
    }
}

#[tokio::test]
async fn a_made_up_answer_is_embedded_as_a_document() {
    let world = World::new().await;
    world.service.next(Text("A bird, a bird, a bird."));
    let answer = world.run(RetrieverKind::Hyde(hyde(false)), "who sings, the cat?").await;
    assert_eq!(ids(&answer.hits), ["d"]);
    assert_eq!(world.take_embedded(), [(EmbeddingRole::Document, "A bird, a bird, a bird.".to_owned())]);

    // Half of the query's cat, half of the answer's bird, at unit length: as near to both.
    world.service.next(Text("A bird."));
    let both = HydeSpec { retriever: leaf(2), ..hyde(true) };
    let answer = world.run(RetrieverKind::Hyde(both), "a cat").await;
    assert_eq!(ids(&answer.hits), ["b", "d"]);
    assert!((answer.hits[0].score - 0.5_f64.sqrt()).abs() < 0.02, "{}", answer.hits[0].score);
    let roles: Vec<_> = world.take_embedded().into_iter().map(|(role, _)| role).collect();
    assert_eq!(roles, [EmbeddingRole::Document, EmbeddingRole::Query]);

    world.service.next(Text("<think>a bird, no"));
    let answer = world.run(RetrieverKind::Hyde(hyde(false)), "a cat").await;
    assert_eq!(ids(&answer.hits), ["b"]);
    assert!(warnings(&answer)[0].contains("wrote nothing"), "{:?}", answer.warnings);
}

#[tokio::test]
async fn what_would_change_the_text_cannot_stand_below_hyde() {
    let world = World::new().await;
    let inner = RetrieverSpec::new(RetrieverKind::MultiQuery(multi_query(1)));
    let fallback = FallbackSpec { retrievers: vec![*leaf(1), inner], min_hits: None, min_relevance: None };
    let fallback = Box::new(RetrieverSpec::new(RetrieverKind::Fallback(fallback)));
    let fault = world.fault(RetrieverKind::Hyde(HydeSpec { retriever: fallback, ..hyde(false) })).await.to_string();
    let path = "hyde.retriever.fallback.retrievers[1].multi_query: multi_query changes the query's text";
    assert!(fault.starts_with(path), "{fault}");

    let outer =
        MultiQuerySpec { retriever: Box::new(RetrieverSpec::new(RetrieverKind::Hyde(hyde(false)))), ..multi_query(1) };
    world.service.when("Query: a cat", Text("1. a fish"));
    world.service.when("Question: a cat", Text("meow"));
    world.service.when("Question: a fish", Text("A bird!"));
    let answer = world.run(RetrieverKind::MultiQuery(outer), "a cat").await;
    assert!(ids(&answer.hits).contains(&"d"), "each wording has its own made-up answer: {:?}", ids(&answer.hits));
}

#[tokio::test]
async fn a_query_by_vector_has_no_words() {
    let world = World::new().await;
    let rephrase = RephraseSpec { retriever: leaf(1), ask: AskSpec::default() };
    let kinds = [
        RetrieverKind::MultiQuery(multi_query(1)),
        RetrieverKind::Hyde(hyde(false)),
        RetrieverKind::Rephrase(rephrase),
    ];
    for kind in kinds {
        let plan = world.planner.plan(&world.context, &RetrieverSpec::new(kind.clone())).await.unwrap();
        let options = RunOptions { history: vec![ChatMessage::user("hello")], ..RunOptions::default() };
        let result = plan.run(&world.context, &Query::Vector(vec![1.0, 0.0, 0.0, 0.0]), options).await;
        let expected = Error::invalid("query.vector", format!("{} needs a query by text", kind.as_str()));
        assert_eq!(result.err(), Some(expected));
    }
}

#[tokio::test]
async fn a_service_that_fails_is_told_with_its_path_or_skipped() {
    let world = World::waiting_for(Duration::from_millis(1500)).await;
    let asking = |on_error| {
        let spec = RetrieverSpec { on_error, ..RetrieverSpec::new(RetrieverKind::Hyde(hyde(false))) };
        RetrieverKind::Fallback(FallbackSpec { retrievers: vec![spec, *leaf(1)], min_hits: None, min_relevance: None })
    };
    for failing in [Stall, Status(401, "no"), Status(200, "<html>"), Status(200, "{\"choices\": [{\"mes")] {
        world.service.next(failing);
        let answer = world.run(asking(OnError::Fail), "a cat").await;
        assert_eq!(ids(&answer.hits), ["b"], "the next retriever answers");
        assert!(!answer.warnings.is_empty());
    }
    world.service.next(Stall);
    let error = world.try_run(RetrieverKind::Hyde(hyde(false)), "a cat", &[]).await.unwrap_err();
    assert!(matches!(&error, Error::Unavailable(said) if said.contains("no answer within 1.5s")), "{error:?}");
    // What passes is tried again.
    let world = World::new().await;
    world.service.next(Status(500, "oh"));
    world.service.next(Text("A fish."));
    assert_eq!(ids(&world.run(RetrieverKind::Hyde(hyde(false)), "a cat").await.hits), ["c"]);
}

#[tokio::test]
async fn prompts_are_checked_before_anything_is_asked() {
    let world = World::new().await;
    let ask = prompt("Say {topic} in other words");
    let fault = world.fault(RetrieverKind::MultiQuery(MultiQuerySpec { ask, ..multi_query(1) })).await.to_string();
    assert!(fault.contains("multi_query.prompt: has an unknown placeholder \"topic\""), "{fault}");
    assert!(fault.contains("multi_query.prompt: must have the placeholder {query}"), "{fault}");
    let ask = AskSpec { model: Some("other".to_owned()), prompt: None };
    assert!(matches!(world.fault(RetrieverKind::Hyde(HydeSpec { ask, ..hyde(false) })).await, Error::NotFound { .. }));
    let most = MultiQuerySpec { max_queries: Some(21), ..multi_query(1) };
    let fault = world.fault(RetrieverKind::MultiQuery(most)).await.to_string();
    assert_eq!(fault, "multi_query.max_queries: must be from 1 to 20, got 21");

    world.service.next(Text("a bird"));
    let ask = prompt("{{\"q\": \"{query}\", \"n\": {max_queries}}}");
    let own = MultiQuerySpec { ask, max_queries: Some(1), include_original: Some(false), ..multi_query(1) };
    assert_eq!(ids(&world.run(RetrieverKind::MultiQuery(own), "a cat").await.hits), ["d"]);
    assert_eq!(world.service.take_questions(), ["{\"q\": \"a cat\", \"n\": 1}"]);
}

#[tokio::test]
async fn every_wording_is_searched_with_the_filter_and_the_bounds_of_what_is_below() {
    let world = World::new().await;
    world.service.next(Text("a cat\na fish\na bird"));
    let of_cats = Filter::Eq(KeyPath::parse("kind").unwrap(), Value::from("cat"));
    let below = VectorStoreRetrieverSpec { filter: Some(of_cats), ..search(3) };
    let below = RetrieverSpec::new(RetrieverKind::VectorStore(below));
    let spec = MultiQuerySpec { retriever: Box::new(below), ..multi_query(3) };
    let answer = world.run(RetrieverKind::MultiQuery(spec), "the toller").await;
    assert_eq!(ids(&answer.hits), ["b"], "no other kind, whatever the wording");
    assert_eq!(answer.hits[0].sources.len(), 4);
    world.service.next(Text("a cat\na fish\na bird"));
    let strict = VectorStoreRetrieverSpec { score_threshold: Some(0.9), ..search(3) };
    let strict = RetrieverSpec::new(RetrieverKind::VectorStore(strict));
    let spec = MultiQuerySpec { retriever: Box::new(strict), include_original: Some(false), ..multi_query(3) };
    let mut found = world.run(RetrieverKind::MultiQuery(spec), "the toller").await.hits;
    found.sort_by(|left, right| left.document.id.cmp(&right.document.id));
    assert_eq!(ids(&found), ["b", "c", "d"], "one for each wording");
}

#[tokio::test]
async fn a_text_as_a_document_never_gets_its_vector_as_a_query() {
    let world = World::new().await;
    world.service.next(Text("a cat"));
    world.run(RetrieverKind::Hyde(hyde(true)), "a cat").await;
    let embedded = world.take_embedded();
    let roles: Vec<_> = embedded.iter().map(|(role, text)| (*role, text.as_str())).collect();
    assert_eq!(roles, [(EmbeddingRole::Document, "a cat"), (EmbeddingRole::Query, "a cat")]);
}
