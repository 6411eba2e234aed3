//! Filters: every operator, on present, missing, nested, null, empty and wrongly typed values.

use std::sync::Arc;

use toller_core::vector_store::VectorStore;
use toller_core::{Filter, Metadata, Metric, Value};

use super::fixture::{Scene, key, metadata, record};

/// 2^53 + 1, which a double cannot hold.
const BEYOND_DOUBLES: i64 = (1 << 53) + 1;

fn documents() -> Vec<(&'static str, Metadata)> {
    let text = |value: &str| Value::from(value);
    vec![
        ("a_int", metadata([("n", Value::Int(1)), ("s", text("x"))])),
        ("b_double", metadata([("n", Value::Double(1.0)), ("s", text("y"))])),
        ("c_text", metadata([("n", text("1"))])),
        ("d_bool", metadata([("n", Value::Bool(true))])),
        ("e_null", metadata([("n", Value::Null)])),
        ("f_missing", Metadata::new()),
        ("g_big", metadata([("n", Value::Int(BEYOND_DOUBLES))])),
        ("h_even", metadata([("n", Value::Int(BEYOND_DOUBLES - 1))])),
        ("i_nested", metadata([("user", Value::Map(metadata([("age", Value::Int(30)), ("name", text("Ünal"))])))])),
        ("j_null_user", metadata([("user", Value::Null)])),
        ("k_list", metadata([("tags", Value::from(vec![text("red"), Value::Int(1), Value::Null]))])),
        ("l_empty_list", metadata([("tags", Value::from(vec![]))])),
        ("m_unicode", metadata([("s", text("日本語 é")), ("日本", Value::Int(7))])),
        ("n_empty_text", metadata([("s", text(""))])),
        ("o_dotted", metadata([("a.b", Value::Int(5))])),
        ("p_negative", metadata([("n", Value::Double(-2.5))])),
    ]
}

fn everything_but(missing: &[&str]) -> Vec<&'static str> {
    documents().into_iter().map(|(id, _)| id).filter(|id| !missing.contains(id)).collect()
}

fn cases() -> Vec<(Filter, Vec<&'static str>)> {
    let n = || key("n");
    let s = || key("s");
    let tags = || key("tags");
    let text = |value: &str| Value::from(value);
    let of = |ids: &[&'static str]| ids.to_vec();
    vec![
        // Equality: numbers compare by value across their two types, nothing else coerces.
        (Filter::Eq(n(), Value::Int(1)), of(&["a_int", "b_double"])),
        (Filter::Eq(n(), Value::Double(1.0)), of(&["a_int", "b_double"])),
        (Filter::Eq(n(), text("1")), of(&["c_text"])),
        (Filter::Eq(n(), Value::Bool(true)), of(&["d_bool"])),
        (Filter::Eq(n(), Value::Bool(false)), of(&[])),
        (Filter::Eq(n(), Value::Null), of(&["e_null"])),
        (Filter::Eq(n(), Value::Int(BEYOND_DOUBLES)), of(&["g_big"])),
        (Filter::Eq(n(), Value::Int(BEYOND_DOUBLES - 1)), of(&["h_even"])),
        (Filter::Eq(n(), Value::Double(9_007_199_254_740_992.0)), of(&["h_even"])),
        (Filter::Eq(s(), text("")), of(&["n_empty_text"])),
        (Filter::Eq(s(), text("日本語 é")), of(&["m_unicode"])),
        (Filter::Eq(s(), text("日本語 e\u{301}")), of(&[])),
        (Filter::Eq(key("日本"), Value::Int(7)), of(&["m_unicode"])),
        (Filter::Eq(tags(), Value::from(vec![])), of(&["l_empty_list"])),
        (Filter::Eq(tags(), Value::from(vec![text("red"), Value::Double(1.0), Value::Null])), of(&["k_list"])),
        (Filter::Eq(tags(), text("red")), of(&[])),
        // Paths: into maps, through null, with escaped dots.
        (Filter::Eq(key("user.age"), Value::Int(30)), of(&["i_nested"])),
        (Filter::Gte(key("user.age"), Value::Int(18)), of(&["i_nested"])),
        (Filter::Eq(key("user.name"), text("Ünal")), of(&["i_nested"])),
        (Filter::Eq(key("user"), Value::Null), of(&["j_null_user"])),
        (Filter::Eq(key("user.age.years"), Value::Int(30)), of(&[])),
        (Filter::Eq(key("a\\.b"), Value::Int(5)), of(&["o_dotted"])),
        (Filter::Eq(key("a.b"), Value::Int(5)), of(&[])),
        // ne is not(eq): a missing key matches.
        (Filter::Ne(n(), Value::Int(1)), everything_but(&["a_int", "b_double"])),
        (Filter::Ne(n(), Value::Null), everything_but(&["e_null"])),
        (Filter::Ne(key("user.age"), Value::Int(30)), everything_but(&["i_nested"])),
        // in and nin.
        (Filter::In(n(), vec![Value::Int(1), text("1")]), of(&["a_int", "b_double", "c_text"])),
        (Filter::In(n(), vec![Value::Null, Value::Bool(true)]), of(&["d_bool", "e_null"])),
        (Filter::In(n(), vec![]), of(&[])),
        (Filter::Nin(n(), vec![]), everything_but(&[])),
        (Filter::Nin(n(), vec![Value::Int(1), Value::Null]), everything_but(&["a_int", "b_double", "e_null"])),
        // Order: numbers with numbers, texts with texts.
        (Filter::Gt(n(), Value::Int(1)), of(&["g_big", "h_even"])),
        (Filter::Gte(n(), Value::Double(1.0)), of(&["a_int", "b_double", "g_big", "h_even"])),
        (Filter::Lt(n(), Value::Int(1)), of(&["p_negative"])),
        (Filter::Lte(n(), Value::Int(1)), of(&["a_int", "b_double", "p_negative"])),
        (Filter::Gt(n(), Value::Double(9_007_199_254_740_992.0)), of(&["g_big"])),
        (Filter::Lt(n(), Value::Double(-2.4)), of(&["p_negative"])),
        (Filter::Gte(n(), text("0")), of(&["c_text"])),
        (Filter::Gt(s(), text("x")), of(&["b_double", "m_unicode"])),
        (Filter::Lte(s(), text("x")), of(&["a_int", "n_empty_text"])),
        // exists: a null is there.
        (
            Filter::Exists(n(), true),
            of(&["a_int", "b_double", "c_text", "d_bool", "e_null", "g_big", "h_even", "p_negative"]),
        ),
        (Filter::Exists(key("user"), false), everything_but(&["i_nested", "j_null_user"])),
        (Filter::Exists(key("user.age"), true), of(&["i_nested"])),
        (Filter::Exists(tags(), true), of(&["k_list", "l_empty_list"])),
        // contains: elements of lists, parts of texts.
        (Filter::Contains(tags(), text("red")), of(&["k_list"])),
        (Filter::Contains(tags(), text("re")), of(&[])),
        (Filter::Contains(tags(), Value::Double(1.0)), of(&["k_list"])),
        (Filter::Contains(tags(), Value::Null), of(&["k_list"])),
        (Filter::Contains(s(), text("本")), of(&["m_unicode"])),
        (Filter::Contains(s(), text("")), of(&["a_int", "b_double", "m_unicode", "n_empty_text"])),
        (Filter::Contains(n(), Value::Int(1)), of(&[])),
        // and, or, not.
        (Filter::And(vec![]), everything_but(&[])),
        (Filter::Or(vec![]), of(&[])),
        (Filter::And(vec![Filter::Eq(n(), Value::Int(1)), Filter::Eq(s(), text("y"))]), of(&["b_double"])),
        (
            Filter::Or(vec![Filter::Eq(s(), text("x")), Filter::Exists(tags(), true)]),
            of(&["a_int", "k_list", "l_empty_list"]),
        ),
        (Filter::Not(Box::new(Filter::Gt(n(), Value::Int(1)))), everything_but(&["g_big", "h_even"])),
        (
            Filter::Not(Box::new(Filter::Or(vec![Filter::Exists(n(), true), Filter::Exists(s(), true)]))),
            of(&["f_missing", "i_nested", "j_null_user", "k_list", "l_empty_list", "o_dotted"]),
        ),
    ]
}

async fn scene(store: Arc<dyn VectorStore>) -> Scene {
    let scene = Scene::new(store, Metric::Euclidean, 1).await;
    // Distance grows with the id, so that hits come in the order of ids.
    let records = documents().into_iter().zip(0_u16..);
    scene.put(records.map(|((id, metadata), n)| record(id, &[f32::from(n)], metadata)).collect()).await;
    scene
}

/// A table of filters and the documents that match.
pub async fn every_operator_means_what_it_says(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    for (filter, expected) in cases() {
        assert_eq!(scene.search_ids(&[0.0], Some(&filter), 100).await, expected, "{filter:?}");
    }
}

/// Count and scroll use the same rules as search.
pub async fn filtered_counts_and_scrolls_agree_with_search(store: Arc<dyn VectorStore>) {
    let scene = scene(store).await;
    for (filter, expected) in cases() {
        assert_eq!(scene.count(Some(&filter)).await, expected.len() as u64, "{filter:?}");
        assert_eq!(scene.all_ids(Some(&filter)).await, expected, "{filter:?}");
    }
}
