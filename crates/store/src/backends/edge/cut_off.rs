//! Commits of many changes that are cut off: the folder is copied before and after everything that a commit writes or makes
//! durable, and every copy is opened. In each is all of it or nothing, and all once it was acknowledged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use toller_core::collection::VectorParams;
use toller_core::vector_store::{Applied, ChangeSet};
use toller_core::{
    CollectionName, Document, DocumentId, Durability, KeywordParams, KeywordSearch, Language, Metadata, Metric,
    Principal, Record, RequestContext, Vector, VectorStore,
};

use super::power_loss::{copy_of, watch};
use super::{EdgeConfig, EdgeStore};

/// Records before the commit: of these a third is removed, and a third is replaced.
const OLD: usize = 90;

/// New records of the commit: more than are written to the engine at once, and too few for an index, whose builder would hold
/// the folder when it is closed.
const NEW: usize = 200;

fn context() -> RequestContext {
    RequestContext::new(Principal::anonymous())
}

fn docs() -> CollectionName {
    CollectionName::new("docs").unwrap()
}

fn id(n: usize) -> DocumentId {
    DocumentId::new(format!("{n:04}")).unwrap()
}

fn record(n: usize, text: &str) -> Record {
    let document = Document { id: id(n), page_content: text.to_owned(), metadata: Metadata::new() };
    Record::new(Arc::new(document), Vector::new(vec![1.0, n as f32], Metric::Dot).unwrap())
}

fn changes() -> ChangeSet {
    let written = (OLD / 3..OLD * 2 / 3).chain(OLD..OLD + NEW).map(|n| record(n, "new text"));
    let written: Vec<Record> = written.collect();
    ChangeSet::new((0..OLD / 3).map(id).collect(), written.chunks(70).map(<[Record]>::to_vec).collect())
}

fn state(is_after: bool) -> BTreeMap<String, String> {
    let text = |n: usize| if n < OLD / 3 || (OLD * 2 / 3..OLD).contains(&n) { "old text" } else { "new text" };
    let all = if is_after { OLD / 3..OLD + NEW } else { 0..OLD };
    all.map(|n| (id(n).to_string(), if is_after { text(n) } else { "old text" }.to_owned())).collect()
}

async fn open(folder: &Path, config: EdgeConfig) -> EdgeStore {
    let folder = folder.to_owned();
    tokio::task::spawn_blocking(move || EdgeStore::open(&folder, config).unwrap()).await.unwrap()
}

/// What there is; reads and statistics agree on it.
async fn found(store: &EdgeStore) -> BTreeMap<String, String> {
    let page = store.vectors.scroll(&context(), &docs(), None, None, usize::MAX).await.unwrap();
    let of = |record: &Record| (record.document.id.to_string(), record.document.page_content.clone());
    let found: BTreeMap<String, String> = page.records.iter().map(of).collect();
    for text in ["old", "new"] {
        let search = KeywordSearch { text, filter: None, limit: 10_000 };
        let hits = store.vectors.keyword_search(&context(), &docs(), search).await.unwrap();
        let with_text = found.values().filter(|found| found.starts_with(text)).count();
        assert_eq!(hits.len(), with_text);
        let idf = (1.0 + (found.len() as f64 - with_text as f64 + 0.5) / (with_text as f64 + 0.5)).ln();
        let weight = 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * 2.0 / 256.0));
        assert!(hits.iter().all(|hit| (hit.score - idf * weight).abs() < 1e-5), "statistics are of what is there");
    }
    found
}

async fn every_copy_is_whole(durability: Durability) {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    let folder = root.join("store");
    let config = EdgeConfig { durability, exact: true, ..EdgeConfig::default() };
    let store = open(&folder, config).await;
    let keyword = Some(KeywordParams { language: Language::None });
    let params = VectorParams { keyword, ..VectorParams::new(2, Metric::Dot) };
    store.vectors.create(&context(), &docs(), params).await.unwrap();
    store.vectors.upsert(&context(), &docs(), (0..OLD).map(|n| record(n, "old text")).collect()).await.unwrap();

    let copies: Arc<Mutex<Vec<(PathBuf, bool)>>> = Arc::default();
    let is_acknowledged = Arc::new(AtomicBool::new(false));
    let look = {
        let (folder, copies, is_acknowledged) = (folder.clone(), Arc::clone(&copies), Arc::clone(&is_acknowledged));
        move || {
            let was_acknowledged = is_acknowledged.load(Ordering::SeqCst);
            let mut copies = copies.lock();
            let target = root.join(format!("copy-{}", copies.len()));
            copy_of(&folder, &target);
            copies.push((target, was_acknowledged));
        }
    };
    let watch = watch(&folder, look);
    let applied = store.vectors.apply(&context(), &docs(), changes()).await.unwrap();
    assert_eq!(applied, Applied { upserted: (OLD / 3 + NEW) as u64, deleted: (OLD / 3) as u64 });
    is_acknowledged.store(true, Ordering::SeqCst);
    store.vectors.upsert(&context(), &docs(), vec![record(0, "old text")]).await.unwrap();
    drop(watch);
    drop(store);

    let (before, after) = (state(false), state(true));
    let mut with_more = after.clone();
    with_more.insert(id(0).to_string(), "old text".to_owned());
    let copies = std::mem::take(&mut *copies.lock());
    let mut outcomes = Vec::new();
    for (folder, was_acknowledged) in copies {
        // The second time it is a folder like any other.
        for opening in 0..2 {
            let store = open(&folder, config).await;
            let found = found(&store).await;
            let is_after = found == after || found == with_more;
            assert!(is_after || found == before, "{} records in {}", found.len(), folder.display());
            assert!(is_after || !was_acknowledged, "what was acknowledged is there");
            if opening == 0 {
                outcomes.push(is_after);
                if !is_after {
                    store.vectors.apply(&context(), &docs(), changes()).await.unwrap();
                }
            } else {
                assert!(is_after);
                let collection = std::fs::read_dir(folder.join("collections")).unwrap().next().unwrap().unwrap().path();
                let left = std::fs::read_dir(collection).unwrap().map(|entry| entry.unwrap().file_name());
                assert_eq!(left.filter(|name| name.to_string_lossy().contains("changes")).count(), 0);
            }
            tokio::task::spawn_blocking(move || drop(store)).await.unwrap();
        }
        std::fs::remove_dir_all(folder).unwrap();
    }
    assert!(outcomes.is_sorted(), "once it is decided it stays: {outcomes:?}");
    let decided = outcomes.iter().filter(|is_after| **is_after).count();
    assert!(decided >= 10, "{outcomes:?}");
    assert!(durability != Durability::Fsync || decided < outcomes.len(), "{outcomes:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_cut_off_is_whole_when_power_goes() {
    every_copy_is_whole(Durability::Fsync).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_is_cut_off_is_whole_when_the_process_dies() {
    every_copy_is_whole(Durability::Process).await;
}
