//! Readers and writers at once.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use toller_core::vector_store::Selector;
use toller_core::{Filter, Metric, Record, Value, VectorStore};

use super::fixture::{Scene, id, key, metadata, record};

const DIMENSION: usize = 16;
const BATCH: usize = 40;
const ROUNDS: i64 = 60;

fn batch(round: i64) -> Vec<Record> {
    let vector = vec![1.0 + round as f32; DIMENSION];
    let of_group = |n: usize| record(&format!("{n:03}"), &vector, metadata([("round", Value::Int(round))]));
    (0..BATCH).map(of_group).collect()
}

/// While one batch is replaced again and again, every search and scroll sees all of one round of it.
pub async fn readers_see_whole_batches(store: Arc<dyn VectorStore>) {
    let scene = Arc::new(Scene::new(store, Metric::Dot, DIMENSION as u32).await);
    scene.put(batch(0)).await;
    let done = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let (scene, done) = (Arc::clone(&scene), Arc::clone(&done));
            tokio::spawn(async move {
                let mut last_round = 0;
                loop {
                    let was_done = done.load(Ordering::Acquire);
                    let hits = scene.search(&[1.0; DIMENSION], None, BATCH * 2).await;
                    let rounds: BTreeSet<i64> = hits.iter().map(|hit| round_of(&hit.record)).collect();
                    assert_eq!((hits.len(), rounds.len()), (BATCH, 1), "rounds {rounds:?} in one answer");
                    let round = rounds.into_iter().next().unwrap();
                    assert!(round >= last_round, "round {round} after round {last_round}");
                    let expected = DIMENSION as f64 * (1.0 + round as f64);
                    assert!(hits.iter().all(|hit| hit.score == expected), "document and vector are of one round");
                    last_round = round;
                    if was_done {
                        return last_round;
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    for round in 1..=ROUNDS {
        scene.put(batch(round)).await;
        tokio::task::yield_now().await;
    }
    done.store(true, Ordering::Release);
    for reader in readers {
        assert_eq!(reader.await.unwrap(), ROUNDS, "an acknowledged write is seen by the next search");
    }
}

fn round_of(record: &Record) -> i64 {
    match record.document.metadata["round"] {
        Value::Int(round) => round,
        ref other => panic!("round must be an integer, got {other:?}"),
    }
}

/// Writers of different records do not disturb each other, nor do deletes by filter.
pub async fn no_write_is_lost(store: Arc<dyn VectorStore>) {
    let scene = Arc::new(Scene::new(store, Metric::Dot, 1).await);
    let writers: Vec<_> = (0..4_i64)
        .map(|writer| {
            let scene = Arc::clone(&scene);
            tokio::spawn(async move {
                let of_writer = Filter::And(vec![
                    Filter::Eq(key("writer"), Value::Int(writer)),
                    Filter::Eq(key("keep"), Value::Bool(false)),
                ]);
                for n in 0..100_i64 {
                    let keep = n % 3 == 0;
                    let metadata = metadata([("writer", Value::Int(writer)), ("keep", Value::Bool(keep))]);
                    scene.put(vec![record(&format!("{writer}-{n:03}"), &[1.0], metadata)]).await;
                    if n % 10 == 9 {
                        let selector = Selector::Filter(of_writer.clone());
                        let deleted = scene.store.delete(&scene.context, &scene.collection, &selector).await.unwrap();
                        let expected = (n - 9..=n).filter(|n| n % 3 != 0).count() as u64;
                        assert_eq!(deleted, expected);
                    }
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let expected: Vec<String> =
        (0..4).flat_map(|writer| (0..100).step_by(3).map(move |n| format!("{writer}-{n:03}"))).collect();
    assert_eq!(scene.all_ids(None).await, expected);
    assert_eq!(scene.count(None).await, expected.len() as u64);
    let found = scene.store.get(&scene.context, &scene.collection, &[id("3-099")]).await.unwrap();
    assert!(found[0].is_some());
}
