//! Flags that say what is read of files, and the message they make.

use std::collections::BTreeMap;

use toller_api::v1;

use crate::error::Error;

/// How files are read.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Reading files")]
pub(crate) struct LoadFlags {
    /// JSON pointer to the list whose entries are documents, such as /items; without it a file is one, and of JSON lines each line
    #[arg(long, value_name = "POINTER")]
    json_records: Option<String>,
    /// JSON pointer, within an entry, to its text; without it the entry's JSON is the text
    #[arg(long, value_name = "POINTER")]
    json_content: Option<String>,
    /// Metadata from JSON: a name and a JSON pointer within an entry, such as year=/published/year; repeatable
    #[arg(long, value_name = "NAME=POINTER", value_parser = parse_pair)]
    json_metadata: Vec<(String, String)>,
    /// Column of CSV files whose values are the text, repeatable; without it all that are no metadata
    #[arg(long, value_name = "COLUMN")]
    csv_content: Vec<String>,
    /// Column of CSV files that goes into the metadata; repeatable
    #[arg(long, value_name = "COLUMN")]
    csv_metadata: Vec<String>,
    /// What separates the fields of CSV files [default: told by the file]
    #[arg(long, value_name = "CHARACTER")]
    csv_delimiter: Option<char>,
    /// Of HTML take navigation, headers, footers and asides, too
    #[arg(long)]
    html_everything: bool,
}

impl LoadFlags {
    /// How files are read; none where nothing is said.
    ///
    /// # Errors
    /// `Usage` when a name of metadata stands twice.
    pub(crate) fn options(&self) -> Result<Option<v1::LoadOptions>, Error> {
        let mut metadata = BTreeMap::new();
        for (name, pointer) in &self.json_metadata {
            if metadata.insert(name.clone(), pointer.clone()).is_some() {
                return Err(Error::Usage(format!("--json-metadata: the name {name:?} stands twice")));
            }
        }
        let json = v1::JsonLoading {
            records: self.json_records.clone().unwrap_or_default(),
            content: self.json_content.clone().unwrap_or_default(),
            metadata,
        };
        let csv = v1::CsvLoading {
            content: self.csv_content.clone(),
            metadata: self.csv_metadata.clone(),
            delimiter: self.csv_delimiter.map(String::from).unwrap_or_default(),
        };
        let options = v1::LoadOptions {
            json: (json != v1::JsonLoading::default()).then_some(json),
            csv: (csv != v1::CsvLoading::default()).then_some(csv),
            html_main_content_only: self.html_everything.then_some(false),
        };
        Ok((options != v1::LoadOptions::default()).then_some(options))
    }
}

fn parse_pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, pointer)) if !name.is_empty() => Ok((name.to_owned(), pointer.to_owned())),
        _ => Err("must be a name and a JSON pointer, such as year=/published/year".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        flags: LoadFlags,
    }

    fn options(line: &str) -> Result<Option<v1::LoadOptions>, Error> {
        let words = std::iter::once("x").chain(line.split_whitespace());
        Line::try_parse_from(words).unwrap().flags.options()
    }

    #[test]
    fn what_is_not_said_is_not_sent() {
        assert_eq!(options("").unwrap(), None);
        let html = v1::LoadOptions { html_main_content_only: Some(false), ..Default::default() };
        assert_eq!(options("--html-everything").unwrap(), Some(html));
    }

    #[test]
    fn json_and_csv_are_mapped() {
        let mapped = options(
            "--json-records /items --json-content /body --json-metadata year=/published/year --json-metadata root= \
             --csv-content text --csv-content more --csv-metadata year --csv-delimiter ;",
        );
        let json = v1::JsonLoading {
            records: "/items".to_owned(),
            content: "/body".to_owned(),
            metadata: [("year", "/published/year"), ("root", "")]
                .map(|(name, pointer)| (name.to_owned(), pointer.to_owned()))
                .into(),
        };
        let csv = v1::CsvLoading {
            content: vec!["text".to_owned(), "more".to_owned()],
            metadata: vec!["year".to_owned()],
            delimiter: ";".to_owned(),
        };
        let expected = v1::LoadOptions { json: Some(json), csv: Some(csv), html_main_content_only: None };
        assert_eq!(mapped.unwrap(), Some(expected));
    }

    #[test]
    fn pairs_have_a_name_of_their_own() {
        assert!(Line::try_parse_from(["x", "--json-metadata", "/year"]).is_err());
        assert!(Line::try_parse_from(["x", "--json-metadata", "=/year"]).is_err());
        let fault = options("--json-metadata a=/b --json-metadata a=/c").unwrap_err().to_string();
        assert!(fault.contains("--json-metadata") && fault.contains("\"a\""), "{fault}");
    }
}
