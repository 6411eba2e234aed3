//! Texts that a language model writes lead to the document, or to the parent, that they are about.

use std::sync::atomic::Ordering;

use toller_indexing::{Cleanup, Cut, Cutting, GeneratedKind, GeneratedTexts, IndexSettings, Parents};

use crate::world::{World, document, recursive, settings, string};

fn written(kind: GeneratedKind) -> GeneratedTexts {
    GeneratedTexts { kind, language_model: None }
}

#[tokio::test]
async fn summaries_and_questions_lead_to_the_parent_they_are_about() {
    let world = World::new().await;
    let cutting = Cutting { cut: Cut::By(recursive(8)), split_overlong: false };
    let settings = IndexSettings {
        parents: Some(Parents::Parts(cutting.clone())),
        cutting,
        generated: vec![written(GeneratedKind::Summary), written(GeneratedKind::Questions(2))],
        ..settings(Cleanup::Full)
    };
    let news = world.index(settings.clone(), vec![document("a", "tollers\n\nbeaches")]).await.unwrap();
    assert_eq!((news.progress.added, news.progress.chunks), (1, 8));
    let records = world.records().await;
    for (line, text, kind) in [
        ("tollers", "about tollers", "summary"),
        ("beaches", "why beaches?", "question"),
        ("beaches", "what is beaches?", "question"),
    ] {
        let (_, metadata) = records.values().find(|(found, _)| found == text).unwrap();
        assert_eq!(string(&metadata["kind"]), kind);
        let parent = toller_core::DocumentId::new(string(&metadata["doc_id"])).unwrap();
        let parent = world.documents.get(&world.context, &world.name, &[parent]).await.unwrap().remove(0).unwrap();
        assert_eq!(parent.page_content, line);
    }
    assert!(!records.values().any(|(text, _)| text.contains("too many")));

    let again = world.index(settings, vec![document("a", "tollers\n\nbeaches")]).await.unwrap();
    assert_eq!(again.progress.skipped, 1, "nothing is written again");
}

#[tokio::test]
async fn a_language_model_that_is_not_there_is_named() {
    let world = World::new().await;
    let generated = vec![GeneratedTexts { kind: GeneratedKind::Summary, language_model: Some("nobody".to_owned()) }];
    let fault = world.index(IndexSettings { generated, ..settings(Cleanup::Full) }, vec![]).await.unwrap_err();
    assert!(fault.to_string().contains("nobody"), "{fault}");
}

#[tokio::test]
async fn what_was_written_before_a_run_was_cut_off_is_not_asked_for_again() {
    let world = World::new().await;
    let settings = IndexSettings {
        parents: Some(Parents::Documents),
        cutting: Cutting { cut: Cut::By(recursive(8)), split_overlong: false },
        generated: vec![written(GeneratedKind::Summary), written(GeneratedKind::Questions(2))],
        ..settings(Cleanup::Full)
    };
    // The first two are of the first batch; the model fails at the second.
    let lines: String = (100..200).map(|number| format!("line {number}\n")).collect();
    let sources = || vec![document("a", "tollers"), document("b", "beaches"), document("c", &lines)];
    world.model.fails_after.store(64, Ordering::SeqCst);
    world.index(settings.clone(), sources()).await.unwrap_err();
    assert_eq!(world.author.asked.load(Ordering::SeqCst), 6);

    world.model.fails_after.store(usize::MAX, Ordering::SeqCst);
    let news = world.index(settings, sources()).await.unwrap();
    assert!(news.progress.resumed >= 64, "{news:?}");
    assert_eq!(world.author.asked.load(Ordering::SeqCst), 8, "only of the third");
    let mut texts = world.texts().await;
    texts.retain(|(_, source)| source == "a");
    let texts: Vec<String> = texts.into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["about tollers", "tollers", "what is tollers?", "why tollers?"]);
}

#[tokio::test]
async fn a_document_that_a_language_model_refuses_is_told_and_the_others_are_indexed() {
    let world = World::new().await;
    let settings = IndexSettings { generated: vec![written(GeneratedKind::Summary)], ..settings(Cleanup::Full) };
    let news =
        world.index(settings, vec![document("a", "refused"), document("b", "silence"), document("c", "tollers")]);
    let news = news.await.unwrap();
    assert_eq!((news.progress.added, news.progress.failed), (1, 2));
    assert_eq!(news.problems[0].message, "the language model refuses it: 400 this is not answered");
    assert!(news.problems[1].message.contains("wrote no summary"), "{:?}", news.problems);
    assert_eq!(world.texts().await.len(), 2);
}

#[tokio::test]
async fn a_dry_run_asks_no_language_model() {
    let world = World::new().await;
    let dry =
        IndexSettings { generated: vec![written(GeneratedKind::Summary)], dry_run: true, ..settings(Cleanup::Full) };
    let news = world.index(dry, vec![document("a", "tollers")]).await.unwrap();
    assert_eq!((news.progress.added, world.author.asked.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn another_number_of_questions_replaces_those_that_were_there() {
    let world = World::new().await;
    let settings = IndexSettings { generated: vec![written(GeneratedKind::Questions(2))], ..settings(Cleanup::None) };
    world.index(settings.clone(), vec![document("a", "tollers")]).await.unwrap();
    assert_eq!(world.records().await.len(), 3);
    world.author.is_short.store(true, Ordering::SeqCst);
    let forced = IndexSettings { force: true, ..settings.clone() };
    let news = world.index(forced, vec![document("a", "tollers")]).await.unwrap();
    assert_eq!((news.progress.updated, news.progress.deleted, news.progress.chunks_deleted), (1, 0, 3));
    assert_eq!(world.records().await.len(), 2, "no chunk is there twice");
    let news = world.index(settings, vec![document("a", "tollers")]).await.unwrap();
    assert_eq!(news.progress.skipped, 1, "the version is whole");
}
