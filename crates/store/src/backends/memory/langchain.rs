//! Reads the file that LangChain's `InMemoryVectorStore.dump` writes.
//!
//! One JSON object, from id to `{"id", "vector", "text", "metadata"}`, in insertion order
//! (langchain-core, `vectorstores/in_memory.py`). It names neither a model nor a dimension, so the caller must know what filled it.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::sync::Arc;

use serde::de::{DeserializeSeed, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use toller_core::value::{check_metadata, oversized_integer};
use toller_core::{Document, DocumentId, Metadata, Metric, Record, Value, Vector};

use crate::error::FileError;

/// The only key of an object that LangChain wrapped since it looks like one of its own
/// (langchain-core, `load/_validation.py`).
const ESCAPED: &str = "__lc_escaped__";

/// Reads a dump of LangChain's `InMemoryVectorStore` for a collection of `metric`.
///
/// Records come in the order of the file, one for each entry: an id that stands twice gives two records, which
/// `VectorStore::upsert` refuses, rather than one that silently wins. Integers stay apart from doubles. Blocks; memory for the
/// records.
///
/// # Errors
/// [`FileError`] with the line at fault: text that is no JSON (such as the bare `NaN` that Python writes), a field that is
/// missing or unknown, a key that differs from the entry's id, vectors of different dimensions, zero (for cosine) or not
/// finite, metadata that LangChain could not write (such as a datetime).
pub fn read_langchain_dump(path: &Path, metric: Metric) -> Result<Vec<Record>, FileError> {
    let file = File::open(path).map_err(FileError::io("open", path))?;
    let mut deserializer = serde_json::Deserializer::from_reader(BufReader::new(file));
    let records = StoreSeed { metric }.deserialize(&mut deserializer);
    records.and_then(|records| deserializer.end().map(|()| records)).map_err(|fault| file_error(path, &fault))
}

fn file_error(path: &Path, fault: &serde_json::Error) -> FileError {
    let text = fault.to_string();
    let place = format!(" at line {} column {}", fault.line(), fault.column());
    let text = text.strip_suffix(&place).unwrap_or(&text);
    let line = fault.line() as u64;
    if let Some(kind) = fault.io_error_kind() {
        return FileError::io("read", path)(kind.into());
    }
    if fault.is_eof() || text.contains("EOF while parsing") {
        return FileError::Truncated { path: path.to_owned(), line };
    }
    let advice = if is_at_bare_number_word(path, fault.line(), fault.column()) {
        "; NaN and Infinity are no JSON and no coordinates: remove that document before dumping"
    } else {
        ""
    };
    let fault = format!("column {}: {text}{advice}", fault.column());
    FileError::Malformed { path: path.to_owned(), line, fault }
}

/// Does the fault stand at a word that Python writes for a number that JSON does not have?
fn is_at_bare_number_word(path: &Path, line: usize, column: usize) -> bool {
    let Ok(file) = File::open(path) else { return false };
    let Some(Ok(text)) = BufReader::new(file).split(b'\n').nth(line.saturating_sub(1)) else { return false };
    // The column is that of the first unexpected character or the one before it.
    let around = text.get(column.saturating_sub(2)..).unwrap_or_default();
    let word: Vec<u8> = around
        .iter()
        .copied()
        .skip_while(|byte| !byte.is_ascii_alphabetic() && *byte != b'-')
        .take_while(|byte| byte.is_ascii_alphabetic() || *byte == b'-')
        .collect();
    [b"NaN".as_slice(), b"aN", b"Infinity", b"-Infinity", b"nfinity"].contains(&word.as_slice())
}

/// One value of the outer object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: Option<String>,
    vector: Vec<f32>,
    text: String,
    /// As it is written, since a parsed integer beyond 64 bits cannot be told from a double.
    metadata: Box<RawValue>,
}

struct StoreSeed {
    metric: Metric,
}

impl<'de> DeserializeSeed<'de> for StoreSeed {
    type Value = Vec<Record>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for StoreSeed {
    type Value = Vec<Record>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the object from ids to documents that InMemoryVectorStore.dump writes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Self::Value, A::Error> {
        let mut records: Vec<Record> = Vec::new();
        while let Some(key) = access.next_key::<String>()? {
            let in_document = |fault: &dyn fmt::Display| A::Error::custom(format!("document {key:?}: {fault}"));
            let entry: Entry = access.next_value().map_err(|fault| {
                if records.is_empty() && key == ESCAPED {
                    A::Error::custom("LangChain escapes a store that has a document with the id \"lc\"; give that document another id before dumping")
                } else {
                    in_document(&fault)
                }
            })?;
            let record = record(&key, entry, self.metric).map_err(|fault| in_document(&fault))?;
            if let Some(first) = records.first()
                && first.vector.dimension() != record.vector.dimension()
            {
                return Err(in_document(&format!(
                    "the vector has {} dimensions, but that of document {:?} has {}; all must have the same",
                    record.vector.dimension(),
                    first.document.id.as_str(),
                    first.vector.dimension()
                )));
            }
            records.push(record);
        }
        Ok(records)
    }
}

fn record(key: &str, entry: Entry, metric: Metric) -> Result<Record, String> {
    if let Some(other) = entry.id.filter(|id| id != key) {
        return Err(format!("its id is {other:?}; key and id must be the same"));
    }
    let id = DocumentId::new(key).map_err(|fault| format!("the id {fault}"))?;
    let vector = Vector::new(entry.vector, metric).map_err(|fault| format!("the vector {fault}"))?;
    let written = entry.metadata.get();
    if let Some(integer) = oversized_integer(written) {
        return Err(format!(
            "the metadata has the integer {integer}, which is outside the 64-bit signed integers; make it a text before dumping"
        ));
    }
    let metadata = serde_json::from_str(written).map_err(|fault| format!("the metadata: {fault}"))?;
    let Value::Map(metadata) = unescaped(metadata) else {
        return Err("the metadata must be an object".to_owned());
    };
    check_written(&metadata)?;
    check_metadata(&metadata).map_err(|(path, fault)| format!("the metadata at {path:?} {fault}"))?;
    Ok(Record::new(Arc::new(Document { id, page_content: entry.text, metadata }), vector))
}

/// Takes LangChain's wrapping off; what is inside a wrapper is plain data, wrappers included.
fn unescaped(value: Value) -> Value {
    match value {
        Value::Map(mut entries) => match entries.remove(ESCAPED) {
            Some(inner) if entries.is_empty() => inner,
            Some(inner) => {
                entries.insert(ESCAPED.to_owned(), inner);
                unescaped_entries(entries)
            }
            None => unescaped_entries(entries),
        },
        Value::List(items) => Value::List(items.into_iter().map(unescaped).collect()),
        other => other,
    }
}

fn unescaped_entries(entries: Metadata) -> Value {
    Value::Map(entries.into_iter().map(|(key, value)| (key, unescaped(value))).collect())
}

/// LangChain writes a placeholder where a value has no JSON, and cannot read its own file afterwards.
fn check_written(metadata: &Metadata) -> Result<(), String> {
    let is_placeholder = |value: &Value| {
        matches!(value, Value::Map(entries)
            if entries.get("type").is_some_and(|kind| kind.same(&Value::from("not_implemented")))
                && entries.get("lc").is_some_and(|version| version.same(&Value::Int(1))))
    };
    match metadata.iter().find(|(_, value)| is_placeholder(value)) {
        None => Ok(()),
        Some((key, _)) => Err(format!(
            "LangChain could not write the metadata value {key:?} (it was no text, number, list or mapping, perhaps a date); make it a text before dumping"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(text: &str) -> Result<Vec<Record>, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        read_langchain_dump(file.path(), Metric::Cosine)
            .map_err(|fault| fault.to_string().replace(&file.path().display().to_string(), "dump.json"))
    }

    fn entry(id: &str, vector: &str, metadata: &str) -> String {
        format!(
            "{id:?}: {{\n \"id\": {id:?},\n \"vector\": {vector},\n \"text\": \"t\",\n \"metadata\": {metadata}\n}}"
        )
    }

    #[test]
    fn order_duplicates_and_number_types_are_kept() {
        let metadata = r#"{"big": 9007199254740993, "one": 1.0, "nested": {"list": [1, null]}}"#;
        let text = format!(
            "{{{},{},{}}}",
            entry("z", "[1, 2]", metadata),
            entry("a", "[0.5, -1e-3]", "{}"),
            entry("z", "[3, 4]", "{}")
        );
        let records = read(&text).unwrap();
        let ids: Vec<&str> = records.iter().map(|record| record.document.id.as_str()).collect();
        assert_eq!(ids, ["z", "a", "z"]);
        assert_eq!(records[1].vector.as_slice(), [0.5, -1e-3]);
        assert_eq!(records[0].document.metadata["big"], Value::Int(9_007_199_254_740_993));
        assert_eq!(records[0].document.metadata["one"], Value::Double(1.0));
        assert_eq!(read("{}").unwrap(), []);
    }

    #[test]
    fn escaped_metadata_is_plain_data_again() {
        let metadata = r#"{"m": {"__lc_escaped__": {"lc": 1, "type": "secret", "in": {"__lc_escaped__": {}}}}}"#;
        let records = read(&format!("{{{}}}", entry("a", "[1]", metadata))).unwrap();
        let Value::Map(inner) = &records[0].document.metadata["m"] else { panic!("must be a map") };
        assert_eq!(inner["lc"], Value::Int(1));
        assert!(matches!(&inner["in"], Value::Map(deeper) if deeper.contains_key(ESCAPED)));
    }

    #[test]
    fn faults_name_the_line_the_document_and_the_way_out() {
        let one = |id: &str, vector: &str| format!("{{{}}}", entry(id, vector, "{}"));
        let placeholder = r#"{"when": {"lc": 1, "type": "not_implemented", "id": ["datetime"], "repr": "x"}}"#;
        for (text, expected) in [
            (one("a", "[1, NaN]"), vec!["dump.json:3", "\"a\"", "NaN and Infinity are no JSON"]),
            (one("a", "[-Infinity]"), vec!["dump.json:3", "NaN and Infinity are no JSON"]),
            (one("a", "[Infinity]"), vec!["dump.json:3", "NaN and Infinity are no JSON"]),
            (one("a", "[1e39]"), vec!["dump.json:3", "\"a\"", "number out of range"]),
            (one("a", "[0, 0]"), vec!["\"a\"", "zero vector"]),
            (one("a", "[]"), vec!["at least one dimension"]),
            (
                format!("{{{},{}}}", entry("a", "[1]", "{}"), entry("b", "[1, 2]", "{}")),
                vec!["dump.json:11", "\"b\"", "has 2 dimensions, but that of document \"a\" has 1"],
            ),
            (
                "{\"a\": {\"id\": \"a\", \"vector\": [1], \"metadata\": {}}}".to_owned(),
                vec!["\"a\"", "missing field `text`"],
            ),
            (
                "{\"a\": {\"id\": \"b\", \"vector\": [1], \"text\": \"\", \"metadata\": {}}}".to_owned(),
                vec!["key and id must be the same"],
            ),
            (format!("{{{}}}", entry("", "[1]", "{}")), vec!["the id must not be empty"]),
            (format!("{{{}}}", entry("a", "[1]", "3")), vec!["metadata must be an object"]),
            (format!("{{{}}}", entry("a", "[1]", placeholder)), vec!["\"when\"", "make it a text"]),
            (
                format!("{{{}}}", entry("a", "[1]", "{\"n\": 18446744073709551615}")),
                vec!["dump.json:6", "\"a\"", "18446744073709551615", "make it a text"],
            ),
            (
                format!("{{{}}}", entry("a", "[1]", "{\"n\": [-99999999999999999999]}")),
                vec!["\"a\"", "-99999999999999999999", "make it a text"],
            ),
            ("[]".to_owned(), vec!["dump.json:1", "InMemoryVectorStore.dump"]),
            ("{} x".to_owned(), vec!["dump.json:1", "trailing"]),
            (entry("a", "[1]", "{}").replacen('"', "{\"", 1), vec!["dump.json:6", "cut off"]),
            (format!("{{\"__lc_escaped__\": {{{}}}}}", entry("lc", "[1]", "{}")), vec!["another id"]),
        ] {
            let fault = read(&text).unwrap_err();
            for part in expected {
                assert!(fault.contains(part), "{fault:?} must contain {part:?} for {text}");
            }
        }
    }
}
