//! The command line against a running server: data on standard output, talk on standard error, and honest exit codes.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, BufReader};
use toller_api::v1;
use toller_gateway::config::SETTINGS;
use toller_tests::command::{Exit, run, toller};
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};

/// Runs `toller ARGUMENTS` against a server, in a folder.
pub(crate) async fn command(server: &Server, folder: &Path, arguments: &[&str]) -> Exit {
    run(toller().args(arguments).env("TOLLER_SERVER", server.url()).current_dir(folder)).await
}

/// What a command printed with `--json`.
pub(crate) fn parsed(exit: &Exit) -> Value {
    serde_json::from_str(&exit.stdout).unwrap_or_else(|fault| panic!("{:?} is no JSON: {fault}", exit.stdout))
}

/// A folder `notes` with two good files and several bad ones.
pub(crate) fn notes() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let notes = folder.path().join("notes");
    fs::create_dir_all(notes.join("below")).unwrap();
    let chapters: String = (1..=12)
        .map(|number| format!("# Chapter {number}\n\n{}\n\n", "Retrievers bring back what was shot. ".repeat(40)))
        .collect();
    fs::write(notes.join("book.md"), chapters).unwrap();
    fs::write(notes.join("below/plain.txt"), "The toller is the smallest of the retrievers.\n").unwrap();
    fs::write(notes.join("empty.txt"), " \n").unwrap();
    fs::write(notes.join("binary.txt"), b"a\0b").unwrap();
    fs::write(notes.join("picture.png"), b"\x89PNG").unwrap();
    fs::write(notes.join(".hidden.md"), "# not for you").unwrap();
    folder
}

#[tokio::test]
async fn a_query_prints_a_table_or_json() {
    let server = Settings::new().start().await;
    let folder = notes();
    command(&server, folder.path(), &["ingest", "notes"]).await.expect(0);
    let query = async |arguments: &[&str]| command(&server, folder.path(), &[&["query"], arguments].concat()).await;

    let exit = query(&["the smallest dog", "-k", "30"]).await.expect(0);
    for word in
        ["rank", "score", "relevance", "source", "snippet", "notes/below/plain.txt", "The toller is the smallest"]
    {
        assert!(exit.stdout.contains(word), "{word} is missing:\n{}", exit.stdout);
    }
    let answer = parsed(&query(&["the smallest dog", "-k", "3", "--json"]).await.expect(0));
    let hits = answer["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 3);
    let client = server.client().await;
    let search = v1::VectorStoreRetriever { k: Some(3), ..search_in("docs") };
    for (printed, hit) in hits.iter().zip(client.search(text_query("the smallest dog"), search).await) {
        assert_eq!(printed["document"]["id"], hit.document.as_ref().unwrap().id_text());
        assert_eq!(printed["document"]["page_content"], hit.document.as_ref().unwrap().page_content);
        assert_eq!(printed["rank"], hit.rank);
        assert!((printed["score"].as_f64().unwrap() - hit.score).abs() < 1e-6);
        assert!((printed["relevance"].as_f64().unwrap() - hit.relevance.unwrap()).abs() < 1e-6);
    }
    let only = r#"{"source": "notes/below/plain.txt", "chunk": {"$lt": 5}}"#;
    let answer = parsed(&query(&["chapter", "--filter", only, "-k", "100", "--json"]).await.expect(0));
    assert_eq!(answer["hits"].as_array().unwrap().len(), 1);
    let mmr = ["chapter", "--search-type", "mmr", "--fetch-k", "9", "--lambda-mult", "0.3", "-k", "2", "--json"];
    let answer = parsed(&query(&mmr).await.expect(0));
    assert_eq!(answer["hits"][1]["sources"].as_array().unwrap().len(), 2);
    let exit = query(&["chapter", "--filter", r#"{"source": "nowhere"}"#]).await.expect(0);
    assert_eq!((exit.stdout.as_str(), exit.stderr.trim()), ("", "no hits"));
    let answer = parsed(&query(&["chapter", "--filter", r#"{"source": "nowhere"}"#, "--json"]).await.expect(0));
    assert_eq!(answer, json!({"hits": []}));

    fs::write(folder.path().join("best.json"), r#"{"name": "best", "vector_store": {"collection": "docs", "k": 1}}"#)
        .unwrap();
    command(&server, folder.path(), &["retrievers", "put", "best.json"]).await.expect(0);
    let answer = parsed(&query(&["the smallest dog", "--retriever", "best", "--json"]).await.expect(0));
    assert_eq!(answer["hits"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn errors_are_readable_and_are_exit_codes() {
    let server = Settings::new().start().await;
    server.client().await.create("docs").await;
    let folder = tempfile::tempdir().unwrap();
    let cases: [(&[&str], i32, &[&str]); 10] = [
        (&["query", "x", "--collection", "nowhere"], 1, &["not found", "nowhere"]),
        (&["query", "x", "-k", "0"], 1, &["invalid argument", "search.k"]),
        (&["query", "x", "--fetch-k", "5"], 1, &["search.fetch_k", "mmr"]),
        (&["query", "x", "--filter", "{"], 2, &["--filter"]),
        (&["query", "x", "--filter", r#"{"a": {"$gt3": 1}}"#], 2, &["$gt3"]),
        (&["query", "x", "--server", "https://127.0.0.1:1"], 2, &["https"]),
        (&["query", "x", "--server", "127.0.0.1:1"], 1, &["cannot connect", "127.0.0.1:1", "--server"]),
        (&["documents", "delete", "docs"], 2, &["--all"]),
        (&["documents", "delete", "docs", "--all"], 2, &["--yes"]),
        (&["collections", "create", "a/b"], 1, &["name", "ASCII"]),
    ];
    for (arguments, code, words) in cases {
        let exit = command(&server, folder.path(), arguments).await;
        assert_eq!(exit.code, Some(code), "{arguments:?}: {}", exit.stderr);
        assert_eq!(exit.stdout, "", "{arguments:?}");
        for word in words {
            assert!(exit.stderr.contains(word), "{arguments:?}: {word} is missing: {}", exit.stderr);
        }
    }
    run(&mut toller()).await.expect(2);
    run(toller().arg("--version")).await.expect(0);
}

#[tokio::test]
async fn collections_are_made_shown_and_deleted() {
    let server = Settings::new().start().await;
    let folder = tempfile::tempdir().unwrap();
    let collections =
        async |arguments: &[&str]| command(&server, folder.path(), &[&["collections"], arguments].concat()).await;
    collections(&["create", "docs", "--description", "for people", "--label", "team=search"]).await.expect(0);
    let made =
        parsed(&collections(&["create", "points", "--dimension", "2", "--metric", "dot", "--json"]).await.expect(0));
    assert_eq!((&made["metric"], &made["fingerprint"]["provider"]), (&json!("dot"), &json!("client")), "{made}");
    assert_eq!(made["durability"], "none");
    let exit = collections(&["create", "docs"]).await.expect(1);
    assert!(exit.stderr.contains("already exists"), "{}", exit.stderr);

    let exit = collections(&["list"]).await.expect(0);
    assert!(exit.stdout.contains("points") && exit.stdout.contains("for people"), "{}", exit.stdout);
    let list = parsed(&collections(&["list", "--json"]).await.expect(0));
    assert_eq!(list["collections"].as_array().unwrap().len(), 2);
    let shown = parsed(&collections(&["get", "docs", "--json"]).await.expect(0));
    assert_eq!((&shown["labels"], &shown["document_count"]), (&json!({"team": "search"}), &json!(0)), "{shown}");
    let exit = collections(&["get", "docs"]).await.expect(0);
    assert!(exit.stdout.contains("durability") && exit.stdout.contains("cosine"), "{}", exit.stdout);

    collections(&["delete", "docs"]).await.expect(2);
    collections(&["delete", "docs", "--yes"]).await.expect(0);
    let exit = collections(&["delete", "docs", "--yes"]).await.expect(1);
    assert!(exit.stderr.contains("not found"), "{}", exit.stderr);
}

#[tokio::test]
async fn documents_are_counted_listed_read_and_deleted() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let documents = (0..5).map(|number| point(&number.to_string(), &[1.0, 0.5]).with("n", int((1 << 53) + number)));
    client.add("points", documents.collect()).await;
    let folder = tempfile::tempdir().unwrap();
    let documents =
        async |arguments: &[&str]| command(&server, folder.path(), &[&["documents"], arguments].concat()).await;

    assert_eq!(documents(&["count", "points"]).await.expect(0).stdout, "5\n");
    let filter = r#"{"n": {"$gt": 9007199254740993}}"#;
    assert_eq!(
        parsed(&documents(&["count", "points", "--filter", filter, "--json"]).await.expect(0)),
        json!({"count": 3})
    );
    let listed = parsed(&documents(&["list", "points", "--limit", "2", "--json"]).await.expect(0));
    let ids: Vec<&Value> = listed["documents"].as_array().unwrap().iter().map(|document| &document["id"]).collect();
    assert_eq!(ids, ["0", "1"]);
    let exit = documents(&["get", "points", "1", "--json", "--with-vectors"]).await.expect(0);
    assert!(exit.stdout.contains("9007199254740993"), "integers stay exact: {}", exit.stdout);
    assert_eq!(parsed(&exit)["documents"][0]["vector"], json!([1.0, 0.5]));
    let exit = documents(&["get", "points", "1", "x"]).await.expect(1);
    assert!(exit.stdout.contains("text of 1") && exit.stderr.contains("\"x\""), "{exit:?}");

    documents(&["delete", "points", "0", "x"]).await.expect(0);
    let deleted = parsed(&documents(&["delete", "points", "--filter", filter, "--yes", "--json"]).await.expect(0));
    assert_eq!(deleted, json!({"deleted": 3}));
    assert_eq!(client.all("points").await.ids(), ["1"]);
    documents(&["delete", "points", "--all", "--yes"]).await.expect(0);
    assert_eq!(client.count("points").await, 0);
}

#[tokio::test]
async fn retrievers_are_stored_shown_and_checked() {
    let server = Settings::new().without_model().start().await;
    server.client().await.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let folder = tempfile::tempdir().unwrap();
    let retrievers =
        async |arguments: &[&str]| command(&server, folder.path(), &[&["retrievers"], arguments].concat()).await;
    let declared = json!({
        "name": "best",
        "tags": ["demo"],
        "vector_store": {"collection": "points", "search_type": "mmr", "k": 2, "filter": {"lang": {"$ne": "en"}}}
    });
    fs::write(folder.path().join("good.json"), declared.to_string()).unwrap();
    fs::write(folder.path().join("bad.json"), r#"{"vector_store": {"collection": "points", "k": 0}}"#).unwrap();
    fs::write(folder.path().join("typo.json"), r#"{"vector_store": {"collection": "points", "kk": 1}}"#).unwrap();

    retrievers(&["validate", "good.json"]).await.expect(0);
    let exit = retrievers(&["validate", "bad.json"]).await.expect(1);
    assert!(exit.stdout.contains("vector_store.k"), "{}", exit.stdout);
    let exit = retrievers(&["put", "typo.json"]).await.expect(1);
    assert!(exit.stderr.contains("typo.json") && exit.stderr.contains("kk"), "{}", exit.stderr);
    retrievers(&["put", "good.json", "--expected-version", "0"]).await.expect(0);
    retrievers(&["put", "good.json", "--expected-version", "0"]).await.expect(1);
    let shown = retrievers(&["get", "best"]).await.expect(0);
    assert_eq!(parsed(&shown)["vector_store"]["filter"], declared["vector_store"]["filter"]);
    fs::write(folder.path().join("shown.json"), &shown.stdout).unwrap();
    retrievers(&["put", "shown.json"]).await.expect(0);
    assert!(retrievers(&["list"]).await.expect(0).stdout.contains("best"));
    retrievers(&["delete", "best"]).await.expect(0);
    retrievers(&["get", "best"]).await.expect(1);
}

#[tokio::test]
async fn health_is_a_word_and_an_exit_code() {
    let server = Settings::new().without_model().start().await;
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(command(&server, folder.path(), &["health"]).await.expect(0).stdout, "SERVING\n");
    let exit = command(&server, folder.path(), &["health", "--service", "toller.v1.Retrieval", "--wait", "5"]).await;
    assert_eq!(exit.expect(0).stdout, "SERVING\n");
    let exit = command(&server, folder.path(), &["health", "--service", "nobody"]).await.expect(1);
    assert!(exit.stderr.contains("nobody"), "{}", exit.stderr);
    let exit = run(toller().args(["health", "--server", "127.0.0.1:1"])).await.expect(1);
    assert!(exit.stderr.contains("cannot connect"), "{}", exit.stderr);
}

#[tokio::test]
async fn a_new_key_opens_a_server_that_has_its_snippet() {
    let made = run(toller().args(["key", "new", "--name", "web \"front\"", "--tenant", "acme", "--role", "admin"]))
        .await
        .expect(0);
    let (key, snippet) = made.stdout.split_once('\n').unwrap();
    assert!(!snippet.contains(key), "the configuration holds the hash alone");
    let server = Settings::new().without_model().file(snippet).start().await;
    let folder = tempfile::tempdir().unwrap();
    let exit = command(&server, folder.path(), &["collections", "list"]).await.expect(1);
    assert!(exit.stderr.contains("unauthenticated") && exit.stderr.contains("--api-key"), "{}", exit.stderr);
    command(&server, folder.path(), &["collections", "create", "points", "--dimension", "2", "--api-key", key])
        .await
        .expect(0);
    let exit =
        run(toller().args(["collections", "list"]).env("TOLLER_SERVER", server.url()).env("TOLLER_API_KEY", key)).await;
    assert!(exit.expect(0).stdout.contains("points"));
    let again = run(toller().args(["key", "new", "--name", "x"])).await.expect(0);
    assert_ne!(again.stdout.lines().next(), Some(key));
}

#[tokio::test]
async fn help_of_the_server_has_every_setting() {
    let help = run(toller().args(["serve", "--help"])).await.expect(0).stdout;
    for setting in SETTINGS {
        assert!(help.contains(&format!("--{}", setting.flag())), "{} has no flag", setting.key);
        assert!(help.contains(&setting.env()), "{} has no variable", setting.key);
    }
    for command in [
        "serve",
        "ingest",
        "watch",
        "query",
        "collections",
        "documents",
        "operations",
        "retrievers",
        "backup",
        "restore",
        "model",
        "health",
        "key",
        "spans",
    ] {
        assert!(run(toller().arg("--help")).await.expect(0).stdout.contains(command));
        run(toller().args([command, "--help"])).await.expect(0);
    }
}

#[tokio::test]
async fn a_dump_of_langchain_becomes_a_collection() {
    let server = Settings::new().without_model().start().await;
    let folder = tempfile::tempdir().unwrap();
    let dump = json!({
        "z": {"id": "z", "vector": [1.0, 0.0], "text": "first", "metadata": {"n": 9007199254740993_i64, "tags": ["a", null]}},
        "a": {"id": "a", "vector": [0.6, 0.8], "text": "second", "metadata": {}},
    });
    fs::write(folder.path().join("dump.json"), dump.to_string()).unwrap();
    let import = async |arguments: &[&str]| {
        command(&server, folder.path(), &[&["collections", "import"], arguments].concat()).await
    };
    let imported = parsed(&import(&["notes", "dump.json", "--json"]).await.expect(0));
    assert_eq!((&imported["documents"], &imported["created"]), (&json!(2), &json!(true)), "{imported}");
    let client = server.client().await;
    let expected = document("z", "first")
        .vector(&[1.0, 0.0])
        .with("n", int(9_007_199_254_740_993))
        .with("tags", list([string("a"), null()]));
    assert_eq!(client.get("notes", &["z"]).await, [expected]);
    assert_eq!(client.search(vector_query(&[0.0, 1.0]), search_in("notes")).await.ids(), ["a", "z"]);
    import(&["notes", "dump.json"]).await.expect(0);
    assert_eq!(client.count("notes").await, 2, "importing again replaces");

    fs::write(folder.path().join("bad.json"), r#"{"a": {"id": "a", "vector": [NaN], "text": "", "metadata": {}}}"#)
        .unwrap();
    let exit = import(&["other", "bad.json"]).await.expect(1);
    assert!(exit.stderr.contains("bad.json") && exit.stderr.contains("NaN"), "{}", exit.stderr);
    let exit = import(&["other", "missing.json"]).await.expect(1);
    assert!(exit.stderr.contains("missing.json"), "{}", exit.stderr);
    let exit = command(&server, folder.path(), &["collections", "list", "--json"]).await.expect(0);
    assert_eq!(parsed(&exit)["collections"].as_array().unwrap().len(), 1, "a dump that cannot be read makes nothing");
}

#[tokio::test]
async fn spans_are_received_and_printed() {
    let mut receiver =
        toller().args(["spans", "--listen", "127.0.0.1:0", "--name-prefix", "retrieval"]).spawn().unwrap();
    let mut said = BufReader::new(receiver.stderr.take().unwrap()).lines();
    let line = said.next_line().await.unwrap().unwrap();
    assert!(line.contains("http://127.0.0.1:"), "{line}");
    // The variables that the next line names, as a person would copy them.
    let variables = said.next_line().await.unwrap().unwrap();
    let settings = variables.split_whitespace().fold(Settings::new().without_model(), |settings, variable| {
        let (name, value) = variable.split_once('=').unwrap();
        settings.variable(name, value)
    });
    let server = settings.start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    client.search(vector_query(&[1.0, 0.0]), search_in("points")).await;
    server.stop().await.expect(0);
    let id = receiver.id().unwrap().to_string();
    assert!(std::process::Command::new("sh").args(["-c", &format!("kill -TERM {id}")]).status().unwrap().success());
    let output = tokio::time::timeout(toller_tests::PATIENCE, receiver.wait_with_output()).await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let printed = String::from_utf8(output.stdout).unwrap();
    for word in
        ["retrieval vector_store", "toller.retriever.kind", "toller.store", "memory", "toller.collection", "points"]
    {
        assert!(printed.contains(word), "{word} is missing:\n{printed}");
    }
    assert!(!printed.contains("toller.v1.Retrieval/Search"), "only the prefix that was asked for:\n{printed}");
}
