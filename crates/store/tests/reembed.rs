//! Collections that are embedded anew while they are read and written: nothing is lost, nothing comes back, and the end is what a
//! new collection would be, whatever happens on the way.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "these are tests: they fail by panicking"
)]

#[path = "reembed/beside_others.rs"]
mod beside_others;
#[path = "reembed/ground.rs"]
mod ground;
#[path = "reembed/interleavings.rs"]
mod interleavings;
#[path = "reembed/model.rs"]
mod model;
#[path = "reembed/torn.rs"]
mod torn;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use toller_core::error::{Error, ResourceKind};
use toller_core::operation::FaultClass;
use toller_core::vector_store::{Applied, ChangeSet, Selector};
use toller_core::{OperationState, Query, VectorStore};
use toller_store::{Collections, MemoryStore, VectorSource};

use ground::{Ground, contents, context, document, expected, id, make, name, on_every_backend, with_parity, writer};
use model::{Mood, TestModel, models};

/// Documents at the start, in batches of 10.
const DOCUMENTS: usize = 35;

fn reason<T: std::fmt::Debug>(answer: Result<T, Error>) -> (&'static str, String) {
    match answer {
        Err(Error::FailedPrecondition { reason, message }) => (reason, message),
        other => panic!("must be a failed precondition: {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_and_writes_go_on_and_the_end_is_as_a_new_collection() {
    on_every_backend(async |ground: &mut Ground| {
        let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
        let collections = ground.collections(models(&[&old, &new]));
        let handle = make(&collections, "docs", "old", DOCUMENTS).await;
        let mut kept: Vec<(String, String)> =
            (0..DOCUMENTS).map(|n| (format!("d{n:03}"), format!("text {n}"))).collect();

        let started = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
        assert_eq!((started.state, started.subject.as_str(), started.done), (OperationState::Running, "docs", 0));
        new.let_through(1);
        ground::until(async || collections.operations().get(&context(), &started.id).await.unwrap().done == 10).await;
        let half = collections.operations().get(&context(), &started.id).await.unwrap();
        assert_eq!((half.state, half.total, half.ended_at_ms), (OperationState::Running, Some(35), None));
        // The second batch is with the model. What was copied, what is on its way and what is to come is changed.
        for (id, text) in [("d002", "changed, copied"), ("d012", "changed, on its way"), ("d030", "changed, to come")] {
            handle.add(&writer(), vec![document(id, text)], None).await.unwrap();
            kept.iter_mut().find(|(kept, _)| kept == id).unwrap().1 = text.to_owned();
        }
        for id in ["a new first", "d013 and a half", "z new last"] {
            handle.add(&writer(), vec![document(id, id)], None).await.unwrap();
            kept.push((id.to_owned(), id.to_owned()));
        }
        let gone = ["d003", "d014", "d031"];
        let deleted = handle.delete(&writer(), &Selector::Ids(gone.map(id).to_vec())).await.unwrap();
        assert_eq!(deleted, 3, "counted once, not once for each generation");
        kept.retain(|(id, _)| !gone.contains(&id.as_str()));
        let deleted = handle.delete(&writer(), &Selector::Filter(with_parity(1))).await.unwrap();
        assert!(deleted > 3);
        kept.retain(|(_, text)| ground::parity(text) != 1);
        // Readers see the old model's vectors and the new documents.
        assert_eq!(contents(&handle).await, expected(&collections, &old, &kept).await);
        let opened = collections.open(&context(), &name("docs")).await.unwrap();
        assert_eq!(opened.spec().fingerprint.model, "old");

        new.let_through(100);
        let ended = collections.operations().wait(&context(), &started.id, None).await.unwrap();
        assert_eq!((ended.state, ended.fault.as_ref()), (OperationState::Succeeded, None), "{ended:?}");
        assert_eq!((ended.done, ended.total), (kept.len() as u64, Some(kept.len() as u64)));
        assert!(ended.ended_at_ms >= Some(ended.started_at_ms));
        let opened = collections.open(&context(), &name("docs")).await.unwrap();
        let fingerprint = &opened.spec().fingerprint;
        assert_eq!((fingerprint.model.as_str(), fingerprint.dimension), ("new", 5));
        assert_eq!(contents(&opened).await, expected(&collections, &new, &kept).await);
        let vector = opened.query_vector(&context(), &Query::Text("text 4".to_owned())).await.unwrap();
        assert_eq!(vector.dimension(), 5);

        // A handle of before the switch writes where the collection is now.
        handle.add(&writer(), vec![document("late", "late")], None).await.unwrap();
        kept.push(("late".to_owned(), "late".to_owned()));
        assert_eq!(handle.delete(&writer(), &Selector::Ids(vec![id("d004")])).await.unwrap(), 1);
        kept.retain(|(id, _)| id != "d004");
        assert_eq!(contents(&opened).await, expected(&collections, &new, &kept).await);
        let old_vector = toller_store::NewDocument { vector: Some(vec![1.0; 3]), ..document("late", "late") };
        let fault = handle.add(&writer(), vec![old_vector], None).await.unwrap_err();
        assert!(fault.to_string().contains("documents[0].vectors.dense: must have the collection's 5"), "{fault}");
        // Nobody sees how the store tells generations apart.
        let listed = collections.list(&context()).await.unwrap();
        assert!(listed.iter().all(|spec| !spec.name.as_str().contains('@')), "{listed:?}");
    })
    .await;
}

/// A commit of many records has vectors of one model: it waits until there is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_changes_in_one_commit_are_refused_while_another_model_takes_over() {
    on_every_backend(async |ground: &mut Ground| {
        let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
        let collections = ground.collections(models(&[&old, &new]));
        let handle = make(&collections, "docs", "old", DOCUMENTS).await;
        let ids = handle.ids(&context(), Some(&id("d003")), 2).await.unwrap();
        assert_eq!(ids, [id("d003"), id("d004")]);
        let copies = handle.get(&context(), &ids).await.unwrap().into_iter().flatten().collect::<Vec<_>>();
        let changes = || ChangeSet::new(vec![id("d001"), id("d003")], vec![copies.clone()]);
        let applied = handle.apply(&context(), changes()).await.unwrap();
        assert_eq!(applied, Applied { upserted: 2, deleted: 1 });
        assert_eq!(handle.count(&context(), None).await.unwrap(), DOCUMENTS as u64 - 1);
        let before = contents(&handle).await;

        let started = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
        let (why, message) = reason(handle.apply(&context(), changes()).await);
        assert_eq!(why, "REEMBED_RUNNING");
        assert!(message.contains(&started.id) && message.contains("or cancel it"), "{message}");
        assert_eq!(contents(&handle).await, before);
        new.let_through(100);
        collections.operations().wait(&context(), &started.id, None).await.unwrap();

        let moved = handle.apply(&context(), changes()).await.unwrap_err();
        assert!(matches!(&moved, Error::Aborted(what) if what.contains("another model")), "{moved:?}");
        let opened = collections.open(&context(), &name("docs")).await.unwrap();
        assert_eq!(opened.count(&context(), None).await.unwrap(), DOCUMENTS as u64 - 1);
        let applied = opened.apply(&context(), ChangeSet::new(vec![id("d003")], Vec::new())).await.unwrap();
        assert_eq!(applied, Applied { upserted: 0, deleted: 1 });
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_operation_leaves_everything_as_it_was() {
    on_every_backend(async |ground: &mut Ground| {
        let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
        let collections = ground.collections(models(&[&old, &new]));
        let handle = make(&collections, "docs", "old", DOCUMENTS).await;
        let before = contents(&handle).await;
        let started = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
        new.let_through(1);
        ground::until(async || collections.operations().get(&context(), &started.id).await.unwrap().done == 10).await;
        let store = collections.store();
        assert_eq!(store.count(&context(), &name("docs").generation(2), None).await.unwrap(), 10);
        let (why, message) = reason(collections.reembed(&context(), &name("docs"), Some("new")).await);
        assert_eq!(why, "REEMBED_RUNNING");
        assert!(message.contains(&started.id), "{message}");
        assert_eq!(
            collections.operations().cancel(&ground::theirs(), &started.id).await,
            Err(Error::NotFound { kind: ResourceKind::Operation, name: started.id.clone() }),
            "another tenant has no such operation"
        );

        collections.operations().cancel(&context(), &started.id).await.unwrap();
        let ended = collections.operations().wait(&context(), &started.id, None).await.unwrap();
        assert_eq!((ended.state, ended.fault.as_ref()), (OperationState::Cancelled, None));
        assert_eq!(collections.operations().cancel(&context(), &started.id).await.unwrap(), ended, "it has ended");
        let fault = store.params(&context(), &name("docs").generation(2)).await.unwrap_err();
        assert_eq!(fault, Error::NotFound { kind: ResourceKind::Collection, name: "docs".to_owned() });
        assert_eq!(contents(&handle).await, before);
        let calls = new.calls.load(Ordering::Relaxed);
        handle.add(&writer(), vec![document("more", "more")], None).await.unwrap();
        assert_eq!(new.calls.load(Ordering::Relaxed), calls, "writes go to one generation again");

        new.let_through(100);
        let again = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
        let ended = collections.operations().wait(&context(), &again.id, None).await.unwrap();
        assert_eq!((ended.state, ended.done), (OperationState::Succeeded, DOCUMENTS as u64 + 1));
        let listed = collections.operations().list(&context()).await.unwrap();
        assert_eq!(listed.iter().map(|operation| &operation.id).collect::<Vec<_>>(), [&again.id, &started.id]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_process_goes_on_where_the_last_one_was() {
    on_every_backend(async |ground: &mut Ground| {
        let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
        let collections = ground.collections(models(&[&old, &new]));
        make(&collections, "docs", "old", DOCUMENTS).await;
        let started = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
        new.let_through(2);
        ground::until(async || collections.operations().get(&context(), &started.id).await.unwrap().done == 20).await;
        collections.suspend_operations().await;
        let refused = collections.reembed(&context(), &name("docs"), Some("new")).await;
        assert!(refused.is_err(), "{refused:?}");
        drop(collections);
        ground.reopen().await;

        let new = TestModel::gated("new", 5);
        let collections = ground.collections(models(&[&old, &new]));
        // Writes reach both before anybody goes on with the rest.
        let handle = collections.open(&context(), &name("docs")).await.unwrap();
        handle.add(&writer(), vec![document("d001", "changed between")], None).await.unwrap();
        handle.delete(&writer(), &Selector::Ids(vec![id("d002")])).await.unwrap();
        let embedded = new.texts.load(Ordering::Relaxed);
        assert_eq!(collections.resume_operations().await.unwrap(), 1);
        new.let_through(100);
        let ended = collections.operations().wait(&context(), &started.id, None).await.unwrap();
        assert_eq!(ended.state, OperationState::Succeeded, "{ended:?}");
        assert_eq!(new.texts.load(Ordering::Relaxed) - embedded, DOCUMENTS - 20, "nothing is embedded twice");
        let mut kept: Vec<(String, String)> =
            (0..DOCUMENTS).map(|n| (format!("d{n:03}"), format!("text {n}"))).collect();
        kept[1].1 = "changed between".to_owned();
        kept.remove(2);
        let opened = collections.open(&context(), &name("docs")).await.unwrap();
        assert_eq!(contents(&opened).await, expected(&collections, &new, &kept).await);
        assert_eq!(collections.resume_operations().await.unwrap(), 0, "it has ended");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_model_an_operation_that_was_left_fails_and_reads_go_on() {
    on_every_backend(async |ground: &mut Ground| {
        let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
        let collections = ground.collections(models(&[&old, &new]));
        let handle = make(&collections, "docs", "old", DOCUMENTS).await;
        let before = contents(&handle).await;
        let started = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
        new.let_through(1);
        ground::until(async || collections.operations().get(&context(), &started.id).await.unwrap().done == 10).await;
        collections.suspend_operations().await;
        drop((handle, collections));
        ground.reopen().await;

        let collections = ground.collections(models(&[&old]));
        let handle = collections.open(&context(), &name("docs")).await.unwrap();
        let (why, message) = reason(handle.add(&writer(), vec![document("x", "x")], None).await);
        assert_eq!(why, "FINGERPRINT_MISMATCH");
        assert!(message.contains("test/new") && message.contains(&started.id), "{message}");
        assert_eq!(collections.resume_operations().await.unwrap(), 0);
        let ended = collections.operations().get(&context(), &started.id).await.unwrap();
        let fault = ended.fault.unwrap();
        assert_eq!((ended.state, fault.class), (OperationState::Failed, FaultClass::FailedPrecondition));
        for part in ["\"docs\"", "test/new", "start it with that model"] {
            assert!(fault.message.contains(part), "{part} is missing: {}", fault.message);
        }
        assert_eq!(contents(&handle).await, before);
        handle.add(&writer(), vec![document("x", "x")], None).await.unwrap();
        assert!(collections.store().params(&context(), &name("docs").generation(2)).await.is_err());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deleted_collection_takes_all_its_generations_along() {
    on_every_backend(async |ground: &mut Ground| {
        let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
        let collections = ground.collections(models(&[&old, &new]));
        let handle = make(&collections, "docs", "old", DOCUMENTS).await;
        new.let_through(100);
        let first = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
        collections.operations().wait(&context(), &first.id, None).await.unwrap();
        new.close();
        let third = TestModel::gated("third", 4);
        collections.suspend_operations().await;
        drop(collections);
        let collections = ground.collections(models(&[&old, &new, &third]));
        let started = collections.reembed(&context(), &name("docs"), Some("third")).await.unwrap();
        let store: Arc<dyn VectorStore> = Arc::clone(collections.store());
        let held = async || -> Vec<u32> {
            let mut held = Vec::new();
            for number in 1..=4 {
                if store.params(&context(), &name("docs").generation(number)).await.is_ok() {
                    held.push(number);
                }
            }
            held
        };
        assert_eq!(held().await, [2, 3], "the one before the last is gone when the next one is begun");
        collections.delete(&context(), &name("docs")).await.unwrap();
        let ended = collections.operations().wait(&context(), &started.id, None).await.unwrap();
        assert_eq!(ended.state, OperationState::Cancelled, "{ended:?}");
        assert_eq!(held().await, [0_u32; 0]);
        let fault = handle.add(&writer(), vec![document("x", "x")], None).await.unwrap_err();
        assert_eq!(fault, Error::NotFound { kind: ResourceKind::Collection, name: "docs".to_owned() });
        let remade = make(&collections, "docs", "old", 1).await;
        assert_eq!(contents(&remade).await.len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_way_back_embeds_only_what_was_changed() {
    let mut ground = Ground::memory();
    let (old, new) = (TestModel::new("old", 3), TestModel::new("new", 5));
    let collections = ground.collections(models(&[&old, &new]));
    let handle = make(&collections, "docs", "old", DOCUMENTS).await;
    let there = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
    collections.operations().wait(&context(), &there.id, None).await.unwrap();
    handle.add(&writer(), vec![document("d001", "changed"), document("more", "more")], None).await.unwrap();
    handle.delete(&writer(), &Selector::Ids(vec![id("d002")])).await.unwrap();
    let embedded = old.texts.load(Ordering::Relaxed);
    let back = collections.reembed(&context(), &name("docs"), Some("old")).await.unwrap();
    let ended = collections.operations().wait(&context(), &back.id, None).await.unwrap();
    assert_eq!(ended.state, OperationState::Succeeded);
    assert_eq!(old.texts.load(Ordering::Relaxed) - embedded, 2);
    let mut kept: Vec<(String, String)> = (0..DOCUMENTS).map(|n| (format!("d{n:03}"), format!("text {n}"))).collect();
    kept[1].1 = "changed".to_owned();
    kept.remove(2);
    kept.push(("more".to_owned(), "more".to_owned()));
    let opened = collections.open(&context(), &name("docs")).await.unwrap();
    assert_eq!(contents(&opened).await, expected(&collections, &old, &kept).await);
    for (number, is_held) in [(1, false), (2, true), (3, true)] {
        let params = collections.store().params(&context(), &name("docs").generation(number)).await;
        assert_eq!(params.is_ok(), is_held, "generation {number}");
    }
}

#[tokio::test]
async fn what_cannot_be_embedded_anew_is_refused() {
    let mut ground = Ground::memory();
    let (old, new) = (TestModel::new("old", 3), TestModel::new("new", 5));
    let collections = ground.collections(models(&[&old, &new]));
    let reembed = async |text: &str, model: Option<&str>| collections.reembed(&context(), &name(text), model).await;
    let missing = Error::NotFound { kind: ResourceKind::Collection, name: "docs".to_owned() };
    assert_eq!(reembed("docs", None).await, Err(missing));
    make(&collections, "docs", "old", 3).await;
    let missing = Error::NotFound { kind: ResourceKind::Model, name: "third".to_owned() };
    assert_eq!(reembed("docs", Some("third")).await, Err(missing));
    let own = ground::new_collection("own", VectorSource::Client { dimension: 3 });
    collections.create(&context(), own).await.unwrap();
    let (why, message) = reason(reembed("own", Some("new")).await);
    assert_eq!(why, "CLIENT_VECTORS_ONLY");
    assert!(message.contains("from the client"), "{message}");
    assert_eq!(collections.operations().list(&context()).await.unwrap(), [], "nothing was begun");

    // The default model is the old one.
    let done = reembed("docs", None).await.unwrap();
    assert_eq!((done.state, done.done, done.total), (OperationState::Succeeded, 0, Some(0)));
    assert_eq!(collections.operations().wait(&context(), &done.id, None).await.unwrap(), done);
    assert_eq!(collections.operations().list(&ground::theirs()).await.unwrap(), []);
    for _ in 0..toller_store::operations::MAX_ENDED_OPERATIONS {
        reembed("docs", None).await.unwrap();
    }
    let listed = collections.operations().list(&context()).await.unwrap();
    assert_eq!(listed.len(), toller_store::operations::MAX_ENDED_OPERATIONS);
    assert!(listed.iter().all(|operation| operation.id != done.id), "the oldest is forgotten");
    assert!(listed.is_sorted_by(|newer, older| newer.id > older.id));
}

#[tokio::test]
async fn what_is_full_or_out_of_reach_is_waited_for() {
    let mut ground = Ground::memory();
    let (old, new) = (TestModel::new("old", 3), TestModel::new("new", 5));
    let soon = Some(Duration::from_millis(1));
    *new.moods.lock().unwrap() = vec![Mood::Full(soon), Mood::Unreachable, Mood::Full(None), Mood::Full(None)];
    let collections = ground.collections(models(&[&old, &new]));
    make(&collections, "docs", "old", DOCUMENTS).await;
    let started = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
    let ended = collections.operations().wait(&context(), &started.id, None).await.unwrap();
    assert_eq!((ended.state, ended.done), (OperationState::Succeeded, DOCUMENTS as u64));
    assert!(new.moods.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_text_that_cannot_be_embedded_fails_the_operation_and_nothing_else() {
    let mut ground = Ground::memory();
    let (old, new) = (TestModel::new("old", 3), TestModel::new("new", 5));
    let collections = ground.collections(models(&[&old, &new]));
    let handle = make(&collections, "docs", "old", 3).await;
    handle.add(&writer(), vec![document("bad one", "nan")], None).await.unwrap();
    let started = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
    let ended = collections.operations().wait(&context(), &started.id, None).await.unwrap();
    let fault = ended.fault.unwrap();
    assert_eq!((ended.state, fault.class), (OperationState::Failed, FaultClass::Internal));
    assert!(fault.message.contains("document \"bad one\""), "{}", fault.message);
    assert_eq!(contents(&handle).await.len(), 4);
    assert!(collections.store().params(&context(), &name("docs").generation(2)).await.is_err());
}

#[tokio::test]
async fn whoever_waits_hears_of_the_end_or_of_the_deadline() {
    let mut ground = Ground::memory();
    let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
    let collections = Arc::new(ground.collections(models(&[&old, &new])));
    make(&collections, "docs", "old", 3).await;
    let missing = Error::NotFound { kind: ResourceKind::Operation, name: "none".to_owned() };
    assert_eq!(collections.operations().wait(&context(), "none", None).await, Err(missing));
    let started = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
    let soon = Instant::now() + Duration::from_millis(30);
    let late = collections.operations().wait(&context(), &started.id, Some(soon)).await.unwrap();
    assert!(late.state == OperationState::Running && Instant::now() >= soon);
    let waiting = {
        let (collections, id) = (Arc::clone(&collections), started.id.clone());
        tokio::spawn(async move { collections.operations().wait(&context(), &id, None).await })
    };
    tokio::task::yield_now().await;
    new.let_through(1);
    let ended = waiting.await.unwrap().unwrap();
    assert_eq!(ended.state, OperationState::Succeeded);
    // Another process over the same catalogue sees the record.
    let other = Collections::new(Arc::clone(collections.store()), Arc::clone(collections.catalog()), models(&[&old]));
    assert_eq!(other.operations().wait(&context(), &started.id, None).await.unwrap(), ended);
}

#[tokio::test]
async fn two_processes_never_run_the_same_operation() {
    let memory = MemoryStore::new();
    let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
    let process = || {
        let (vectors, catalog) = (Arc::clone(&memory.vectors) as _, Arc::clone(&memory.catalog) as _);
        Collections::new(vectors, catalog, models(&[&old, &new])).with_reembed_batch(10)
    };
    let (first, second) = (process(), process());
    make(&first, "docs", "old", DOCUMENTS).await;
    let started = first.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
    assert_eq!(second.resume_operations().await.unwrap(), 1);
    new.let_through(100);
    let ended = second.operations().wait(&context(), &started.id, None).await.unwrap();
    assert_eq!((ended.state, ended.done), (OperationState::Succeeded, DOCUMENTS as u64));
    assert_eq!(first.operations().wait(&context(), &started.id, None).await.unwrap(), ended);
    // Asked of the process that does not run it, a request to cancel reaches the one that does.
    let third = TestModel::gated("third", 4);
    let (vectors, catalog) = (Arc::clone(&memory.vectors) as _, Arc::clone(&memory.catalog) as _);
    let runs = Collections::new(vectors, catalog, models(&[&old, &new, &third])).with_reembed_batch(10);
    let started = runs.reembed(&context(), &name("docs"), Some("third")).await.unwrap();
    first.operations().cancel(&context(), &started.id).await.unwrap();
    third.let_through(1);
    let ended = runs.operations().wait(&context(), &started.id, None).await.unwrap();
    assert_eq!(ended.state, OperationState::Cancelled);
}
