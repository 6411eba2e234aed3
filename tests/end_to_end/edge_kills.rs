//! The edge backend is killed while many write and delete at once: what was acknowledged is there afterwards, and of what was under
//! way all or nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use toller_api::v1;
use toller_api::v1::documents_delete_request::Selector;
use toller_api::v1::filter::Kind as FilterKind;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::Settings;

/// Who writes at once. Each has documents of its own, so that it knows what is there.
const CALLERS: usize = 4;

/// Groups of documents that are written and deleted together, of each caller.
const GROUPS: usize = 6;

/// Documents of a group.
const DOCUMENTS: usize = 8;

/// Kills in a run; `TOLLER_TEST_KILLS` asks for more.
const KILLS: usize = 3;

/// What is there of a group: all its documents in one version, or none of them.
type State = Option<i64>;

/// What a caller knows of its groups.
#[derive(Debug, Clone, Default)]
struct Model {
    acknowledged: [State; GROUPS],
    /// The call that was not answered.
    under_way: Option<(usize, State)>,
}

fn id(caller: usize, group: usize, n: usize) -> String {
    format!("{caller}-{group}-{n}")
}

fn documents(caller: usize, group: usize, version: i64) -> Vec<v1::Document> {
    let of = |n: usize| {
        point(&id(caller, group, n), &[version as f32, n as f32])
            .with("version", int(version))
            .with("group", string(&format!("{caller}-{group}")))
    };
    (0..DOCUMENTS).map(of).collect()
}

fn of_group(caller: usize, group: usize) -> v1::Filter {
    compare(FilterKind::Eq, "group", string(&format!("{caller}-{group}")))
}

/// Brings a group to another state; none of it is known to have happened when this fails.
async fn change(client: &Client, caller: usize, group: usize, to: State) -> Result<(), tonic::Status> {
    let collection = "points".to_owned();
    let selector = match to {
        Some(version) => {
            let documents = documents(caller, group, version);
            let add = v1::DocumentsAddRequest { collection, documents, ..Default::default() };
            return client.documents().add(add).await.map(drop);
        }
        None if fastrand::bool() => Selector::Filter(of_group(caller, group)),
        None => Selector::Ids(v1::DocumentIds { ids: (0..DOCUMENTS).map(|n| id(caller, group, n)).collect() }),
    };
    let delete = v1::DocumentsDeleteRequest { collection, selector: Some(selector) };
    client.documents().delete(delete).await.map(drop)
}

/// Writes and deletes until the server is gone.
async fn call(client: Client, caller: usize, mut model: Model, first: i64, is_killed: Arc<AtomicBool>) -> Model {
    for version in first.. {
        let group = fastrand::usize(..GROUPS);
        let to = if fastrand::u8(..10) < 7 { Some(version) } else { None };
        if let Err(fault) = change(&client, caller, group, to).await {
            assert!(is_killed.load(Ordering::SeqCst), "{fault}");
            model.under_way = Some((group, to));
            return model;
        }
        model.acknowledged[group] = to;
    }
    model
}

/// What is there of a group.
fn found(all: &[v1::Document], caller: usize, group: usize) -> Vec<(&str, Option<&v1::Value>)> {
    let prefix = format!("{caller}-{group}-");
    let of_group = all.iter().filter(|document| document.id_text().starts_with(&prefix));
    of_group.map(|document| (document.id_text(), document.metadata.get("version"))).collect()
}

/// Compares what is there with what a caller knows, and tells it what became of the call that was under way.
async fn settle(client: &Client, all: &[v1::Document], caller: usize, model: &mut Model) {
    let under_way = model.under_way.take();
    for group in 0..GROUPS {
        let found = found(all, caller, group);
        let is = |state: State| match state {
            None => found.is_empty(),
            Some(version) => {
                let expected = documents(caller, group, version);
                let expected = expected.iter().map(|document| (document.id_text(), document.metadata.get("version")));
                found.iter().copied().eq(expected)
            }
        };
        let acknowledged = model.acknowledged[group];
        match under_way {
            _ if is(acknowledged) => {}
            Some((of, to)) if of == group && is(to) => model.acknowledged[group] = to,
            _ => panic!("{found:?} of group {caller}-{group}, after {acknowledged:?}, with {under_way:?} under way"),
        }
        let count = client.count_matching("points", Some(of_group(caller, group))).await;
        assert_eq!(count, found.len() as u64, "a filter finds the same");
    }
}

#[tokio::test]
async fn kills_among_many_writes_and_deletes_lose_nothing_and_leave_nothing_half_done() {
    let kills = std::env::var("TOLLER_TEST_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let settings = Settings::new().without_model().on_disk().set("store.durability", "process");
    let mut server = settings.start().await;
    let mut client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Dot).await;
    let mut models = vec![Model::default(); CALLERS];
    let mut acknowledged = 0;
    for kill in 0..kills {
        let is_killed = Arc::new(AtomicBool::new(false));
        let mut callers = Vec::new();
        for (caller, model) in models.iter().enumerate() {
            // No version comes twice.
            let first = (kill as i64) << 32;
            let client = server.client().await;
            callers.push(tokio::spawn(call(client, caller, model.clone(), first, Arc::clone(&is_killed))));
        }
        tokio::time::sleep(Duration::from_millis(fastrand::u64(100..900))).await;
        is_killed.store(true, Ordering::SeqCst);
        server.kill().await;
        for (model, caller) in models.iter_mut().zip(callers) {
            *model = caller.await.unwrap();
            acknowledged += model.acknowledged.iter().flatten().filter(|version| **version > 0).count();
        }
        server = settings.start().await;
        client = server.client().await;
        let mut all = client.all("points").await;
        all.sort_by(|a, b| a.id.cmp(&b.id));
        for (caller, model) in models.iter_mut().enumerate() {
            settle(&client, &all, caller, model).await;
        }
        let there = models.iter().flat_map(|model| &model.acknowledged).flatten().count();
        assert_eq!(all.len(), there * DOCUMENTS, "there is nothing else");
    }
    assert!(acknowledged > 0, "something must have been written before a kill");
}
