//! JSON: a file as one text, or the records in it as documents; and files with a record on each line.

pub(crate) mod scan;

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde_json::Value as Json;
use toller_core::value::{check_metadata, oversized_integer};
use toller_core::{Metadata, Value};

use crate::key;
use crate::load::LoadedDocument;
use crate::options::JsonMapping;
use crate::skip::{FailedPart, Part, SkipReason};
use crate::structure::Structure;
use crate::{title, whitespace};

/// Levels of nesting whose joints are kept; chunks that are small enough to need deeper ones are cut at line ends.
const STRUCTURE_LEVELS: usize = 6;

/// A file as it is written. Its entries are its joints, those of the outermost list or map first. O(n), however deep it is.
pub(crate) fn document(text: String) -> Result<LoadedDocument, SkipReason> {
    check(&text)?;
    let structure = Structure::new(scan::entries_by_depth(&text, STRUCTURE_LEVELS));
    Ok(LoadedDocument { text, structure, ..LoadedDocument::default() })
}

/// The records that a mapping names, also those without text. Only one of them is in memory beside the file. O(n).
pub(crate) fn records(text: String, mapping: &JsonMapping) -> Result<Records, SkipReason> {
    check(&text)?;
    let pointer = mapping.records.clone().unwrap_or_default();
    let nothing = |wanted| SkipReason::NothingAt { pointer: pointer.clone(), wanted };
    let place = scan::at_pointer(&text, &pointer).ok_or_else(|| nothing("value"))?;
    let entries = match &mapping.records {
        None => None,
        Some(_) => Some(scan::Entries::of(&text, place).ok_or_else(|| nothing("list or map"))?),
    };
    let mapping = Mapping::new(mapping);
    Ok(Records { text, pointer, place, entries, mapping, given: 0 })
}

/// The lines of a file, each of them a record, also those whose record has no text. Empty lines are passed over. O(n).
pub(crate) fn lines(text: String, mapping: &JsonMapping) -> Lines {
    Lines { text, at: 0, line: 0, mapping: Mapping::new(mapping) }
}

/// Is it JSON, of any depth?
fn check(text: &str) -> Result<(), SkipReason> {
    serde_json::from_str::<IgnoredAny>(text).map(|_| ()).map_err(|fault| invalid(&fault, 0))
}

/// `lines_before` are those of the file before the text that was read.
fn invalid(fault: &serde_json::Error, lines_before: usize) -> SkipReason {
    let line = fault.line().max(1) + lines_before;
    // The place is said by us, counted from the start of the file.
    let message = fault.to_string();
    let what = message.split(" at line ").next().unwrap_or_default();
    SkipReason::InvalidJson { line, fault: format!("{what}, in column {}", fault.column()) }
}

/// What of a record is its text and its metadata.
struct Mapping {
    content: Option<String>,
    metadata: BTreeMap<String, String>,
}

impl Mapping {
    fn new(mapping: &JsonMapping) -> Self {
        Self { content: mapping.content.clone(), metadata: mapping.metadata.clone() }
    }

    /// A record, as it is written, as a document; one without text has no metadata either.
    fn document(&self, record: &str, lines_before: usize) -> Result<LoadedDocument, SkipReason> {
        let json: Json = serde_json::from_str(record).map_err(|fault| invalid(&fault, lines_before))?;
        let text = match &self.content {
            None => match json.as_str() {
                Some(text) => text.to_owned(),
                None => record.to_owned(),
            },
            Some(pointer) => match json.pointer(pointer) {
                Some(Json::String(text)) => text.clone(),
                Some(Json::Null) => String::new(),
                None => return Err(SkipReason::NothingAt { pointer: pointer.clone(), wanted: "text" }),
                Some(Json::Bool(value)) => value.to_string(),
                Some(Json::Number(value)) => value.to_string(),
                Some(value) => serde_json::to_string_pretty(value).map_err(|fault| invalid(&fault, lines_before))?,
            },
        };
        if whitespace::is_blank(&text) {
            return Ok(LoadedDocument::default());
        }
        let metadata = self.metadata(&json, record, lines_before)?;
        Ok(LoadedDocument { text, metadata, ..LoadedDocument::default() })
    }

    fn metadata(&self, json: &Json, record: &str, lines_before: usize) -> Result<Metadata, SkipReason> {
        if self.metadata.is_empty() {
            return Ok(Metadata::new());
        }
        let refused = |fault: String| SkipReason::InvalidJson { line: lines_before + 1, fault };
        if let Some(number) = oversized_integer(record) {
            return Err(refused(format!("the integer {number} has more than 64 bits, write it as a string")));
        }
        let mut metadata = Metadata::new();
        for (name, pointer) in &self.metadata {
            if let Some(value) = json.pointer(pointer) {
                metadata.insert(name.clone(), value_of(value));
            }
        }
        check_metadata(&metadata).map_err(|(path, fault)| refused(format!("metadata {path} {fault}")))?;
        Ok(metadata)
    }
}

/// Numbers have 64 bits here, and the nesting is that which serde_json reads.
fn value_of(json: &Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(int) => Value::Int(int),
            None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::List(items.iter().map(value_of).collect()),
        Json::Object(entries) => {
            Value::Map(entries.iter().map(|(name, value)| (name.clone(), value_of(value))).collect())
        }
    }
}

/// Iterator of [`records`].
pub(crate) struct Records {
    text: String,
    /// Where the records are, or the record is.
    pointer: String,
    place: usize,
    /// None when the file is one record.
    entries: Option<scan::Entries>,
    mapping: Mapping,
    given: usize,
}

impl Iterator for Records {
    type Item = Result<LoadedDocument, FailedPart>;

    fn next(&mut self) -> Option<Self::Item> {
        let (pointer, value) = match &mut self.entries {
            None if self.given > 0 => return None,
            None => (self.pointer.clone(), scan::value(&self.text, self.place)?),
            Some(entries) => {
                let entry = entries.next(&self.text)?;
                (format!("{}/{}", self.pointer, entry.token), entry.value)
            }
        };
        self.given += 1;
        let record = self.text.get(value).unwrap_or_default();
        // The lines before are not counted: a record that was read as JSON once fails for other reasons.
        let document = self.mapping.document(record, 0).map(|mut document| {
            document.metadata.insert(key::JSON_POINTER.to_owned(), Value::from(title::bounded(&pointer).as_ref()));
            document
        });
        Some(document.map_err(|reason| FailedPart { part: Part::Record(self.given), reason }))
    }
}

/// Iterator of [`lines`].
pub(crate) struct Lines {
    text: String,
    at: usize,
    line: usize,
    mapping: Mapping,
}

impl Iterator for Lines {
    type Item = Result<LoadedDocument, FailedPart>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
            let line = rest.split_inclusive('\n').next()?;
            self.at += line.len();
            self.line += 1;
            let record = line.trim_matches([' ', '\t', '\r', '\n']);
            if record.is_empty() {
                continue;
            }
            let document = self.mapping.document(record, self.line - 1).map(|mut document| {
                document.metadata.insert(key::LINE.to_owned(), Value::from_count(self.line));
                document
            });
            return Some(document.map_err(|reason| FailedPart { part: Part::Line(self.line), reason }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(json: &str) -> JsonMapping {
        serde_json::from_str(json).unwrap()
    }

    /// Texts and metadata as JSON, and faults in brackets.
    fn seen(parts: impl Iterator<Item = Result<LoadedDocument, FailedPart>>) -> Vec<String> {
        parts
            .map(|part| match part {
                Ok(document) => format!("{} {}", document.text, serde_json::to_string(&document.metadata).unwrap()),
                Err(fault) => format!("[{fault}]"),
            })
            .collect()
    }

    #[test]
    fn a_file_is_its_text_with_its_entries_as_joints() {
        let text = r#"{ "a": [1, "[x]"], "b": {} }"#;
        let loaded = document(text.to_owned()).unwrap();
        assert_eq!(loaded.text, text);
        let at = |needle: &str| text.find(needle).unwrap();
        assert_eq!(loaded.structure.levels()[0], [at("\"a\""), at("\"b\"")]);
        assert_eq!(loaded.structure.levels()[1], [at("1,"), at("\"[x]")]);
    }

    #[test]
    fn what_is_no_json_is_refused_with_its_place() {
        let refused = document("{\n  \"a\": 1,\n}".to_owned()).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "not valid JSON at line 3 (key must be a string, in column 1), mend it or load it as plain text"
        );
        assert!(matches!(document("1 2".to_owned()), Err(SkipReason::InvalidJson { line: 1, .. })));
    }

    #[test]
    fn depth_costs_nothing_where_a_file_is_its_text() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let loaded = document(deep.clone()).unwrap();
        assert_eq!(loaded.structure.levels().len(), STRUCTURE_LEVELS);
        let whole = mapping(r#"{"content": ""}"#);
        let found = seen(records(deep, &whole).unwrap());
        assert!(found[0].contains("recursion limit exceeded"), "{found:?}");
    }

    #[test]
    fn records_are_documents_with_their_pointers() {
        let text = r#"{"meta": 1, "items": [
            {"body": "One", "year": 1967, "tags": ["a", {"b": 1.5}]},
            {"body": "", "year": 1},
            {"body": {"x": [1]}},
            {"year": 2},
            {"body": 7, "year": null}
        ]}"#;
        let by_items =
            mapping(r#"{"records": "/items", "content": "/body", "metadata": {"y": "/year", "t": "/tags"}}"#);
        assert_eq!(
            seen(records(text.to_owned(), &by_items).unwrap()),
            [
                r#"One {"json_pointer":"/items/0","t":["a",{"b":1.5}],"y":1967}"#,
                r#" {"json_pointer":"/items/1"}"#,
                "{\n  \"x\": [\n    1\n  ]\n} {\"json_pointer\":\"/items/2\"}",
                "[record 4: it has no text at the JSON pointer \"/body\", change the mapping]",
                r#"7 {"json_pointer":"/items/4","y":null}"#,
            ]
        );
        let by_name = mapping(r#"{"records": ""}"#);
        assert_eq!(
            seen(records(r#"{"a/b": "text", "c~": [1, 2]}"#.to_owned(), &by_name).unwrap()),
            [r#"text {"json_pointer":"/a~1b"}"#, r#"[1, 2] {"json_pointer":"/c~0"}"#]
        );
        let one = mapping(r#"{"content": "/meta"}"#);
        assert_eq!(seen(records(text.to_owned(), &one).unwrap()), [r#"1 {"json_pointer":""}"#]);
    }

    #[test]
    fn records_must_be_where_the_mapping_says() {
        for (pointer, fault) in [("/none", "no value at"), ("/a", "no list or map at"), ("/b/2", "no value at")] {
            let by_pointer = JsonMapping { records: Some(pointer.to_owned()), ..JsonMapping::default() };
            let refused = records(r#"{"a": "x", "b": [1, 2]}"#.to_owned(), &by_pointer).err().unwrap().to_string();
            assert!(refused.contains(fault), "{refused}");
        }
    }

    #[test]
    fn a_bad_line_does_not_stop_the_rest() {
        let text = "{\"body\": \"one\"}\r\n\n{\"body\": \n\"plain\"\n[1]";
        assert_eq!(
            seen(lines(text.to_owned(), &JsonMapping::default())),
            [
                r#"{"body": "one"} {"line":1}"#,
                "[line 3: not valid JSON at line 3 (EOF while parsing a value, in column 8), mend it or load it as plain text]",
                r#"plain {"line":4}"#,
                r#"[1] {"line":5}"#,
            ]
        );
        let by_body = mapping(r#"{"content": "/body"}"#);
        let found = seen(lines(text.to_owned(), &by_body));
        assert_eq!(found[0], r#"one {"line":1}"#);
        assert!(found[2].starts_with("[line 4: it has no text"), "{found:?}");
    }

    #[test]
    fn metadata_that_would_lose_something_is_refused() {
        let by_id = mapping(r#"{"metadata": {"id": "/id"}}"#);
        let found = seen(lines(r#"{"id": 18446744073709551616}"#.to_owned(), &by_id));
        assert!(found[0].contains("the integer 18446744073709551616 has more than 64 bits"), "{found:?}");
        let deep = format!(r#"{{"id": {}1{}}}"#, "[".repeat(40), "]".repeat(40));
        let found = seen(lines(deep, &by_id));
        assert!(found[0].contains("levels deep"), "{found:?}");
        assert_eq!(seen(lines(r#"{"id": 9007199254740993}"#.to_owned(), &by_id)).len(), 1);
    }
}
