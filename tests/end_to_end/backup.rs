//! Backup and restore behind the real server and command line: everything comes back, or nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use toller_api::v1;
use toller_api::v1::backup_item::Item;
use toller_tests::PATIENCE;
use toller_tests::client::Client;
use toller_tests::command::{Exit, run, toller};
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};
use tonic::{Code, Response, Status};

use crate::expect;

async fn command(server: &Server, arguments: &[&str]) -> Exit {
    run(toller().args(arguments).env("TOLLER_SERVER", server.url())).await
}

async fn backup(server: &Server, file: &Path) {
    command(server, &["backup", file.to_str().unwrap()]).await.expect(0);
}

async fn restore(server: &Server, file: &Path) -> Exit {
    command(server, &["restore", file.to_str().unwrap()]).await
}

/// A folder for files of backups, and the name of one.
fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.toller");
    (folder, file)
}

async fn collections(client: &Client) -> Vec<v1::Collection> {
    client.collections().list(v1::CollectionsListRequest {}).await.unwrap().into_inner().collections
}

async fn names(client: &Client) -> Vec<String> {
    collections(client).await.into_iter().map(|collection| collection.name).collect()
}

async fn retrievers(client: &Client) -> Vec<v1::Retriever> {
    let stored = client.retrievers().list(v1::RetrieversListRequest {}).await.unwrap().into_inner().retrievers;
    stored.into_iter().map(|stored| stored.retriever.unwrap()).collect()
}

/// What the server gives out.
async fn saved(client: &Client, collections: &[&str]) -> Vec<Item> {
    let collections = collections.iter().map(|name| (*name).to_owned()).collect();
    let mut messages = client.backups().save(v1::BackupsSaveRequest { collections }).await.unwrap().into_inner();
    let mut items = Vec::new();
    while let Some(message) = messages.message().await.unwrap() {
        assert!(prost::Message::encoded_len(&message) < 1 << 20 || message.items.len() == 1);
        items.extend(message.items.into_iter().map(|item| item.item.unwrap()));
    }
    items
}

/// Sends items, a message for each.
async fn send(client: &Client, items: Vec<Item>) -> Result<Response<v1::BackupsRestoreResponse>, Status> {
    let message = |item| v1::BackupsRestoreRequest { items: vec![v1::BackupItem { item: Some(item) }] };
    client.backups().restore(tokio_stream::iter(items.into_iter().map(message))).await
}

fn header() -> Item {
    Item::Header(v1::BackupHeader { format: 1, ..Default::default() })
}

fn end(counts: v1::BackupCounts) -> Item {
    Item::End(v1::BackupEnd { counts: Some(counts) })
}

/// Every kind of thing, in every shape that differs.
async fn fill(client: &Client) {
    let space = |dimension, metric: v1::Metric| v1::VectorSpace { dimension, metric: metric.into() };
    let request = v1::CollectionsCreateRequest {
        name: "docs".to_owned(),
        description: "for people".to_owned(),
        labels: [("team".to_owned(), "search".to_owned())].into(),
        metric: v1::Metric::Euclidean.into(),
        keyword: Some(v1::KeywordIndex { language: v1::Language::German.into(), disabled: false }),
        named_vectors: [
            ("title".to_owned(), space(2, v1::Metric::Dot)),
            ("image".to_owned(), space(3, v1::Metric::Cosine)),
        ]
        .into(),
        ..Default::default()
    };
    client.collections().create(request).await.unwrap();
    let request = v1::CollectionsCreateRequest {
        name: "points".to_owned(),
        vectors: Some(v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension: 2 })),
        keyword: Some(v1::KeywordIndex { disabled: true, ..Default::default() }),
        ..Default::default()
    };
    client.collections().create(request).await.unwrap();
    client.create_for_vectors("empty", 1, v1::Metric::Dot).await;

    let mut deep = int(7);
    // As deep as metadata may be.
    for _ in 0..32 {
        deep = map([("k", deep)]);
    }
    let typed = document("typed", "\u{0}\n\"👩‍👩‍👧 Häuser")
        .named_vector("title", &[0.25, -4.0])
        .with("null", null())
        .with("flag", boolean(true))
        .with("int", int((1 << 53) + 1))
        .with("double", double(1.0))
        .with("text", string(""))
        .with("list", list([null(), list([]), double(-0.0)]))
        .with("deep", deep);
    let mut documents: Vec<v1::Document> = (0..400)
        .map(|number| {
            let text = ["ein Hund", "eine Ente", "das Wasser", "ein Boot"][number % 4].repeat(1 + number % 5);
            let document = document(&format!("{number:03}"), &text).with("number", int(number as i64));
            match number % 3 {
                0 => document.named_vector("title", &[number as f32, 1.0]),
                1 => document.named_vector("image", &[1.0, number as f32, 0.5]).named_vector("title", &[0.0, 0.0]),
                _ => document,
            }
        })
        .collect();
    documents.push(typed);
    documents.push(document("long", &"lang ".repeat(30_000)));
    client.add("docs", documents).await;
    client
        .add("points", vec![point("a", &[1.0, 0.0]), point("b", &[0.6, 0.8]), point("c", &[f32::MIN_POSITIVE, 1.0])])
        .await;
    for retriever in [vector_store("best", mmr_in("docs", 3, 9, 0.25)), reference("alias", "best")] {
        let put = v1::RetrieversPutRequest { retriever: Some(retriever), expected_version: None };
        client.retrievers().put(put).await.unwrap();
    }
}

/// The scores of what is found: of equal ones each store has an order of its own.
async fn scores(client: &Client) -> Vec<Vec<f64>> {
    let scores = |hits: Vec<v1::ScoredDocument>| hits.iter().map(|hit| hit.score).collect::<Vec<f64>>();
    let mut found = Vec::new();
    for text in ["ein Hund", "das Wasser", "nichts davon"] {
        found.push(scores(client.search(text_query(text), search_in("docs")).await));
        let words = v1::retriever::Kind::Keyword(v1::KeywordRetriever {
            collection: "docs".to_owned(),
            k: Some(7),
            ..Default::default()
        });
        for retriever in [retriever("words", words), reference("", "alias")] {
            let query = Some(text_query(text));
            let request = v1::RetrieveRequest { query, retriever: Some(retriever), ..Default::default() };
            found.push(scores(client.retrieval().retrieve(request).await.unwrap().into_inner().hits));
        }
    }
    found.push(scores(client.search(vector_query(&[0.8, 0.6]), search_in("points")).await));
    found
}

fn assert_near(left: &[f64], right: &[f64]) {
    assert_eq!(left.len(), right.len());
    for (l, r) in left.iter().zip(right) {
        assert!((l - r).abs() < 1e-5, "{left:?} are not {right:?}");
    }
}

/// Everything of a collection. A store may scale vectors of cosine spaces to unit length.
async fn assert_same(name: &str, left: &Client, right: &Client) {
    let (left, right) = (left.all(name).await, right.all(name).await);
    assert_eq!(left.len(), right.len());
    for (l, r) in left.iter().zip(&right) {
        let bare = |document: &v1::Document| v1::Document { vectors: None, ..document.clone() };
        assert_eq!(bare(l), bare(r));
        let (l, r) = (l.vectors.clone().unwrap(), r.vectors.clone().unwrap());
        assert_eq!(l.named.keys().collect::<Vec<_>>(), r.named.keys().collect::<Vec<_>>());
        // Others come back to the bit.
        assert_eq!(l.named.get("title"), r.named.get("title"));
        assert!(name == "points" || l.dense == r.dense);
        let all = |vectors: &v1::Vectors| -> Vec<Vec<f64>> {
            let elements = |vector: &v1::Vector| {
                let elements = elements(vector);
                let length = elements.iter().map(|element| f64::from(*element).powi(2)).sum::<f64>().sqrt().max(1e-30);
                elements.iter().map(|element| f64::from(*element) / length).collect()
            };
            vectors.dense.iter().chain(vectors.named.values()).map(elements).collect()
        };
        for (l, r) in all(&l).iter().zip(&all(&r)) {
            assert_near(l, r);
        }
    }
}

/// Collections, but for what their server says of itself.
async fn portable(client: &Client) -> Vec<v1::Collection> {
    let collections = collections(client).await.into_iter();
    collections.map(|collection| v1::Collection { store: String::new(), durability: 0, ..collection }).collect()
}

#[tokio::test]
async fn everything_of_one_store_comes_back_in_another() {
    for (from, to) in [(Settings::new(), Settings::new().on_disk()), (Settings::new().on_disk(), Settings::new())] {
        let (server, target) = (from.start().await, to.start().await);
        let (client, other) = (server.client().await, target.client().await);
        fill(&client).await;
        let (_folder, file) = place();
        let exit = command(&server, &["backup", file.to_str().unwrap(), "--json"]).await.expect(0);
        let summary: Value = serde_json::from_str(&exit.stdout).unwrap();
        assert_eq!((&summary["collections"], &summary["documents"]), (&json!(3), &json!(405)), "{summary}");
        assert_eq!((&summary["retrievers"], &summary["stored_documents"]), (&json!(2), &json!(0)), "{summary}");
        assert_eq!(summary["bytes"], json!(fs::metadata(&file).unwrap().len()));

        let exit = restore(&target, &file).await.expect(0);
        assert!(exit.stderr.contains("restored 3 collections with 405 documents"), "{}", exit.stderr);
        let compare = async |other: &Client| {
            assert_eq!(portable(other).await, portable(&client).await);
            for name in ["docs", "points", "empty"] {
                assert_same(name, &client, other).await;
            }
            assert_eq!(retrievers(other).await, retrievers(&client).await);
            for (left, right) in scores(&client).await.iter().zip(&scores(other).await) {
                assert_near(left, right);
            }
            let title =
                || v1::VectorStoreRetriever { vector_name: Some("title".to_owned()), k: Some(9), ..search_in("docs") };
            let query = || vector_query(&[1.0, 0.1]);
            let hits = other.search(query(), title()).await;
            assert_eq!(hits.ids(), client.search(query(), title()).await.ids());
        };
        compare(&other).await;
        other.add("docs", vec![document("new", "can be written")]).await;
        let selector = v1::documents_delete_request::Selector::Ids(v1::DocumentIds { ids: vec!["new".to_owned()] });
        let delete = v1::DocumentsDeleteRequest { collection: "docs".to_owned(), selector: Some(selector) };
        other.documents().delete(delete).await.unwrap();
        let target = target.restart().await;
        compare(&target.client().await).await;
        assert_eq!(
            fs::read_dir(to.data_dir())
                .unwrap()
                .filter(|entry| { entry.as_ref().unwrap().file_name().to_string_lossy().starts_with(".tmp") })
                .count(),
            0,
            "nothing that was put aside is left"
        );
    }
}

#[tokio::test]
async fn writes_during_a_backup_are_in_it_whole_or_not_at_all() {
    for settings in [Settings::new().without_model(), Settings::new().without_model().on_disk()] {
        let server = settings.start().await;
        let client = server.client().await;
        client.create_for_vectors("pairs", 2, v1::Metric::Dot).await;
        // So that reading takes a while.
        for batch in 0..10 {
            let filler = (0..500).map(|number| point(&format!("filler {batch} {number}"), &[1.0, 0.0]));
            client.add("pairs", filler.collect()).await;
        }
        let (stop, acknowledged) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let writer = tokio::spawn({
            let (client, stop, acknowledged) = (client.clone(), Arc::clone(&stop), Arc::clone(&acknowledged));
            async move {
                let mut round = 0;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    let half = |id: &str| point(id, &[0.0, 1.0]).with("round", int(round));
                    client
                        .add("pairs", vec![half("left"), half("right"), point(&format!("round {round}"), &[0.0, 1.0])])
                        .await;
                    acknowledged.store(round as u64, Ordering::Release);
                }
            }
        });
        while acknowledged.load(Ordering::Acquire) == 0 {
            tokio::task::yield_now().await;
        }
        let mut rounds_seen = Vec::new();
        let give_up = Instant::now() + PATIENCE;
        // Until writes went on between the first one and the last.
        while rounds_seen.len() < 5 || rounds_seen.first() == rounds_seen.last() {
            assert!(Instant::now() < give_up, "writes go on: {rounds_seen:?}");
            let before = acknowledged.load(Ordering::Acquire);
            let items = saved(&client, &[]).await;
            let documents: Vec<&v1::Document> = items
                .iter()
                .filter_map(|item| if let Item::Document(document) = item { Some(document) } else { None })
                .collect();
            let round_of = |id: &str| {
                let found = documents.iter().find(|document| document.id_text() == id);
                found.map(|document| document.metadata["round"].clone())
            };
            let rounds = documents.iter().filter(|document| document.id_text().starts_with("round ")).count();
            assert_eq!(round_of("left"), Some(int(rounds as i64)));
            assert_eq!(round_of("right"), Some(int(rounds as i64)));
            assert!(rounds as u64 >= before, "{rounds} of {before} acknowledged ones are in it");
            assert_eq!(documents.len(), 5000 + 2 + rounds);
            rounds_seen.push(rounds);
        }
        stop.store(true, Ordering::Relaxed);
        writer.await.unwrap();
        assert!(rounds_seen.is_sorted(), "{rounds_seen:?}");
    }
}

#[tokio::test]
async fn a_restore_into_what_is_there_is_refused_and_changes_nothing() {
    let server = Settings::new().on_disk().start().await;
    let client = server.client().await;
    fill(&client).await;
    let (_folder, file) = place();
    backup(&server, &file).await;
    let before = (collections(&client).await, client.all("docs").await, retrievers(&client).await);

    let exit = restore(&server, &file).await.expect(1);
    for part in ["already exists", "docs", "empty", "points"] {
        assert!(exit.stderr.contains(part), "{part} is named: {}", exit.stderr);
    }
    // Also where only one of several is in the way, and only a retriever.
    for name in ["docs", "points"] {
        client.collections().delete(v1::CollectionsDeleteRequest { name: name.to_owned() }).await.unwrap();
    }
    let exit = restore(&server, &file).await.expect(1);
    assert!(exit.stderr.contains("\"empty\"") && !exit.stderr.contains("docs\""), "{}", exit.stderr);
    assert_eq!(names(&client).await, ["empty"]);
    client.collections().delete(v1::CollectionsDeleteRequest { name: "empty".to_owned() }).await.unwrap();
    let exit = restore(&server, &file).await.expect(1);
    assert!(exit.stderr.contains("retriever \"alias\", \"best\" exists already"), "{}", exit.stderr);
    assert_eq!(names(&client).await, [""; 0]);
    for name in ["alias", "best"] {
        client.retrievers().delete(v1::RetrieversDeleteRequest { name: name.to_owned() }).await.unwrap();
    }
    restore(&server, &file).await.expect(0);
    assert_eq!((collections(&client).await, client.all("docs").await, retrievers(&client).await), before);

    // One collection alone goes where the others are.
    let (_folder, one) = place();
    command(&server, &["backup", one.to_str().unwrap(), "--collection", "points"]).await.expect(0);
    client.collections().delete(v1::CollectionsDeleteRequest { name: "points".to_owned() }).await.unwrap();
    let exit = restore(&server, &one).await.expect(0);
    assert!(exit.stderr.contains("restored 1 collection with 3 documents"), "{}", exit.stderr);
    assert_eq!((collections(&client).await, client.all("docs").await, retrievers(&client).await), before);
    let exit = command(&server, &["backup", one.to_str().unwrap()]).await.expect(1);
    assert!(exit.stderr.contains("is there already") && exit.stderr.contains("--force"), "{}", exit.stderr);
    let exit = command(&server, &["backup", one.to_str().unwrap(), "--force", "--collection", "none"]).await.expect(1);
    assert!(exit.stderr.contains("collection \"none\" does not exist"), "{}", exit.stderr);
    assert!(
        command(&server, &["backup", one.to_str().unwrap(), "--force"])
            .await
            .expect(0)
            .stderr
            .contains("3 collections")
    );
}

#[tokio::test]
async fn a_file_that_is_cut_off_or_damaged_is_refused_before_anything_is_sent() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    fill(&client).await;
    let (_folder, file) = place();
    backup(&server, &file).await;
    let whole = fs::read(&file).unwrap();
    let empty = Settings::new().without_model().start().await;
    let other = empty.client().await;
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    let cases = [
        (&whole[..whole.len() - 1], "cut off or damaged"),
        (&whole[..whole.len() / 2], "cut off or damaged"),
        (&damaged[..], "cut off or damaged"),
        (&whole[..5], "is no backup of Toller"),
        (&b""[..], "is no backup of Toller"),
    ];
    for (bytes, said) in cases {
        fs::write(&file, bytes).unwrap();
        let exit = restore(&empty, &file).await.expect(1);
        assert!(exit.stderr.contains(said) && exit.stderr.contains("all.toller"), "{}", exit.stderr);
        assert_eq!(names(&other).await, [""; 0]);
    }
    fs::write(&file, &whole).unwrap();
    restore(&empty, &file).await.expect(0);
    assert_eq!(other.all("docs").await, client.all("docs").await);
}

#[tokio::test]
async fn a_stream_that_is_no_backup_is_refused_and_leaves_nothing() {
    let server = Settings::new().without_model().on_disk().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    client.add("points", vec![point("a", &[1.0, 0.0]), point("b", &[0.6, 0.8])]).await;
    let good = saved(&client, &[]).await;
    let name = "points".to_owned();
    client.collections().delete(v1::CollectionsDeleteRequest { name: name.clone() }).await.unwrap();

    let of = |parts: &[usize]| parts.iter().map(|part| good[*part].clone()).collect::<Vec<_>>();
    assert!(matches!(good[4], Item::End(_)) && good.len() == 5);
    let counts = v1::BackupCounts { collections: 1, documents: 2, ..Default::default() };
    let newer = Item::Header(v1::BackupHeader { format: 2, ..Default::default() });
    let Item::Document(document) = good[2].clone() else { panic!("{:?}", good[2]) };
    let foreign = Item::Document(v1::Document { vectors: None, ..document.clone() }.vector(&[1.0]));
    let store = Item::DocumentStore(v1::BackupDocumentStore { name: "a b".to_owned() });
    let cases: Vec<(Vec<Item>, &str)> = vec![
        (vec![], "items.end"),
        (of(&[0, 1, 2, 3]), "items.end"),
        (of(&[1, 2]), "items[0].header"),
        (of(&[0, 0]), "items[0].header"),
        (vec![newer], "items[0].header.format"),
        (of(&[0, 2]), "items[0].document"),
        (of(&[0, 1, 2, 4]), "items[0].end.counts"),
        ([of(&[0, 1, 2, 2]), vec![end(counts)]].concat(), "items[0].document"),
        ([of(&[0, 1]), vec![foreign]].concat(), "items[0].document.vectors.dense"),
        ([of(&[0, 1]), vec![Item::StoredDocument(document)]].concat(), "items[0].stored_document"),
        ([of(&[0, 1]), vec![store]].concat(), "items[0].document_store.name"),
        ([of(&[0]), vec![Item::Retriever(v1::Retriever::default())]].concat(), "items[0].retriever"),
    ];
    for (items, field) in cases {
        let what = format!("{field}: {} items", items.len());
        let status = expect::refused_with(&what, send(&client, items).await, Code::InvalidArgument, "INVALID_ARGUMENT");
        let details = tonic_types::StatusExt::get_details_bad_request(&status).unwrap();
        let found = &details.field_violations[0].field;
        assert!(found.starts_with(field), "{what}: {found}");
        assert_eq!(names(&client).await, [""; 0], "{what}");
    }
    let unknown = v1::CollectionsGetRequest { name: name.clone() };
    expect::not_found("nothing is left", client.collections().get(unknown).await, "collection", "points");
    let counts = send(&client, good).await.unwrap().into_inner().counts;
    assert_eq!(counts, Some(v1::BackupCounts { collections: 1, documents: 2, ..Default::default() }));
    assert_eq!(client.all("points").await.ids(), ["a", "b"]);
}

#[tokio::test]
async fn document_stores_come_back_too() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    let stored = |id: &str| Item::StoredDocument(document(id, "a parent").with("n", int((1 << 53) + 1)));
    let store = |name: &str| Item::DocumentStore(v1::BackupDocumentStore { name: name.to_owned() });
    let counts = v1::BackupCounts { document_stores: 2, stored_documents: 3, ..Default::default() };
    let items = vec![header(), store("chapters"), stored("1"), store("parents"), stored("a"), stored("b"), end(counts)];
    send(&client, items.clone()).await.unwrap();
    let given = saved(&client, &[]).await;
    assert_eq!(given[1..], items[1..]);
    let Item::Header(about) = &given[0] else { panic!("{:?}", given[0]) };
    assert_eq!((about.format, about.document_stores.clone()), (1, vec!["chapters".to_owned(), "parents".to_owned()]));
    let again =
        expect::refused_with("again", send(&client, given.clone()).await, Code::AlreadyExists, "ALREADY_EXISTS");
    assert_eq!(again.message(), "document store \"chapters\", \"parents\" exists already");

    // One that does not come to its end leaves no document of them.
    let edge = Settings::new().without_model().on_disk().start().await;
    let other = edge.client().await;
    let cut_off = given[..given.len() - 1].to_vec();
    expect::refused_with("cut off", send(&other, cut_off).await, Code::InvalidArgument, "INVALID_ARGUMENT");
    let nothing = saved(&other, &[]).await;
    assert_eq!(nothing[1..], [end(v1::BackupCounts::default())]);
    send(&other, given.clone()).await.unwrap();
    assert_eq!(saved(&other, &[]).await[1..], given[1..]);
}

/// A restore that does not go on after these items, and what ends it.
async fn held(
    client: &Client,
    items: Vec<Item>,
) -> (tokio::sync::mpsc::Sender<v1::BackupsRestoreRequest>, tokio::task::JoinHandle<Result<(), Status>>) {
    let (sender, receiver) = tokio::sync::mpsc::channel(items.len() + 1);
    for item in items {
        let items = vec![v1::BackupItem { item: Some(item) }];
        sender.send(v1::BackupsRestoreRequest { items }).await.unwrap();
    }
    let mut backups = client.backups();
    let stream = tokio_stream::wrappers::ReceiverStream::new(receiver);
    let call = tokio::spawn(async move { backups.restore(stream).await.map(drop) });
    (sender, call)
}

/// Waits until the server has begun the collection: then its name is taken, and it cannot be seen.
async fn until_taken(client: &Client, name: &str) {
    let header = v1::BackupHeader { format: 1, collections: vec![name.to_owned()], ..Default::default() };
    loop {
        // A restore that says what it would bring, and brings nothing.
        let status = expect::refused("no backup", send(client, vec![Item::Header(header.clone())]).await);
        if status.code() == Code::AlreadyExists {
            let get = v1::CollectionsGetRequest { name: name.to_owned() };
            expect::not_found("a hidden one", client.collections().get(get).await, "collection", name);
            return;
        }
        assert_eq!(status.code(), Code::InvalidArgument, "{status}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn kill_9_in_the_middle_of_a_restore_leaves_no_half() {
    let source = Settings::new().without_model().start().await;
    let from = source.client().await;
    for name in ["first", "second"] {
        from.create_for_vectors(name, 2, v1::Metric::Dot).await;
        from.add(name, (0..900).map(|number| point(&format!("{number:03}"), &[number as f32, 1.0])).collect()).await;
    }
    let items = saved(&from, &[]).await;

    for settings in [Settings::new().without_model().on_disk(), Settings::new().without_model()] {
        let settings = settings.set("server.drain_timeout_ms", "100");
        let server = settings.start().await;
        let client = server.client().await;
        client.create_for_vectors("own", 1, v1::Metric::Dot).await;
        client.add("own", vec![point("a", &[1.0])]).await;
        // The header, both collections, and most documents, but not the end.
        let (_sender, call) = held(&client, items[..items.len() - 200].to_vec()).await;
        until_taken(&client, "second").await;
        assert_eq!(names(&client).await, ["own"]);
        if collections(&client).await[0].durability() == v1::Durability::Fsync {
            server.kill().await;
        } else {
            // In memory a kill leaves nothing at all; a stop that does not wait for the restore leaves a dump.
            server.stop().await.expect(0);
        }
        assert!(call.await.unwrap().is_err());
        let server = settings.start().await;
        let client = server.client().await;
        assert_eq!(names(&client).await, ["own"]);
        send(&client, items.clone()).await.unwrap();
        for name in ["first", "second"] {
            assert_eq!(client.all(name).await, from.all(name).await);
        }
        assert_eq!(client.all("own").await.ids(), ["a"]);
    }
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_nothing_behind() {
    let server = Settings::new().without_model().on_disk().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Dot).await;
    client.add("points", (0..500).map(|number| point(&format!("{number:03}"), &[1.0, number as f32])).collect()).await;
    let items = saved(&client, &[]).await;
    // Who does not read on holds up nobody, and neither does who leaves.
    let unread = client.backups().save(v1::BackupsSaveRequest::default()).await.unwrap().into_inner();
    client.add("points", vec![point("more", &[1.0, 1.0])]).await;
    drop(unread);
    client.collections().delete(v1::CollectionsDeleteRequest { name: "points".to_owned() }).await.unwrap();

    let (sender, call) = held(&client, items[..items.len() - 1].to_vec()).await;
    until_taken(&client, "points").await;
    call.abort();
    drop(sender);
    let get = async || {
        let vectors = Some(v1::collections_create_request::Vectors::Client(v1::ClientVectors { dimension: 2 }));
        let request = v1::CollectionsCreateRequest { name: "points".to_owned(), vectors, ..Default::default() };
        client.collections().create(request).await
    };
    let mut freed = get().await;
    for _ in 0..200 {
        if freed.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        freed = get().await;
    }
    freed.unwrap();
    assert_eq!(client.count("points").await, 0);
}

#[tokio::test]
async fn a_tenant_restores_into_itself_alone_and_sees_nothing_of_others() {
    let keys = [("of-acme", "acme", "admin"), ("of-umbrella", "umbrella", "admin"), ("of-a-writer", "acme", "writer")];
    let mut config = String::new();
    for (key, tenant, role) in keys {
        let digest: String = Sha256::digest(key).iter().map(|byte| format!("{byte:02x}")).collect();
        config.push_str(&format!(
            "[[auth.keys]]\nname = \"{key}\"\nsha256 = \"{digest}\"\nrole = \"{role}\"\ntenant = \"{tenant}\"\n"
        ));
    }
    let server = Settings::new().without_model().on_disk().file(&config).start().await;
    let acme = server.client_with_key("of-acme").await;
    let umbrella = server.client_with_key("of-umbrella").await;
    acme.create_for_vectors("docs", 2, v1::Metric::Dot).await;
    acme.add("docs", vec![point("secret", &[1.0, 0.0])]).await;
    umbrella.create_for_vectors("theirs", 2, v1::Metric::Dot).await;

    let (_folder, file) = place();
    let with_key = async |command: &str, key: &str| {
        let arguments = [command, file.to_str().unwrap(), "--api-key", key];
        run(toller().args(arguments).env("TOLLER_SERVER", server.url())).await
    };
    let exit = with_key("backup", "of-a-writer").await.expect(1);
    assert!(exit.stderr.contains("needs the role admin"), "{}", exit.stderr);
    assert!(!file.exists());
    let exit = with_key("backup", "of-acme").await.expect(0);
    assert!(exit.stderr.contains("saved 1 collection with 1 document"), "{}", exit.stderr);
    let by_name = v1::BackupsSaveRequest { collections: vec!["theirs".to_owned()] };
    expect::not_found("another's", acme.backups().save(by_name).await, "collection", "theirs");
    with_key("restore", "of-a-writer").await.expect(1);
    with_key("restore", "of-umbrella").await.expect(0);
    assert_eq!(names(&umbrella).await, ["docs", "theirs"]);
    umbrella.add("docs", vec![point("more", &[0.0, 1.0])]).await;
    assert_eq!(acme.all("docs").await.ids(), ["secret"]);
    assert_eq!(names(&acme).await, ["docs"]);
}

#[tokio::test]
async fn collections_are_put_aside_where_the_setting_says() {
    let place = tempfile::tempdir().unwrap();
    let spool = place.path().join("made").join("spool");
    let settings = Settings::new().without_model().set("backup.spool_dir", spool.to_str().unwrap());
    let server = settings.start().await;
    assert!(spool.is_dir());
    let client = server.client().await;
    client.create_for_vectors("docs", 1, v1::Metric::Dot).await;
    let (_folder, file) = self::place();
    backup(&server, &file).await;
    // What is put aside has no name, so the folder is missed rather than looked into.
    fs::remove_dir(&spool).unwrap();
    let exit = command(&server, &["backup", file.with_extension("second").to_str().unwrap()]).await;
    assert_eq!(exit.code, Some(1), "{}", exit.stderr);
    assert!(exit.stderr.contains(spool.to_str().unwrap()), "{}", exit.stderr);
}
