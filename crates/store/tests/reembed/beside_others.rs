//! Operations of a store that several processes share: one runs them at a time, and the others do not stop it.

use std::sync::Arc;
use std::time::Duration;

use toller_core::catalog::{Expected, RecordKind};
use toller_core::{Catalog, OperationState, RequestContext};
use toller_store::{Collections, MemoryStore};

use crate::ground::{context, make, name, until};
use crate::model::{TestModel, models};

const OFTEN: Duration = Duration::from_millis(10);
const NEVER: Duration = Duration::from_secs(10_000);

/// Longer than the machine keeps a task from running.
const LONG: Duration = Duration::from_secs(3);

fn process(memory: &MemoryStore, signs: Duration, loaded: &[&Arc<TestModel>]) -> Collections {
    let (vectors, catalog) = (Arc::clone(&memory.vectors) as _, Arc::clone(&memory.catalog) as _);
    Collections::new(vectors, catalog, models(loaded)).with_reembed_batch(10).with_signs_of_life(signs)
}

async fn state(collections: &Collections, id: &str) -> OperationState {
    collections.operations().get(&context(), id).await.unwrap().state
}

async fn waits_for(collections: &Collections, context: &RequestContext, id: &str) -> OperationState {
    collections.operations().wait(context, id, None).await.unwrap().state
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_gives_signs_of_life_is_left_to_its_process() {
    let memory = MemoryStore::new();
    let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
    let runs = process(&memory, OFTEN, &[&old, &new]);
    make(&runs, "docs", "old", 35).await;
    let started = runs.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
    // One with the model, and one that would let it fail.
    let (with, without) = (process(&memory, OFTEN, &[&old, &new]), process(&memory, OFTEN, &[&old]));
    // Far longer than a machine stands still.
    let silence = Duration::from_secs(3);
    with.watch_operations(silence).await.unwrap();
    without.watch_operations(silence).await.unwrap();
    tokio::time::sleep(2 * silence).await;
    assert_eq!(state(&with, &started.id).await, OperationState::Running);
    new.let_through(100);
    assert_eq!(waits_for(&runs, &context(), &started.id).await, OperationState::Succeeded);
    with.suspend_operations().await;
    without.suspend_operations().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operation_that_is_left_is_gone_on_with_after_a_while() {
    let memory = MemoryStore::new();
    let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
    let left = process(&memory, OFTEN, &[&old, &new]);
    make(&left, "docs", "old", 35).await;
    let started = left.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
    let next = process(&memory, OFTEN, &[&old, &new]);
    next.watch_operations(LONG).await.unwrap();
    // It stops in order, and the one that watches need not wait.
    left.suspend_operations().await;
    new.let_through(100);
    let ended = async || state(&next, &started.id).await != OperationState::Running;
    until(ended).await;
    assert_eq!(state(&next, &started.id).await, OperationState::Succeeded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_process_switched_has_succeeded() {
    let memory = MemoryStore::new();
    let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
    let first = process(&memory, NEVER, &[&old, &new]);
    make(&first, "docs", "old", 35).await;
    let started = first.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
    let second = process(&memory, NEVER, &[&old, &new]);
    assert_eq!(second.resume_operations().await.unwrap(), 1);
    // The first one was about to switch when the second one took it for gone, and does.
    let found = memory.catalog.get(&context(), RecordKind::Collection, "docs").await.unwrap().unwrap();
    let mut record: serde_json::Value = serde_json::from_slice(&found.value).unwrap();
    let generations = record["generations"].as_object_mut().unwrap();
    let building = generations.remove("building").unwrap();
    assert_eq!(building["operation"], started.id);
    generations["current"] = building["generation"]["number"].clone();
    generations.insert("made_by".to_owned(), started.id.clone().into());
    record["fingerprint"] = building["generation"]["fingerprint"].clone();
    let (value, expected) = (serde_json::to_vec(&record).unwrap(), Expected::Version(found.version));
    memory.catalog.swap(&context(), RecordKind::Collection, "docs", expected, value).await.unwrap();
    new.let_through(100);
    assert_eq!(waits_for(&second, &context(), &started.id).await, OperationState::Succeeded);
    let there = second.store().params(&context(), &name("docs").generation(2)).await;
    assert!(there.is_ok(), "what is read is not dropped: {there:?}");
}
