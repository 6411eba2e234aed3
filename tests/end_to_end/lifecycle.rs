//! The life of a server: what it leaves and finds again, what keeps it from starting, and how it ends.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use toller_api::v1;
use toller_tests::client::Client;
use toller_tests::command::{run, toller};
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use toller_tests::{PATIENCE, TINY_MODEL};
use tonic::{Code, Response, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;

use crate::expect;
use crate::remote_embedder::remote;

async fn collections(client: &Client) -> Vec<v1::Collection> {
    client.collections().list(v1::CollectionsListRequest {}).await.unwrap().into_inner().collections
}

async fn retrievers(client: &Client) -> Vec<v1::StoredRetriever> {
    client.retrievers().list(v1::RetrieversListRequest {}).await.unwrap().into_inner().retrievers
}

#[tokio::test]
async fn an_orderly_stop_keeps_everything_for_the_next_run() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    let described = v1::CollectionsCreateRequest {
        name: "docs".to_owned(),
        description: "ünï".to_owned(),
        labels: [("a".to_owned(), "b".to_owned())].into(),
        ..Default::default()
    };
    client.collections().create(described).await.unwrap();
    client.create_for_vectors("points", 2, v1::Metric::Euclidean).await;
    client.create_for_vectors("empty", 7, v1::Metric::Dot).await;
    let typed = point("typed", &[-0.0, f32::MIN_POSITIVE])
        .with("null", null())
        .with("flag", boolean(false))
        .with("int", int((1 << 53) + 1))
        .with("double", double(1.0))
        .with("tiny", double(5e-324))
        .with("text", string("\u{0}\n\"👩‍👩‍👧"))
        .with("list", list([null(), list([]), map([("k", int(i64::MIN))])]));
    // Equal distances, inserted in an order that is not that of the ids.
    client.add("points", vec![point("z", &[1.0, 0.0]), point("a", &[0.0, 1.0]), typed, point("m", &[-1.0, 0.0])]).await;
    client.add("docs", vec![document("x", "the smallest dog"), document("y", ""), document("gone", "")]).await;
    let selector = v1::documents_delete_request::Selector::Ids(v1::DocumentIds { ids: vec!["gone".to_owned()] });
    let delete = v1::DocumentsDeleteRequest { collection: "docs".to_owned(), selector: Some(selector) };
    client.documents().delete(delete).await.unwrap();
    let put = v1::RetrieversPutRequest {
        retriever: Some(vector_store("best", mmr_in("points", 2, 9, 0.25))),
        expected_version: None,
    };
    client.retrievers().put(put).await.unwrap();

    let everything = async |client: &Client| {
        let hits = client.search(vector_query(&[0.0, 0.0]), search_in("points")).await;
        let found = client.search(text_query("dogs"), search_in("docs")).await;
        (
            collections(client).await,
            retrievers(client).await,
            client.all("docs").await,
            client.all("points").await,
            hits,
            found,
        )
    };
    let before = everything(&client).await;
    let server = server.restart().await;
    assert_eq!(everything(&server.client().await).await, before);
    // A second time, from what the second run left, by Ctrl-C.
    let settings = server.settings.clone();
    server.signal("INT");
    server.ended().await.expect(0);
    let server = settings.start().await;
    let client = server.client().await;
    assert_eq!(everything(&client).await, before);
    client.add("docs", vec![document("new", "can be written")]).await;
    assert_eq!(client.count("docs").await, 3);
}

#[tokio::test]
async fn a_kill_loses_what_was_not_dumped_as_the_durability_says() {
    let server = Settings::new().without_model().start().await;
    let settings = server.settings.clone();
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    client.add("points", vec![point("before", &[1.0, 0.0])]).await;
    let server = server.restart().await;
    let client = server.client().await;
    assert_eq!(collections(&client).await[0].durability(), v1::Durability::None);
    client.add("points", vec![point("after", &[0.0, 1.0])]).await;
    server.kill().await;

    let server = settings.start().await;
    assert_eq!(server.client().await.all("points").await.ids(), ["before"]);
}

#[tokio::test]
async fn a_damaged_dump_keeps_the_server_from_starting_and_is_left_alone() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    client.add("points", vec![point("a", &[1.0, 0.0]), point("b", &[0.0, 1.0])]).await;
    let settings = server.settings.clone();
    server.stop().await.expect(0);
    let file = settings.dump_file();
    let good = fs::read(&file).unwrap();

    let mut changed = good.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    for (what, content) in [
        ("torn", good[..middle].to_vec()),
        ("without its end", good[..good.len() - 2].to_vec()),
        ("empty", Vec::new()),
        ("garbage", b"\x00\xff garbage".to_vec()),
        ("one bit off", changed),
    ] {
        fs::write(&file, &content).unwrap();
        let exit = settings.run().await.expect(1);
        assert!(exit.stderr.contains("memory.dump"), "{what}: the file is named: {}", exit.stderr);
        assert_eq!(fs::read(&file).unwrap(), content, "{what}: it is left as it was");
    }
    fs::write(&file, good).unwrap();
    assert_eq!(settings.start().await.client().await.count("points").await, 2);
}

#[tokio::test]
async fn a_dump_that_cannot_be_written_is_an_exit_code() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    fs::remove_dir_all(server.settings.data_dir()).unwrap();
    let exit = server.stop().await.expect(1);
    assert!(exit.stderr.contains("error:") && exit.stderr.contains("data"), "{}", exit.stderr);
}

#[tokio::test]
async fn one_server_at_a_time_has_a_data_folder() {
    let settings = Settings::new().without_model();
    let server = settings.start().await;
    let exit = settings.run().await.expect(1);
    let folder = settings.data_dir().display().to_string();
    assert!(exit.stderr.contains(&folder) && exit.stderr.contains("in use"), "{}", exit.stderr);
    // The first one is not disturbed, and a kill leaves no lock behind.
    server.client().await.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    server.kill().await;
    settings.start().await.stop().await.expect(0);
}

#[tokio::test]
async fn what_keeps_a_server_from_starting_is_said_with_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("file");
    fs::write(&in_the_way, "").unwrap();
    let below = in_the_way.join("data").display().to_string();
    let in_the_way = in_the_way.display().to_string();
    let missing = folder.path().join("no-model").display().to_string();

    let torn = folder.path().join("torn-model");
    copy_folder(Path::new(TINY_MODEL), &torn);
    let weights = torn.join("model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() / 2]).unwrap();
    let torn = torn.display().to_string();
    let empty = folder.path().join("empty-model");
    fs::create_dir(&empty).unwrap();
    let empty = empty.display().to_string();

    let locked = folder.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, Permissions::from_mode(0o555)).unwrap();
    let within_locked = locked.join("data").display().to_string();

    let without_model = || Settings::new().without_model();
    let mut cases: Vec<(&str, Settings, i32, Vec<&str>)> = vec![
        ("a port in use", without_model().set("server.listen", &port), 1, vec![&port]),
        ("a metrics port in use", without_model().set("telemetry.metrics_listen", &port), 1, vec![&port]),
        ("a file as data folder", without_model().set("data.dir", &in_the_way), 1, vec![&in_the_way, "--data-dir"]),
        ("a data folder below a file", without_model().set("data.dir", &below), 1, vec![&below, "--data-dir"]),
        (
            "a folder for backups below a file",
            without_model().set("backup.spool_dir", &below),
            1,
            vec![&below, "backup.spool_dir"],
        ),
        ("a missing model folder", Settings::new().set("embedding.model", &missing), 1, vec![&missing]),
        ("a folder without a model", Settings::new().set("embedding.model", &empty), 1, vec![&empty, "config.json"]),
        ("torn weights", Settings::new().set("embedding.model", &torn), 1, vec![&torn, "model.safetensors"]),
        ("an unknown key", without_model().file("[limits]\nmax_j = 1"), 2, vec!["max_j", "toller.toml"]),
        ("a key out of range", without_model().file("[limits]\nmax_k = 0"), 2, vec!["limits.max_k", "toller.toml"]),
        ("no TOML", without_model().file("what?"), 2, vec!["toller.toml"]),
        ("a bad flag", without_model().set("limits.max_k", "many"), 2, vec!["limits.max_k", "--limits-max-k"]),
        (
            "a bad variable",
            without_model().variable("TOLLER_LIMITS_MAX_QUERIES", "0"),
            2,
            vec!["limits.max_queries", "TOLLER_LIMITS_MAX_QUERIES"],
        ),
        ("a bad level", without_model().set("telemetry.log_level", "toller=loud"), 2, vec!["toller=loud"]),
        (
            "no address of the embedder",
            Settings::new().unset("embedding.model").set("embedding.provider", "toller"),
            2,
            vec!["embedding.address"],
        ),
        (
            "a hash that is none",
            without_model().file("[[auth.keys]]\nname = \"a\"\nsha256 = \"xyz\"\nrole = \"reader\""),
            2,
            vec!["auth.keys[0]"],
        ),
        (
            "a role that is none",
            without_model().file("[[auth.keys]]\nname = \"a\"\nsha256 = \"00\"\nrole = \"king\""),
            2,
            vec!["king", "toller.toml"],
        ),
    ];
    // Root may write everywhere, and then there is nothing to refuse.
    if fs::create_dir(locked.join("probe")).is_err() {
        let settings = without_model().set("data.dir", &within_locked);
        cases.push(("a data folder without rights", settings, 1, vec![&within_locked, "--data-dir"]));
    }
    for (what, settings, code, words) in cases {
        let exit = settings.run().await;
        assert_eq!(exit.code, Some(code), "{what}: {}", exit.stderr);
        for word in words {
            assert!(exit.stderr.contains(word), "{what}: {word} is named: {}", exit.stderr);
        }
        assert!(exit.stderr.contains("error: ") && !exit.stderr.contains("panicked"), "{what}: {}", exit.stderr);
        assert!(!settings.dump_file().exists(), "{what}: nothing is left behind");
    }
    run(toller().args(["serve", "--no-such-flag"])).await.expect(2);
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[tokio::test]
async fn another_model_is_refused_for_texts_and_all_else_works() {
    let settings = Settings::new();
    let server = settings.start().await;
    let client = server.client().await;
    client.create("docs").await;
    client.add("docs", vec![document("a", "one"), document("b", "two")]).await;
    let query = elements(&client.embed_query("one").await.vector.unwrap());
    server.stop().await.expect(0);

    let server = settings.clone().set("embedding.query_instruction", "find: ").start().await;
    let client = server.client().await;
    let mut refused = Vec::new();
    let add = v1::DocumentsAddRequest {
        collection: "docs".to_owned(),
        documents: vec![document("c", "three")],
        ..Default::default()
    };
    let answer = client.documents().add(add).await;
    refused.push(expect::refused_with("a text to write", answer, Code::FailedPrecondition, "FINGERPRINT_MISMATCH"));
    let search =
        v1::SearchRequest { query: Some(text_query("one")), search: Some(search_in("docs")), ..Default::default() };
    let answer = client.retrieval().search(search).await;
    refused.push(expect::refused_with("a text to find", answer, Code::FailedPrecondition, "FINGERPRINT_MISMATCH"));
    for status in refused {
        for part in ["\"docs\"", "Represent this sentence", "find: "] {
            assert!(status.message().contains(part), "{part} is missing: {}", status.message());
        }
    }
    // Reading, deleting and the client's own vectors ask nothing of the model.
    assert_eq!(client.get("docs", &["a"]).await[0].page_content, "one");
    assert_eq!(client.all("docs").await.ids(), ["a", "b"]);
    assert_eq!(client.search(vector_query(&query), search_in("docs")).await.len(), 2);
    let selector = v1::documents_delete_request::Selector::Ids(v1::DocumentIds { ids: vec!["a".to_owned()] });
    let delete = v1::DocumentsDeleteRequest { collection: "docs".to_owned(), selector: Some(selector) };
    client.documents().delete(delete).await.unwrap();
    assert_eq!(client.count("docs").await, 1);
    client.create("others").await;
    server.stop().await.expect(0);

    let server = settings.start().await;
    let client = server.client().await;
    assert_eq!(client.find("one", search_in("docs")).await, ["b"], "the first model finds its own again");
    let without_model = settings.without_model();
    server.stop().await.expect(0);
    let server = without_model.start().await;
    let search =
        v1::SearchRequest { query: Some(text_query("one")), search: Some(search_in("docs")), ..Default::default() };
    let answer = server.client().await.retrieval().search(search).await;
    expect::refused_with("a text without a model", answer, Code::FailedPrecondition, "NO_EMBEDDING_MODEL");
}

/// A gateway whose model is another process, and a call that runs as long as that process is stopped.
pub(crate) struct HeldCall {
    pub(crate) embedder: Server,
    pub(crate) gateway: Server,
    pub(crate) client: Client,
}

impl HeldCall {
    pub(crate) async fn servers(settings: Settings) -> Self {
        let embedder = Settings::new().start().await;
        let gateway = remote(settings, &embedder.url()).start().await;
        let client = gateway.client().await;
        Self { embedder, gateway, client }
    }

    pub(crate) fn start(&self) -> JoinHandle<Result<Response<v1::EmbedDocumentsResponse>, Status>> {
        self.embedder.signal("STOP");
        let mut embedder = self.client.embedder();
        let texts = vec!["held".to_owned()];
        tokio::spawn(async move {
            embedder.embed_documents(v1::EmbedDocumentsRequest { texts, ..Default::default() }).await
        })
    }
}

#[tokio::test]
async fn a_drain_lets_running_calls_finish_and_takes_no_new_ones() {
    let mut held = HeldCall::servers(Settings::new().set("telemetry.metrics_listen", "127.0.0.1:0")).await;
    let metrics = held.gateway.metrics().await;
    let server = &held.gateway;
    held.client.create("docs").await;
    let watcher = server.client().await;
    let mut watch = watcher.health().watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);

    let running = held.start();
    // The watch is a call too.
    metrics.until("rpc_server_active_calls", &[], |active| active >= 2.0).await;
    server.signal("TERM");

    let status = timeout(PATIENCE, watch.message()).await.expect("the health changes").unwrap().unwrap();
    assert_eq!(status.status(), ServingStatus::NotServing);
    assert!(!running.is_finished(), "health says so before the running call has ended");
    let give_up = Instant::now() + PATIENCE;
    while TcpStream::connect(server.address).await.is_ok() {
        assert!(Instant::now() < give_up, "new connections are refused in the end");
    }
    assert!(!running.is_finished(), "new connections are refused while the running call goes on");

    held.embedder.signal("CONT");
    let answer = timeout(PATIENCE, running).await.unwrap().unwrap().expect("the running call finishes").into_inner();
    assert_eq!(answer.vectors.len(), 1);
    // An open watch does not keep the server from ending, nor does it lose the dump.
    let settings = server.settings.clone();
    held.gateway.ended().await.expect(0);
    assert!(settings.dump_file().is_file());
}

#[tokio::test]
async fn within_the_grace_of_a_drain_late_callers_are_still_answered() {
    let server = Settings::new().without_model().set("server.drain_grace_ms", "600000").start().await;
    let client = server.client().await;
    let mut watch = client.health().watch(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(watch.message().await.unwrap().unwrap().status(), ServingStatus::Serving);
    server.signal("TERM");
    let status = timeout(PATIENCE, watch.message()).await.expect("the health changes").unwrap().unwrap();
    assert_eq!(status.status(), ServingStatus::NotServing);
    // One that has not heard of it yet comes with a new connection.
    assert_eq!(collections(&server.client().await).await, []);
    server.kill().await;
}

#[tokio::test]
async fn a_drain_ends_at_its_time_limit_whatever_runs() {
    let settings = Settings::new().set("telemetry.metrics_listen", "127.0.0.1:0").set("server.drain_timeout_ms", "50");
    let mut held = HeldCall::servers(settings).await;
    let metrics = held.gateway.metrics().await;
    held.client.create("docs").await;
    let running = held.start();
    metrics.until("rpc_server_active_calls", &[], |active| active >= 1.0).await;
    held.gateway.signal("TERM");
    let settings = held.gateway.settings.clone();
    held.gateway.ended().await.expect(0);
    let status = timeout(PATIENCE, running).await.unwrap().unwrap().expect_err("the call is cut off");
    assert!(
        matches!(status.code(), Code::Unavailable | Code::Cancelled | Code::Unknown | Code::Internal),
        "{status:?}"
    );
    held.embedder.signal("CONT");
    let settings = settings.set("server.drain_timeout_ms", "30000");
    assert_eq!(collections(&settings.start().await.client().await).await.len(), 1, "the data is saved all the same");
}
