//! What runs do, and refuse to do.

use std::sync::atomic::Ordering;
use std::time::Duration;

use toller_core::error::Error;
use toller_core::vector_store::Selector;
use toller_core::{DocumentId, Metadata, Value};
use toller_indexing::run::EMPTY_FULL_RUN;
use toller_indexing::{
    Action, Board, Change, Cleanup, Content, Cut, Cutting, IndexSettings, RelatedText, SourceDocument,
};
use toller_ingest::{CsvMapping, LoadOptions, RecursiveSpec, SplitterSpec};
use toller_store::RunConflict;

use crate::world::{World, document, recursive, settings, string};

/// Lines as chunks.
fn by_lines(cleanup: Cleanup) -> IndexSettings {
    let cut = Cut::By(recursive(12));
    IndexSettings { cutting: Cutting { cut, split_overlong: false }, ..settings(cleanup) }
}

fn messages(news: &toller_indexing::News) -> Vec<(String, String)> {
    news.problems.iter().map(|problem| (problem.source.clone(), problem.message.clone())).collect()
}

#[tokio::test]
async fn what_did_not_change_is_not_embedded_and_keeps_its_vector() {
    let world = World::new().await;
    let text = "line one\n\nline two\n\nline 333";
    let first = world.index(by_lines(Cleanup::Incremental), vec![document("a.txt", text)]).await.unwrap().progress;
    assert_eq!((first.added, first.chunks, first.embedded, first.reused), (1, 3, 3, 0));
    assert_eq!(first.tokens, 6);

    let second = world.index(by_lines(Cleanup::Incremental), vec![document("a.txt", text)]).await.unwrap().progress;
    assert_eq!((second.skipped, second.chunks, second.embedded), (1, 0, 0));

    let changed = "line 000\n\nline one\n\nline two\n\nline 333";
    let third = world.index(by_lines(Cleanup::Incremental), vec![document("a.txt", changed)]).await.unwrap().progress;
    assert_eq!((third.added, third.deleted, third.chunks), (1, 1, 4));
    assert_eq!((third.embedded, third.reused, third.chunks_deleted), (1, 3, 3));
    assert_eq!(world.embedded(), 4);
    let records = world.records().await;
    assert_eq!(records.len(), 4);
    for (text, metadata) in records.values() {
        let Value::Int(start) = metadata["start_index"] else { panic!("{metadata:?}") };
        assert_eq!(&changed[start as usize..][..text.len()], text, "offsets are those of the new text");
    }
}

#[tokio::test]
async fn chunks_say_where_they_stand() {
    let world = World::new().await;
    let mut notes = document("d/a.md", "\n# The *dog*\n\né one\ntwo\n\nthree");
    notes.metadata = Metadata::from([("tag".to_owned(), Value::from("x"))]);
    notes.media_type = String::new();
    let mut lines = document("b.jsonl", "\"first\\n\\nsecond\"\n\"third\"");
    lines.media_type = String::new();
    world.index(by_lines(Cleanup::None), vec![notes, lines]).await.unwrap();
    let records = world.records().await;
    let seen: Vec<_> = records
        .values()
        .map(|(text, metadata)| {
            let place = ["chunk", "start_index", "first_line", "last_line"].map(|key| match metadata[key] {
                Value::Int(number) => number,
                ref other => panic!("{key}: {other:?}"),
            });
            (string(&metadata["source"]), metadata.get("line"), text.as_str(), place)
        })
        .collect();
    let (one, two) = (Value::Int(1), Value::Int(2));
    let expected = [
        ("b.jsonl", Some(&one), "first", [0, 0, 1, 1]),
        ("b.jsonl", Some(&one), "second", [1, 7, 3, 3]),
        ("b.jsonl", Some(&two), "third", [2, 0, 1, 1]),
        ("d/a.md", None, "# The *dog*", [0, 1, 2, 2]),
        ("d/a.md", None, "é one\ntwo", [1, 14, 4, 5]),
        ("d/a.md", None, "three", [2, 25, 7, 7]),
    ];
    assert_eq!(seen, expected.map(|(source, line, text, place)| (source.to_owned(), line, text, place)));
    let notes = records.values().find(|(text, _)| text == "three").map(|(_, metadata)| metadata).unwrap();
    for (key, value) in [("title", "The dog"), ("media_type", "text/markdown"), ("tag", "x")] {
        assert_eq!(notes[key], Value::from(value), "{key}");
    }
    assert_eq!(notes.len(), 8, "{notes:?}");
}

#[tokio::test]
async fn other_settings_or_metadata_are_another_version_whose_texts_keep_their_vectors() {
    let world = World::new().await;
    world.index(by_lines(Cleanup::Incremental), vec![document("a", "one\n\ntwo")]).await.unwrap();
    let mut tagged = document("a", "one\n\ntwo");
    tagged.metadata = Metadata::from([("tag".to_owned(), Value::from("x"))]);
    let news = world.index(by_lines(Cleanup::Incremental), vec![tagged.clone()]).await.unwrap().progress;
    assert_eq!((news.added, news.deleted, news.embedded, news.reused), (1, 1, 0, 1));
    let news = world.index(settings(Cleanup::Incremental), vec![tagged]).await.unwrap().progress;
    assert_eq!((news.added, news.deleted, news.skipped), (1, 1, 0), "another splitter");
    let records = world.records().await;
    assert!(records.values().all(|(_, metadata)| metadata["tag"] == Value::from("x")));
}

#[tokio::test]
async fn cleanup_removes_what_it_says_and_never_what_others_added() {
    let world = World::new().await;
    let collection = world.collections.open(&world.context, &world.name).await.unwrap();
    let own = toller_store::NewDocument {
        id: Some("own#1".to_owned()),
        page_content: "own".to_owned(),
        ..Default::default()
    };
    collection.add(&world.context, vec![own], None).await.unwrap();
    // `own` is a source here, too, and its name with the mark is the beginning of another one's.
    let documents = || vec![document("own", "a"), document("own#1", "b"), document("z", "c")];
    world.index(settings(Cleanup::None), documents()).await.unwrap();
    assert_eq!(world.records().await.len(), 4);

    let news = world.index(settings(Cleanup::None), vec![document("own", "a2")]).await.unwrap();
    assert_eq!((news.progress.added, news.progress.deleted), (1, 0), "two versions stand beside each other");
    let news = world.index(settings(Cleanup::Incremental), vec![document("own", "a2")]).await.unwrap();
    assert_eq!((news.progress.skipped, news.progress.deleted), (1, 1));
    let news = world.index(settings(Cleanup::Full), vec![document("own#1", "b")]).await.unwrap();
    assert_eq!((news.progress.skipped, news.progress.deleted), (1, 2));
    let texts: Vec<String> = world.records().await.into_values().map(|(text, _)| text).collect();
    assert_eq!(texts, ["own", "b"].map(str::to_owned).to_vec(), "in the order of ids");
}

#[tokio::test]
async fn a_full_run_without_documents_is_refused_unless_it_is_meant() {
    let world = World::new().await;
    world.index(settings(Cleanup::Full), vec![document("a", "a")]).await.unwrap();
    let refused = world.index(settings(Cleanup::Full), vec![]).await.unwrap_err();
    assert!(matches!(&refused, Error::FailedPrecondition { reason: EMPTY_FULL_RUN, .. }), "{refused}");
    assert!(refused.to_string().contains("allow_empty_full"), "{refused}");
    assert_eq!(world.texts().await.len(), 1);
    let meant = IndexSettings { allow_empty_full: true, ..settings(Cleanup::Full) };
    assert_eq!(world.index(meant.clone(), vec![]).await.unwrap().progress.deleted, 1);
    assert!(world.texts().await.is_empty());
    world.index(settings(Cleanup::Full), vec![]).await.unwrap();
}

#[tokio::test]
async fn a_dry_run_tells_what_would_change_and_changes_nothing() {
    let world = World::new().await;
    let documents = || vec![document("a", "one\n\ntwo two two"), document("b", "b"), document("c", "c")];
    let dry = IndexSettings { dry_run: true, ..by_lines(Cleanup::Full) };
    let news = world.index(dry.clone(), documents()).await.unwrap();
    assert_eq!((news.progress.added, news.progress.chunks, news.progress.embedded), (3, 4, 0));
    assert!(world.records().await.is_empty() && world.embedded() == 0);

    world.index(by_lines(Cleanup::Full), documents()).await.unwrap();
    let before = world.records().await;
    let changed = vec![document("a", "one\n\ntwo two two"), document("b", "new b")];
    let news = world.index(dry, changed).await.unwrap();
    let change = |action, source: &str, chunks| Change { action, source: source.to_owned(), chunks };
    let wanted = [
        change(Action::Skip, "a", 0),
        change(Action::Add, "b", 1),
        change(Action::Delete, "b", 1),
        change(Action::Delete, "c", 1),
    ];
    assert_eq!(news.changes, wanted);
    assert_eq!((news.progress.deleted, news.progress.chunks_deleted), (2, 2));
    assert_eq!(world.records().await, before);
    assert_eq!(world.embedded(), 4);
}

#[tokio::test]
async fn what_is_wrong_with_a_document_is_told_by_name_and_the_rest_is_indexed() {
    let world = World::new().await;
    world.index(settings(Cleanup::Full), vec![document("bad", "as it was"), document("empty", "x")]).await.unwrap();
    let mut own_key = document("own", "text");
    own_key.metadata = Metadata::from([("chunk".to_owned(), Value::Int(1))]);
    let bad = SourceDocument { content: Content::Bytes(b"PK\x03\x04\0\0\xff".to_vec()), ..document("bad", "") };
    let unknown = SourceDocument { media_type: "image/png".to_owned(), ..document("picture", "x") };
    let huge = document("huge", &"x".repeat((1 << 20) + 1));
    let pdf = SourceDocument {
        content: Content::Bytes(b"%PDF-1.7 and nothing else".to_vec()),
        media_type: String::new(),
        ..document("broken.pdf", "")
    };
    let documents =
        vec![document("", "x"), own_key, bad, unknown, huge, pdf, document("empty", " \n"), document("good", "good")];
    let news = world.index(settings(Cleanup::Full), documents).await.unwrap();
    assert_eq!((news.progress.added, news.progress.failed), (1, 7));
    let told = messages(&news);
    for (source, part) in [
        ("", "must be 1 to 900 bytes long"),
        ("own", "metadata[\"chunk\"]"),
        ("bad", "binary"),
        ("picture", "image/png"),
        ("huge", "limits.max_document_bytes"),
        ("broken.pdf", "PDF"),
        ("empty", "empty"),
    ] {
        assert!(told.iter().any(|(name, message)| name == source && message.contains(part)), "{source}: {told:?}");
    }
    let texts: Vec<String> = world.texts().await.into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["as it was", "good"], "what cannot be read stays as it was, what is empty now does not");
}

#[tokio::test]
async fn rows_that_cannot_be_used_are_told_and_the_others_are_indexed() {
    let world = World::new().await;
    let lines = "{\"a\": 1}\nnot json\n{\"a\": 2}\n";
    let rows = |text| SourceDocument { media_type: "application/jsonl".to_owned(), ..document("rows.jsonl", text) };
    let news = world.index(settings(Cleanup::Full), vec![rows(lines)]).await.unwrap();
    assert_eq!((news.progress.added, news.progress.chunks, news.progress.failed), (1, 2, 0));
    assert_eq!(news.problems.len(), 1);
    assert!(news.problems[0].message.contains('2'), "names the line: {:?}", news.problems);

    // It is told, and tried, again until it is mended; nothing is embedded for that.
    let again = world.index(settings(Cleanup::Full), vec![rows(lines)]).await.unwrap();
    assert_eq!((again.problems.len(), again.progress.embedded, again.progress.reused), (1, 0, 2));
    let mended = vec![rows("{\"a\": 1}\n{\"a\": 2}\n")];
    let news = world.index(settings(Cleanup::Full), mended.clone()).await.unwrap();
    assert_eq!((news.problems.len(), news.progress.deleted, news.progress.embedded), (0, 1, 0));
    assert_eq!(world.index(settings(Cleanup::Full), mended).await.unwrap().progress.skipped, 1);
}

#[tokio::test]
async fn content_comes_in_parts() {
    let world = World::new().await;
    let part = |text: &str, continued| SourceDocument { continued, ..document("long", text) };
    let parts = vec![part("one ", true), part("two ", true), part("three", false), document("b", "b")];
    world.index(settings(Cleanup::Full), parts).await.unwrap();
    let texts: Vec<String> = world.texts().await.into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["b", "one two three"]);

    let large = "x".repeat(600 << 10);
    let parts = vec![part(&large, true), part(&large, true), part("end", false), document("b", "b")];
    let news = world.index(settings(Cleanup::Full), parts).await.unwrap();
    assert_eq!((news.progress.failed, news.progress.skipped, news.progress.deleted), (1, 1, 0));
    assert_eq!(world.texts().await.len(), 2, "no part of it is taken for a document");

    let cut_off = world.index(settings(Cleanup::Full), vec![part("one", true)]).await.unwrap_err();
    assert!(cut_off.to_string().contains("goes on"), "{cut_off}");
    let news = world.index(settings(Cleanup::Full), vec![part("one", true), document("b", "b")]).await.unwrap();
    assert_eq!((news.progress.failed, news.progress.skipped), (1, 1));

    let titled = SourceDocument { title: Some("late".to_owned()), ..part("two", false) };
    let news = world.index(settings(Cleanup::Full), vec![part("one ", true), titled]).await.unwrap();
    assert!(news.problems[0].message.contains("nothing but"), "{:?}", news.problems);
}

#[tokio::test]
async fn json_that_cannot_be_cut_by_its_values_is_cut_as_text() {
    let world = World::new().await;
    let cut = Cut::Automatic { chunk_size: 20, chunk_overlap: Some(0) };
    let cutting = Cutting { cut, split_overlong: false };
    let parts = IndexSettings {
        parents: Some(toller_indexing::Parents::Parts(cutting.clone())),
        cutting,
        ..settings(Cleanup::Full)
    };
    let json = |source: &str, text: &str| SourceDocument { media_type: String::new(), ..document(source, text) };
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let documents =
        vec![json("deep.json", &deep), json("list.json", r#"[{"a": "one"}, {"b": "two"}, {"c": "three"}]"#)];
    let news = world.index(parts, documents).await.unwrap();
    assert_eq!((news.progress.added, news.progress.failed), (2, 0), "{:?}", news.problems);
}

#[tokio::test]
async fn sources_are_removed_and_kept_by_name() {
    let world = World::new().await;
    let documents = vec![document("a", "a"), document("b", "b"), document("c", "c")];
    world.index(settings(Cleanup::Full), documents).await.unwrap();
    let board = Board::default();
    let mut run = world.begin(settings(Cleanup::None), &board).await.unwrap();
    run.remove("a").unwrap();
    run.commit().await.unwrap();
    assert_eq!(board.progress().deleted, 1);
    let mut run = world.begin(settings(Cleanup::Full), &board).await.unwrap();
    run.keep("b").unwrap();
    run.add(document("d", "d")).await.unwrap();
    assert!(run.remove("d").unwrap_err().to_string().contains("removed_sources"));
    assert!(run.keep("").unwrap_err().to_string().contains("kept_sources"));
    run.commit().await.unwrap();
    let texts: Vec<String> = world.texts().await.into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["b", "d"]);
}

#[tokio::test]
async fn a_version_of_which_a_record_is_missing_is_written_again() {
    let world = World::new().await;
    let documents = || vec![document("a", "line one\n\nline two")];
    world.index(by_lines(Cleanup::Full), documents()).await.unwrap();
    let whole = world.records().await;
    let collection = world.collections.open(&world.context, &world.name).await.unwrap();
    let ids: Vec<DocumentId> = whole.keys().take(1).cloned().collect();
    collection.delete(&world.context, &Selector::Ids(ids)).await.unwrap();
    let news = world.index(by_lines(Cleanup::Full), documents()).await.unwrap().progress;
    assert_eq!((news.added, news.embedded, news.reused), (1, 1, 1));
    assert_eq!(world.records().await, whole);
}

#[tokio::test]
async fn nothing_shows_before_the_commit_and_all_of_it_after() {
    let world = World::new().await;
    world.index(settings(Cleanup::Full), vec![document("a", "old")]).await.unwrap();
    let board = Board::default();
    let mut run = world.begin(settings(Cleanup::Full), &board).await.unwrap();
    for number in 0..200 {
        run.add(document(&format!("s{number}"), &format!("text {number}"))).await.unwrap();
    }
    assert_eq!(world.texts().await, [("old".to_owned(), "a".to_owned())]);
    run.commit().await.unwrap();
    assert_eq!(world.texts().await.len(), 200);
}

#[tokio::test]
async fn a_run_that_fails_changes_nothing_and_the_next_one_goes_on_from_there() {
    let world = World::new().await;
    world.index(settings(Cleanup::Full), vec![document("old", "old")]).await.unwrap();
    let documents = || (0..300).map(|number| document(&format!("s{number}"), &format!("text {number}")));
    world.model.fails_after.store(200, Ordering::SeqCst);
    let fault = world.index(settings(Cleanup::Full), documents().collect()).await.unwrap_err();
    assert!(fault.to_string().contains("the model failed"), "{fault}");
    assert_eq!(world.texts().await.len(), 1);

    world.model.fails_after.store(usize::MAX, Ordering::SeqCst);
    let before = world.embedded();
    let news = world.index(settings(Cleanup::Full), documents().collect()).await.unwrap().progress;
    assert_eq!((news.added, news.chunks, news.deleted), (300, 300, 1));
    assert!(news.resumed >= 64 && news.resumed + news.embedded == 300, "{news:?}");
    assert_eq!(world.embedded() - before, news.embedded as usize);
    assert_eq!(world.texts().await.len(), 300);
    let again = world.index(settings(Cleanup::Full), documents().collect()).await.unwrap().progress;
    assert_eq!((again.skipped, again.embedded), (300, 0));
}

#[tokio::test]
async fn two_runs_at_once_take_turns_or_the_second_is_refused() {
    let world = World::new().await;
    let board = Board::default();
    let mut first = world.begin(settings(Cleanup::Full), &board).await.unwrap();
    first.add(document("a", "first")).await.unwrap();
    let refuse = IndexSettings { conflict: RunConflict::Refuse, ..settings(Cleanup::Full) };
    let refused = world.begin(refuse, &Board::default()).await.map(|_| ()).unwrap_err();
    assert!(matches!(refused, Error::Aborted(_)), "{refused}");
    let dry = IndexSettings { dry_run: true, ..settings(Cleanup::Full) };
    world.index(dry, vec![document("b", "b")]).await.unwrap();

    let second = world.index(settings(Cleanup::Full), vec![document("a", "second")]);
    let (second, ()) = tokio::join!(second, async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        first.commit().await.unwrap();
    });
    let progress = second.unwrap().progress;
    assert_eq!((progress.added, progress.deleted), (1, 1), "the second saw what the first had committed");
    assert_eq!(world.texts().await, [("second".to_owned(), "a".to_owned())]);
}

#[tokio::test]
async fn related_texts_lead_to_a_document_without_text() {
    let world = World::new().await;
    let related = |kind: &str, text: &str| RelatedText { kind: kind.to_owned(), text: text.to_owned() };
    let picture = SourceDocument {
        content: Content::None,
        related: vec![related("caption", "a toller on a beach"), related("question", "what is on the beach?")],
        media_type: String::new(),
        ..document("beach.png", "")
    };
    let mut nameless = document("n", "n");
    nameless.related = vec![related("", "x")];
    let news = world.index(settings(Cleanup::Full), vec![picture, nameless]).await.unwrap();
    assert_eq!((news.progress.added, news.progress.chunks, news.progress.failed), (1, 2, 1));
    assert!(news.problems[0].message.contains("related[0].kind"), "{:?}", news.problems);
    let records = world.records().await;
    let kinds: Vec<String> = records.values().map(|(_, metadata)| string(&metadata["kind"])).collect();
    assert_eq!(kinds, ["caption", "question"]);
}

#[tokio::test]
async fn a_document_that_the_model_refuses_is_told_and_the_others_are_indexed() {
    let world = World::new().await;
    world.index(by_lines(Cleanup::Full), vec![document("a", "as it was")]).await.unwrap();
    let sources = vec![document("a", "line one\n\nrefused\n\nline two"), document("b", "beaches")];
    let news = world.index(by_lines(Cleanup::Full), sources).await.unwrap();
    assert_eq!((news.progress.added, news.progress.failed, news.progress.chunks), (1, 1, 1));
    let problem = &news.problems[0];
    assert!(problem.source == "a" && problem.message.contains("not for this model"), "{problem:?}");
    let texts: Vec<String> = world.texts().await.into_iter().map(|(text, _)| text).collect();
    assert_eq!(texts, ["as it was", "beaches"], "what was indexed of it before stays");

    // What the model says of every text is not about the texts.
    let all = vec![document("c", "refused 1\n\nrefused 2")];
    let fault = world.index(by_lines(Cleanup::None), all).await.unwrap_err();
    assert!(fault.to_string().contains("not for this model"), "{fault}");
}

#[tokio::test]
async fn nothing_is_made_of_a_document_of_which_a_part_is_refused() {
    let world = World::new().await;
    let board = Board::default();
    let mut run = world.begin(settings(Cleanup::Full), &board).await.unwrap();
    run.refuse("a", true, "metadata: too much");
    run.add(document("a", "the rest of it")).await.unwrap();
    run.add(document("b", "b")).await.unwrap();
    run.commit().await.unwrap();
    assert_eq!(world.texts().await, [("b".to_owned(), "b".to_owned())]);
    assert_eq!(board.progress().failed, 1);
}

#[tokio::test]
async fn metadata_that_come_of_a_file_are_bounded() {
    let world = World::new().await;
    let settings = IndexSettings { max_metadata_bytes: 300, ..settings(Cleanup::Full) };
    let mut large = document("a.csv", &format!("text,note\nfirst,{}\n", "x".repeat(400)));
    large.media_type = "text/csv".to_owned();
    let load = LoadOptions {
        csv: CsvMapping { metadata: vec!["note".to_owned()], ..CsvMapping::default() },
        ..LoadOptions::default()
    };
    let news = world.index(IndexSettings { load, ..settings }, vec![large, document("b", "b")]).await.unwrap();
    assert_eq!((news.progress.added, news.progress.failed), (1, 1));
    assert!(news.problems[0].message.contains("limits.max_metadata_bytes"), "{:?}", news.problems);
}

#[tokio::test]
async fn chunks_that_repeat_too_much_are_refused() {
    let world = World::new().await;
    let cut = Cut::By(SplitterSpec::Recursive(RecursiveSpec {
        chunk_size: 1000,
        chunk_overlap: Some(1000),
        ..RecursiveSpec::default()
    }));
    let settings = IndexSettings { cutting: Cutting { cut, split_overlong: false }, ..settings(Cleanup::Full) };
    let news = world.index(settings, vec![document("a", &"word ".repeat(20_000))]).await.unwrap();
    assert!(news.problems[0].message.contains("chunk_overlap"), "{:?}", news.problems);
}

#[tokio::test]
async fn a_default_that_is_said_does_not_make_another_version() {
    let world = World::new().await;
    let automatic = |chunk_overlap| {
        let cut = Cut::Automatic { chunk_size: 200, chunk_overlap };
        IndexSettings { cutting: Cutting { cut, split_overlong: false }, ..settings(Cleanup::Full) }
    };
    world.index(automatic(None), vec![document("a", "a")]).await.unwrap();
    assert_eq!(world.index(automatic(Some(30)), vec![document("a", "a")]).await.unwrap().progress.skipped, 1);
    assert_eq!(world.index(automatic(Some(20)), vec![document("a", "a")]).await.unwrap().progress.skipped, 0);
}

#[tokio::test]
async fn how_much_is_admitted_does_not_make_another_version() {
    let world = World::new().await;
    world.index(settings(Cleanup::Full), vec![document("a", "a")]).await.unwrap();
    let load = LoadOptions { max_text_bytes: 1 << 10, ..LoadOptions::default() };
    let news = world.index(IndexSettings { load, ..settings(Cleanup::Full) }, vec![document("a", "a")]).await.unwrap();
    assert_eq!(news.progress.skipped, 1);
}
