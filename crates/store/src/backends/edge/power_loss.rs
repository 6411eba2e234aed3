//! Power loss, as far as it can be had in a test: the folder is copied whenever something is about to be made durable and
//! when that is done, and every copy is opened. In each is everything that was acknowledged by then, each write whole, and
//! nothing that was not asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use toller_core::catalog::{Expected, RecordKind};
use toller_core::collection::VectorParams;
use toller_core::vector_store::Selector;
use toller_core::{
    Catalog, CollectionName, Document, DocumentId, Durability, KeywordParams, Metadata, Metric, Principal, Record,
    RequestContext, Vector, VectorStore,
};

use super::{EdgeConfig, EdgeStore};

/// Who wants to know of syncs: the folder whose files it is about, and what to do.
type Watcher = (PathBuf, Box<dyn Fn() + Send>);

static WATCHERS: Mutex<Vec<Watcher>> = Mutex::new(Vec::new());

/// Runs what makes something at or below a folder durable, and has those who watch the folder look before and after. One at a
/// time, so that nothing else is being made durable while somebody looks.
pub(super) fn syncing<T>(path: &Path, sync: impl FnOnce() -> T) -> T {
    let watchers = WATCHERS.lock();
    let look = || watchers.iter().filter(|(folder, _)| path.starts_with(folder)).for_each(|(_, look)| look());
    look();
    let outcome = sync();
    look();
    outcome
}

/// Has somebody look at a folder whenever something in it is about to be made durable and when that is done, until the answer
/// is dropped.
pub(super) fn watch(folder: &Path, look: impl Fn() + Send + 'static) -> Watch {
    WATCHERS.lock().push((folder.to_owned(), Box::new(look)));
    Watch(folder.to_owned())
}

/// See [`watch`].
pub(super) struct Watch(PathBuf);

impl Drop for Watch {
    fn drop(&mut self) {
        WATCHERS.lock().retain(|(watched, _)| *watched != self.0);
    }
}

static REFUSED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Makes a folder durable, unless a test wants that to fail.
pub(super) fn sync(path: &Path, folder: &File) -> io::Result<()> {
    if REFUSED.lock().iter().any(|refused| refused == path) {
        Err(io::Error::from_raw_os_error(5))
    } else {
        folder.sync_all()
    }
}

/// Has a disk fail to make a folder durable until the answer is dropped.
pub(super) fn refuse(folder: &Path) -> Refusal {
    REFUSED.lock().push(folder.to_owned());
    Refusal(folder.to_owned())
}

/// See [`refuse`].
pub(super) struct Refusal(PathBuf);

impl Drop for Refusal {
    fn drop(&mut self) {
        REFUSED.lock().retain(|refused| *refused != self.0);
    }
}

/// Copies a folder while files appear and go in it, as the engine makes and removes some: cp says so and goes on.
pub(super) fn copy_of(folder: &Path, target: &Path) {
    let _ = Command::new("cp").arg("-r").arg("--sparse=always").arg(folder).arg(target).output().unwrap();
}

/// Writers side by side, each on ids of its own.
const WRITERS: usize = 3;

/// Writes of each.
const WRITES: usize = 8;

/// Documents of one write.
const BATCH: usize = 3;

/// What a copy must hold: how many writes of each writer, and of the catalogue, were acknowledged before and after it was made.
struct Copied {
    folder: PathBuf,
    before: Vec<usize>,
    after: Vec<usize>,
}

fn context() -> RequestContext {
    RequestContext::new(Principal::anonymous())
}

fn docs() -> CollectionName {
    CollectionName::new("docs").unwrap()
}

fn record(writer: usize, row: usize, write: usize) -> Record {
    let id = DocumentId::new(format!("{writer}-{row}")).unwrap();
    let document = Document { id, page_content: format!("write {write}"), metadata: Metadata::new() };
    Record::new(Arc::new(document), Vector::new(vec![1.0, write as f32], Metric::Dot).unwrap())
}

/// Write `write` of a writer: three documents, and every fourth one removes what there is.
async fn write(store: &EdgeStore, writer: usize, write: usize) {
    let outcome = if write % 4 == 3 {
        let ids = (0..BATCH).map(|row| record(writer, row, write).document.id.clone()).collect();
        store.vectors.delete(&context(), &docs(), &Selector::Ids(ids)).await.map(drop)
    } else {
        let records = (0..BATCH).map(|row| record(writer, row, write)).collect();
        store.vectors.upsert(&context(), &docs(), records).await
    };
    outcome.unwrap();
}

/// What there is of a writer after so many writes: the text of every row.
fn state_after(writes: usize) -> Vec<String> {
    match writes.checked_sub(1) {
        None => Vec::new(),
        Some(last) if last % 4 == 3 => Vec::new(),
        Some(last) => vec![format!("write {last}"); BATCH],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_copy_has_what_was_acknowledged() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let folder = root.join("store");
    let acknowledged: Arc<Vec<AtomicUsize>> = Arc::new((0..=WRITERS).map(|_| AtomicUsize::new(0)).collect());
    let copies: Arc<Mutex<Vec<Copied>>> = Arc::default();

    let config = EdgeConfig { durability: Durability::Fsync, ..EdgeConfig::default() };
    let store = open(folder.clone(), config).await;
    let params = VectorParams { keyword: Some(KeywordParams::default()), ..VectorParams::new(2, Metric::Dot) };
    store.vectors.create(&context(), &docs(), params).await.unwrap();
    let look = {
        let (root, folder) = (root.clone(), folder.clone());
        let (acknowledged, copies) = (Arc::clone(&acknowledged), Arc::clone(&copies));
        move || {
            let counts = || acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect();
            // What is acknowledged while the copy is made need not be in it, and may be.
            let before = counts();
            let mut copies = copies.lock();
            let target = root.join(format!("copy-{}", copies.len()));
            copy_of(&folder, &target);
            copies.push(Copied { folder: target, before, after: counts() });
        }
    };
    let watch = watch(&folder, look);

    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let (store, acknowledged) = (store.clone(), Arc::clone(&acknowledged));
        tasks.push(tokio::spawn(async move {
            for number in 0..WRITES {
                write(&store, writer, number).await;
                acknowledged[writer].fetch_add(1, Ordering::SeqCst);
            }
        }));
    }
    let (catalog, counted) = (Arc::clone(&store.catalog), Arc::clone(&acknowledged));
    tasks.push(tokio::spawn(async move {
        for number in 0..WRITES {
            let (name, value) = (format!("r{number}"), vec![number as u8]);
            catalog.swap(&context(), RecordKind::Retriever, &name, Expected::Absent, value).await.unwrap();
            counted[WRITERS].fetch_add(1, Ordering::SeqCst);
        }
    }));
    for task in tasks {
        task.await.unwrap();
    }
    drop(watch);
    drop(store);

    let copies = std::mem::take(&mut *copies.lock());
    assert!(copies.len() >= 2 * WRITES, "only {} copies", copies.len());
    for Copied { folder, before, after } in copies {
        let store = open(folder.clone(), config).await;
        let page = store.vectors.scroll(&context(), &docs(), None, None, usize::MAX).await.unwrap();
        let mut rows: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for record in page.records {
            let writer = record.document.id.as_str().split('-').next().unwrap().parse().unwrap();
            rows.entry(writer).or_default().push(record.document.page_content.clone());
        }
        for writer in 0..WRITERS {
            let found = rows.remove(&writer).unwrap_or_default();
            // The one that was under way may be there.
            let (least, most) = (before[writer], after[writer] + 1);
            assert!(
                (least..=most).any(|writes| found == state_after(writes)),
                "{found:?} after {least} acknowledged writes in {}",
                folder.display()
            );
        }
        assert!(rows.is_empty(), "{rows:?}");
        let found = store.catalog.list(&context(), RecordKind::Retriever).await.unwrap();
        let found: BTreeSet<String> = found.into_iter().map(|record| record.name).collect();
        let least: BTreeSet<String> = (0..before[WRITERS]).map(|number| format!("r{number}")).collect();
        assert!(found.is_superset(&least) && found.len() <= after[WRITERS] + 1, "{found:?}");
        // It can be written to.
        write(&store, 0, 0).await;
        tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }
}

async fn open(folder: PathBuf, config: EdgeConfig) -> EdgeStore {
    tokio::task::spawn_blocking(move || EdgeStore::open(&folder, config).unwrap()).await.unwrap()
}
