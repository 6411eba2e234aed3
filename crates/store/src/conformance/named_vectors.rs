//! Vector spaces beside the main one.

use std::collections::BTreeMap;
use std::sync::Arc;

use toller_core::collection::VectorParams;
use toller_core::error::Error;
use toller_core::vector_store::{MmrParams, Scoring, Selector, Thresholds, VectorSearch};
use toller_core::{Filter, Metadata, Metric, Record, RelevanceFunction, Value, VectorName, VectorSpace, VectorStore};

use super::fixture::{Scene, assert_score, collection, context, id_texts, ids, key, metadata, record, vector_of};

fn of(name: &str) -> VectorName {
    VectorName::new(name).unwrap()
}

/// Two dimensions of cosine, beside `title` of three dimensions with distances and `image` of one with products.
fn params() -> VectorParams {
    let named = BTreeMap::from([
        (of("title"), VectorSpace { dimension: 3, metric: Metric::Euclidean }),
        (of("image"), VectorSpace { dimension: 1, metric: Metric::Dot }),
    ]);
    VectorParams { named, ..VectorParams::new(2, Metric::Cosine) }
}

async fn scene(store: Arc<dyn VectorStore>) -> Scene {
    let scene = Scene { store, context: context("conformance"), collection: collection("docs") };
    scene.store.create(&scene.context, &scene.collection, params()).await.unwrap();
    scene
}

fn with(mut record: Record, vectors: &[(&str, &[f32])]) -> Record {
    record.named.extend(vectors.iter().map(|(name, vector)| (of(name), vector_of(vector))));
    record
}

/// a, b and c have a title at distance 1, 2 and 3 of the origin; b, c and d an image of 2, 3 and 4; e has the main vector alone.
fn records() -> Vec<Record> {
    let plain = |name: &str, even: bool| record(name, &[1.0, 0.0], metadata([("even", Value::Bool(even))]));
    vec![
        with(plain("a", false), &[("title", &[1.0, 0.0, 0.0])]),
        with(plain("b", true), &[("title", &[0.0, 2.0, 0.0]), ("image", &[2.0])]),
        with(plain("c", false), &[("title", &[0.0, 0.0, 3.0]), ("image", &[3.0])]),
        with(plain("d", true), &[("image", &[4.0])]),
        plain("e", false),
    ]
}

const ORIGIN: [f32; 3] = [0.0; 3];

async fn search(scene: &Scene, name: &str, query: &[f32], filter: Option<&Filter>, limit: usize) -> Vec<(String, f64)> {
    let (vector, name) = (vector_of(query), of(name));
    let search = VectorSearch { vector: &vector, using: Some(&name), filter, limit };
    let hits = scene.store.search(&scene.context, &scene.collection, search).await.unwrap();
    hits.into_iter().map(|hit| (hit.record.document.id.to_string(), hit.score)).collect()
}

async fn found(scene: &Scene, name: &str, query: &[f32], filter: Option<&Filter>, limit: usize) -> Vec<String> {
    search(scene, name, query, filter, limit).await.into_iter().map(|(id, _)| id).collect()
}

/// Each space has its dimension and its metric, and a record is found through those where it has a vector, and no others.
pub async fn each_space_is_searched_by_itself(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    assert_eq!(scene.store.params(&scene.context, &scene.collection).await.unwrap(), params());
    assert_eq!(found(&scene, "title", &ORIGIN, None, 9).await, [] as [&str; 0]);
    scene.put(records()).await;
    let titles = search(&scene, "title", &ORIGIN, None, 9).await;
    assert_eq!(titles, [("a".to_owned(), 1.0), ("b".to_owned(), 2.0), ("c".to_owned(), 3.0)]);
    let images = search(&scene, "image", &[0.5], None, 9).await;
    assert_eq!(images, [("d".to_owned(), 2.0), ("c".to_owned(), 1.5), ("b".to_owned(), 1.0)]);
    assert_eq!(found(&scene, "image", &[-1.0], None, 1).await, ["b"], "a negative score is better than no vector");
    assert_eq!(scene.search_ids(&[1.0, 0.0], None, 9).await, ["a", "b", "c", "d", "e"]);
}

/// min(limit, matches that have a vector there).
pub async fn limits_and_filters_count_those_with_a_vector(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    scene.put(records()).await;
    let even = Filter::Eq(key("even"), Value::Bool(true));
    assert_eq!(found(&scene, "title", &ORIGIN, None, 2).await, ["a", "b"]);
    assert_eq!(found(&scene, "title", &ORIGIN, None, 0).await, [] as [&str; 0]);
    assert_eq!(found(&scene, "title", &ORIGIN, Some(&even), 3).await, ["b"]);
    assert_eq!(found(&scene, "image", &[1.0], Some(&even), 1).await, ["d"]);
    assert_eq!(found(&scene, "image", &[1.0], Some(&even), 9).await, ["d", "b"]);
    assert_eq!(scene.count(Some(&even)).await, 2, "a filter alone counts records, with vectors or without");

    // Few of many have a vector in the space, and fewer of those match.
    let many = (0..600).map(|n| {
        let plain = record(&format!("m{n:03}"), &[0.0, 1.0], metadata([("n", Value::Int(n))]));
        if n % 50 == 0 { with(plain, &[("image", &[100.0 + n as f32])]) } else { plain }
    });
    scene.put(many.collect()).await;
    let late = Filter::Gte(key("n"), Value::Int(400));
    assert_eq!(found(&scene, "image", &[1.0], Some(&late), 3).await, ["m550", "m500", "m450"]);
    assert_eq!(found(&scene, "image", &[1.0], Some(&late), 10).await.len(), 4);
    assert_eq!(found(&scene, "image", &[1.0], None, 100).await.len(), 15);
}

/// A write replaces all vectors: it changes, adds and takes away.
pub async fn an_upsert_replaces_named_vectors(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    scene.put(records()).await;
    let plain = |name: &str| record(name, &[1.0, 0.0], Metadata::new());
    let changed = with(plain("a"), &[("title", &[0.0, 9.0, 0.0]), ("image", &[9.0])]);
    scene.put(vec![changed.clone(), plain("b")]).await;
    assert_eq!(found(&scene, "title", &ORIGIN, None, 9).await, ["c", "a"]);
    assert_eq!(found(&scene, "image", &[1.0], None, 9).await, ["a", "d", "c"]);
    let got = scene.store.get(&scene.context, &scene.collection, &ids(["a", "b"])).await.unwrap();
    assert_eq!(got, [Some(changed.clone()), Some(plain("b"))]);
    let page = scene.store.scroll(&scene.context, &scene.collection, None, None, 1).await.unwrap();
    assert_eq!(page.records, std::slice::from_ref(&changed));
    let whole = scene.search(&[1.0, 0.0], None, 1).await;
    assert_eq!(whole[0].record, changed, "hits are whole records");
}

/// What is deleted is found in no space, and what is written again has its new vectors alone.
pub async fn deletes_reach_every_space(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    scene.put(records()).await;
    let one = Selector::Ids(ids(["b"]));
    assert_eq!(scene.store.delete(&scene.context, &scene.collection, &one).await.unwrap(), 1);
    assert_eq!(found(&scene, "title", &ORIGIN, None, 9).await, ["a", "c"]);
    assert_eq!(found(&scene, "image", &[1.0], None, 9).await, ["d", "c"]);
    scene.put(vec![with(record("b", &[1.0, 0.0], Metadata::new()), &[("image", &[1.0])])]).await;
    assert_eq!(found(&scene, "title", &ORIGIN, None, 9).await, ["a", "c"]);
    assert_eq!(found(&scene, "image", &[1.0], None, 9).await, ["d", "c", "b"]);
    assert_eq!(scene.store.delete(&scene.context, &scene.collection, &Selector::All).await.unwrap(), 5);
    assert_eq!(found(&scene, "image", &[1.0], None, 9).await, [] as [&str; 0]);
    scene.put(records()).await;
    assert_eq!(found(&scene, "title", &ORIGIN, None, 1).await, ["a"]);
}

/// Relevance, thresholds and MMR are those of the space, and hits carry the vector that was compared.
pub async fn relevance_and_mmr_are_those_of_the_space(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    scene.put(records()).await;
    let (title, image, origin) = (of("title"), of("image"), vector_of(&ORIGIN));
    let search = |limit| VectorSearch { vector: &origin, using: Some(&title), filter: None, limit };
    let reciprocal = Scoring { relevance: RelevanceFunction::Reciprocal, ..Scoring::default() };
    let (context, docs) = (&scene.context, &scene.collection);
    let hits = scene.store.similarity(context, docs, search(9), reciprocal).await.unwrap();
    assert_eq!(hits.iter().map(|hit| hit.metric).collect::<Vec<_>>(), [Some(Metric::Euclidean); 3]);
    assert_score(hits[1].relevance.unwrap(), 1.0 / 3.0);
    assert_eq!(hits[1].vector.as_ref().unwrap().as_slice(), [0.0, 2.0, 0.0]);
    let near = Thresholds { relevance: None, raw_score: Some(2.0) };
    let scoring = Scoring { thresholds: near, ..Scoring::default() };
    let hits = scene.store.similarity(context, docs, search(9), scoring).await.unwrap();
    assert_eq!(hits.iter().map(|hit| hit.document.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    // Reciprocal is not defined for the products of `image`.
    let one = vector_of(&[1.0]);
    let of_image = VectorSearch { vector: &one, using: Some(&image), filter: None, limit: 1 };
    let fault = scene.store.similarity(context, docs, of_image, reciprocal).await.unwrap_err();
    assert!(fault.to_string().starts_with("relevance_fn"), "{fault}");

    // Cosines with the query: a .8, b .6, c 0; a and b are at right angles.
    let (query, params) = (vector_of(&[0.8, 0.6, 0.0]), MmrParams { k: 3, fetch_k: 9, lambda_mult: 0.5 });
    let (store, scoring) = (&scene.store, Scoring::default());
    let hits = store.max_marginal_relevance(context, docs, &query, Some(&title), None, params, scoring).await.unwrap();
    assert_eq!(hits.iter().map(|hit| hit.document.id.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    assert_score(hits[0].sources[1].score, 0.8);
    assert_score(hits[1].sources[1].score, 0.3);
    assert_eq!(hits[0].metric, Some(Metric::Euclidean));
}

/// Unknown spaces and vectors that do not fit theirs are `InvalidArgument`, name the field, and write nothing.
pub async fn what_does_not_fit_a_space_is_refused(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    scene.put(records()).await;
    for (vectors, expected) in [
        (("title", vec![1.0]), "records[1].named[\"title\"]: must have the collection's 3 dimensions, got 1"),
        (("other", vec![1.0]), "records[1].named[\"other\"]: the collection has no vectors named \"other\""),
    ] {
        let bad = with(record("bad", &[1.0, 0.0], Metadata::new()), &[(vectors.0, &vectors.1)]);
        let records = vec![record("good", &[1.0, 0.0], Metadata::new()), bad];
        let fault = scene.store.upsert(&scene.context, &scene.collection, records).await.unwrap_err();
        assert!(matches!(fault, Error::InvalidArgument(_)), "{fault:?}");
        assert!(fault.to_string().starts_with(expected), "{fault}");
    }
    assert_eq!(scene.count(None).await, 5);
    for (name, query, expected) in [
        ("other", vec![1.0], "vector_name: the collection has no vectors named \"other\"; it has \"image\", \"title\""),
        ("image", vec![1.0, 2.0], "vector: must have the collection's 1 dimensions, got 2"),
    ] {
        let (vector, name) = (vector_of(&query), of(name));
        let search = VectorSearch { vector: &vector, using: Some(&name), filter: None, limit: 1 };
        let fault = scene.store.search(&scene.context, &scene.collection, search).await.unwrap_err();
        assert_eq!(fault.to_string(), expected);
        let fault = scene.store.similarity(&scene.context, &scene.collection, search, Scoring::default()).await;
        assert_eq!(fault.unwrap_err().to_string(), expected);
    }
    let too_many = (0..9).map(|n| (of(&format!("v{n}")), VectorSpace { dimension: 1, metric: Metric::Dot }));
    let no_dimension = BTreeMap::from([(of("v"), VectorSpace { dimension: 0, metric: Metric::Dot })]);
    for (named, expected) in [(too_many.collect(), "named_vectors"), (no_dimension, "named_vectors[\"v\"].dimension")] {
        let params = VectorParams { named, ..VectorParams::new(1, Metric::Dot) };
        let fault = scene.store.create(&scene.context, &collection("other"), params).await.unwrap_err();
        assert!(fault.to_string().starts_with(expected), "{fault}");
    }
}

/// Spaces of the same name in other collections and tenants are apart.
pub async fn spaces_of_collections_are_apart(store: Arc<dyn VectorStore>) {
    let ours = scene(store).await;
    let theirs = Scene { store: Arc::clone(&ours.store), context: context("theirs"), collection: collection("docs") };
    theirs.store.create(&theirs.context, &theirs.collection, params()).await.unwrap();
    ours.put(records()).await;
    assert_eq!(found(&theirs, "title", &ORIGIN, None, 9).await, [] as [&str; 0]);
    let page = theirs.store.scroll(&theirs.context, &theirs.collection, None, None, 9).await.unwrap();
    assert_eq!(id_texts(&page.records), [] as [&str; 0]);
}
