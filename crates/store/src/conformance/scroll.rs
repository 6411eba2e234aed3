//! Scrolling: the order of id bytes, inclusive cursors, and other writers.

use std::sync::Arc;

use toller_core::vector_store::{ScrollPage, Selector};
use toller_core::{DocumentId, Filter, Metadata, Metric, Value, VectorStore};

use super::fixture::{Scene, id, id_texts, ids, key, metadata, record};

async fn page(scene: &Scene, filter: Option<&Filter>, from: Option<&DocumentId>, limit: usize) -> ScrollPage {
    scene.store.scroll(&scene.context, &scene.collection, filter, from, limit).await.unwrap()
}

async fn all_pages(scene: &Scene, filter: Option<&Filter>, limit: usize) -> Vec<Vec<String>> {
    let mut pages = Vec::new();
    let mut from = None;
    loop {
        let page = page(scene, filter, from.as_ref(), limit).await;
        pages.push(id_texts(&page.records));
        match page.next {
            Some(next) => from = Some(next),
            None => return pages,
        }
    }
}

/// Pages of any size together are all records once, in the order of id bytes, whatever the order of writing.
pub async fn pages_are_in_id_order_and_complete(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Dot, 1).await;
    let written = ["b", "B", "é", "a10", "a2", "z", "日", "a"];
    scene.put(written.iter().map(|id| record(id, &[1.0], Metadata::new())).collect()).await;
    let sorted = ["B", "a", "a10", "a2", "b", "z", "é", "日"];
    for limit in 1..=9 {
        let pages = all_pages(&scene, None, limit).await;
        assert!(pages.iter().all(|page| page.len() <= limit));
        assert_eq!(pages.concat(), sorted, "pages of {limit}");
        assert_eq!(pages.len(), sorted.len().div_ceil(limit), "no page is empty");
    }
    let from_within = page(&scene, None, Some(&id("a2")), 2).await;
    assert_eq!(id_texts(&from_within.records), ["a2", "b"], "the cursor is inclusive");
    assert_eq!(from_within.next, Some(id("z")));
    let between = page(&scene, None, Some(&id("a3")), 1).await;
    assert_eq!(id_texts(&between.records), ["b"], "the cursor need not exist");
    assert_eq!(page(&scene, None, Some(&id("日本")), 5).await, ScrollPage { records: Vec::new(), next: None });
}

/// A page holds `limit` matches however far apart they are, and the last page knows that it is the last one.
pub async fn filtered_pages_are_full(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Dot, 1).await;
    let records = (0..3_000_i64).map(|n| record(&format!("{n:05}"), &[1.0], metadata([("n", Value::Int(n))])));
    scene.put(records.collect()).await;
    let rare = Filter::In(key("n"), vec![Value::Int(3), Value::Int(1500), Value::Int(2998)]);
    assert_eq!(all_pages(&scene, Some(&rare), 2).await, [vec!["00003", "01500"], vec!["02998"]]);
    assert_eq!(all_pages(&scene, Some(&rare), 3).await, [["00003", "01500", "02998"]]);
    assert_eq!(all_pages(&scene, None, 1_000).await.concat().len(), 3_000);
}

/// Records that are there all the time are seen exactly once, whatever is written and deleted between two pages.
pub async fn a_cursor_stays_right_while_others_write(store: Arc<dyn VectorStore>) {
    let scene = Scene::new(store, Metric::Dot, 1).await;
    scene.put(["b", "d", "f", "h", "j"].iter().map(|id| record(id, &[1.0], Metadata::new())).collect()).await;
    let first = page(&scene, None, None, 2).await;
    assert_eq!(id_texts(&first.records), ["b", "d"]);
    let cursor = first.next.unwrap();
    assert_eq!(cursor, id("f"));
    // Before the cursor, after it, and the cursor's own record.
    scene.put(["a", "c", "g"].iter().map(|id| record(id, &[1.0], Metadata::new())).collect()).await;
    let gone = Selector::Ids(ids(["b", "f"]));
    assert_eq!(scene.store.delete(&scene.context, &scene.collection, &gone).await.unwrap(), 2);
    let second = page(&scene, None, Some(&cursor), 10).await;
    assert_eq!(id_texts(&second.records), ["g", "h", "j"]);
    assert_eq!(second.next, None);
}
