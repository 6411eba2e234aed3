//! Texts that a language model writes lead to the document, or to the parent, that they are about.

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
