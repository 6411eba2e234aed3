//! Document hashes against LangChain's recorded ones, and the separators of languages against its tables.

// Tests may panic; the lints exempt only what stands in a test function itself.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;
use toller_core::{Metadata, Value};
use toller_ingest::{HashAlgorithm, Language, canonical_json, document_key};

fn oracle(name: &str) -> Json {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/oracles").join(name);
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Value::Int(integer),
            None => Value::Double(number.as_f64().unwrap()),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(values) => Value::List(values.iter().map(value).collect()),
        Json::Object(entries) => Value::Map(entries.iter().map(|(name, entry)| (name.clone(), value(entry))).collect()),
    }
}

fn metadata(json: &Json) -> Metadata {
    match value(json) {
        Value::Map(entries) => entries,
        other => panic!("{other:?} is no metadata"),
    }
}

#[test]
fn document_keys_are_langchains() {
    let oracle = oracle("hashing.json");
    let cases = oracle["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 40);
    for case in cases {
        let metadata = metadata(&case["metadata"]);
        let id = &case["id"];
        assert_eq!(canonical_json(&metadata), case["canonical_metadata_json"].as_str().unwrap(), "{id}");
        let content = case["page_content"].as_str().unwrap();
        for (name, algorithm) in [
            ("sha1", HashAlgorithm::Sha1),
            ("sha256", HashAlgorithm::Sha256),
            ("sha512", HashAlgorithm::Sha512),
            ("blake2b", HashAlgorithm::Blake2b),
        ] {
            assert_eq!(serde_json::to_value(algorithm).unwrap(), name);
            let expected = case["expected"][name].as_str().unwrap();
            assert_eq!(document_key(content, &metadata, algorithm), expected, "{id} {name}");
        }
    }
}

#[test]
fn language_separators_are_langchains() {
    let oracle: BTreeMap<String, Vec<String>> = serde_json::from_value(oracle("language_separators.json")).unwrap();
    let ours: BTreeMap<String, Vec<String>> = Language::NAMES
        .map(|(name, language)| (name.to_owned(), language.patterns().iter().map(|text| (*text).to_owned()).collect()))
        .into();
    assert_eq!(ours, oracle);
}
