//! Many changes in one commit: all of it or nothing, for readers as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use async_trait::async_trait;
use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::vector_store::{Applied, ChangeSet, RecordSource};
use toller_core::{
    Document, DocumentId, Filter, KeywordParams, KeywordSearch, Language, Metadata, Metric, Record, Value, VectorStore,
};

use super::fixture::{Numbers, Scene, collection, context, id, ids, key, metadata, record, vector_of};

async fn apply(scene: &Scene, delete: Vec<DocumentId>, upsert: Vec<Vec<Record>>) -> Result<Applied> {
    scene.store.apply(&scene.context, &scene.collection, ChangeSet::new(delete, upsert)).await
}

async fn with_keywords(store: Arc<dyn VectorStore>) -> Scene {
    let scene = Scene { store, context: context("conformance"), collection: collection("docs") };
    let keyword = Some(KeywordParams { language: Language::None });
    let params = VectorParams { keyword, ..VectorParams::new(2, Metric::Dot) };
    scene.store.create(&scene.context, &scene.collection, params).await.unwrap();
    scene
}

/// What there is: each id with its text and vector, as all kinds of reads agree on it.
async fn state(scene: &Scene) -> BTreeMap<String, (String, Vec<f32>)> {
    let page = scene.store.scroll(&scene.context, &scene.collection, None, None, usize::MAX).await.unwrap();
    let of = |record: &Record| {
        let document = &record.document;
        (document.id.to_string(), (document.page_content.clone(), record.vector.as_slice().to_vec()))
    };
    let state: BTreeMap<_, _> = page.records.iter().map(of).collect();
    let hits = scene.search(&[1.0, 0.5], None, 10_000).await;
    assert_eq!(hits.iter().map(|hit| of(&hit.record)).collect::<BTreeMap<_, _>>(), state);
    assert_eq!(scene.count(None).await, state.len() as u64);
    assert_eq!(scene.count(Some(&Filter::And(Vec::new()))).await, state.len() as u64);
    let ids: Vec<DocumentId> = page.records.iter().map(|record| record.document.id.clone()).collect();
    assert_eq!(scene.store.ids(&scene.context, &scene.collection, None, usize::MAX).await.unwrap(), ids);
    let found = scene.store.get(&scene.context, &scene.collection, &ids).await.unwrap();
    assert_eq!(found.into_iter().map(Option::unwrap).collect::<Vec<_>>(), page.records);
    state
}

/// Deletes, replacements and new records in several answers of the source; what is deleted and written is written, and is not
/// counted as deleted.
pub async fn a_change_set_removes_replaces_and_writes(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Dot, 2).await;
    let old = ["a", "b", "c", "d"].iter().map(|id| record(id, &[1.0, 0.0], metadata([("old", Value::Bool(true))])));
    scene.put(old.collect()).await;
    let new = |id: &str| record(id, &[0.0, 2.0], metadata([("old", Value::Bool(false))]));
    let batches = vec![vec![new("e"), new("a")], Vec::new(), vec![new("f")]];
    let applied = apply(&scene, ids(["b", "missing", "a", "b", "f"]), batches).await.unwrap();
    assert_eq!(applied, Applied { upserted: 3, deleted: 1 });
    assert_eq!(state(&scene).await.into_keys().collect::<Vec<_>>(), ["a", "c", "d", "e", "f"]);
    let is_old = Filter::Eq(key("old"), Value::Bool(true));
    assert_eq!(scene.all_ids(Some(&is_old)).await, ["c", "d"]);
    assert_eq!(scene.search_ids(&[0.0, 1.0], None, 3).await, ["a", "e", "f"]);
    assert_eq!(scene.count(Some(&is_old)).await, 2);

    let applied = apply(&scene, ids(["a", "c", "d", "e", "f"]), Vec::new()).await.unwrap();
    assert_eq!(applied, Applied { upserted: 0, deleted: 5 });
    assert_eq!(scene.count(None).await, 0);
    // Other writes go on as before.
    scene.put(vec![new("a")]).await;
    assert_eq!(apply(&scene, Vec::new(), vec![vec![new("a")]]).await.unwrap(), Applied { upserted: 1, deleted: 0 });
    assert_eq!(scene.all_ids(None).await, ["a"]);

    let changes = ChangeSet::new(ids(["a"]), Vec::new());
    let missing = scene.store.apply(&scene.context, &collection("missing"), changes).await;
    assert!(matches!(missing, Err(Error::NotFound { .. })), "{missing:?}");
}

/// Nothing to do is no fault, with or without ids that are not there.
pub async fn an_empty_change_set_changes_nothing(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Dot, 1).await;
    scene.put(vec![record("a", &[1.0], Metadata::new())]).await;
    for delete in [Vec::new(), ids(["missing"])] {
        for batches in [Vec::new(), vec![Vec::new(), Vec::new()]] {
            assert_eq!(apply(&scene, delete.clone(), batches).await.unwrap(), Applied::default());
        }
    }
    assert_eq!(scene.all_ids(None).await, ["a"]);
}

/// Within one answer of the source or across several, with the places of both; so is what an upsert refuses.
pub async fn an_id_that_stands_twice_is_refused(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Dot, 1).await;
    scene.put(vec![record("kept", &[1.0], Metadata::new())]).await;
    let new = |id: &str| record(id, &[2.0], Metadata::new());
    let faulty = [
        (vec![vec![new("kept"), new("b")], vec![new("c"), new("b")]], "records[3].id: \"b\" stands at records[1]"),
        (vec![vec![new("kept")], vec![new("c"), new("c")]], "records[2].id: \"c\" stands at records[1]"),
        (vec![vec![new("a")], vec![record("b", &[1.0, 2.0], Metadata::new())]], "records[1].vector"),
    ];
    for (batches, expected) in faulty {
        let fault = apply(&scene, ids(["kept"]), batches).await.unwrap_err();
        assert!(matches!(fault, Error::InvalidArgument(_)) && fault.to_string().contains(expected), "{fault:?}");
        assert_eq!(scene.all_ids(None).await, ["kept"]);
        assert_eq!(scene.search(&[1.0], None, 1).await[0].score, 1.0, "nothing was replaced");
    }
}

/// A source that breaks off.
struct Failing(std::vec::IntoIter<Vec<Record>>);

#[async_trait]
impl RecordSource for Failing {
    async fn next(&mut self) -> Result<Option<Vec<Record>>> {
        match Iterator::next(&mut self.0) {
            Some(records) => Ok(Some(records)),
            None => Err(Error::Unavailable("the source ran dry".to_owned())),
        }
    }
}

/// Its error is the answer, and the collection goes on as if nothing had been.
pub async fn a_source_that_fails_changes_nothing(store: Arc<dyn VectorStore>) {
    let scene = with_keywords(store).await;
    let row = |group: &str, n: usize| record(&format!("{group}{n:03}"), &[1.0, n as f32], Metadata::new());
    scene.put((0..10).map(|n| row("a", n)).collect()).await;
    let before = state(&scene).await;
    for batches in 0..3 {
        let batches: Vec<Vec<Record>> =
            (0..batches).map(|batch| (0..300).map(|n| row(["a", "b"][batch], n)).collect()).collect();
        let changes = ChangeSet { delete: ids(["a001", "a009"]), upsert: Box::new(Failing(batches.into_iter())) };
        let fault = scene.store.apply(&scene.context, &scene.collection, changes).await.unwrap_err();
        assert_eq!(fault, Error::Unavailable("the source ran dry".to_owned()));
        assert_eq!(state(&scene).await, before);
    }
    let applied = apply(&scene, ids(["a001"]), vec![(0..300).map(|n| row("b", n)).collect()]).await.unwrap();
    assert_eq!(applied, Applied { upserted: 300, deleted: 1 });
    assert_eq!(state(&scene).await.len(), 309);
}

/// Rows of one of two groups, of which one is there at a time; those of the group `c` are always there.
fn group_row(group: &str, n: usize, round: usize) -> Record {
    let metadata = metadata([("group", Value::from(group)), ("round", Value::Int(round as i64))]);
    let document = Document { id: id(&format!("{group}{n:04}")), page_content: format!("word{round} all"), metadata };
    Record::new(Arc::new(document), vector_of(&[1.0, round as f32]))
}

/// Swaps the groups `a` and `b` of so many rows, and replaces so many rows of `c`.
async fn swap(scene: &Scene, round: usize, rows: usize, common: usize) {
    let (old, new) = if round.is_multiple_of(2) { ("a", "b") } else { ("b", "a") };
    let delete = (0..rows).map(|n| id(&format!("{old}{n:04}"))).collect();
    let written: Vec<Record> =
        (0..rows).map(|n| group_row(new, n, round)).chain((0..common).map(|n| group_row("c", n, round))).collect();
    let batches = written.chunks(128).map(<[Record]>::to_vec).collect();
    let deleted = if round == 0 { 0 } else { rows as u64 };
    let upserted = (rows + common) as u64;
    assert_eq!(apply(scene, delete, batches).await.unwrap(), Applied { upserted, deleted });
}

/// All records are of one round, and as many as there must be.
fn assert_whole(records: &[Record], expected: usize, what: &str) -> i64 {
    let rounds: BTreeSet<i64> = records.iter().map(round_of).collect();
    assert_eq!((records.len(), rounds.len()), (expected, 1), "{what} saw a mixture of rounds {rounds:?}");
    rounds.into_iter().next().unwrap()
}

fn round_of(record: &Record) -> i64 {
    let Value::Int(round) = record.document.metadata["round"] else { panic!("a round is a number") };
    assert_eq!(record.vector.as_slice()[1], round as f32, "document and vector are of one write");
    round
}

/// While two sets of rows are swapped back and forth and a third is replaced, every read sees one side of a swap.
pub async fn readers_see_all_of_a_change_set_or_nothing(store: Arc<dyn VectorStore>) {
    const ROWS: usize = 300;
    const COMMON: usize = 20;
    const OBSERVATIONS: usize = 250;

    let scene = Arc::new(with_keywords(store).await);
    swap(&scene, 0, ROWS, COMMON).await;
    let (done, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let readers: Vec<_> = (0..3)
        .map(|reader| {
            let (scene, done, seen) = (Arc::clone(&scene), Arc::clone(&done), Arc::clone(&seen));
            tokio::spawn(async move {
                let mut last = 0;
                for look in reader.. {
                    let was_done = done.load(Ordering::Acquire);
                    if let Some(round) = look_at(&scene, look % 6, ROWS, COMMON).await {
                        assert!(round >= last, "round {round} after round {last}");
                        last = round;
                    }
                    seen.fetch_add(1, Ordering::AcqRel);
                    if was_done {
                        break;
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    let mut round = 0;
    while (seen.load(Ordering::Acquire) < OBSERVATIONS || round < 12)
        && !readers.iter().any(|reader| reader.is_finished())
    {
        round += 1;
        swap(&scene, round, ROWS, COMMON).await;
    }
    done.store(true, Ordering::Release);
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(look_at(&scene, 0, ROWS, COMMON).await, Some(round as i64), "what is acknowledged is seen");
}

/// One read of some kind, and which round it saw where that shows.
async fn look_at(scene: &Scene, kind: usize, rows: usize, common: usize) -> Option<i64> {
    let Scene { store, context, collection } = scene;
    let of_group = |group: &str| Filter::Eq(key("group"), Value::from(group));
    match kind {
        0 => {
            let hits = scene.search(&[1.0, 0.0], None, 10_000).await;
            let records: Vec<Record> = hits.into_iter().map(|hit| hit.record).collect();
            Some(assert_whole(&records, rows + common, "a search"))
        }
        1 => {
            let page = store.scroll(context, collection, None, None, usize::MAX).await.unwrap();
            Some(assert_whole(&page.records, rows + common, "a scroll"))
        }
        2 => {
            let search = KeywordSearch { text: "all", filter: None, limit: 10_000 };
            let hits = store.keyword_search(context, collection, search).await.unwrap();
            let scores: BTreeSet<String> = hits.iter().map(|hit| format!("{:.9}", hit.score)).collect();
            assert_eq!(scores.len(), 1, "a keyword search saw mixed statistics");
            let records: Vec<Record> = hits.into_iter().map(|hit| hit.record).collect();
            Some(assert_whole(&records, rows + common, "a keyword search"))
        }
        3 => {
            let asked: Vec<DocumentId> =
                (0..rows).flat_map(|n| [id(&format!("a{n:04}")), id(&format!("b{n:04}"))]).collect();
            let found = store.get(context, collection, &asked).await.unwrap();
            let records: Vec<Record> = found.into_iter().flatten().collect();
            Some(assert_whole(&records, rows, "a get"))
        }
        4 => {
            let ids = store.ids(context, collection, None, usize::MAX).await.unwrap();
            let groups: BTreeSet<&str> = ids.iter().map(|id| &id.as_str()[..1]).collect();
            assert_eq!((ids.len(), groups.len()), (rows + common, 2), "ids are of one group and the common one");
            None
        }
        _ => {
            assert_eq!(scene.count(None).await, (rows + common) as u64);
            let count = scene.count(Some(&of_group("a"))).await;
            assert!(count == 0 || count == rows as u64, "a count saw {count} of {rows}");
            let hits = scene.search(&[1.0, 0.0], Some(&of_group("b")), 10_000).await;
            assert!(hits.is_empty() || hits.len() == rows, "a filtered search saw {} of {rows}", hits.len());
            None
        }
    }
}

/// The same where a read of all rows takes several steps in a store.
pub async fn reads_of_many_pages_see_all_of_a_change_set_or_nothing(store: Arc<dyn VectorStore>) {
    const ROWS: usize = 1500;
    const SWAPS: usize = 6;

    let scene = Arc::new(with_keywords(store).await);
    swap(&scene, 0, ROWS, 1).await;
    let done = Arc::new(AtomicBool::new(false));
    let reader = {
        let (scene, done) = (Arc::clone(&scene), Arc::clone(&done));
        tokio::spawn(async move {
            let all = Filter::Ne(key("group"), Value::from("d"));
            while !done.load(Ordering::Acquire) {
                assert_eq!(scene.count(Some(&all)).await, ROWS as u64 + 1);
                let page = scene.store.scroll(&scene.context, &scene.collection, Some(&all), None, usize::MAX);
                assert_whole(&page.await.unwrap().records, ROWS + 1, "a filtered scroll");
                let hits = scene.search(&[1.0, 0.0], Some(&all), 10_000).await;
                let records: Vec<Record> = hits.into_iter().map(|hit| hit.record).collect();
                assert_whole(&records, ROWS + 1, "a filtered search");
            }
        })
    };
    for round in 1..=SWAPS {
        swap(&scene, round, ROWS, 1).await;
    }
    done.store(true, Ordering::Release);
    reader.await.unwrap();
}

/// After any history of change sets, everything is as if the last state had been written at once.
pub async fn change_sets_do_what_deletes_and_upserts_do(store: Arc<dyn VectorStore>) {
    const IDS: u64 = 80;
    const ROUNDS: usize = 25;

    let scene = with_keywords(store).await;
    let mut numbers = Numbers(11);
    let mut model: BTreeMap<DocumentId, Record> = BTreeMap::new();
    for round in 0..ROUNDS {
        let mut written: BTreeMap<DocumentId, Record> = BTreeMap::new();
        for _ in 0..numbers.next_u64() % 60 {
            let id = id(&format!("{:02}", numbers.next_u64() % IDS));
            let words: Vec<String> =
                (0..1 + numbers.next_u64() % 8).map(|_| format!("w{}", numbers.next_u64() % 12)).collect();
            let data = metadata([("n", Value::Int((numbers.next_u64() % 5) as i64))]);
            let document = Document { id: id.clone(), page_content: words.join(" "), metadata: data };
            let vector = vector_of(&numbers.vector(2));
            written.insert(id, Record::new(Arc::new(document), vector));
        }
        let chosen = (0..numbers.next_u64() % 40).map(|_| id(&format!("{:02}", numbers.next_u64() % IDS)));
        let delete: Vec<DocumentId> = chosen.collect();
        let gone: BTreeSet<&DocumentId> =
            delete.iter().filter(|id| model.contains_key(*id) && !written.contains_key(*id)).collect();
        let expected = Applied { upserted: written.len() as u64, deleted: gone.len() as u64 };
        let batch = 1 + numbers.next_u64() as usize % 20;
        let records: Vec<Record> = written.values().cloned().collect();
        let batches = records.chunks(batch).map(<[Record]>::to_vec).collect();
        assert_eq!(apply(&scene, delete.clone(), batches).await.unwrap(), expected, "round {round}");
        model.retain(|id, _| !delete.contains(id));
        model.extend(written);

        let of = |record: &Record| (record.document.page_content.clone(), record.vector.as_slice().to_vec());
        let expected = model.iter().map(|(id, record)| (id.to_string(), of(record))).collect();
        assert_eq!(state(&scene).await, expected, "round {round}");
    }

    let fresh = Scene { store: Arc::clone(&scene.store), context: context("fresh"), collection: collection("docs") };
    let params = scene.store.params(&scene.context, &scene.collection).await.unwrap();
    fresh.store.create(&fresh.context, &fresh.collection, params).await.unwrap();
    fresh.put(model.into_values().collect()).await;
    for filter in [None, Some(Filter::Lt(key("n"), Value::Int(3)))] {
        for limit in [3, 1000] {
            let query = numbers.vector(2);
            let (ours, theirs) = (
                scene.search(&query, filter.as_ref(), limit).await,
                fresh.search(&query, filter.as_ref(), limit).await,
            );
            assert_eq!(ours, theirs);
            let search = KeywordSearch { text: "w3 w7", filter: filter.as_ref(), limit: 1000 };
            let mut answers = Vec::new();
            for scene in [&scene, &fresh] {
                let hits = scene.store.keyword_search(&scene.context, &scene.collection, search).await.unwrap();
                answers.push(
                    hits.into_iter().map(|hit| (hit.record.document.id.clone(), hit.score)).collect::<BTreeMap<_, _>>(),
                );
            }
            assert_eq!(answers[0], answers[1]);
        }
    }
}

/// The same ids in a collection of the same name.
pub async fn change_sets_of_tenants_are_apart(store: Arc<dyn VectorStore>) {
    let ours = Scene::new(store, Metric::Dot, 1).await;
    let theirs = Scene { store: Arc::clone(&ours.store), context: context("other"), collection: collection("docs") };
    let refused = apply(&theirs, ids(["a"]), Vec::new()).await;
    assert!(matches!(refused, Err(Error::NotFound { .. })), "{refused:?}");
    assert!(theirs.store.ids(&theirs.context, &theirs.collection, None, 9).await.is_err());
    theirs.store.create(&theirs.context, &theirs.collection, VectorParams::new(1, Metric::Dot)).await.unwrap();
    ours.put(vec![record("a", &[1.0], Metadata::new()), record("b", &[1.0], Metadata::new())]).await;

    let applied = apply(&theirs, ids(["b"]), vec![vec![record("a", &[2.0], Metadata::new())]]).await.unwrap();
    assert_eq!(applied, Applied { upserted: 1, deleted: 0 });
    assert_eq!(ours.search_ids(&[1.0], None, 9).await, ["a", "b"]);
    assert_eq!(ours.search(&[1.0], None, 1).await[0].score, 1.0);
    assert_eq!(theirs.search(&[1.0], None, 9).await[0].score, 2.0);
    assert_eq!(theirs.store.ids(&theirs.context, &theirs.collection, None, 9).await.unwrap(), ids(["a"]));

    // A room for staging is a collection of its own.
    let staging = Scene {
        store: Arc::clone(&ours.store),
        context: context("conformance"),
        collection: collection("docs").staging(),
    };
    staging.store.create(&staging.context, &staging.collection, VectorParams::new(1, Metric::Dot)).await.unwrap();
    staging.put(vec![record("a", &[3.0], Metadata::new())]).await;
    assert_eq!(staging.all_ids(None).await, ["a"]);
    assert_eq!(ours.search(&[1.0], None, 1).await[0].score, 1.0);
    staging.store.drop_collection(&staging.context, &staging.collection).await.unwrap();
    assert_eq!(ours.all_ids(None).await, ["a", "b"]);
}

/// Pages of any size together are all ids once, in the order of their bytes; the first id need not be there.
pub async fn ids_come_in_order_from_an_id_on(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Dot, 1).await;
    let page = async |from: Option<&str>, limit: usize| {
        let from = from.map(id);
        let ids = scene.store.ids(&scene.context, &scene.collection, from.as_ref(), limit).await.unwrap();
        ids.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(page(None, 5).await, [] as [&str; 0]);
    let mut written: Vec<String> = ["b", "B", "\u{e9}", "a10", "a2", "z", "\u{65e5}", "a"].map(str::to_owned).to_vec();
    written.extend((0..150).map(|n| format!("https://example.com/a/long/path/in/common/{n:05}")));
    scene.put(written.iter().map(|id| record(id, &[1.0], Metadata::new())).collect()).await;
    written.sort_unstable();
    for limit in [1, 20, 1000] {
        let mut seen: Vec<String> = Vec::new();
        // The first id of the next page is the last one with a byte behind it.
        loop {
            let from = seen.last().map(|last| format!("{last}\u{0}"));
            let ids = page(from.as_deref(), limit).await;
            assert!(ids.len() <= limit);
            if ids.is_empty() || (limit == 1 && seen.len() >= 12) {
                break;
            }
            seen.extend(ids);
        }
        assert_eq!(seen, written[..seen.len()], "pages of {limit}");
        assert!(limit == 1 || seen.len() == written.len());
    }
    assert_eq!(page(Some("a2"), 2).await, ["a2", "b"], "it begins with the first id");
    assert_eq!(page(Some("a3"), 1).await, ["b"]);
    assert_eq!(page(None, 0).await, [] as [&str; 0]);
    let gone = scene.store.apply(&scene.context, &scene.collection, ChangeSet::new(ids(["a2"]), Vec::new()));
    assert_eq!(gone.await.unwrap().deleted, 1);
    assert_eq!(page(Some("a2"), 1).await, ["b"]);
}
