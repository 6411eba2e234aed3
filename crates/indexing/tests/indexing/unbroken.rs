//! Whatever the runs before it and wherever they were cut off, a run ends as it would on an empty collection.

use proptest::prelude::*;
use proptest::sample::select;
use toller_indexing::{Board, Cleanup, Cut, Cutting, IndexSettings};

use crate::world::{World, document, recursive, settings};

/// A run: its documents, by source and words, and after how many of them it is cut off.
#[derive(Debug, Clone)]
struct Attempt {
    documents: Vec<(&'static str, Vec<&'static str>)>,
    cut_off_after: Option<usize>,
}

fn attempts() -> impl Strategy<Value = Vec<Attempt>> {
    let words = proptest::collection::vec(select(vec!["one", "two", "three", "four"]), 1..6);
    let documents = proptest::collection::vec((select(vec!["a", "b", "c", "a#b"]), words), 1..6);
    let attempt = (documents, proptest::option::of(0..6_usize))
        .prop_map(|(documents, cut_off_after)| Attempt { documents, cut_off_after });
    proptest::collection::vec(attempt, 1..6)
}

fn by_words() -> IndexSettings {
    let cut = Cut::By(recursive(6));
    IndexSettings { cutting: Cutting { cut, split_overlong: false }, ..settings(Cleanup::Full) }
}

async fn run(world: &World, attempt: &Attempt) {
    let board = Board::default();
    let mut run = world.begin(by_words(), &board).await.unwrap();
    let admitted = attempt.cut_off_after.unwrap_or(usize::MAX);
    for (source, words) in attempt.documents.iter().take(admitted) {
        run.add(document(source, &words.join("\n\n"))).await.unwrap();
    }
    if attempt.cut_off_after.is_none() {
        run.commit().await.unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_run_ends_as_on_an_empty_collection(attempts in attempts()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let world = World::new().await;
            for attempt in &attempts {
                let before = world.records().await;
                run(&world, attempt).await;
                if attempt.cut_off_after.is_some() {
                    assert_eq!(world.records().await, before, "a run that is cut off changes nothing");
                    continue;
                }
                let fresh = World::new().await;
                run(&fresh, attempt).await;
                assert_eq!(world.records().await, fresh.records().await);
                // Nothing is left to do.
                let embedded = world.embedded();
                run(&world, attempt).await;
                assert_eq!(world.embedded(), embedded);
            }
        });
    }
}
