//! Snapshots: everything as of one moment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::vector_store::{RecordSink, Selector};
use toller_core::{Document, DocumentStore, Metadata, Metric, Record, Value, VectorName, VectorSpace, VectorStore};

use super::fixture::{Scene, collection, context, document, id, ids, metadata, record, vector_of};

/// A sink that keeps what it gets, and what it keeps.
fn keeping() -> (RecordSink, Arc<Mutex<Vec<Record>>>) {
    let kept: Arc<Mutex<Vec<Record>>> = Arc::default();
    let records = Arc::clone(&kept);
    let sink = Box::new(move |mut more: Vec<Record>| -> Result<()> {
        records.lock().unwrap().append(&mut more);
        Ok(())
    });
    (sink, kept)
}

fn by_id(records: &[Record]) -> BTreeMap<String, &Record> {
    records.iter().map(|record| (record.document.id.to_string(), record)).collect()
}

/// Every record is in it once, as it was written last, with all its vectors; and nothing of another collection or tenant.
pub async fn a_snapshot_holds_every_record_with_all_vectors(store: Arc<dyn VectorStore>) {
    let title = VectorName::new("title").unwrap();
    let named = BTreeMap::from([(title.clone(), VectorSpace { dimension: 2, metric: Metric::Dot })]);
    let params = VectorParams { named, ..VectorParams::new(3, Metric::Euclidean) };
    let (ours, docs) = (context("conformance"), collection("docs"));
    store.create(&ours, &docs, params).await.unwrap();
    let (sink, kept) = keeping();
    assert_eq!(store.snapshot(&ours, &docs, sink).await.unwrap(), 0);
    assert_eq!(*kept.lock().unwrap(), []);

    // More than any store hands out at once.
    let mut written: Vec<Record> = (0..1500_u32)
        .map(|number| {
            let mut record = record(
                &format!("{number:04}"),
                &[number as f32, 0.5, -1.0],
                metadata([("n", Value::Int(number.into()))]),
            );
            if number % 3 == 0 {
                record.named.insert(title.clone(), vector_of(&[1.0, number as f32]));
            }
            record
        })
        .collect();
    for batch in written.chunks(500) {
        store.upsert(&ours, &docs, batch.to_vec()).await.unwrap();
    }
    // One loses its named vector, one goes.
    written[0] = record("0000", &[7.0, 7.0, 7.0], Metadata::new());
    store.upsert(&ours, &docs, vec![written[0].clone()]).await.unwrap();
    written.remove(1);
    store.delete(&ours, &docs, &Selector::Ids(ids(["0001"]))).await.unwrap();
    let more = Scene::named("more", Arc::clone(&store), Metric::Euclidean, 3).await;
    more.put(vec![record("elsewhere", &[1.0, 1.0, 1.0], Metadata::new())]).await;

    let (sink, kept) = keeping();
    assert_eq!(store.snapshot(&ours, &docs, sink).await.unwrap(), 1499);
    let kept = kept.lock().unwrap().clone();
    assert_eq!(kept.len(), 1499, "each is in it once");
    assert_eq!(by_id(&kept), by_id(&written));

    for (context, name) in [(context("other"), docs), (ours, collection("missing"))] {
        let fault = store.snapshot(&context, &name, keeping().0).await.unwrap_err();
        assert!(matches!(fault, Error::NotFound { .. }), "{fault:?}");
    }
}

/// What is written while a snapshot is taken is in it as whole calls, and of each writer up to some call.
pub async fn writes_during_a_snapshot_are_in_it_whole_or_not_at_all(store: Arc<dyn VectorStore>) {
    const SNAPSHOTS: usize = 20;
    const ROWS: usize = 300;

    let scene = Scene::new(store, Metric::Dot, 1).await;
    let (store, context, docs) = (Arc::clone(&scene.store), scene.context.clone(), scene.collection.clone());
    let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let write = {
        let (store, context, docs) = (Arc::clone(&store), context.clone(), docs.clone());
        let (stop, rounds) = (Arc::clone(&stop), Arc::clone(&rounds));
        async move {
            let mut round = 0_usize;
            while !stop.load(Ordering::Relaxed) {
                round += 1;
                let row =
                    |row: usize| record(&format!("row {row}"), &[1.0], metadata([("round", Value::Int(round as i64))]));
                let mut records: Vec<Record> = (0..ROWS).map(row).collect();
                records.push(record(&format!("round {round}"), &[1.0], Metadata::new()));
                store.upsert(&context, &docs, records).await.unwrap();
                rounds.store(round, Ordering::Release);
            }
        }
    };
    let writer = tokio::spawn(write);
    while rounds.load(Ordering::Acquire) == 0 {
        tokio::task::yield_now().await;
    }
    for _ in 0..SNAPSHOTS {
        let acknowledged = rounds.load(Ordering::Acquire);
        let (sink, kept) = keeping();
        store.snapshot(&context, &docs, sink).await.unwrap();
        let kept = kept.lock().unwrap().clone();
        let of_rows = kept.iter().filter_map(|record| record.document.metadata.get("round"));
        let of_rows: BTreeSet<String> = of_rows.map(|value| format!("{value:?}")).collect();
        assert_eq!(of_rows.len(), 1, "rows of one write are of one round: {of_rows:?}");
        let rounds = kept.iter().filter(|record| !record.document.metadata.contains_key("round")).count();
        assert_eq!(
            of_rows.first().unwrap(),
            &format!("{:?}", Value::Int(rounds as i64)),
            "every round before is in it"
        );
        assert!(rounds >= acknowledged, "what was acknowledged before is in it");
    }
    stop.store(true, Ordering::Relaxed);
    writer.await.unwrap();
}

/// What the sink says ends the snapshot at once, and the collection goes on.
pub async fn a_fault_of_the_sink_ends_a_snapshot(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Dot, 1).await;
    let records = (0..3000).map(|number| record(&format!("{number}"), &[1.0], Metadata::new()));
    scene.put(records.collect()).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let sink = {
        let calls = Arc::clone(&calls);
        Box::new(move |_: Vec<Record>| {
            calls.fetch_add(1, Ordering::Relaxed);
            Err(Error::Unavailable("the sink is full".to_owned()))
        })
    };
    let fault = scene.store.snapshot(&scene.context, &scene.collection, sink).await.unwrap_err();
    assert_eq!(fault, Error::Unavailable("the sink is full".to_owned()));
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    scene.put(vec![record("after", &[1.0], Metadata::new())]).await;
    assert_eq!(scene.count(None).await, 3001);
}

/// The same of a document store: every document once, whole writes, and the sink's fault.
pub async fn a_snapshot_of_documents_is_of_one_moment(store: Arc<dyn DocumentStore>) {
    const PUTS: usize = 30;

    let (ours, docs) = (context("conformance"), collection("docs"));
    let all = async |store: &Arc<dyn DocumentStore>| {
        let kept: Arc<Mutex<Vec<Document>>> = Arc::default();
        let documents = Arc::clone(&kept);
        let sink = Box::new(move |mut more: Vec<Document>| -> Result<()> {
            documents.lock().unwrap().append(&mut more);
            Ok(())
        });
        let count = store.snapshot(&ours, &docs, sink).await.unwrap();
        let mut kept = kept.lock().unwrap().clone();
        assert_eq!(kept.len() as u64, count);
        // They come in any order.
        kept.sort_by(|left, right| left.id.cmp(&right.id));
        kept
    };
    assert_eq!(all(&store).await, []);
    store.put(&context("other"), &docs, vec![document("theirs", Metadata::new())]).await.unwrap();
    store.put(&ours, &collection("docs2"), vec![document("elsewhere", Metadata::new())]).await.unwrap();
    let written: Vec<Document> =
        (0..700).map(|number| document(&format!("{number:03}"), metadata([("n", Value::Int(number))]))).collect();
    store.put(&ours, &docs, written.clone()).await.unwrap();
    assert_eq!(all(&store).await, written);

    let writer = {
        let (store, ours, docs) = (Arc::clone(&store), ours.clone(), docs.clone());
        tokio::spawn(async move {
            for round in 0..PUTS {
                let documents = (0..700)
                    .map(|number| document(&format!("{number:03}"), metadata([("round", Value::Int(round as i64))])));
                store.put(&ours, &docs, documents.collect()).await.unwrap();
            }
        })
    };
    while !writer.is_finished() {
        let kept = all(&store).await;
        assert_eq!(kept.len(), 700);
        assert!(kept.iter().all(|document| document.metadata.get("round") == kept[0].metadata.get("round")));
    }
    writer.await.unwrap();

    let sink = Box::new(|_: Vec<Document>| Err(Error::Unavailable("the sink is full".to_owned())));
    let fault = store.snapshot(&ours, &docs, sink).await.unwrap_err();
    assert_eq!(fault, Error::Unavailable("the sink is full".to_owned()));
    assert_eq!(store.get(&ours, &docs, &[id("000")]).await.unwrap().len(), 1);
}
