//! How files are understood: plain data, from a request or a command line.

use std::collections::BTreeMap;

use encoding_rs::Encoding;
use serde::{Deserialize, Serialize};
use toller_core::value::RESERVED_METADATA_PREFIX;

use crate::error::Error;
use crate::key;

/// Most bytes of text that one file may give, unless set otherwise: 64 MiB, as many as a file may have.
pub const DEFAULT_MAX_TEXT_BYTES: usize = 64 * 1024 * 1024;

/// How files are understood. The default reads every format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadOptions {
    /// The encoding of text files, by a name that browsers know (`iso-8859-1`, `shift_jis`); what the bytes say counts when
    /// there is none. PDF has its own.
    pub charset: Option<String>,
    /// Most bytes of text and metadata from one file; at least 1. What is beyond is cut off at a document and reported.
    pub max_text_bytes: usize,
    /// Where JSON files keep their documents.
    pub json: JsonMapping,
    /// What the columns of tables are.
    pub csv: CsvMapping,
    /// What is taken of HTML.
    pub html: HtmlOptions,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            charset: None,
            max_text_bytes: DEFAULT_MAX_TEXT_BYTES,
            json: JsonMapping::default(),
            csv: CsvMapping::default(),
            html: HtmlOptions::default(),
        }
    }
}

/// Where JSON files keep their documents. Places are JSON pointers (RFC 6901), such as `/body/text`; `""` is the whole.
///
/// With all three absent a JSON file is one document, its text as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct JsonMapping {
    /// The list, or map, each of whose entries is a document; without it the file is one. Files of JSON lines have a document
    /// on each line, whatever is said here.
    pub records: Option<String>,
    /// The text, within a record; without it the record as it is written.
    pub content: Option<String>,
    /// Metadata: from their names to their places within a record. What a record lacks is left out. [`key::RESERVED`] names are refused.
    pub metadata: BTreeMap<String, String>,
}

impl JsonMapping {
    /// Does it say nothing?
    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_none() && self.content.is_none() && self.metadata.is_empty()
    }
}

/// What the columns of tables are, by the names in their first row.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CsvMapping {
    /// The columns with the text: of one its value, of several lines `column: value`. None means all that are no metadata.
    pub content: Vec<String>,
    /// The columns that become metadata, as strings; empty fields are left out. [`key::RESERVED`] names are refused.
    pub metadata: Vec<String>,
    /// What separates fields, one ASCII character; without it the tab in TSV, and in CSV that of comma, semicolon and tab
    /// which the first line has most of.
    pub delimiter: Option<char>,
}

/// What is taken of HTML.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HtmlOptions {
    /// Leave out navigation, page headers and footers and asides, where there is other text (the default)?
    pub main_content_only: bool,
}

impl Default for HtmlOptions {
    fn default() -> Self {
        Self { main_content_only: true }
    }
}

impl LoadOptions {
    /// Checks what the types cannot say. O(length of the options).
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] with the path of the first wrong field.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(name) = &self.charset
            && Encoding::for_label_no_replacement(name.as_bytes()).is_none()
        {
            return Err(invalid(
                "charset",
                format!("must be the name of an encoding such as iso-8859-1, got {name:?}"),
            ));
        }
        if self.max_text_bytes == 0 {
            return Err(invalid("max_text_bytes", "must be at least 1, got 0".to_owned()));
        }
        let pointers = [("json.records", &self.json.records), ("json.content", &self.json.content)];
        for (field, pointer) in pointers {
            if let Some(pointer) = pointer {
                check_pointer(field, pointer)?;
            }
        }
        for (name, pointer) in &self.json.metadata {
            check_name("json.metadata", name)?;
            check_pointer("json.metadata", pointer)?;
        }
        for name in &self.csv.metadata {
            check_name("csv.metadata", name)?;
        }
        if let Some(delimiter) = self.csv.delimiter
            && (!delimiter.is_ascii() || matches!(delimiter, '"' | '\r' | '\n'))
        {
            let fault = format!("must be one ASCII character, not a quote or line end, got {delimiter:?}");
            return Err(invalid("csv.delimiter", fault));
        }
        Ok(())
    }

    /// The encoding that [`Self::charset`] names.
    pub(crate) fn encoding(&self) -> Option<&'static Encoding> {
        Encoding::for_label_no_replacement(self.charset.as_ref()?.as_bytes())
    }
}

fn check_pointer(field: &'static str, pointer: &str) -> Result<(), Error> {
    if pointer.is_empty() || pointer.starts_with('/') {
        Ok(())
    } else {
        Err(invalid(field, format!("must be a JSON pointer, empty or with / at its start, got {pointer:?}")))
    }
}

/// Names that have a meaning cannot be given to others.
fn check_name(field: &'static str, name: &str) -> Result<(), Error> {
    if name.is_empty() {
        return Err(invalid(field, "must not have an empty name".to_owned()));
    }
    if name.to_ascii_lowercase().starts_with(RESERVED_METADATA_PREFIX) || key::RESERVED.contains(&name) {
        let fault = format!("must not have the name {name:?}, which is reserved; choose another name");
        return Err(invalid(field, fault));
    }
    Ok(())
}

fn invalid(parameter: &'static str, description: String) -> Error {
    Error::invalid(parameter, description)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_field_is_named_when_it_is_wrong() {
        for (json, field) in [
            (r#"{"charset": "klingon"}"#, "charset"),
            (r#"{"max_text_bytes": 0}"#, "max_text_bytes"),
            (r#"{"json": {"records": "items"}}"#, "json.records"),
            (r#"{"json": {"content": "text"}}"#, "json.content"),
            (r#"{"json": {"metadata": {"year": "year"}}}"#, "json.metadata"),
            (r#"{"json": {"metadata": {"": "/a"}}}"#, "json.metadata"),
            (r#"{"json": {"metadata": {"source": "/a"}}}"#, "json.metadata"),
            (r#"{"json": {"metadata": {"_Toller_x": "/a"}}}"#, "json.metadata"),
            (r#"{"csv": {"metadata": ["chunk"]}}"#, "csv.metadata"),
            (r#"{"csv": {"delimiter": "\""}}"#, "csv.delimiter"),
            (r#"{"csv": {"delimiter": "→"}}"#, "csv.delimiter"),
        ] {
            let options: LoadOptions = serde_json::from_str(json).unwrap();
            let fault = options.check().unwrap_err().to_string();
            assert!(fault.starts_with(&format!("{field}: must")), "{json}: {fault}");
        }
    }

    #[test]
    fn names_that_have_a_meaning_are_refused_by_name() {
        for name in key::RESERVED {
            let json = JsonMapping { metadata: [(name.to_owned(), "/a".to_owned())].into(), ..JsonMapping::default() };
            let csv = CsvMapping { metadata: vec![name.to_owned()], ..CsvMapping::default() };
            let json = LoadOptions { json, ..LoadOptions::default() }.check().unwrap_err().to_string();
            let csv = LoadOptions { csv, ..LoadOptions::default() }.check().unwrap_err().to_string();
            let fault = format!("must not have the name {name:?}, which is reserved; choose another name");
            assert_eq!((json, csv), (format!("json.metadata: {fault}"), format!("csv.metadata: {fault}")));
        }
        let own = ["title", "page", "language", "id"].map(str::to_owned);
        let csv = CsvMapping { metadata: own.into(), ..CsvMapping::default() };
        LoadOptions { csv, ..LoadOptions::default() }.check().unwrap();
    }

    #[test]
    fn nothing_said_is_the_default_and_unknown_fields_are_refused() {
        let options: LoadOptions = serde_json::from_str("{}").unwrap();
        assert_eq!(options, LoadOptions::default());
        assert!(options.check().is_ok());
        assert!(options.html.main_content_only);
        assert!(serde_json::from_str::<LoadOptions>(r#"{"json": {"contents": "/a"}}"#).is_err());
    }
}
