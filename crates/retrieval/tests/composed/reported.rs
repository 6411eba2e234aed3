//! Defects that users of other retrieval layers reported, where no other test here is about them.

use toller_core::retriever::ParentSource;
use toller_core::{Document, DocumentId, DocumentStore, Metadata, Metric, Principal, Query, RequestContext, Tenant};
use toller_core::{Retriever, ScoredDocument};

use crate::specs::*;
use crate::world::{World, ids, metadata};

/// A threshold of one leg reached the whole of a hybrid search, or the other leg had none.
#[tokio::test]
async fn a_threshold_of_one_leg_is_not_that_of_another() {
    let world = World::new();
    let documents = [("near", "at 0", Metadata::new()), ("far", "at 90 a terrier", Metadata::new())];
    world.fill("docs", documents).await;
    let strict = || leaf_with("docs", |spec| spec.score_threshold = Some(0.9));
    let hits = world.hits(&ensemble(vec![strict(), keyword("docs", |_| ())], |_| ()), "at 0: terrier").await;
    assert_eq!(ids(&hits), ["near", "far"], "the leg of keywords has no threshold");
    // The last word on the fused list has a parameter of its own, which fused hits without relevance never reach.
    let last = fallback(vec![ensemble(vec![strict()], |_| ()), strict()], |spec| spec.min_relevance = Some(0.9));
    let answer = world.ask(&last, "at 0").await.unwrap();
    assert_eq!(ids(&answer.hits), ["near"]);
    assert!(answer.hits[0].relevance.is_some(), "of the second retriever: {answer:?}");
}

/// The same passage in two sets had one key, and one tenant's parent came with another's provenance.
#[tokio::test]
async fn a_parent_is_of_its_tenant_and_its_document_store() {
    let world = World::new();
    let other = Principal { tenant: Tenant::new("other").unwrap(), ..Principal::anonymous() };
    let other = RequestContext::new(other);
    let places =
        [(&world.context, "guides", "our guide"), (&world.context, "laws", "our law"), (&other, "guides", "theirs")];
    for (context, store, text) in places {
        let parent = Document {
            id: DocumentId::new("p").unwrap(),
            page_content: text.to_owned(),
            metadata: metadata("from", store),
        };
        world.memory.documents.put(context, &collection(store), vec![parent]).await.unwrap();
    }
    for context in [&world.context, &other] {
        let child = [("c", "at 0", metadata("doc_id", "p"))];
        world.fill_as(context, "chunks", Metric::Cosine, child).await;
    }
    let texts = async |context: &RequestContext, store: &str| {
        let source = || ParentSource::DocumentStore(collection(store));
        let specs = [
            parent_document("chunks", "chunks", |spec| spec.parents = source()),
            multi_vector(leaf("chunks"), "chunks", |spec| spec.parents = source()),
        ];
        let mut texts = Vec::new();
        for spec in specs {
            let plan = world.planner.plan(context, &spec).await.unwrap();
            let hits = plan.retrieve(context, &Query::Text("at 0".to_owned())).await.unwrap();
            texts.extend(hits.into_iter().map(|hit| hit.document.page_content.clone()));
        }
        texts
    };
    for (context, store, text) in places {
        assert_eq!(texts(context, store).await, [text; 2], "{store}");
    }
    assert_eq!(texts(&other, "laws").await, [""; 0], "there is none for them");
}

/// The copy that a fusion kept, or its order, hung on which retriever was named first or was first in time.
#[tokio::test]
async fn no_order_of_legs_changes_which_copy_survives_or_what_it_scores() {
    let world = World::new();
    let copy = |from: &str| metadata("from", from);
    world.fill("one", [("a", "at 0", copy("one")), ("x", "at 10", copy("one"))]).await;
    world
        .fill("slow20-two", [("x", "at 0", copy("two")), ("a", "at 20", copy("two")), ("b", "at 30", copy("two"))])
        .await;
    world
        .fill("three", [("b", "at 0", copy("three")), ("x", "at 5", copy("three")), ("a", "at 9", copy("three"))])
        .await;
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let names = ["one", "slow20-two", "three"];
    let mut seen: Option<Vec<(String, f64, Metadata)>> = None;
    for order in orders {
        let legs = order.map(|leg| all_of(names[leg])).to_vec();
        let hits = world.hits(&ensemble(legs, |_| ()), "at 0").await;
        let mut told: Vec<_> = hits.iter().map(told).collect();
        told.sort_by(|left, right| left.0.cmp(&right.0));
        assert_eq!(*seen.get_or_insert_with(|| told.clone()), told, "{order:?}");
    }
}

fn told(hit: &ScoredDocument) -> (String, f64, Metadata) {
    (hit.document.id.as_str().to_owned(), hit.score, hit.document.metadata.clone())
}

/// More was asked for than there is.
#[tokio::test]
async fn every_kind_answers_with_what_there_is_when_k_is_more() {
    let world = World::new();
    world.fill("docs", [("a", "at 0 word", metadata("doc_id", "a"))]).await;
    let many = || leaf_with("docs", |spec| spec.k = Some(900));
    for spec in [
        many(),
        leaf_with("docs", |spec| {
            spec.search_type = toller_core::retriever::SearchType::Mmr;
            (spec.k, spec.fetch_k) = (Some(900), Some(900));
        }),
        keyword("docs", |spec| spec.k = Some(900)),
        hybrid("docs", |spec| spec.k = Some(900)),
        ensemble(vec![many(), many()], |spec| spec.k = Some(900)),
        merger(vec![many(), many()], |spec| spec.k = Some(900)),
        time_weighted(many(), |spec| spec.k = Some(900)),
        parent_document("docs", "docs", |spec| spec.k = Some(900)),
        multi_vector(many(), "docs", |spec| spec.k = Some(900)),
    ] {
        assert_eq!(ids(&world.hits(&spec, "at 0 word").await), ["a"], "{}", spec.kind.as_str());
    }
}
