//! LangChain's document hashes, so that what it has indexed is recognised.

use std::fmt::Write;

use blake2::Blake2b512;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256, Sha512};
use toller_core::{Metadata, Value};
use uuid::Uuid;

/// The namespace of LangChain's SHA-1 identifiers (`NAMESPACE_UUID` of langchain_core/indexing/api.py).
const NAMESPACE: Uuid = Uuid::from_u128(1984);

/// How a document's content becomes its identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HashAlgorithm {
    /// UUID version 5 of the SHA-1, LangChain's old default. Whoever can choose documents can make two of the same identifier.
    Sha1,
    /// SHA-256, in hexadecimal.
    #[default]
    Sha256,
    /// SHA-512, in hexadecimal.
    Sha512,
    /// BLAKE2b of 64 bytes, in hexadecimal.
    Blake2b,
}

/// The identifier that LangChain's `index` (langchain-core 1.8.3) gives a document: the hash of the hash of its content, followed by the
/// hash of its metadata as [`canonical_json`]. The document's own id has no part in it. O(content + metadata).
///
/// ```
/// use toller_core::{Metadata, Value};
/// use toller_ingest::{HashAlgorithm, document_key};
///
/// let metadata = Metadata::from([("source".to_owned(), Value::from("s1"))]);
/// assert_eq!(document_key("hello", &metadata, HashAlgorithm::Sha1), "c4c64c9e-7f15-53fb-9f99-f6cc5f903baa");
/// ```
pub fn document_key(content: &str, metadata: &Metadata, algorithm: HashAlgorithm) -> String {
    let content_hash = hash(content, algorithm);
    let metadata_hash = hash(&canonical_json(metadata), algorithm);
    hash(&format!("{content_hash}{metadata_hash}"), algorithm)
}

fn hash(text: &str, algorithm: HashAlgorithm) -> String {
    match algorithm {
        HashAlgorithm::Sha1 => {
            let digest = sha1::Sha1::digest(text.as_bytes());
            Uuid::new_v5(&NAMESPACE, hexadecimal(&digest).as_bytes()).to_string()
        }
        HashAlgorithm::Sha256 => hexadecimal(&Sha256::digest(text.as_bytes())),
        HashAlgorithm::Sha512 => hexadecimal(&Sha512::digest(text.as_bytes())),
        HashAlgorithm::Blake2b => hexadecimal(&Blake2b512::digest(text.as_bytes())),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string never fails.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Metadata as Python's `json.dumps(metadata, sort_keys=True)` writes it: names in the order of code points, `", "` and `": "`
/// between, everything but ASCII escaped, numbers as Python's `repr`. 1, 1.0 and true are three different things. O(metadata).
pub fn canonical_json(metadata: &Metadata) -> String {
    let mut json = String::new();
    write_map(&mut json, metadata);
    json
}

fn write_map<'v>(json: &mut String, entries: impl IntoIterator<Item = (&'v String, &'v Value)>) {
    json.push('{');
    for (index, (name, value)) in entries.into_iter().enumerate() {
        if index > 0 {
            json.push_str(", ");
        }
        write_string(json, name);
        json.push_str(": ");
        write_value(json, value);
    }
    json.push('}');
}

fn write_value(json: &mut String, value: &Value) {
    match value {
        Value::Null => json.push_str("null"),
        Value::Bool(truth) => json.push_str(if *truth { "true" } else { "false" }),
        Value::Int(number) => json.push_str(&number.to_string()),
        Value::Double(number) => json.push_str(&python_float(*number)),
        Value::String(text) => write_string(json, text),
        Value::List(values) => {
            json.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    json.push_str(", ");
                }
                write_value(json, value);
            }
            json.push(']');
        }
        Value::Map(entries) => write_map(json, entries),
    }
}

fn write_string(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            '\u{8}' => json.push_str("\\b"),
            '\u{c}' => json.push_str("\\f"),
            ' '..='~' => json.push(character),
            _ => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    // Writing to a string never fails.
                    let _ = write!(json, "\\u{unit:04x}");
                }
            }
        }
    }
    json.push('"');
}

/// Python's `repr` of a float: the shortest digits that read back as it, positional from 1e-4 up to below 1e16.
fn python_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    if number == 0.0 || (-4..16).contains(&power) {
        // Rust's own form is positional and the shortest too; only whole numbers lack the point.
        let positional = number.to_string();
        return if positional.contains('.') { positional } else { format!("{positional}.0") };
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", power.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_does() {
        // repr() of CPython 3.11.
        for (number, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-2.5, "-2.5"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e15, "1000000000000000.0"),
            (9_999_999_999_999_998.0, "9999999999999998.0"),
            (1e16, "1e+16"),
            (1.5e300, "1.5e+300"),
            (0.0001, "0.0001"),
            (0.000_012_5, "1.25e-05"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(python_float(number), expected);
        }
    }

    #[test]
    fn strings_are_ascii() {
        let metadata = Metadata::from([
            ("é\u{1f600}".to_owned(), Value::from("\u{7f}\u{0}\"\\/\n\r\t\u{8}\u{c}")),
            ("a".to_owned(), Value::List(vec![Value::Null, Value::Bool(true), Value::Int(1), Value::Double(1.0)])),
        ]);
        let expected = r#"{"a": [null, true, 1, 1.0], "\u00e9\ud83d\ude00": "\u007f\u0000\"\\/\n\r\t\b\f"}"#;
        assert_eq!(canonical_json(&metadata), expected);
    }
}
