//! Keyword search: scores and order against the formula, and what takes part.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use toller_core::collection::VectorParams;
use toller_core::error::Error;
use toller_core::keyword::KEYWORD_NOT_INDEXED;
use toller_core::vector_store::{ChangeSet, ScoredRecord, Selector};
use toller_core::{
    Document, Filter, KeywordParams, KeywordSearch, Language, Metadata, Metric, Record, Value, VectorStore,
};

use super::fixture::{Numbers, Scene, collection, context, id, id_texts, ids, key, metadata, record, vector_of};

/// How far a score may be from the formula, as a part of it: engines compute in `f32`.
const RELATIVE_TOLERANCE: f64 = 1e-5;

/// A collection of texts in one language; vectors play no part.
async fn scene(store: Arc<dyn VectorStore>, name: &str, language: Language) -> Scene {
    let scene = Scene { store, context: context("conformance"), collection: collection(name) };
    let params = VectorParams { keyword: Some(KeywordParams { language }), ..VectorParams::new(2, Metric::Euclidean) };
    scene.store.create(&scene.context, &scene.collection, params).await.unwrap();
    scene
}

fn text(name: &str, text: &str, metadata: Metadata) -> Record {
    let document = Document { id: id(name), page_content: text.to_owned(), metadata };
    Record::new(Arc::new(document), vector_of(&[1.0, 0.0]))
}

fn texts<const N: usize>(texts: [(&str, &str); N]) -> Vec<Record> {
    texts.into_iter().map(|(name, content)| text(name, content, Metadata::new())).collect()
}

async fn hits(scene: &Scene, query: &str, filter: Option<&Filter>, limit: usize) -> Vec<ScoredRecord> {
    let search = KeywordSearch { text: query, filter, limit };
    scene.store.keyword_search(&scene.context, &scene.collection, search).await.unwrap()
}

async fn found(scene: &Scene, query: &str) -> Vec<String> {
    id_texts(hits(scene, query, None, 100).await.iter().map(|hit| &hit.record))
}

/// The formula, by brute force, for texts whose terms are their words: all records that have a term of the query, with
/// their scores, in the order of the records.
fn by_the_formula<'a>(records: &'a [Record], query: &str) -> Vec<(&'a Record, f64)> {
    let words = |record: &'a Record| record.document.page_content.split(' ').filter(|word| !word.is_empty());
    let mut with_word: HashMap<&str, usize> = HashMap::new();
    for word in query.split(' ') {
        with_word.insert(word, records.iter().filter(|record| words(record).any(|other| other == word)).count());
    }
    let scored = records.iter().map(|record| {
        let length = words(record).count() as f64;
        let score = query.split(' ').map(|word| {
            let tf = words(record).filter(|other| *other == word).count() as f64;
            let n = with_word[word] as f64;
            let idf = (1.0 + (records.len() as f64 - n + 0.5) / (n + 0.5)).ln();
            idf * tf * (1.2 + 1.0) / (tf + 1.2 * (1.0 - 0.75 + 0.75 * length / 256.0))
        });
        (record, score.sum())
    });
    scored.filter(|(_, score)| *score > 0.0).collect()
}

/// The hits are the best `limit` of the expected ones, with their scores.
///
/// Scores that the formula tells apart by less than the tolerance may change places; true ties have a case of their own.
fn assert_hits(hits: &[ScoredRecord], mut expected: Vec<(&Record, f64)>, limit: usize) {
    let is_near = |score: f64, other: f64| (score - other).abs() <= RELATIVE_TOLERANCE * other;
    expected.sort_by(|left, right| right.1.total_cmp(&left.1));
    assert_eq!(hits.len(), limit.min(expected.len()));
    for (hit, (_, score_at_rank)) in hits.iter().zip(&expected) {
        let own = expected.iter().find(|(record, _)| **record == hit.record);
        let (_, own_score) = own.unwrap_or_else(|| panic!("{} does not match", hit.record.document.id));
        assert!(is_near(hit.score, *own_score), "score {} must be {own_score}", hit.score);
        assert!(is_near(hit.score, *score_at_rank), "{} must score {score_at_rank}", hit.record.document.id);
    }
    let distinct: HashSet<_> = hits.iter().map(|hit| &hit.record.document.id).collect();
    assert_eq!(distinct.len(), hits.len());
}

/// Texts of the words `w0` to `w19`, the small numbers being the common ones, of very different lengths.
fn random_texts(numbers: &mut Numbers, count: usize) -> Vec<Record> {
    let mut records = Vec::with_capacity(count);
    for index in 0..count {
        let length = numbers.next_u64() % 40 * (1 + numbers.next_u64() % 20);
        let words: Vec<String> = (0..length).map(|_| random_word(numbers)).collect();
        let data = metadata([("n", Value::Int(index as i64)), ("even", Value::Bool(index % 2 == 0))]);
        records.push(text(&format!("{index:04}"), &words.join(" "), data));
    }
    records
}

fn random_word(numbers: &mut Numbers) -> String {
    let most = 1 + numbers.next_u64() % 20;
    format!("w{}", numbers.next_u64() % most)
}

/// Scores and order of many texts against the formula; a word that is said twice counts twice.
pub async fn keyword_scores_follow_the_formula(store: Arc<dyn VectorStore>) {
    let scene = scene(store, "docs", Language::None).await;
    let mut numbers = Numbers(3);
    let records = random_texts(&mut numbers, 500);
    scene.put(records.clone()).await;
    for words in 1..6 {
        let query: Vec<String> = (0..words).map(|_| random_word(&mut numbers)).collect();
        let query = query.join(" ");
        for limit in [1, 10, 1000] {
            assert_hits(&hits(&scene, &query, None, limit).await, by_the_formula(&records, &query), limit);
        }
    }
    assert_hits(&hits(&scene, "w19 w19 w3", None, 50).await, by_the_formula(&records, "w19 w19 w3"), 50);
    assert_eq!(found(&scene, "w20").await, [] as [&str; 0]);
}

/// Values by hand: every score is above 0, also for a word that every record has; texts without a word of the query are
/// not found, nor are empty ones, but they count as records.
pub async fn only_records_with_a_word_of_the_query_are_found(store: Arc<dyn VectorStore>) {
    let scene = scene(store, "docs", Language::English).await;
    scene
        .put(texts([("a", "the cat sat"), ("b", "the dog ran"), ("c", "a cat and a dog"), ("d", "fish"), ("e", "")]))
        .await;
    let first = hits(&scene, "cat dog", None, 10).await;
    assert_eq!(id_texts(first.iter().map(|hit| &hit.record)), ["c", "a", "b"]);
    // Of 5 records 2 have `cat`, 2 have `dog`; each text has 2 words that are no stop words.
    let idf = (1.0_f64 + 3.5 / 2.5).ln();
    let weight = 2.2 / (1.0 + 1.2 * (0.25 + 0.75 * 2.0 / 256.0));
    for (hit, expected) in first.iter().zip([2.0 * idf * weight, idf * weight, idf * weight]) {
        assert!((hit.score - expected).abs() <= RELATIVE_TOLERANCE * expected, "{} must be {expected}", hit.score);
    }

    scene.store.delete(&scene.context, &scene.collection, &Selector::Ids(ids(["b", "d", "e"]))).await.unwrap();
    let in_all = hits(&scene, "cat", None, 10).await;
    assert_eq!(in_all.len(), 2);
    assert!(in_all.iter().all(|hit| hit.score > 0.0), "a word that every record has still counts");
}

/// Filters decide before the choice of the best, and leave the statistics alone.
pub async fn keyword_filters_apply_before_the_limit(store: Arc<dyn VectorStore>) {
    let scene = scene(store, "docs", Language::None).await;
    let mut numbers = Numbers(11);
    let records = random_texts(&mut numbers, 400);
    scene.put(records.clone()).await;
    let filters = [
        Filter::Eq(key("even"), Value::Bool(true)),
        Filter::Lt(key("n"), Value::Int(40)),
        Filter::Gte(key("n"), Value::Int(398)),
        Filter::Exists(key("nothing"), true),
        Filter::And(Vec::new()),
    ];
    for filter in filters {
        for limit in [1, 7, 400] {
            let mut expected = by_the_formula(&records, "w0 w7 w15");
            expected.retain(|(record, _)| filter.matches(&record.document.metadata));
            assert_hits(&hits(&scene, "w0 w7 w15", Some(&filter), limit).await, expected, limit);
        }
    }
}

/// What is written, replaced and deleted shows in the next search: in who is found and in all scores.
pub async fn keyword_statistics_follow_every_write(store: Arc<dyn VectorStore>) {
    let scene = scene(store, "docs", Language::None).await;
    let mut numbers = Numbers(19);
    let mut records = random_texts(&mut numbers, 60);
    let check = async |records: &[Record]| {
        for query in ["w0", "w2 w9", "w19 w1"] {
            assert_hits(&hits(&scene, query, None, 100).await, by_the_formula(records, query), 100);
        }
    };
    scene.put(records.clone()).await;
    check(&records).await;

    // Every third one gets another text and keeps its place.
    let replaced: Vec<Record> =
        random_texts(&mut numbers, 60).into_iter().enumerate().filter(|(n, _)| n % 3 == 0).map(|(_, r)| r).collect();
    for record in &replaced {
        let place = records.iter().position(|old| old.document.id == record.document.id).unwrap();
        records[place] = record.clone();
    }
    scene.put(replaced).await;
    check(&records).await;

    let gone: Vec<_> = (0..20).map(|n| records[n * 2].document.id.clone()).collect();
    assert_eq!(scene.store.delete(&scene.context, &scene.collection, &Selector::Ids(gone.clone())).await.unwrap(), 20);
    records.retain(|record| !gone.contains(&record.document.id));
    check(&records).await;

    let odd = Filter::Eq(key("even"), Value::Bool(false));
    let selector = Selector::Filter(odd.clone());
    scene.store.delete(&scene.context, &scene.collection, &selector).await.unwrap();
    records.retain(|record| !odd.matches(&record.document.metadata));
    assert!(!records.is_empty());
    check(&records).await;

    scene.store.delete(&scene.context, &scene.collection, &Selector::All).await.unwrap();
    check(&[]).await;
    let again = random_texts(&mut numbers, 5);
    scene.put(again.clone()).await;
    check(&again).await;
}

/// And every commit of many changes, from the first read on.
pub async fn keyword_statistics_follow_a_change_set(store: Arc<dyn VectorStore>) {
    let scene = scene(store, "docs", Language::None).await;
    let mut numbers = Numbers(23);
    let mut records = random_texts(&mut numbers, 400);
    for round in 0..4 {
        if round == 0 {
            scene.put(records.clone()).await;
        } else {
            // A third goes, a third is replaced, and some are new.
            let third = |record: &Record| record.document.id.as_str().bytes().map(usize::from).sum::<usize>() % 3;
            let delete = records.iter().filter(|record| third(record) == 0).map(|record| record.document.id.clone());
            let delete: Vec<_> = delete.collect();
            let mut written: Vec<Record> = random_texts(&mut numbers, 400);
            written.retain(|record| third(record) == 1);
            for n in 0..40 {
                written.push(text(&format!("new {round} {n}"), &random_word(&mut numbers), Metadata::new()));
            }
            records.retain(|record| !delete.contains(&record.document.id));
            records.retain(|record| written.iter().all(|new| new.document.id != record.document.id));
            records.extend(written.iter().cloned());
            let batches = written.chunks(50).map(<[Record]>::to_vec).collect();
            let changes = ChangeSet::new(delete, batches);
            scene.store.apply(&scene.context, &scene.collection, changes).await.unwrap();
        }
        for query in ["w0", "w2 w9", "w19 w1"] {
            assert_hits(&hits(&scene, query, None, 100).await, by_the_formula(&records, query), 100);
        }
    }
}

/// min(limit, matches) hits; a limit of 0 gives none. Equal scores come in one order, whatever the limit.
pub async fn keyword_ties_and_limits(store: Arc<dyn VectorStore>) {
    let scene = scene(store, "docs", Language::English).await;
    let names: Vec<String> = (0..40).map(|index| format!("tie-{index:02}")).collect();
    scene.put(names.iter().map(|name| text(name, "toll bridge", Metadata::new())).collect()).await;
    scene.put(texts([("zz", "toll toll bridge"), ("zzz", "river")])).await;
    for limit in [0, 1, 2, 40, 41, 1000] {
        let found = hits(&scene, "toll", None, limit).await;
        let mut expected: Vec<&str> = vec!["zz"];
        expected.extend(names.iter().map(String::as_str));
        expected.truncate(limit);
        assert_eq!(id_texts(found.iter().map(|hit| &hit.record)), expected);
    }
    let scores: Vec<f64> = hits(&scene, "toll", None, 41).await.iter().skip(1).map(|hit| hit.score).collect();
    assert!(scores.windows(2).all(|pair| pair[0] == pair[1]), "equal texts have equal scores");
}

/// A query without a term finds nothing, and that is no error.
pub async fn a_query_without_terms_finds_nothing(store: Arc<dyn VectorStore>) {
    let scene = scene(store, "docs", Language::English).await;
    scene.put(texts([("a", "to be or not to be"), ("b", "the bridge"), ("c", "")])).await;
    for query in ["", "  ", "the", "To be, or not to be?", "!?", "🙂"] {
        assert_eq!(found(&scene, query).await, [] as [&str; 0], "{query:?}");
    }
    assert_eq!(found(&scene, "the bridge").await, ["b"]);
}

/// Case, accents, compatibility forms and endings make no difference; scripts without spaces are found by parts of
/// their texts.
pub async fn keywords_are_found_in_any_spelling(store: Arc<dyn VectorStore>) {
    let english = scene(Arc::clone(&store), "english", Language::English).await;
    english
        .put(texts([
            ("accent", "Crème brûlée at the Café"),
            ("cjk", "東京都庁は新宿にある。"),
            ("hangul", "서울특별시의 도서관"),
            ("lone", "火"),
            ("stem", "She was RUNNING, connected"),
            ("thai", "ภาษาไทย"),
            ("wide", "ＴＯＬＬ ｶﾀｶﾅ"),
        ]))
        .await;
    for (query, expected) in [
        ("cafe", vec!["accent"]),
        ("CRE\u{300}ME", vec!["accent"]),
        ("brulee", vec!["accent"]),
        ("runs", vec!["stem"]),
        ("connections", vec!["stem"]),
        ("toll", vec!["wide"]),
        ("カタカナ", vec!["wide"]),
        ("東京", vec!["cjk"]),
        ("新宿区", vec!["cjk"]),
        ("京東", vec![]),
        ("서울", vec!["hangul"]),
        ("도서관에서", vec!["hangul"]),
        ("火", vec!["lone"]),
        ("ไทย", vec!["thai"]),
        ("cat", vec![]),
    ] {
        assert_eq!(found(&english, query).await, expected, "{query:?}");
    }

    let german = scene(Arc::clone(&store), "german", Language::German).await;
    german.put(texts([("a", "Die Häuser in der Hauptstraße"), ("b", "der Hund")])).await;
    assert_eq!(found(&german, "HAUS").await, ["a"]);
    assert_eq!(found(&german, "hauptstrasse").await, ["a"]);
    assert_eq!(found(&german, "der die das").await, [] as [&str; 0]);

    let none = scene(store, "none", Language::None).await;
    none.put(texts([("a", "the houses"), ("b", "a house")])).await;
    assert_eq!(found(&none, "house").await, ["b"]);
    assert_eq!(found(&none, "THE").await, ["a"]);
}

/// A collection keeps its keyword parameters; one without them answers vectors as ever and refuses keywords, even for
/// nothing.
pub async fn a_collection_without_a_keyword_index_is_refused(store: Arc<dyn VectorStore>) {
    let with = scene(Arc::clone(&store), "with", Language::French).await;
    let params = with.store.params(&with.context, &with.collection).await.unwrap();
    assert_eq!(params.keyword, Some(KeywordParams { language: Language::French }));

    let without = Scene::new(store, Metric::Dot, 2).await;
    without.put(vec![record("a", &[1.0, 0.0], Metadata::new())]).await;
    for (query, limit) in [("content", 4), ("", 4), ("content", 0)] {
        let search = KeywordSearch { text: query, filter: None, limit };
        let fault = without.store.keyword_search(&without.context, &without.collection, search).await.unwrap_err();
        let Error::FailedPrecondition { reason, message } = fault else { panic!("{fault:?}") };
        assert_eq!(reason, KEYWORD_NOT_INDEXED);
        assert!(message.contains("\"docs\"") && message.contains("make a collection with one"), "{message}");
    }
    assert_eq!(without.search_ids(&[1.0, 0.0], None, 4).await, ["a"]);
}

/// Two tenants with the same collection: neither's texts are found by the other, nor do they count.
pub async fn keywords_of_tenants_are_apart(store: Arc<dyn VectorStore>) {
    let ours = scene(store, "docs", Language::English).await;
    let theirs = Scene { store: Arc::clone(&ours.store), context: context("other"), collection: collection("docs") };
    let nothing = KeywordSearch { text: "toll", filter: None, limit: 1 };
    let fault = theirs.store.keyword_search(&theirs.context, &theirs.collection, nothing).await.unwrap_err();
    assert!(matches!(fault, Error::NotFound { .. }), "{fault:?}");

    let params = ours.store.params(&ours.context, &ours.collection).await.unwrap();
    theirs.store.create(&theirs.context, &theirs.collection, params).await.unwrap();
    ours.put(texts([("a", "toll bridge"), ("b", "river")])).await;
    let alone = hits(&ours, "toll", None, 9).await;
    theirs.put(texts([("a", "toll toll"), ("c", "toll road"), ("d", "toll booth")])).await;
    assert_eq!(hits(&ours, "toll", None, 9).await, alone);
    assert_eq!(found(&ours, "road booth").await, [] as [&str; 0]);
    assert_eq!(found(&theirs, "river bridge").await, [] as [&str; 0]);
    assert_eq!(found(&theirs, "toll").await, ["a", "c", "d"]);
}
