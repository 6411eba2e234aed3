//! config_sentence_transformers.json: what is put before a query and before a document.

use std::path::Path;

use serde_json::Value;

use super::json::JsonFile;
use crate::error::Result;

/// Names under which models keep the prompt of each role, the first one found counts (as in `encode_query` and
/// `encode_document` of sentence-transformers).
const QUERY_NAMES: [&str; 1] = ["query"];
const DOCUMENT_NAMES: [&str; 3] = ["document", "passage", "corpus"];

/// The instruction of each role, empty for none.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Prompts {
    pub(super) query: String,
    pub(super) document: String,
}

/// The prompts of the folder at `path`. `bge_instruction` fills in for an absent or empty query prompt: newer versions of
/// sentence-transformers write empty prompts where nobody chose any.
pub(super) fn read(path: &Path, bge_instruction: Option<&str>) -> Result<Prompts> {
    let file = JsonFile::read_optional(&path.join("config_sentence_transformers.json"))?;
    let mut query = None;
    let mut document = None;
    if let Some(file) = &file {
        let default = match file.text("default_prompt_name") {
            Some(name) => Some(prompt(file, name)?.ok_or_else(|| {
                file.unsupported("default_prompt_name", format!("is {name:?}, but prompts has no such entry"))
            })?),
            None => None,
        };
        query = first(file, &QUERY_NAMES)?.or_else(|| default.clone());
        document = first(file, &DOCUMENT_NAMES)?.or(default);
    }
    let query = query.filter(|text| !text.is_empty()).or_else(|| bge_instruction.map(str::to_owned));
    Ok(Prompts { query: query.unwrap_or_default(), document: document.unwrap_or_default() })
}

fn first(file: &JsonFile, names: &[&str]) -> Result<Option<String>> {
    for name in names {
        if let Some(text) = prompt(file, name)? {
            return Ok(Some(text));
        }
    }
    Ok(None)
}

fn prompt(file: &JsonFile, name: &str) -> Result<Option<String>> {
    match file.get("prompts").and_then(|prompts| prompts.get(name)) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(file.unsupported(&format!("prompts.{name}"), format!("must be a text, got {other}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts(text: &str, bge: Option<&str>) -> Result<Prompts> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config_sentence_transformers.json"), text).unwrap();
        read(folder.path(), bge)
    }

    fn pair(query: &str, document: &str) -> Prompts {
        Prompts { query: query.to_owned(), document: document.to_owned() }
    }

    #[test]
    fn files_speak_first_and_the_bge_table_fills_in() {
        let both = r#"{"prompts":{"query":"query: ","passage":"passage: "}}"#;
        assert_eq!(prompts(both, None).unwrap(), pair("query: ", "passage: "));
        assert_eq!(prompts(both, Some("bge: ")).unwrap(), pair("query: ", "passage: "));
        assert_eq!(prompts(r#"{"prompts":{"query":"","document":""}}"#, Some("bge: ")).unwrap(), pair("bge: ", ""));
        assert_eq!(prompts("{}", Some("bge: ")).unwrap(), pair("bge: ", ""));
        assert_eq!(prompts("{}", None).unwrap(), pair("", ""));
        let absent = tempfile::tempdir().unwrap();
        assert_eq!(read(absent.path(), Some("bge: ")).unwrap(), pair("bge: ", ""));
    }

    #[test]
    fn a_default_prompt_counts_for_both_roles() {
        let text = r#"{"prompts":{"web":"web: ","document":"d: "},"default_prompt_name":"web"}"#;
        assert_eq!(prompts(text, None).unwrap(), pair("web: ", "d: "));
        let error = prompts(r#"{"prompts":{},"default_prompt_name":"web"}"#, None).unwrap_err().to_string();
        assert!(error.contains("config_sentence_transformers.json, key default_prompt_name"), "{error}");
        let error = prompts(r#"{"prompts":{"query":1}}"#, None).unwrap_err().to_string();
        assert!(error.contains("key prompts.query: must be a text"), "{error}");
    }
}
