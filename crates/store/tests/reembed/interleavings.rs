//! Any order of writes and steps comes to the same end.

use std::collections::BTreeMap;

use proptest::prelude::*;
use toller_core::OperationState;
use toller_core::vector_store::Selector;

use crate::ground::{Ground, contents, context, document, expected, id, make, name, parity, with_parity, writer};
use crate::model::{TestModel, models};

/// What happens next.
#[derive(Debug, Clone)]
enum Event {
    /// Documents are written: numbers of ids and of texts.
    Add(Vec<(u8, u8)>),
    /// Documents are deleted by their ids.
    Delete(Vec<u8>),
    /// All documents of a parity are deleted.
    DeleteParity(i64),
    DeleteAll,
    /// The model answers one more call of the operation.
    Step,
    /// The process ends, and another one goes on.
    Restart,
}

fn event() -> impl Strategy<Value = Event> {
    let ids = || prop::collection::vec(0..24_u8, 1..4);
    prop_oneof![
        6 => prop::collection::vec((0..24_u8, any::<u8>()), 1..4).prop_map(Event::Add),
        3 => ids().prop_map(Event::Delete),
        1 => (0..3_i64).prop_map(Event::DeleteParity),
        1 => Just(Event::DeleteAll),
        6 => Just(Event::Step),
        1 => Just(Event::Restart),
    ]
}

fn document_id(number: u8) -> String {
    format!("d{number:03}")
}

async fn play(mut ground: Ground, events: Vec<Event>) {
    let (old, new) = (TestModel::new("old", 3), TestModel::gated("new", 5));
    let all = || models(&[&old, &new]);
    let mut collections = ground.collections(all()).with_reembed_batch(3);
    make(&collections, "docs", "old", 12).await;
    let mut kept: BTreeMap<String, String> =
        (0..12).map(|number| (document_id(number), format!("text {number}"))).collect();
    let started = collections.reembed(&context(), &name("docs"), Some("new")).await.unwrap();
    let mut handle = collections.open(&context(), &name("docs")).await.unwrap();
    for event in events {
        match event {
            Event::Add(pairs) => {
                let pairs: BTreeMap<u8, u8> = pairs.into_iter().collect();
                let pairs: Vec<(String, String)> =
                    pairs.into_iter().map(|(id, text)| (document_id(id), format!("text {text}"))).collect();
                let documents = pairs.iter().map(|(id, text)| document(id, text)).collect();
                handle.add(&writer(), documents, None).await.unwrap();
                kept.extend(pairs);
            }
            Event::Delete(numbers) => {
                let ids: Vec<String> = numbers.into_iter().map(document_id).collect();
                let selector = Selector::Ids(ids.iter().map(|text| id(text)).collect());
                handle.delete(&writer(), &selector).await.unwrap();
                kept.retain(|kept, _| !ids.contains(kept));
            }
            Event::DeleteParity(wanted) => {
                handle.delete(&writer(), &Selector::Filter(with_parity(wanted))).await.unwrap();
                kept.retain(|_, text| parity(text) != wanted);
            }
            Event::DeleteAll => {
                handle.delete(&writer(), &Selector::All).await.unwrap();
                kept.clear();
            }
            Event::Step => new.let_through(1),
            Event::Restart => {
                collections.suspend_operations().await;
                drop((handle, collections));
                ground.reopen().await;
                collections = ground.collections(all()).with_reembed_batch(3);
                collections.resume_operations().await.unwrap();
                handle = collections.open(&context(), &name("docs")).await.unwrap();
            }
        }
        // Lets the operation come as far as its model lets it.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
    }
    new.let_through(10_000);
    let ended = collections.operations().wait(&context(), &started.id, None).await.unwrap();
    assert_eq!(ended.state, OperationState::Succeeded, "{ended:?}");
    let kept: Vec<(String, String)> = kept.into_iter().collect();
    let opened = collections.open(&context(), &name("docs")).await.unwrap();
    assert_eq!(opened.spec().fingerprint.model, "new");
    assert_eq!(contents(&opened).await, expected(&collections, &new, &kept).await);
}

fn block_on(play: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(play);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_writes_and_steps_comes_to_the_same_end(events in prop::collection::vec(event(), 0..40)) {
        block_on(play(Ground::memory(), events));
    }
}

#[cfg(feature = "edge")]
proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    #[test]
    fn any_order_comes_to_the_same_end_on_disk(events in prop::collection::vec(event(), 0..20)) {
        block_on(async { play(Ground::edge().await, events).await });
    }
}
