//! Compressors that ask a language model.

use toller_core::retriever::{AskSpec, CompressorKind, LlmRerankSpec, OnError};
use toller_core::{Error, TextSpan};

use crate::service::Answer::{Cut, Status, Text};
use crate::world::{World, compressed, ids, warnings};

fn rerank(top_n: Option<u32>) -> CompressorKind {
    CompressorKind::LlmRerank(LlmRerankSpec { ask: AskSpec::default(), top_n })
}

#[tokio::test]
async fn chosen_sentences_stay_as_they_are_in_the_document() {
    let world = World::new().await;
    world.service.when("[1] A toller is a dog.", Text("3, 1"));
    world.service.when("[1] A cat sleeps.", Text("NONE"));
    world.service.when("[1] A fish", Text("all of them, I think"));
    world.service.when("[1] A bird sings.", Text(r#"{"sentences": [2, 7]}"#));
    let kind = compressed(CompressorKind::LlmExtract(AskSpec::default()), OnError::Fail);
    let answer = world.run(kind, "the toller").await;
    assert_eq!(ids(&answer.hits), ["a", "c", "d"]);
    let texts: Vec<&str> = answer.hits.iter().map(|hit| hit.document.page_content.as_str()).collect();
    assert_eq!(texts, ["A toller is a dog.\nIt is red.", "A fish swims in the sea.", "It flies south."]);
    assert_eq!(answer.hits[0].extracts, [TextSpan { start: 0, end: 18 }, TextSpan { start: 37, end: 47 }]);
    assert!(answer.hits[1].extracts.is_empty(), "whole");
    assert!(answer.hits[0].document.metadata.contains_key("year"));
    assert!(warnings(&answer)[0].contains("left 1 hits whole"), "{:?}", answer.warnings);
    assert_eq!(world.service.take_schemas(), vec![Some("sentences".to_owned()); 4]);
}

#[tokio::test]
async fn relevant_hits_stay_and_an_unreadable_answer_drops_none() {
    let world = World::without_schemas().await;
    world.service.when("A toller", Text("Yes, because there is no better one."));
    world.service.when("A cat", Text("NO"));
    world.service.when("A fish", Text("Perhaps."));
    world.service.when("A bird", Text(r#"{"relevant": false}"#));
    let kind = compressed(CompressorKind::LlmFilter(AskSpec::default()), OnError::Fail);
    let answer = world.run(kind, "dogs").await;
    assert_eq!(ids(&answer.hits), ["a", "c"]);
    assert!(warnings(&answer)[0].contains("kept 1 hits"), "{:?}", answer.warnings);
}

#[tokio::test]
async fn a_ranking_orders_and_never_loses_or_doubles() {
    let world = World::new().await;
    for (ranking, expected) in [
        (r#"{"ranking": [3, 1]}"#, ["c", "a", "b", "d"]),
        ("The best are [4] > [2]", ["d", "b", "a", "c"]),
        ("4, 4, 0, 99, -1, 2", ["d", "a", "b", "c"]),
        ("[]", ["a", "b", "c", "d"]),
    ] {
        world.service.next(Text(ranking));
        let answer = world.run(compressed(rerank(Some(4)), OnError::Fail), "the toller").await;
        assert_eq!(ids(&answer.hits), expected, "{ranking}");
        assert_eq!(answer.hits.iter().map(|hit| hit.score).collect::<Vec<_>>(), [1.0, 0.5, 1.0 / 3.0, 0.25]);
        let last = answer.hits[0].sources.last().unwrap();
        assert_eq!((last.source.as_str(), last.rank), ("llm_rerank", 1));
        assert_eq!(!answer.warnings.is_empty(), ranking.contains("99"), "{:?}", answer.warnings);
    }
    world.service.next(Text("2"));
    assert_eq!(ids(&world.run(compressed(rerank(None), OnError::Fail), "the toller").await.hits), ["b", "a", "c"]);

    for unreadable in [Text(""), Text("none of these words is a number"), Cut("4, 2, 1"), Text(r#"{"order": [4]}"#)] {
        let is_none = matches!(unreadable, Text(text) if text.starts_with("none"));
        world.service.next(unreadable);
        let answer = world.run(compressed(rerank(Some(2)), OnError::Fail), "the toller").await;
        assert_eq!(ids(&answer.hits), ["a", "b"]);
        assert_eq!(answer.warnings.is_empty(), is_none, "{:?}", answer.warnings);
    }
}

#[tokio::test]
async fn a_service_that_fails_fails_the_compressor_or_is_skipped() {
    let world = World::new().await;
    world.service.when("Documents:", Status(401, "no"));
    world.service.when("A cat", Status(401, "no"));
    world.service.when("Document", Text("YES"));
    for kind in [rerank(None), CompressorKind::LlmFilter(AskSpec::default())] {
        let error = world.try_run(compressed(kind.clone(), OnError::Fail), "the toller", &[]).await.unwrap_err();
        let Error::FailedPrecondition { reason: "PROVIDER_REFUSED", message } = &error else { panic!("{error:?}") };
        assert!(message.starts_with("contextual_compression.compressors[0]: "), "{message}");
        let answer = world.run(compressed(kind, OnError::Skip), "the toller").await;
        assert_eq!(answer.hits.len(), 4);
        assert!(warnings(&answer)[0].starts_with("contextual_compression.compressors[0]: skipped: "));
    }
}
