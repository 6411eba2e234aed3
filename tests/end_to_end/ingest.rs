//! `toller ingest` against a running server: what is new is embedded, what is gone goes, and what breaks off goes on.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use toller_api::v1;
use toller_api::v1::documents_index_request::Step;
use toller_tests::PATIENCE;
use toller_tests::client::Client;
use toller_tests::command::{run, toller};
use toller_tests::request::*;
use toller_tests::scene::in_time;
use toller_tests::server::{Server, Settings};

use crate::cli::{command, notes, parsed};

/// Ids with their texts, in the order of the ids.
async fn state(client: &Client) -> Vec<(String, String)> {
    let mut state = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::DocumentsListRequest {
            collection: "docs".to_owned(),
            page_size: Some(1000),
            page_token,
            ..Default::default()
        };
        let page = client.documents().list(request).await.unwrap().into_inner();
        state.extend(page.documents.into_iter().map(|document| (document.id.unwrap(), document.page_content)));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return state;
        }
    }
}

/// The sources that are in the collection, each once.
pub(crate) async fn sources(client: &Client) -> Vec<String> {
    let mut sources: Vec<String> = client
        .all("docs")
        .await
        .iter()
        .map(|document| match &document.metadata["source"].kind {
            Some(v1::value::Kind::StringValue(source)) => source.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    sources.sort();
    sources.dedup();
    sources
}

/// Runs `toller ingest notes --json` with more arguments.
async fn ingest(server: &Server, folder: &Path, arguments: &[&str]) -> Value {
    let line = [&["ingest", "notes", "--json"], arguments].concat();
    parsed(&command(server, folder, &line).await.expect(0))
}

#[tokio::test]
async fn files_are_ingested_and_what_cannot_be_is_listed() {
    let server = Settings::new().start().await;
    let folder = notes();
    fs::write(folder.path().join("notes/huge.txt"), "x".repeat(200_000)).unwrap();
    let line = ["ingest", "notes", "--json", "--max-file-bytes", "100000"];
    let exit = command(&server, folder.path(), &line).await.expect(0);
    let counts = parsed(&exit);
    assert_eq!((&counts["collection"], &counts["files"]), (&json!("docs"), &json!(2)), "{counts}");
    let chunks = counts["chunks"].as_u64().unwrap();
    assert!(chunks > 12, "{counts}");
    let skipped: Vec<&str> =
        counts["skipped"].as_array().unwrap().iter().map(|skip| skip["source"].as_str().unwrap()).collect();
    let bad = ["notes/.hidden.md", "notes/binary.txt", "notes/empty.txt", "notes/huge.txt", "notes/picture.png"];
    for source in bad {
        assert!(skipped.contains(&source), "{source}: {skipped:?}");
        assert!(exit.stderr.contains(source), "{source} is told: {}", exit.stderr);
    }
    assert!(exit.stderr.contains("larger than 100000 bytes"), "{}", exit.stderr);

    let client = server.client().await;
    let all = client.all("docs").await;
    assert_eq!(all.len() as u64, chunks);
    let plain = all.iter().find(|document| document.metadata["source"] == string("notes/below/plain.txt")).unwrap();
    assert_eq!(plain.page_content, "The toller is the smallest of the retrievers.");
    assert!(plain.id_text().starts_with("notes/below/plain.txt#") && plain.id_text().ends_with(".0of1"));
    // Each chunk is exactly its place in the file.
    let text = fs::read_to_string(folder.path().join("notes/book.md")).unwrap();
    for chunk in all.iter().filter(|document| document.metadata["source"] == string("notes/book.md")) {
        let Some(v1::value::Kind::IntValue(start)) = chunk.metadata["start_index"].kind else { panic!("an integer") };
        let length = chunk.page_content.chars().count();
        let place: String = text.chars().skip(usize::try_from(start).unwrap()).take(length).collect();
        assert_eq!(chunk.page_content, place);
    }
    let exit = command(&server, folder.path(), &["ingest", "notes/below"]).await.expect(0);
    assert!(exit.stdout.contains("1 file (1 unchanged)") && exit.stdout.lines().count() == 1, "{}", exit.stdout);
}

#[tokio::test]
async fn what_did_not_change_is_not_embedded_again() {
    let server = Settings::new().start().await;
    let folder = notes();
    let client = server.client().await;
    let first = ingest(&server, folder.path(), &[]).await;
    assert_eq!((&first["added"], &first["embedded"]), (&json!(2), &first["chunks"]), "{first}");
    assert!(first["tokens"].as_u64().unwrap() > 0 && first["tokens_per_s"].as_f64().unwrap() > 0.0, "{first}");
    let before = state(&client).await;
    let again = ingest(&server, folder.path(), &[]).await;
    assert_eq!(
        (&again["unchanged"], &again["embedded"], &again["tokens"]),
        (&json!(2), &json!(0), &json!(0)),
        "{again}"
    );
    assert_eq!(state(&client).await, before);

    // One chapter of twelve is another one now.
    let book = folder.path().join("notes/book.md");
    let text = fs::read_to_string(&book).unwrap();
    fs::write(&book, text.replace("# Chapter 7\n\nRetrievers", "# Chapter 7\n\nTollers")).unwrap();
    let edited = ingest(&server, folder.path(), &[]).await;
    assert_eq!(
        (&edited["added"], &edited["unchanged"], &edited["deleted"]),
        (&json!(1), &json!(1), &json!(1)),
        "{edited}"
    );
    let embedded = edited["embedded"].as_u64().unwrap();
    assert!(embedded > 0 && embedded < edited["reused"].as_u64().unwrap(), "only what is new is embedded: {edited}");
    assert!(state(&client).await.iter().any(|(_, text)| text.contains("Tollers bring back")));

    let forced = ingest(&server, folder.path(), &["--force"]).await;
    assert_eq!((&forced["updated"], &forced["embedded"]), (&json!(2), &forced["chunks"]), "{forced}");

    // A file that has become empty has no chunks at all.
    fs::write(&book, "").unwrap();
    ingest(&server, folder.path(), &[]).await;
    assert_eq!(sources(&client).await, ["notes/below/plain.txt"]);
}

#[tokio::test]
async fn files_that_are_gone_go_with_a_full_run_and_a_dry_run_changes_nothing() {
    let server = Settings::new().start().await;
    let folder = notes();
    let client = server.client().await;
    client.create("docs").await;
    client.add("docs", vec![document("by hand", "not from a file").with("source", string("by hand"))]).await;
    let exit = command(&server, folder.path(), &["ingest", "notes", "--dry-run"]).await.expect(0);
    assert!(exit.stdout.contains("+ notes/below/plain.txt added (1 chunk)\n"), "{}", exit.stdout);
    assert!(exit.stdout.contains("+ notes/book.md added (") && exit.stdout.contains("nothing was changed"));
    assert_eq!(client.count("docs").await, 1);

    ingest(&server, folder.path(), &[]).await;
    let before = state(&client).await;
    fs::remove_file(folder.path().join("notes/below/plain.txt")).unwrap();
    fs::write(folder.path().join("notes/new.md"), "# New\n\nA new file.\n").unwrap();
    let dry = ingest(&server, folder.path(), &["--cleanup", "full", "--dry-run"]).await;
    let changes: Vec<_> =
        dry["changes"].as_array().unwrap().iter().map(|change| (&change["action"], &change["source"])).collect();
    for (action, source) in [("add", "notes/new.md"), ("skip", "notes/book.md"), ("delete", "notes/below/plain.txt")] {
        assert!(changes.contains(&(&json!(action), &json!(source))), "{changes:?}");
    }
    assert_eq!(state(&client).await, before, "a dry run changes nothing");

    ingest(&server, folder.path(), &[]).await;
    assert_eq!(sources(&client).await, ["by hand", "notes/below/plain.txt", "notes/book.md", "notes/new.md"]);
    let full = ingest(&server, folder.path(), &["--cleanup", "full"]).await;
    assert_eq!((&full["deleted"], &full["embedded"]), (&json!(1), &json!(0)), "{full}");
    assert_eq!(sources(&client).await, ["by hand", "notes/book.md", "notes/new.md"], "what was added otherwise stays");

    let exit = command(&server, folder.path(), &["ingest", "notes", "nowhere", "--cleanup", "full"]).await.expect(1);
    assert!(exit.stderr.contains("nowhere"), "{}", exit.stderr);
}

#[tokio::test]
async fn ingesting_what_cannot_be_is_a_failure() {
    let server = Settings::new().start().await;
    let folder = notes();
    for (path, word) in [("nowhere", "nowhere"), ("notes/binary.txt", "binary"), ("notes/empty.txt", "empty")] {
        let exit = command(&server, folder.path(), &["ingest", path]).await.expect(1);
        assert!(exit.stderr.contains(word), "{path}: {}", exit.stderr);
    }
    // The good ones are done before that is said.
    let exit = command(&server, folder.path(), &["ingest", "notes/binary.txt", "notes/below"]).await.expect(1);
    assert!(exit.stdout.contains("1 file"), "{}", exit.stdout);
    command(&server, folder.path(), &["ingest", "notes/empty.txt", "notes/below"]).await.expect(0);
    assert_eq!(server.client().await.count("docs").await, 1);
    for arguments in [
        &["ingest"][..],
        &["ingest", "notes", "--chunk-size", "0"],
        &["ingest", "notes", "--splitter", "whole", "--chunk-size", "5"],
        &["ingest", "notes", "--language-model", "x"],
        &["ingest", "-", "-"],
    ] {
        command(&server, folder.path(), arguments).await.expect(2);
    }
    let exit = command(&server, folder.path(), &["ingest", "notes", "--dry-run", "--collection", "other"]).await;
    assert!(exit.expect(1).stderr.contains("other"));
}

#[tokio::test]
async fn standard_input_and_mapped_files_are_read() {
    let server = Settings::new().start().await;
    let folder = tempfile::tempdir().unwrap();
    let page = "<html><title>Dogs</title><body><p>A small retriever.</p></body></html>";
    fs::write(folder.path().join("page"), page).unwrap();
    let input = fs::File::open(folder.path().join("page")).unwrap();
    let mut piped = toller();
    piped.args(["ingest", "-", "--source", "web/page.html"]).env("TOLLER_SERVER", server.url()).stdin(input);
    run(&mut piped).await.expect(0);
    let client = server.client().await;
    let [chunk] = client.all("docs").await.try_into().unwrap();
    assert_eq!(
        (chunk.page_content.as_str(), &chunk.metadata["source"]),
        ("A small retriever.", &string("web/page.html"))
    );
    assert_eq!(chunk.metadata["title"], string("Dogs"));

    let list = json!({"items": [{"body": "one", "at": {"year": 1945}}, {"body": "two", "at": {"year": 1903}}]});
    fs::write(folder.path().join("list.json"), list.to_string()).unwrap();
    fs::write(folder.path().join("rows.csv"), "text,year\nthree,1878\n").unwrap();
    let line = [
        "ingest",
        "list.json",
        "rows.csv",
        "--collection",
        "mapped",
        "--json-records",
        "/items",
        "--json-content",
        "/body",
        "--json-metadata",
        "year=/at/year",
        "--csv-content",
        "text",
        "--csv-metadata",
        "year",
    ];
    command(&server, folder.path(), &line).await.expect(0);
    let mut texts: Vec<_> = client
        .all("mapped")
        .await
        .into_iter()
        .map(|chunk| (chunk.page_content, chunk.metadata["year"].clone()))
        .collect();
    texts.sort_by(|left, right| left.0.cmp(&right.0));
    let expected = [("one", int(1945)), ("three", string("1878")), ("two", int(1903))];
    assert_eq!(texts, expected.map(|(text, year)| (text.to_owned(), year)));
}

#[tokio::test]
async fn globs_choose_files_and_splitters_cut_them() {
    let server = Settings::new().start().await;
    let folder = notes();
    let client = server.client().await;
    let whole = ["--splitter", "whole", "--include", "*.txt"];
    let told = ingest(&server, folder.path(), &whole).await;
    assert_eq!(told["chunks"], 1, "{told}");
    assert_eq!(sources(&client).await, ["notes/below/plain.txt"]);
    // Cut in another way, it is written anew.
    let small = ["--splitter", "sentence", "--chunk-size", "100", "--include", "*.txt"];
    let told = ingest(&server, folder.path(), &small).await;
    assert_eq!((&told["added"], &told["deleted"]), (&json!(1), &json!(1)), "{told}");
    fs::write(folder.path().join("notes/.gitignore"), "book.md\n").unwrap();
    ingest(&server, folder.path(), &[]).await;
    assert_eq!(sources(&client).await, ["notes/below/plain.txt"]);
    ingest(&server, folder.path(), &["--no-ignore", "--hidden"]).await;
    assert_eq!(sources(&client).await, ["notes/.hidden.md", "notes/below/plain.txt", "notes/book.md"]);
}

#[tokio::test]
async fn two_runs_at_once_wait_or_are_refused() {
    let server = Settings::new().start().await;
    let folder = notes();
    let client = server.client().await;
    client.create("docs").await;
    // A run that has begun, and does not end before it is told to.
    let (steps, waiting) = tokio::sync::mpsc::channel(4);
    let step = |step| v1::DocumentsIndexRequest { step: Some(step) };
    let begin = v1::IndexBegin { collection: "docs".to_owned(), ..Default::default() };
    steps.send(step(Step::Begin(begin))).await.unwrap();
    let text = v1::SourceDocument {
        source: "held.md".to_owned(),
        content: Some(v1::source_document::Content::Text("held".to_owned())),
        ..Default::default()
    };
    let documents = v1::IndexDocuments { documents: vec![text], ..Default::default() };
    steps.send(step(Step::Documents(documents))).await.unwrap();
    let requests = tokio_stream::wrappers::ReceiverStream::new(waiting);
    let mut answers = client.documents().index(requests).await.unwrap().into_inner();
    let has_begun = async {
        loop {
            let told = answers.message().await.unwrap().unwrap();
            assert!(!told.committed, "the run is under way: {told:?}");
            if told.progress.is_some_and(|progress| progress.added > 0) {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, has_begun).await.unwrap();

    let exit = command(&server, folder.path(), &["ingest", "notes", "--refuse"]).await.expect(1);
    assert!(exit.stderr.contains("aborted"), "{}", exit.stderr);
    assert_eq!(client.count("docs").await, 0);
    let path = folder.path().to_owned();
    let url = server.url();
    let waits = tokio::spawn(async move {
        run(toller().args(["ingest", "notes"]).env("TOLLER_SERVER", url).current_dir(path)).await
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waits.is_finished(), "another run is waited for");
    steps.send(step(Step::Commit(v1::IndexCommit {}))).await.unwrap();
    waits.await.unwrap().expect(0);
    assert_eq!(sources(&client).await, ["held.md", "notes/below/plain.txt", "notes/book.md"]);
}

/// A folder `notes` of so many files that embedding them takes a moment.
fn many_notes() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    fs::create_dir(&notes).unwrap();
    for number in 0..MANY {
        let paragraphs: String = (0..40)
            .map(|paragraph| {
                format!("Note {number}, paragraph {paragraph}. {}\n\n", "A retriever brings it back. ".repeat(12))
            })
            .collect();
        fs::write(notes.join(format!("{number:03}.md")), paragraphs).unwrap();
    }
    folder
}

/// Files of [`many_notes`].
const MANY: usize = 15;

/// A run whose server is killed in the middle; none where all was committed before.
async fn run_whose_server_is_killed(folder: &Path, expected: &[(String, String)]) -> Option<()> {
    let settings = Settings::new().on_disk().set("telemetry.metrics_listen", "127.0.0.1:0");
    let mut server = settings.start().await;
    let metrics = server.metrics().await;
    let address = server.address.to_string();
    let mut ingesting = toller();
    ingesting.args(["ingest", "notes", "--json"]).env("TOLLER_SERVER", server.url()).current_dir(folder);
    let ingesting = tokio::spawn(async move { run(&mut ingesting).await });
    let third = expected.len() as f64 / 3.0;
    metrics.until("toller_store_written_records_total", &[], |written| written >= third).await;
    server.kill().await;
    let server = settings.set("server.listen", &address).start().await;
    let exit = ingesting.await.unwrap().expect(0);
    let counts = parsed(&exit);
    // It was committed before, whether or not its end was told.
    if counts["unchanged"] == MANY || !exit.stderr.contains("beginning the run again") {
        return None;
    }
    let resumed = counts["resumed"].as_u64().unwrap();
    assert!(resumed > 0 && counts["embedded"].as_u64().unwrap() < expected.len() as u64, "{counts}");
    assert_eq!(state(&server.client().await).await, expected);
    assert_eq!(ingest(&server, folder, &[]).await["unchanged"], MANY);
    Some(())
}

#[tokio::test]
async fn a_run_whose_server_is_killed_goes_on_and_ends_as_an_unbroken_one() {
    let folder = many_notes();
    let unbroken = Settings::new().on_disk().start().await;
    ingest(&unbroken, folder.path(), &[]).await;
    let expected = state(&unbroken.client().await).await;
    unbroken.stop().await.expect(0);
    in_time(async || run_whose_server_is_killed(folder.path(), &expected).await).await;
}

/// A run that is interrupted in the middle; none where all was committed before.
async fn run_that_is_interrupted(folder: &Path) -> Option<()> {
    let mut server = Settings::new().set("telemetry.metrics_listen", "127.0.0.1:0").start().await;
    let metrics = server.metrics().await;
    let mut ingesting = toller();
    ingesting.args(["ingest", "notes"]).env("TOLLER_SERVER", server.url()).current_dir(folder);
    let child = ingesting.spawn().unwrap();
    let id = child.id().unwrap().to_string();
    metrics.until("toller_store_written_records_total", &[], |written| written >= 100.0).await;
    // Until it is waited for, nobody else has its id.
    assert!(std::process::Command::new("sh").args(["-c", &format!("kill -INT {id}")]).status().unwrap().success());
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await.unwrap().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let visible = server.client().await.count("docs").await;
    let counts = ingest(&server, folder, &[]).await;
    if counts["unchanged"] == MANY {
        return None;
    }
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("stopped by SIGINT"), "{said}");
    assert_eq!(visible, 0, "nothing of it is visible");
    assert_eq!(counts["added"], MANY);
    assert!(counts["resumed"].as_u64().unwrap() > 0, "{counts}");
    Some(())
}

#[tokio::test]
async fn a_run_that_is_interrupted_shows_nothing_and_the_next_one_goes_on() {
    let folder = many_notes();
    in_time(async || run_that_is_interrupted(folder.path()).await).await;
}
