//! The edge store across processes and crashes: what was acknowledged is there, and nothing else is needed to open a folder.

#![cfg(feature = "edge")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "these are tests: they fail by panicking, and one of them is read by another through its output"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use toller_core::catalog::{Expected, RecordKind};
use toller_core::collection::VectorParams;
use toller_core::filter::KeyPath;
use toller_core::vector_store::{ChangeSet, Selector, VectorSearch};
use toller_core::{
    Catalog, CollectionName, Document, DocumentId, DocumentStore, Durability, Filter, Metadata, Metric, Principal,
    Quantization, QuantizationKind, Record, RequestContext, Role, Tenant, Value, Vector, VectorName, VectorSpace,
    VectorStore,
};
use toller_store::backends::edge::{EdgeConfig, EdgeError, EdgeStore};

fn context_of(tenant: &str) -> RequestContext {
    let tenant = Tenant::new(tenant).unwrap();
    RequestContext::new(Principal { name: "test".into(), tenant, role: Role::Admin })
}

fn context() -> RequestContext {
    context_of("ours")
}

fn name(name: &str) -> CollectionName {
    CollectionName::new(name).unwrap()
}

fn id(id: &str) -> DocumentId {
    DocumentId::new(id).unwrap()
}

fn key(path: &str) -> KeyPath {
    KeyPath::parse(path).unwrap()
}

fn record(text: &str, vector: Vec<f32>, metadata: &[(&str, Value)]) -> Record {
    let metadata: Metadata = metadata.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
    let document = Document { id: id(text), page_content: format!("text of {text}"), metadata };
    Record::new(Arc::new(document), Vector::new(vector, Metric::Dot).unwrap())
}

/// What most tests need: they end no power supply.
fn fast() -> EdgeConfig {
    EdgeConfig { durability: Durability::Process, ..EdgeConfig::default() }
}

async fn open(folder: &Path, config: EdgeConfig) -> EdgeStore {
    let folder = folder.to_owned();
    let open = move || {
        let give_up = Instant::now() + Duration::from_secs(60);
        loop {
            match EdgeStore::open(&folder, config) {
                // The thread that builds indexes finishes the one it builds, and holds the folder until then.
                Err(EdgeError::InUse { .. }) if Instant::now() < give_up => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => return other.unwrap(),
            }
        }
    };
    tokio::task::spawn_blocking(open).await.unwrap()
}

async fn close(store: EdgeStore) {
    tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
}

async fn create(store: &EdgeStore, collection: &str, dimension: u32, metric: Metric) {
    store.vectors.create(&context(), &name(collection), VectorParams::new(dimension, metric)).await.unwrap();
}

async fn put(store: &EdgeStore, collection: &str, records: Vec<Record>) {
    store.vectors.upsert(&context(), &name(collection), records).await.unwrap();
}

async fn all_ids(store: &EdgeStore, collection: &str) -> Vec<String> {
    let page = store.vectors.scroll(&context(), &name(collection), None, None, usize::MAX).await.unwrap();
    page.records.iter().map(|record| record.document.id.to_string()).collect()
}

/// The files of a store, wherever they are by now; its lock does not go along.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_name() != "store.lock" {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The folders of the collections.
fn collection_folders(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder.join("collections")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

/// Everything of each kind, with deletes and replacements.
async fn fill(store: &EdgeStore) -> Record {
    create(store, "docs", 3, Metric::Euclidean).await;
    create(store, "empty", 2, Metric::Cosine).await;
    let exact = record(
        "exact",
        vec![0.1, -1e-3, 12345.678],
        &[("beyond_doubles", Value::Int((1 << 53) + 1)), ("double", Value::Double(1.0)), ("none", Value::Null)],
    );
    put(store, "docs", vec![record("a", vec![1.0; 3], &[]), record("b", vec![2.0; 3], &[]), exact.clone()]).await;
    put(store, "docs", vec![record("a", vec![9.0; 3], &[("new", Value::Bool(true))])]).await;
    let gone = Selector::Ids(vec![id("b")]);
    assert_eq!(store.vectors.delete(&context(), &name("docs"), &gone).await.unwrap(), 1);
    let parent = Document { id: id("parent"), page_content: "whole".to_owned(), metadata: Metadata::new() };
    store.documents.put(&context(), &name("docs"), vec![parent]).await.unwrap();
    store.catalog.swap(&context(), RecordKind::Retriever, "r", Expected::Absent, b"kept".to_vec()).await.unwrap();
    exact
}

async fn check_filled(store: &EdgeStore, exact: &Record) {
    assert_eq!(store.vectors.collection_count(), 2);
    let empty = VectorParams::new(2, Metric::Cosine);
    assert_eq!(store.vectors.params(&context(), &name("empty")).await.unwrap(), empty);
    assert_eq!(all_ids(store, "docs").await, ["a", "exact"]);
    let found = store.vectors.get(&context(), &name("docs"), &[id("exact"), id("b"), id("a")]).await.unwrap();
    assert_eq!(found[0].as_ref(), Some(exact));
    assert_eq!(found[1], None);
    assert_eq!(found[2].as_ref().unwrap().vector.as_slice(), [9.0; 3]);
    let vector = Vector::new(vec![9.0, 9.0, 8.0], Metric::Euclidean).unwrap();
    let search = VectorSearch { vector: &vector, using: None, filter: None, limit: 1 };
    assert_eq!(store.vectors.search(&context(), &name("docs"), search).await.unwrap()[0].score, 1.0);
    let parent = store.documents.get(&context(), &name("docs"), &[id("parent")]).await.unwrap();
    assert_eq!(parent[0].as_ref().unwrap().page_content, "whole");
    let kept = store.catalog.get(&context(), RecordKind::Retriever, "r").await.unwrap().unwrap();
    assert_eq!(kept.value, b"kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_after_an_orderly_end() {
    let folder = tempfile::tempdir().unwrap();
    for config in [fast(), EdgeConfig::default()] {
        let folder = folder.path().join(format!("{:?}", config.durability));
        let store = open(&folder, config).await;
        let exact = fill(&store).await;
        close(store).await;
        let store = open(&folder, config).await;
        check_filled(&store, &exact).await;
        assert_eq!(store.vectors.durability(), config.durability);
    }
}

/// A copy that is taken while the store is open is what a crash of the machine at that moment would leave at best.
#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_in_a_copy_of_the_open_folder() {
    let folder = tempfile::tempdir().unwrap();
    for config in [fast(), EdgeConfig::default()] {
        let original = folder.path().join(format!("{:?}", config.durability));
        let taken = folder.path().join(format!("copy of {:?}", config.durability));
        let store = open(&original, config).await;
        let exact = fill(&store).await;
        copy(&original, &taken);
        check_filled(&open(&taken, config).await, &exact).await;
        check_filled(&store, &exact).await;
    }
}

const CHILD_FOLDER: &str = "TOLLER_TEST_EDGE_FOLDER";
const BATCH: usize = 50;

/// Is run by the next test, in a process of its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes until it is killed"]
async fn writes_until_it_is_killed() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let store = open(Path::new(&folder), fast()).await;
    create(&store, "docs", 8, Metric::Cosine).await;
    for round in 0_u16.. {
        let records = (0..BATCH).map(|n| record(&format!("{round:05}-{n:02}"), vec![1.0 + f32::from(round); 8], &[]));
        put(&store, "docs", records.collect()).await;
        println!("acknowledged {round}");
    }
}

/// Every acknowledged write is there, and of the one that was under way all or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn everything_is_there_after_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_until_it_is_killed", "--ignored", "--nocapture"])
        .env(CHILD_FOLDER, folder.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut acknowledged = 0;
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while acknowledged < 60 {
        let line = lines.next().expect("the child must write until it is killed").unwrap();
        if line.starts_with("acknowledged") {
            acknowledged += 1;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    acknowledged += lines.map_while(Result::ok).filter(|line| line.starts_with("acknowledged")).count();

    let store = open(folder.path(), fast()).await;
    let mut rounds: BTreeMap<String, usize> = BTreeMap::new();
    for id in all_ids(&store, "docs").await {
        *rounds.entry(id.split('-').next().unwrap().to_owned()).or_default() += 1;
    }
    assert!(rounds.len() >= acknowledged, "{} rounds are there of {acknowledged}", rounds.len());
    assert!(rounds.values().all(|count| *count == BATCH), "a round is there in part: {rounds:?}");
}

/// Records of each commit of the next test: too few for an index, whose builder would hold the folder when it is closed.
const SWAPPED: usize = 300;

/// Is run by the next test, in a process of its own: replaces all records by others, again and again.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes until it is killed"]
async fn commits_until_it_is_killed() {
    let Ok(folder) = std::env::var(CHILD_FOLDER) else { return };
    let store = open(Path::new(&folder), fast()).await;
    let _ = store.vectors.create(&context(), &name("docs"), VectorParams::new(8, Metric::Dot)).await;
    println!("opened");
    let mut present = all_ids(&store, "docs").await;
    let last = present.first().and_then(|id| id.split('-').next()).map_or(0, |round| round.parse().unwrap());
    for round in last + 1_usize.. {
        // Half of the ids stay.
        let row = |n: usize| {
            let text = if n.is_multiple_of(2) { format!("{round:05}-{n:04}") } else { format!("both-{n:04}") };
            record(&text, vec![round as f32; 8], &[("round", Value::Int(round as i64))])
        };
        let records: Vec<Record> = (0..SWAPPED).map(row).collect();
        let gone = present.iter().filter(|id| !id.starts_with("both")).map(|text| id(text)).collect();
        present = records.iter().map(|record| record.document.id.to_string()).collect();
        let changes = ChangeSet::new(gone, records.chunks(90).map(<[Record]>::to_vec).collect());
        store.vectors.apply(&context(), &name("docs"), changes).await.unwrap();
        println!("acknowledged {round}");
    }
}

/// However far a commit had come when its process was killed, all of it is there or nothing.
#[tokio::test(flavor = "multi_thread")]
async fn commits_are_whole_after_kill_9() {
    const KILLS: u64 = 12;

    let folder = tempfile::tempdir().unwrap();
    let mut seen = 0;
    for kill in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "commits_until_it_is_killed", "--ignored", "--nocapture"])
            .env(CHILD_FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut acknowledged = seen;
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut numbers = lines
            .map_while(Result::ok)
            .filter_map(|line| line.strip_prefix("acknowledged ").map(|round| round.parse::<i64>().unwrap()));
        acknowledged = numbers.next().unwrap_or(acknowledged);
        // A commit takes some tens of milliseconds: this is somewhere within one.
        std::thread::sleep(Duration::from_millis(5 + kill * 13 % 60));
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged = numbers.last().unwrap_or(acknowledged);

        let store = open(folder.path(), fast()).await;
        let page = store.vectors.scroll(&context(), &name("docs"), None, None, usize::MAX).await.unwrap();
        let rounds: BTreeSet<i64> = page
            .records
            .iter()
            .map(|record| {
                let Value::Int(round) = record.document.metadata["round"] else { panic!("a round is a number") };
                assert_eq!(record.vector.as_slice(), [round as f32; 8]);
                round
            })
            .collect();
        assert_eq!((page.records.len(), rounds.len()), (SWAPPED, 1), "{rounds:?}");
        seen = rounds.into_iter().next().unwrap();
        assert!(seen >= acknowledged, "round {seen} is there, {acknowledged} was acknowledged");
        close(store).await;
        let left = fs::read_dir(&collection_folders(folder.path())[0]).unwrap().map(|entry| entry.unwrap().file_name());
        assert_eq!(left.filter(|name| name.to_string_lossy().contains("changes")).count(), 0, "nothing is left");
    }
}

/// What waits to be moved is only read by id: it gets no index, and a later process finds it.
#[tokio::test(flavor = "multi_thread")]
async fn a_room_for_staging_is_not_indexed_and_stays() {
    const ROWS: usize = 3000;

    let folder = tempfile::tempdir().unwrap();
    let config = EdgeConfig { index_from_kib: 1, ..fast() };
    let store = open(folder.path(), config).await;
    let rows = || (0..ROWS).map(|n| record(&format!("{n:05}"), vec![n as f32; 8], &[])).collect();
    let rooms = [name("docs").staging(), name("docs")];
    for room in &rooms {
        store.vectors.create(&context(), room, VectorParams::new(8, Metric::Dot)).await.unwrap();
        store.vectors.upsert(&context(), room, rows()).await.unwrap();
    }
    let until = Instant::now() + Duration::from_secs(60);
    while store.vectors.indexed_count(&context(), &rooms[1]).await.unwrap() == 0 {
        assert!(Instant::now() < until, "no index is built");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(store.vectors.indexed_count(&context(), &rooms[0]).await.unwrap(), 0);
    assert_eq!(store.vectors.collection_count(), 1, "people see one collection");
    close(store).await;

    let store = open(folder.path(), config).await;
    let ids = store.vectors.ids(&context(), &rooms[0], Some(&id("02998")), 9).await.unwrap();
    assert_eq!(ids, [id("02998"), id("02999")]);
    assert_eq!(store.vectors.count(&context(), &rooms[1], None).await.unwrap(), ROWS as u64);
    store.vectors.drop_collection(&context(), &rooms[0]).await.unwrap();
    assert_eq!(all_ids(&store, "docs").await.len(), ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_call_is_all_there_after_a_crash() {
    let folder = tempfile::tempdir().unwrap();
    let (original, taken) = (folder.path().join("original"), folder.path().join("copy"));
    let store = open(&original, fast()).await;
    create(&store, "docs", 256, Metric::Dot).await;
    // Some 20 MB in one call, several times a file of the log.
    let records: Vec<Record> = (0..4000_u16)
        .map(|n| {
            let text = Value::from("x".repeat(4000).as_str());
            record(&format!("{n:05}"), vec![f32::from(n); 256], &[("text", text)])
        })
        .collect();
    put(&store, "docs", records).await;
    copy(&original, &taken);
    let reopened = open(&taken, fast()).await;
    assert_eq!(all_ids(&reopened, "docs").await.len(), 4000);
    let last = reopened.vectors.get(&context(), &name("docs"), &[id("03999")]).await.unwrap();
    assert_eq!(last[0].as_ref().unwrap().vector.as_slice(), [3999.0; 256]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_collections_used_least_recently_are_closed() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), EdgeConfig { max_open: 2, ..fast() }).await;
    let names: Vec<String> = (0..6).map(|n| format!("collection-{n}")).collect();
    for name in &names {
        create(&store, name, 1, Metric::Dot).await;
        put(&store, name, vec![record(name, vec![1.0], &[])]).await;
        assert!(store.vectors.open_count() <= 2, "{} are open", store.vectors.open_count());
    }
    for _ in 0..2 {
        for name in &names {
            assert_eq!(all_ids(&store, name).await, [name.as_str()]);
            assert!(store.vectors.open_count() <= 2, "{} are open", store.vectors.open_count());
        }
    }
    // All at once, from many tasks: nobody finds a collection half closed.
    let store = Arc::new(store);
    let tasks: Vec<_> = (0..60)
        .map(|n| {
            let (store, name) = (Arc::clone(&store), names[n % names.len()].clone());
            tokio::spawn(async move { assert_eq!(all_ids(&store, &name).await, [name.as_str()]) })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_open_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), fast()).await;
    let fault = EdgeStore::open(folder.path(), fast()).unwrap_err();
    assert!(matches!(fault, EdgeError::InUse { .. }), "{fault:?}");
    assert!(fault.to_string().contains("in use by another process"), "{fault}");
    close(store).await;
    EdgeStore::open(folder.path(), fast()).unwrap();
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn only_the_owner_may_look_into_the_folder() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let _store = open(&path, fast()).await;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_another_version_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), fast()).await;
    create(&store, "docs", 1, Metric::Dot).await;
    close(store).await;
    let file = collection_folders(folder.path())[0].join("collection.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"format\": 2", "\"format\": 3")).unwrap();
    let fault = EdgeStore::open(folder.path(), fast()).unwrap_err();
    assert!(matches!(fault, EdgeError::UnsupportedVersion { found: 3, supported: 2, .. }), "{fault:?}");
    let said = fault.to_string();
    assert!(said.contains("collection.json has format version 3, this build reads version 2"), "{said}");
    fs::write(&file, "{").unwrap();
    assert!(matches!(EdgeStore::open(folder.path(), fast()), Err(EdgeError::Damaged { .. })));
    fs::write(&file, text).unwrap();
    EdgeStore::open(folder.path(), fast()).unwrap();
}

/// Folders of version 1 know neither named vectors nor quantisation, and are those of collections without them.
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_of_before_named_vectors_opens() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), fast()).await;
    let exact = fill(&store).await;
    close(store).await;
    for collection in collection_folders(folder.path()) {
        let file = collection.join("collection.json");
        let text = fs::read_to_string(&file).unwrap();
        let old = text.replace("\"format\": 2", "\"format\": 1");
        assert!(old != text && !old.contains("named") && !old.contains("quantization"), "{text}");
        fs::write(&file, old).unwrap();
    }
    let store = open(folder.path(), fast()).await;
    check_filled(&store, &exact).await;
    put(&store, "docs", vec![record("later", vec![3.0; 3], &[])]).await;
    assert_eq!(all_ids(&store, "docs").await, ["a", "exact", "later"]);
}

fn title() -> VectorName {
    VectorName::new("title").unwrap()
}

/// Named vectors, written, replaced and removed, are as they were after a restart, and their space is searched as before.
#[tokio::test(flavor = "multi_thread")]
async fn named_vectors_are_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), fast()).await;
    let space = VectorSpace { dimension: 2, metric: Metric::Euclidean };
    let params = VectorParams { named: BTreeMap::from([(title(), space)]), ..VectorParams::new(1, Metric::Dot) };
    store.vectors.create(&context(), &name("docs"), params.clone()).await.unwrap();
    let titled = |id: &str, vector: Option<[f32; 2]>| {
        let mut record = record(id, vec![1.0], &[]);
        let vector = vector.map(|vector| Vector::new(vector.to_vec(), Metric::Euclidean).unwrap());
        record.named.extend(vector.map(|vector| (title(), vector)));
        record
    };
    let first = [("a", Some([0.0, 1.0])), ("b", Some([0.0, 2.0])), ("c", None), ("d", Some([9.0, 9.0]))];
    put(&store, "docs", first.map(|(id, vector)| titled(id, vector)).into()).await;
    // b loses its vector, c gets one, a another, d goes.
    let second = [titled("a", Some([0.0, 5.0])), titled("b", None), titled("c", Some([0.0, 3.0]))];
    put(&store, "docs", second.to_vec()).await;
    store.vectors.delete(&context(), &name("docs"), &Selector::Ids(vec![id("d")])).await.unwrap();
    close(store).await;

    let store = open(folder.path(), fast()).await;
    assert_eq!(store.vectors.params(&context(), &name("docs")).await.unwrap(), params);
    let found = store.vectors.get(&context(), &name("docs"), &[id("a"), id("b"), id("c")]).await.unwrap();
    assert_eq!(found, second.map(Some));
    let query = Vector::new(vec![0.0, 1.0], Metric::Euclidean).unwrap();
    let search = VectorSearch { vector: &query, using: Some(&title()), filter: None, limit: 10 };
    let hits = store.vectors.search(&context(), &name("docs"), search).await.unwrap();
    let hits: Vec<(&str, f64)> = hits.iter().map(|hit| (hit.record.document.id.as_str(), hit.score)).collect();
    assert_eq!(hits, [("c", 2.0), ("a", 4.0)]);
}

/// What was being made or dropped when the process ended is nobody's.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_a_collection_is_cleared_away() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), fast()).await;
    create(&store, "kept", 1, Metric::Dot).await;
    create(&store, "dropped", 1, Metric::Dot).await;
    assert_eq!(collection_folders(folder.path()).len(), 2);
    store.vectors.drop_collection(&context(), &name("dropped")).await.unwrap();
    assert_eq!(collection_folders(folder.path()).len(), 1, "its files go at once when nobody uses them");
    close(store).await;
    let half_made = folder.path().join("collections").join("half-made");
    fs::create_dir_all(half_made.join("points")).unwrap();
    let store = open(folder.path(), fast()).await;
    assert!(!half_made.exists());
    assert_eq!(store.vectors.collection_count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn collections_of_tenants_have_folders_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), fast()).await;
    let params = VectorParams::new(1, Metric::Dot);
    for (tenant, collection) in [("a", "bc"), ("ab", "c"), ("a", "c")] {
        store.vectors.create(&context_of(tenant), &name(collection), params.clone()).await.unwrap();
    }
    assert_eq!(collection_folders(folder.path()).len(), 3);
    close(store).await;
    let store = open(folder.path(), fast()).await;
    for (tenant, collection) in [("a", "bc"), ("ab", "c"), ("a", "c")] {
        assert_eq!(store.vectors.params(&context_of(tenant), &name(collection)).await.unwrap(), params);
    }
}

/// Numbers that look random and are the same in every run (SplitMix64; Steele, Lea and Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn unit(&mut self) -> f32 {
        (self.next() >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    }
}

/// Vectors in groups around some centres, as those of texts are.
fn clustered(count: usize, dimension: usize, numbers: &mut Numbers) -> Vec<Vec<f32>> {
    let centres: Vec<Vec<f32>> = (0..50).map(|_| (0..dimension).map(|_| numbers.unit()).collect()).collect();
    (0..count)
        .map(|n| centres[n % centres.len()].iter().map(|element| element + 0.3 * numbers.unit()).collect())
        .collect()
}

/// The engine cuts equal scores as it likes; here their ids decide, however many hits are asked for.
#[tokio::test]
async fn equal_scores_are_cut_by_their_ids() {
    const COUNT: usize = 300;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), fast()).await;
    create(&store, "docs", 2, Metric::Cosine).await;
    // In an order that is not that of their ids.
    let ids = (0..COUNT).map(|n| format!("{:03}", n * 7 % COUNT));
    put(&store, "docs", ids.map(|id| record(&id, vec![1.0, 2.0], &[])).collect()).await;
    let vector = Vector::new(vec![2.0, 1.0], Metric::Cosine).unwrap();
    for limit in [1, 3, 17, 60, 299] {
        let search = VectorSearch { vector: &vector, using: None, filter: None, limit };
        let hits = store.vectors.search(&context(), &name("docs"), search).await.unwrap();
        let found: Vec<String> = hits.iter().map(|hit| hit.record.document.id.to_string()).collect();
        assert_eq!(found, (0..limit).map(|n| format!("{n:03}")).collect::<Vec<_>>());
    }
}

/// With an index, by it, and with filters of any selectivity: as many hits as there should be, and nearly all of the best.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_finds_nearly_all_of_the_best() {
    const COUNT: usize = 4000;
    const DIMENSION: usize = 32;
    const LIMIT: usize = 10;
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), EdgeConfig { index_from_kib: 64, ..fast() }).await;
    create(&store, "docs", DIMENSION as u32, Metric::Cosine).await;
    let mut numbers = Numbers(11);
    let vectors = clustered(COUNT, DIMENSION, &mut numbers);
    let metadata = |n: usize| [("n", Value::Int(n as i64)), ("even", Value::Bool(n.is_multiple_of(2)))];
    for (batch, first) in vectors.chunks(500).zip((0..).step_by(500)) {
        let records = batch.iter().zip(first..);
        let records = records.map(|(vector, n)| record(&format!("{n:04}"), vector.clone(), &metadata(n)));
        put(&store, "docs", records.collect()).await;
    }
    let filters = [
        None,
        Some(Filter::Eq(key("even"), Value::Bool(true))),
        Some(Filter::Lt(key("n"), Value::Int(40))),
        Some(Filter::Ne(key("even"), Value::Bool(true))),
        Some(Filter::Lt(key("n"), Value::Int(3))),
    ];
    // The second round has indexes on the metadata, which the first asked for.
    for _ in 0..2 {
        store.vectors.build_index(&context(), &name("docs")).await.unwrap();
        let indexed = store.vectors.indexed_count(&context(), &name("docs")).await.unwrap();
        assert!(indexed >= COUNT as u64 / 2, "only {indexed} vectors are indexed");
        for filter in &filters {
            let (mut found, mut wanted) = (0, 0);
            for query in clustered(20, DIMENSION, &mut numbers) {
                let matches = |n: &usize| {
                    filter.as_ref().is_none_or(|filter| {
                        filter.matches(&metadata(*n).map(|(key, value)| (key.to_owned(), value)).into())
                    })
                };
                let mut best: Vec<(f64, usize)> =
                    (0..COUNT).filter(matches).map(|n| (Metric::Cosine.score(&query, &vectors[n]), n)).collect();
                best.sort_by(|left, right| right.0.total_cmp(&left.0));
                best.truncate(LIMIT);
                let best: BTreeSet<String> = best.iter().map(|(_, n)| format!("{n:04}")).collect();
                let vector = Vector::new(query, Metric::Cosine).unwrap();
                let search = VectorSearch { vector: &vector, using: None, filter: filter.as_ref(), limit: LIMIT };
                let hits = store.vectors.search(&context(), &name("docs"), search).await.unwrap();
                assert_eq!(hits.len(), best.len(), "{filter:?}");
                wanted += best.len();
                found += hits.iter().filter(|hit| best.contains(hit.record.document.id.as_str())).count();
            }
            let recall = found as f64 / wanted as f64;
            assert!(recall >= 0.98, "recall {recall} with {filter:?}");
        }
    }
}

/// Vectors of unit length, which a cosine collection keeps to the bit.
fn clustered_units(count: usize, dimension: usize, numbers: &mut Numbers) -> Vec<Vec<f32>> {
    let unit = |vector: Vec<f32>| {
        let length = vector.iter().map(|element| f64::from(*element).powi(2)).sum::<f64>().sqrt();
        vector.into_iter().map(|element| (f64::from(element) / length) as f32).collect()
    };
    clustered(count, dimension, numbers).into_iter().map(unit).collect()
}

/// The part of the best that searches find: exactly as many hits as there should be, each with the score of its full vector.
async fn recall(store: &EdgeStore, vectors: &[Vec<f32>], using: Option<&VectorName>, numbers: &mut Numbers) -> f64 {
    const LIMIT: usize = 10;
    const QUERIES: usize = 40;
    let (mut found, mut wanted) = (0, 0);
    for place in (0..vectors.len()).step_by(vectors.len() / QUERIES) {
        let query: Vec<f32> = vectors[place].iter().map(|element| element + 0.05 * numbers.unit()).collect();
        let mut best: Vec<(f64, usize)> =
            vectors.iter().enumerate().map(|(n, vector)| (Metric::Cosine.score(&query, vector), n)).collect();
        best.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.cmp(&right.1)));
        best.truncate(LIMIT);
        let best: BTreeSet<String> = best.iter().map(|(_, n)| format!("{n:04}")).collect();
        let vector = Vector::new(query.clone(), Metric::Cosine).unwrap();
        let even = Filter::Eq(key("even"), Value::Bool(true));
        for filter in [None, Some(&even)] {
            let search = VectorSearch { vector: &vector, using, filter, limit: LIMIT };
            let hits = store.vectors.search(&context(), &name("docs"), search).await.unwrap();
            assert_eq!(hits.len(), LIMIT, "exactly min(limit, matches)");
            for hit in &hits {
                let n: usize = hit.record.document.id.as_str().parse().unwrap();
                let full = Metric::Cosine.score(&query, &vectors[n]);
                assert_eq!(hit.score, full, "the score of the full vector, to the last bit");
            }
            assert!(hits.is_sorted_by(|left, right| left.score >= right.score));
            if filter.is_none() {
                wanted += LIMIT;
                found += hits.iter().filter(|hit| best.contains(hit.record.document.id.as_str())).count();
            }
        }
    }
    let vector = Vector::new(vectors[0].clone(), Metric::Cosine).unwrap();
    let all = VectorSearch { vector: &vector, using, filter: None, limit: vectors.len() + 1 };
    assert_eq!(store.vectors.search(&context(), &name("docs"), all).await.unwrap().len(), vectors.len());
    found as f64 / wanted as f64
}

/// Quantised vectors decide on candidates alone. Recalls before an index is built, with one, and after a restart, in the main
/// space and in a named one.
async fn recalls_of_quantised_search(quantization: Quantization, dimension: usize) -> Vec<f64> {
    const COUNT: usize = 4000;
    let folder = tempfile::tempdir().unwrap();
    let config = EdgeConfig { index_from_kib: 64, ..fast() };
    let store = open(folder.path(), config).await;
    let space = VectorSpace { dimension: dimension as u32, metric: Metric::Cosine };
    let params = VectorParams {
        named: BTreeMap::from([(title(), space)]),
        quantization: Some(quantization),
        ..VectorParams::new(dimension as u32, Metric::Cosine)
    };
    store.vectors.create(&context(), &name("docs"), params.clone()).await.unwrap();
    let mut numbers = Numbers(23);
    let main = clustered_units(COUNT, dimension, &mut numbers);
    let titles = clustered_units(COUNT, dimension, &mut numbers);
    for first in (0..COUNT).step_by(500) {
        let records = (first..first + 500).map(|n| {
            let even = [("even", Value::Bool(n.is_multiple_of(2)))];
            let mut record = record(&format!("{n:04}"), main[n].clone(), &even);
            record.named.insert(title(), Vector::new(titles[n].clone(), Metric::Cosine).unwrap());
            record
        });
        put(&store, "docs", records.collect()).await;
    }
    let mut recalls = vec![recall(&store, &main, None, &mut numbers).await];
    recalls.push(recall(&store, &titles, Some(&title()), &mut numbers).await);
    store.vectors.build_index(&context(), &name("docs")).await.unwrap();
    let indexed = store.vectors.indexed_count(&context(), &name("docs")).await.unwrap();
    assert!(indexed >= COUNT as u64 / 2, "only {indexed} vectors are indexed");
    recalls.push(recall(&store, &main, None, &mut numbers).await);
    recalls.push(recall(&store, &titles, Some(&title()), &mut numbers).await);
    close(store).await;
    let store = open(folder.path(), config).await;
    assert_eq!(store.vectors.params(&context(), &name("docs")).await.unwrap(), params);
    recalls.push(recall(&store, &main, None, &mut numbers).await);
    close(store).await;
    // Without approximation, quantised vectors play no part.
    let store = open(folder.path(), EdgeConfig { exact: true, ..config }).await;
    assert_eq!(recall(&store, &main, None, &mut numbers).await, 1.0);
    println!("recalls with {quantization:?} in {dimension} dimensions: {recalls:?}");
    recalls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_bits_find_nearly_all_of_the_best() {
    let int8 = Quantization::new(QuantizationKind::Int8, None).unwrap();
    let recalls = recalls_of_quantised_search(int8, 32).await;
    assert!(recalls.iter().all(|recall| *recall >= 0.95), "{recalls:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_bit_finds_the_best_with_enough_candidates() {
    for (oversampling, least) in [(None, 0.95), (Some(8.0), 0.98)] {
        let binary = Quantization::new(QuantizationKind::Binary, oversampling).unwrap();
        let recalls = recalls_of_quantised_search(binary, 256).await;
        assert!(recalls.iter().all(|recall| *recall >= least), "{recalls:?} with {oversampling:?}");
    }
}
