//! The edge store on a disk that fills up: writes are refused, everything else goes on, and nothing that was acknowledged is lost.
//!
//! The disk is a file with a small file system in it, which takes the right to mount one. Where that is missing, these tests say so
//! and do nothing. A tmpfs would not do: there, looking at a part of a file that was never written takes room.

#![cfg(feature = "edge")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stderr,
    reason = "these are tests: they fail by panicking, and say when they cannot run"
)]

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use toller_core::catalog::{Expected, RecordKind};
use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::filter::KeyPath;
use toller_core::keyword::KeywordSearch;
use toller_core::vector_store::{ChangeSet, Selector, VectorSearch};
use toller_core::{
    Catalog, CollectionName, Document, DocumentId, DocumentStore, Durability, Filter, KeywordParams, Metadata, Metric,
    Principal, Record, RequestContext, Value, Vector, VectorStore,
};
use toller_store::backends::edge::{EdgeConfig, EdgeStore};

const MIB: usize = 1 << 20;

/// A disk of its own, as long as it is held.
struct Disk(TempDir);

/// The file and where it is mounted, in the folder of the disk.
const IMAGE: &str = "image";
const MOUNT: &str = "mount";

impl Disk {
    /// One of so many MiB; none where nothing may be mounted.
    fn of(mib: usize) -> Option<Self> {
        let place = tempfile::tempdir().unwrap();
        let (image, mount) = (place.path().join(IMAGE), place.path().join(MOUNT));
        fs::create_dir(&mount).unwrap();
        File::create(&image).unwrap().set_len((mib * MIB) as u64).unwrap();
        let works = |command: &mut Command| command.output().is_ok_and(|done| done.status.success());
        let is_made = works(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0", "-O", "^has_journal"]).arg(&image));
        if is_made && works(Command::new("mount").args(["-o", "loop"]).arg(&image).arg(&mount)) {
            return Some(Self(place));
        }
        eprintln!(
            "SKIPPED: no file system may be made and mounted here, so no disk can be filled; run this test as root"
        );
        None
    }

    fn mount(&self) -> PathBuf {
        self.0.path().join(MOUNT)
    }

    fn data(&self) -> PathBuf {
        self.mount().join("data")
    }

    fn free(&self) -> usize {
        let system = rustix::fs::statvfs(self.mount()).unwrap();
        (system.f_bavail * system.f_frsize) as usize
    }

    /// Has somebody else take all but so many bytes.
    fn fill_to(&self, free: usize) {
        let mut file = File::options().create(true).append(true).open(self.filler()).unwrap();
        while self.free() > free {
            let some = (self.free() - free).min(MIB);
            if file.write_all(&vec![1; some]).is_err() {
                return;
            }
        }
    }

    /// Has it given back.
    fn clear(&self) {
        let _ = fs::remove_file(self.filler());
    }

    fn filler(&self) -> PathBuf {
        self.mount().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.mount()).status();
    }
}

fn context() -> RequestContext {
    RequestContext::new(Principal::anonymous())
}

fn name(name: &str) -> CollectionName {
    CollectionName::new(name).unwrap()
}

fn id(id: &str) -> DocumentId {
    DocumentId::new(id).unwrap()
}

/// Most of it is metadata.
fn document(text: &str, bytes: usize) -> Document {
    let blob = Value::String("x".repeat(bytes));
    let metadata = Metadata::from([("blob".to_owned(), blob), ("kind".to_owned(), Value::from("one"))]);
    Document { id: id(text), page_content: "a text with words".to_owned(), metadata }
}

fn record(text: &str, bytes: usize) -> Record {
    Record::new(Arc::new(document(text, bytes)), Vector::new(vec![1.0, 2.0], Metric::Dot).unwrap())
}

async fn open(folder: &Path) -> EdgeStore {
    let folder = folder.to_owned();
    let config = EdgeConfig { durability: Durability::Process, ..EdgeConfig::default() };
    tokio::task::spawn_blocking(move || EdgeStore::open(&folder, config).unwrap()).await.unwrap()
}

async fn close(store: EdgeStore) {
    tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
}

async fn create(store: &EdgeStore, collection: &str) -> Result<()> {
    let params = VectorParams { keyword: Some(KeywordParams::default()), ..VectorParams::new(2, Metric::Dot) };
    store.vectors.create(&context(), &name(collection), params).await
}

async fn record_of_catalogue(store: &EdgeStore, named: &str) -> Result<()> {
    let context = context();
    let swap = store.catalog.swap(&context, RecordKind::Retriever, named, Expected::Absent, b"kept".to_vec());
    swap.await.map(drop)
}

/// Every kind of read of a collection, which find `count` records.
async fn read(store: &EdgeStore, collection: &str, count: usize) {
    let (context, collection) = (context(), name(collection));
    let vectors = &store.vectors;
    assert_eq!(vectors.count(&context, &collection, None).await.unwrap(), count as u64);
    let filter = Filter::Eq(KeyPath::parse("kind").unwrap(), Value::from("one"));
    assert_eq!(vectors.count(&context, &collection, Some(&filter)).await.unwrap(), count as u64);
    let page = vectors.scroll(&context, &collection, Some(&filter), None, usize::MAX).await.unwrap();
    assert_eq!(page.records.len(), count);
    let vector = Vector::new(vec![1.0, 1.0], Metric::Dot).unwrap();
    let search = VectorSearch { vector: &vector, using: None, filter: Some(&filter), limit: 3 };
    assert_eq!(vectors.search(&context, &collection, search).await.unwrap().len(), count.min(3));
    let search = KeywordSearch { text: "words", filter: None, limit: 3 };
    assert_eq!(vectors.keyword_search(&context, &collection, search).await.unwrap().len(), count.min(3));
}

fn is_full<T>(outcome: Result<T>) -> bool {
    matches!(outcome, Err(Error::ResourceExhausted { what, .. }) if what.starts_with("the disk of the data folder is full: "))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_writes_and_nothing_else() {
    let Some(disk) = Disk::of(256) else { return };
    let store = open(&disk.data()).await;
    for collection in ["a", "b", "c"] {
        create(&store, collection).await.unwrap();
        store
            .vectors
            .upsert(&context(), &name(collection), (0..5).map(|n| record(&n.to_string(), 10)).collect())
            .await
            .unwrap();
    }
    store.documents.put(&context(), &name("a"), vec![document("whole", 100)]).await.unwrap();
    record_of_catalogue(&store, "before").await.unwrap();

    // Nearly full: neither writes nor collections, but deletes and small records.
    disk.fill_to(40 * MIB);
    let upsert = async || store.vectors.upsert(&context(), &name("a"), vec![record("more", 10)]).await;
    let apply = async || {
        let changes = ChangeSet::new(vec![], vec![vec![record("more", 10)]]);
        store.vectors.apply(&context(), &name("a"), changes).await
    };
    let put = async || store.documents.put(&context(), &name("a"), vec![document("more", 10)]).await;
    assert!(is_full(upsert().await) && is_full(apply().await) && is_full(put().await));
    assert!(is_full(create(&store, "d").await));
    read(&store, "a", 5).await;
    record_of_catalogue(&store, "nearly").await.unwrap();
    let one = Selector::Ids(vec![id("4")]);
    assert_eq!(store.vectors.delete(&context(), &name("a"), &one).await.unwrap(), 1);
    assert_eq!(store.documents.delete(&context(), &name("a"), &[id("none")]).await.unwrap(), 0);

    // Nothing is left: what was set aside is enough to be started with, and to read and delete.
    disk.fill_to(0);
    close(store).await;
    let store = open(&disk.data()).await;
    for (collection, count) in [("a", 4), ("b", 5), ("c", 5)] {
        read(&store, collection, count).await;
    }
    let whole = store.documents.get(&context(), &name("a"), &[id("whole")]).await.unwrap();
    assert_eq!(whole, [Some(document("whole", 100))]);
    assert_eq!(store.vectors.delete(&context(), &name("b"), &Selector::All).await.unwrap(), 5);
    store.vectors.drop_collection(&context(), &name("c")).await.unwrap();
    assert!(is_full(store.vectors.upsert(&context(), &name("a"), vec![record("more", 10)]).await));

    // Somebody takes that as well.
    disk.fill_to(0);
    assert!(is_full(record_of_catalogue(&store, "after").await));
    assert!(is_full(store.vectors.delete(&context(), &name("a"), &Selector::All).await));
    read(&store, "a", 4).await;
    assert!(store.catalog.get(&context(), RecordKind::Retriever, "before").await.unwrap().is_some());

    // There is room again.
    disk.clear();
    store.vectors.upsert(&context(), &name("a"), vec![record("more", 10)]).await.unwrap();
    store.documents.put(&context(), &name("a"), vec![document("more", 10)]).await.unwrap();
    record_of_catalogue(&store, "after").await.unwrap();
    create(&store, "d").await.unwrap();
    assert!(disk.data().join("reserve").exists(), "it is set aside for the next time");
    close(store).await;
    let store = open(&disk.data()).await;
    read(&store, "a", 5).await;
    read(&store, "b", 0).await;
    let listed = store.catalog.list(&context(), RecordKind::Retriever).await.unwrap();
    assert_eq!(listed.into_iter().map(|record| record.name).collect::<Vec<_>>(), ["after", "before", "nearly"]);
}

/// Each write of these would have room alone: they must not use it all at once, which would end the process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_writes_at_once_do_not_fill_the_disk_together() {
    const WRITES: usize = 40;
    const RECORDS: usize = 40;

    let Some(disk) = Disk::of(224) else { return };
    let store = open(&disk.data()).await;
    create(&store, "docs").await.unwrap();
    // Keep the writer busy, so that what is let in waits.
    let few = (0..2000).map(|n| record(&format!("few-{n}"), 10)).collect();
    store.vectors.upsert(&context(), &name("docs"), few).await.unwrap();
    let mut writes = Vec::new();
    for write in 0..WRITES {
        let store = store.clone();
        writes.push(tokio::spawn(async move {
            let filter = Filter::Eq(KeyPath::parse("kind").unwrap(), Value::from("none"));
            let records: Vec<Record> = (0..RECORDS).map(|n| record(&format!("{write:02}-{n:02}"), 60_000)).collect();
            if write % 2 == 0 {
                store.vectors.delete(&context(), &name("docs"), &Selector::Filter(filter)).await.unwrap();
                return (write, store.vectors.upsert(&context(), &name("docs"), records).await);
            }
            let changes = ChangeSet::new(vec![], records.chunks(10).map(<[Record]>::to_vec).collect());
            (write, store.vectors.apply(&context(), &name("docs"), changes).await.map(drop))
        }));
    }
    let mut expected: BTreeSet<String> = (0..2000).map(|n| format!("few-{n}")).collect();
    let mut refused = 0;
    for write in writes {
        match write.await.unwrap() {
            (write, Ok(())) => expected.extend((0..RECORDS).map(|n| format!("{write:02}-{n:02}"))),
            (_, outcome) => {
                refused += 1;
                assert!(is_full(outcome));
            }
        }
    }
    assert!(refused > 0 && refused < WRITES, "{refused} of {WRITES} were refused");
    assert!(disk.free() > 16 * MIB, "{} MiB are free", disk.free() / MIB);
    let ids = async |store: &EdgeStore| -> BTreeSet<String> {
        let ids = store.vectors.ids(&context(), &name("docs"), None, usize::MAX).await.unwrap();
        ids.iter().map(ToString::to_string).collect()
    };
    assert_eq!(ids(&store).await, expected);
    read(&store, "docs", expected.len()).await;
    close(store).await;
    let store = open(&disk.data()).await;
    assert_eq!(ids(&store).await, expected);
    read(&store, "docs", expected.len()).await;
}

/// There is less room than the store was told, as when others take it between its look and its write: the database, which lies on
/// the small disk here, refuses everything then, and is opened again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_database_goes_on_after_a_write_that_had_no_room() {
    let Some(disk) = Disk::of(64) else { return };
    let data = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(disk.mount().join("records"), data.path().join("records.redb")).unwrap();
    let store = open(data.path()).await;
    record_of_catalogue(&store, "before").await.unwrap();
    disk.fill_to(20 * MIB);

    let (context, docs) = (context(), name("docs"));
    let put = async |n: usize| store.documents.put(&context, &docs, vec![document(&n.to_string(), MIB)]).await;
    let all_are_there = async |store: &EdgeStore, count: usize| {
        let ids: Vec<DocumentId> = (0..count).map(|n| id(&n.to_string())).collect();
        let found = store.documents.get(&context, &docs, &ids).await.unwrap();
        assert!(found.iter().zip(0..count).all(|(found, n)| *found == Some(document(&n.to_string(), MIB))));
        assert!(store.catalog.get(&context, RecordKind::Retriever, "before").await.unwrap().is_some());
    };
    let mut count = 0;
    let fault = loop {
        match put(count).await {
            Ok(()) => count += 1,
            Err(fault) => break fault,
        }
    };
    assert!((1..40).contains(&count), "{count} were written");
    assert!(matches!(&fault, Error::ResourceExhausted { what, .. } if what.contains("os error 28")), "{fault:?}");
    all_are_there(&store, count).await;
    for again in 0..3 {
        assert!(is_full(put(count + again).await));
        all_are_there(&store, count).await;
    }
    disk.clear();
    put(count).await.unwrap();
    record_of_catalogue(&store, "after").await.unwrap();
    all_are_there(&store, count + 1).await;
    close(store).await;
    let store = open(data.path()).await;
    all_are_there(&store, count + 1).await;
    assert!(store.catalog.get(&context, RecordKind::Retriever, "after").await.unwrap().is_some());
}
