//! LangChain's index, run after run: the same documents are there at the end, and as many are counted, except where LangChain
//! removes and embeds again what did not change.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use toller_indexing::Cleanup;

use crate::world::{World, document, settings};

#[derive(Deserialize)]
struct Oracle {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    id: String,
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    docs: Vec<Doc>,
    cleanup: Option<String>,
    batch_size: usize,
    force_update: bool,
    expected: Counts,
    expected_embedded: usize,
    expected_store: Vec<(String, String)>,
}

#[derive(Deserialize)]
struct Doc {
    text: String,
    source: String,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Counts {
    num_added: u64,
    num_updated: u64,
    num_skipped: u64,
    num_deleted: u64,
}

impl Run {
    fn cleanup(&self) -> Cleanup {
        match self.cleanup.as_deref() {
            None => Cleanup::None,
            Some("incremental" | "scoped_full") => Cleanup::Incremental,
            Some("full") => Cleanup::Full,
            Some(other) => panic!("{other}"),
        }
    }

    /// Does LangChain clean up after a batch while more of the same source are to come? It then removes what did not change, and
    /// counts and embeds it again.
    fn cleans_up_too_soon(&self) -> bool {
        let mut batches: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (index, doc) in self.docs.iter().enumerate() {
            batches.entry(&doc.source).or_default().insert(index / self.batch_size);
        }
        self.cleanup.as_deref() == Some("incremental") && batches.values().any(|batches| batches.len() > 1)
    }
}

#[tokio::test]
async fn runs_end_as_langchains_do() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/oracles/indexing.json");
    let oracle: Oracle = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(oracle.cases.len(), 60);
    let mut compared = 0;
    for case in oracle.cases {
        let world = World::new().await;
        // What is counted after LangChain removed too much is not comparable any more.
        let mut is_comparable = true;
        for (number, run) in case.runs.iter().enumerate() {
            let place = format!("{} run {number}", case.id);
            let before = world.embedded();
            let mut settings = settings(run.cleanup());
            settings.allow_empty_full = true;
            settings.force = run.force_update;
            let documents = run.docs.iter().map(|doc| document(&doc.source, &doc.text)).collect();
            let progress = world.index(settings, documents).await.unwrap().progress;
            let mut wanted = run.expected_store.clone();
            wanted.sort();
            assert_eq!(world.texts().await, wanted, "{place}");
            assert!(world.embedded() - before <= run.expected_embedded, "{place}: embeds more than LangChain");
            is_comparable &= !run.cleans_up_too_soon();
            if is_comparable {
                let expected = &run.expected;
                assert_eq!((progress.added, progress.deleted), (expected.num_added, expected.num_deleted), "{place}");
                let was_there = progress.updated + progress.skipped;
                assert_eq!(was_there, expected.num_updated + expected.num_skipped, "{place}");
                // What comes twice in a forced run is updated twice there, where it comes in another batch.
                if !run.force_update {
                    assert_eq!(progress.skipped, expected.num_skipped, "{place}");
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "only {compared} runs were compared by their counts");
}
