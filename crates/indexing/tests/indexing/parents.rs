//! Parents and their children are one unit.

use std::time::Duration;

use toller_core::vector_store::Selector;
use toller_indexing::parents::remove_parents;
use toller_indexing::{Board, Cleanup, Cut, Cutting, IndexSettings, ParentRoom, Parents, RelatedText, SourceDocument};

use crate::world::{World, document, recursive, settings, string};

fn cut(chunk_size: usize) -> Cutting {
    Cutting { cut: Cut::By(recursive(chunk_size)), split_overlong: false }
}

fn with_parents(parents: Parents) -> IndexSettings {
    IndexSettings { cutting: cut(11), parents: Some(parents), ..settings(Cleanup::Full) }
}

/// Waits until as many parents are left.
async fn until_parents(world: &World, count: usize) {
    while world.parents().await.len() != count {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// The texts of parents that children lead to.
async fn parents_of_children(world: &World) -> Vec<String> {
    let mut parents = Vec::new();
    for (text, metadata) in world.records().await.values() {
        let id = toller_core::DocumentId::new(string(&metadata["doc_id"])).unwrap();
        let found = world.documents.get(&world.context, &world.name, &[id]).await.unwrap().remove(0);
        let parent = found.expect("every child has its parent");
        assert!(parent.page_content.contains(text), "{text:?} is no part of {:?}", parent.page_content);
        parents.push(parent.page_content);
    }
    parents.sort();
    parents.dedup();
    parents
}

#[tokio::test]
async fn whole_documents_are_parents_and_are_replaced_with_their_children() {
    let world = World::new().await;
    let text = "line one\n\nline two";
    world.index(with_parents(Parents::Documents), vec![document("a", text), document("b", "b")]).await.unwrap();
    assert_eq!(parents_of_children(&world).await, ["b", text]);

    let changed = "line one\n\nline 222";
    world.index(with_parents(Parents::Documents), vec![document("a", changed), document("b", "b")]).await.unwrap();
    assert_eq!(parents_of_children(&world).await, ["b", changed]);
    assert_eq!(world.parents().await.len(), 3, "who found an old child still finds its parent");
    until_parents(&world, 2).await;
    assert_eq!(parents_of_children(&world).await, ["b", changed]);

    world.index(with_parents(Parents::Documents), vec![document("b", "b")]).await.unwrap();
    until_parents(&world, 1).await;
    assert_eq!(parents_of_children(&world).await, ["b"]);
}

#[tokio::test]
async fn parts_of_documents_are_parents_and_offsets_are_those_of_the_document() {
    let world = World::new().await;
    let text = "aaa bbb\nccc ddd\n\neee fff\nggg hhh";
    let settings = with_parents(Parents::Parts(cut(18)));
    world.index(settings, vec![document("a", text)]).await.unwrap();
    assert_eq!(parents_of_children(&world).await, ["aaa bbb\nccc ddd", "eee fff\nggg hhh"]);
    for (chunk, metadata) in world.records().await.values() {
        let toller_core::Value::Int(start) = metadata["start_index"] else { panic!("{metadata:?}") };
        assert_eq!(&text[start as usize..][..chunk.len()], chunk);
        let line = 1 + text[..start as usize].matches('\n').count() as i64;
        assert_eq!(metadata["first_line"], toller_core::Value::Int(line), "{chunk:?}");
    }
}

#[tokio::test]
async fn deleting_children_removes_their_parents() {
    let world = World::new().await;
    world.index(with_parents(Parents::Documents), vec![document("a", "a"), document("b", "b")]).await.unwrap();
    let collection = world.collections.open(&world.context, &world.name).await.unwrap();
    let ids: Vec<_> = world.records().await.into_keys().take(1).collect();
    let room = ParentRoom::new(collection.clone(), world.documents.clone()).with_grace(Duration::ZERO);
    let note = room.before_children_go(&world.context, Some(&ids)).await.unwrap().unwrap();
    collection.delete(&world.context, &Selector::Ids(ids.clone())).await.unwrap();
    room.sweep_later(&world.context, note, Some(&ids));
    until_parents(&world, 1).await;
    assert_eq!(parents_of_children(&world).await, ["b"]);
}

#[tokio::test]
async fn what_a_process_did_not_sweep_the_next_one_does() {
    let world = World::new().await;
    let never = IndexSettings { parent_grace: Duration::from_secs(3600), ..with_parents(Parents::Documents) };
    world.index(never.clone(), vec![document("a", "a"), document("b", "b")]).await.unwrap();
    world.index(never, vec![document("b", "b")]).await.unwrap();
    assert_eq!(world.parents().await.len(), 2);
    // Of other sources, and without anything to remove.
    let incremental = IndexSettings { cleanup: Cleanup::Incremental, ..with_parents(Parents::Documents) };
    world.index(incremental, vec![document("c", "c")]).await.unwrap();
    until_parents(&world, 2).await;
    assert_eq!(parents_of_children(&world).await, ["b", "c"]);
}

#[tokio::test]
async fn related_texts_lead_to_the_parent() {
    let world = World::new().await;
    let related = vec![RelatedText { kind: "summary".to_owned(), text: "in short".to_owned() }];
    let summarised = SourceDocument { related, ..document("a", "a long text") };
    world.index(with_parents(Parents::Documents), vec![summarised.clone()]).await.unwrap();
    let records = world.records().await;
    let summary = records.values().find(|(text, _)| text == "in short").unwrap();
    let chunk = records.values().find(|(text, _)| text != "in short").unwrap();
    assert_eq!(summary.1["doc_id"], chunk.1["doc_id"]);
    assert_eq!((string(&summary.1["kind"]), summary.1.contains_key("start_index")), ("summary".to_owned(), false));

    let news = world.index(with_parents(Parents::Parts(cut(8))), vec![summarised]).await.unwrap();
    assert_eq!(news.progress.failed, 1);
    assert!(news.problems[0].message.contains("parents.splitter"), "{:?}", news.problems);
}

#[tokio::test]
async fn a_sweep_leaves_the_note_of_a_later_one() {
    let world = World::new().await;
    world.index(with_parents(Parents::Documents), vec![document("a", "a"), document("b", "b")]).await.unwrap();
    let collection = world.collections.open(&world.context, &world.name).await.unwrap();
    assert_eq!(collection.sweep_mark(&world.context).await.unwrap(), None, "nothing is left to be swept");
    let room = |grace| ParentRoom::new(collection.clone(), world.documents.clone()).with_grace(grace);
    let ids: Vec<_> = world.records().await.into_keys().collect();
    let soon = room(Duration::ZERO);
    let note = soon.before_children_go(&world.context, Some(&ids[..1])).await.unwrap().unwrap();
    collection.delete(&world.context, &Selector::Ids(ids[..1].to_vec())).await.unwrap();
    // The process of this one is killed before its sweep.
    room(Duration::MAX).before_children_go(&world.context, Some(&ids[1..])).await.unwrap().unwrap();
    collection.delete(&world.context, &Selector::Ids(ids[1..].to_vec())).await.unwrap();
    soon.sweep_later(&world.context, note, Some(&ids[..1]));
    until_parents(&world, 1).await;
    world.index(with_parents(Parents::Documents), vec![document("c", "c")]).await.unwrap();
    until_parents(&world, 1).await;
    assert_eq!(parents_of_children(&world).await, ["c"], "what was noted is swept by whoever comes next");
}

#[tokio::test]
async fn parents_of_a_run_that_did_not_come_to_its_end_are_swept() {
    let world = World::new().await;
    let mut run = world.begin(with_parents(Parents::Documents), &Board::default()).await.unwrap();
    // More than is written at once.
    run.add(document("a", &"a".repeat(1 << 20))).await.unwrap();
    drop(run);
    assert_eq!(world.parents().await.len(), 1);
    world.index(with_parents(Parents::Documents), vec![document("b", "b")]).await.unwrap();
    until_parents(&world, 1).await;
    assert_eq!(parents_of_children(&world).await, ["b"]);
}

#[tokio::test]
async fn parents_that_are_too_large_to_be_given_back_are_told() {
    let world = World::new().await;
    let settings = IndexSettings { max_text_bytes: 20, cutting: cut(8), ..with_parents(Parents::Documents) };
    let news = world.index(settings, vec![document("a", "a word of it\n\nand another")]).await.unwrap();
    assert!(news.problems[0].message.contains("parents.splitter"), "{:?}", news.problems);
}

#[tokio::test]
async fn parents_of_a_collection_that_is_gone_go_and_those_of_its_successor_stay() {
    let world = World::new().await;
    let settings = with_parents(Parents::Documents);
    world.index(settings.clone(), vec![document("a", "a")]).await.unwrap();
    let remove = || remove_parents(&world.collections, &world.documents, &world.context, &world.name);
    world.collections.delete(&world.context, &world.name).await.unwrap();
    world.create().await;
    world.index(settings, vec![document("b", "b")]).await.unwrap();
    assert_eq!(world.parents().await.len(), 2);
    remove().await.unwrap();
    assert_eq!(parents_of_children(&world).await, ["b"]);
    assert_eq!(world.parents().await.len(), 1);
    world.collections.delete(&world.context, &world.name).await.unwrap();
    remove().await.unwrap();
    assert_eq!(world.parents().await.len(), 0);
}
