//! Tables with a header: a document for each row.

use csv::{Reader, ReaderBuilder, StringRecord, StringRecordsIntoIter};
use toller_core::{Metadata, Value};

use crate::format::Format;
use crate::key;
use crate::load::LoadedDocument;
use crate::options::CsvMapping;
use crate::skip::{FailedPart, Part, SkipReason};
use crate::whitespace;

/// What separates the fields of CSV, where it is not said.
const DELIMITERS: [u8; 3] = *b",;\t";

/// The rows of a table, also those without text. Fields may be quoted, with delimiters, line ends and doubled quotes in them. A row with fewer fields
/// than the header has the others empty; one with more is an error, and so is one whose quote does not end, which is the last.
/// O(n).
pub(crate) fn rows(text: String, format: Format, mapping: &CsvMapping) -> Result<Rows, SkipReason> {
    let delimiter = match mapping.delimiter.map(u8::try_from) {
        Some(Ok(delimiter)) => delimiter,
        _ if format == Format::Tsv => b'\t',
        _ => delimiter_of(&text),
    };
    let unclosed = unclosed_quote(text.as_bytes(), delimiter);
    let mut reader = ReaderBuilder::new()
        .delimiter(delimiter)
        // The first row is read here, and lengths are looked at below.
        .has_headers(false)
        .flexible(true)
        .from_reader(std::io::Cursor::new(text.into_bytes()));
    let header = header(&mut reader)?;
    if let Some(quote) = unclosed.filter(|quote| quote.is_before(&reader)) {
        return Err(SkipReason::UnclosedQuote { line: quote.line });
    }
    let place = |column: &String| {
        let place = header.iter().position(|name| name == column);
        place.ok_or_else(|| SkipReason::NoSuchColumn { column: column.clone() })
    };
    let metadata = mapping.metadata.iter().map(place).collect::<Result<Vec<_>, _>>()?;
    let content = if mapping.content.is_empty() {
        (0..header.len()).filter(|place| !metadata.contains(place)).collect()
    } else {
        mapping.content.iter().map(place).collect::<Result<Vec<_>, _>>()?
    };
    let is_one_column = mapping.content.len() == 1;
    Ok(Rows { records: reader.into_records(), header, content, is_one_column, metadata, row: 0, unclosed })
}

type Source = std::io::Cursor<Vec<u8>>;

fn header(reader: &mut Reader<Source>) -> Result<Vec<String>, SkipReason> {
    let mut first = StringRecord::new();
    // A text in memory is read without faults, and is UTF-8.
    match reader.read_record(&mut first) {
        Ok(true) => Ok(first.iter().map(|name| name.trim_matches(whitespace::is_space).to_owned()).collect()),
        _ => Err(SkipReason::Empty),
    }
}

/// The delimiter which the first line has most of, outside of quotes; the comma when it has none.
fn delimiter_of(text: &str) -> u8 {
    let mut counts = [0_usize; DELIMITERS.len()];
    let mut is_quoted = false;
    for byte in text.bytes() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\n' | b'\r' if !is_quoted => break,
            _ if is_quoted => {}
            other => {
                for (count, delimiter) in counts.iter_mut().zip(DELIMITERS) {
                    *count += usize::from(delimiter == other);
                }
            }
        }
    }
    let mut best = (0, b',');
    for (count, delimiter) in counts.into_iter().zip(DELIMITERS) {
        if count > best.0 {
            best = (count, delimiter);
        }
    }
    best.1
}

/// A quote that opens a field and is never closed.
#[derive(Debug, Clone, Copy)]
struct UnclosedQuote {
    byte: u64,
    /// From 1.
    line: usize,
}

impl UnclosedQuote {
    /// Was the row of it read?
    fn is_before(&self, reader: &Reader<Source>) -> bool {
        self.byte < reader.position().byte()
    }
}

/// Where a text is in a field.
enum Within {
    /// Before its first character.
    Start,
    /// A quote is text.
    Plain,
    Quoted,
    /// After a quote that ends it, unless another follows.
    Closed,
}

/// Finds the quote that opens a field and is never closed. The reader takes all that follows for the field, and does not tell.
fn unclosed_quote(text: &[u8], delimiter: u8) -> Option<UnclosedQuote> {
    let mut within = Within::Start;
    let (mut line, mut opened) = (1, UnclosedQuote { byte: 0, line: 1 });
    for (byte, character) in (0..).zip(text) {
        within = match (within, *character) {
            (Within::Start, b'"') => {
                opened = UnclosedQuote { byte, line };
                Within::Quoted
            }
            (Within::Quoted, b'"') => Within::Closed,
            (Within::Closed, b'"') | (Within::Quoted, _) => Within::Quoted,
            (_, b'\n' | b'\r') => Within::Start,
            (_, other) if other == delimiter => Within::Start,
            _ => Within::Plain,
        };
        line += usize::from(*character == b'\n');
    }
    matches!(within, Within::Quoted).then_some(opened)
}

/// Iterator of [`rows`].
pub(crate) struct Rows {
    records: StringRecordsIntoIter<Source>,
    header: Vec<String>,
    /// Places of the columns that are text.
    content: Vec<usize>,
    /// Then the text is its value alone.
    is_one_column: bool,
    /// Places of the columns that are metadata.
    metadata: Vec<usize>,
    row: usize,
    unclosed: Option<UnclosedQuote>,
}

impl Iterator for Rows {
    type Item = Result<LoadedDocument, FailedPart>;

    fn next(&mut self) -> Option<Self::Item> {
        // See `header`: there are no faults.
        let record = self.records.next()?.ok()?;
        self.row += 1;
        let unclosed = self.unclosed.filter(|quote| quote.is_before(self.records.reader()));
        let document = match unclosed {
            Some(UnclosedQuote { line, .. }) => Err(SkipReason::UnclosedQuote { line }),
            None => self.document(&record),
        };
        Some(document.map_err(|reason| FailedPart { part: Part::Row(self.row), reason }))
    }
}

impl Rows {
    fn document(&self, record: &StringRecord) -> Result<LoadedDocument, SkipReason> {
        let columns = self.header.len();
        if record.iter().skip(columns).any(|field| !field.is_empty()) {
            return Err(SkipReason::TooManyFields { fields: record.len(), columns });
        }
        let field = |place: usize| record.get(place).unwrap_or_default().trim_matches(whitespace::is_space);
        let name = |place: usize| self.header.get(place).map_or("", String::as_str);
        let mut text = String::new();
        for place in self.content.iter().copied().filter(|place| !field(*place).is_empty()) {
            if !text.is_empty() {
                text.push('\n');
            }
            if !self.is_one_column && !name(place).is_empty() {
                text.push_str(name(place));
                text.push_str(": ");
            }
            text.push_str(field(place));
        }
        let mut metadata = Metadata::from([(key::ROW.to_owned(), Value::from_count(self.row))]);
        for place in self.metadata.iter().copied().filter(|place| !field(*place).is_empty()) {
            metadata.insert(name(place).to_owned(), Value::from(field(place)));
        }
        Ok(LoadedDocument { text, metadata, ..LoadedDocument::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str, mapping: &str) -> Vec<String> {
        rows(text.to_owned(), Format::Csv, &serde_json::from_str(mapping).unwrap())
            .unwrap()
            .map(|part| match part {
                Ok(document) => format!("{} {}", document.text, serde_json::to_string(&document.metadata).unwrap()),
                Err(fault) => format!("[{fault}]"),
            })
            .collect()
    }

    #[test]
    fn rows_are_documents_of_lines() {
        let text = "name,\"what, it does\",\nToller,\"retrieves\n\"\"ducks\"\"\",x\n\nSpaniel,,\n";
        assert_eq!(
            seen(text, "{}"),
            ["name: Toller\nwhat, it does: retrieves\n\"ducks\"\nx {\"row\":1}", "name: Spaniel {\"row\":2}"]
        );
    }

    #[test]
    fn columns_are_text_or_metadata() {
        let text = "id;title;body;year\n1;Toller;A dog.;1945\n2;;A spaniel.;\n";
        assert_eq!(
            seen(text, r#"{"content": ["body"], "metadata": ["year", "id"]}"#),
            [r#"A dog. {"id":"1","row":1,"year":"1945"}"#, r#"A spaniel. {"id":"2","row":2}"#]
        );
        assert_eq!(seen(text, r#"{"content": ["body", "title"]}"#)[0], "body: A dog.\ntitle: Toller {\"row\":1}");
        assert_eq!(seen(text, r#"{"metadata": ["id", "year"]}"#)[1], r#"body: A spaniel. {"id":"2","row":2}"#);
        let absent: CsvMapping = serde_json::from_str(r#"{"content": ["Body"]}"#).unwrap();
        let refused = rows(text.to_owned(), Format::Csv, &absent).err().unwrap();
        assert_eq!(refused.to_string(), "it has no column \"Body\", change the mapping");
    }

    #[test]
    fn a_bad_row_does_not_stop_the_rest() {
        let text = "a,b\n1,2,3\n1\n,\n4,5,\n";
        assert_eq!(
            seen(text, "{}"),
            [
                "[row 1: it has 3 fields where the header has 2 columns, quote what is one field]",
                "a: 1 {\"row\":2}",
                " {\"row\":3}",
                "a: 4\nb: 5 {\"row\":4}",
            ]
        );
    }

    #[test]
    fn delimiters_are_told_by_the_first_line() {
        for (text, delimiter) in
            [("a,b;c,d\n;;;;", b','), ("a;b\n", b';'), ("a\tb\tc;d", b'\t'), ("\";;;\",a", b','), ("a", b',')]
        {
            assert_eq!(delimiter_of(text), delimiter, "{text}");
        }
        assert_eq!(seen("a|b\n1|2", r#"{"delimiter": "|"}"#), ["a: 1\nb: 2 {\"row\":1}"]);
        let tabs: Vec<_> = rows("a,b\tc\n1\t2".to_owned(), Format::Tsv, &CsvMapping::default()).unwrap().collect();
        assert_eq!(tabs[0].as_ref().unwrap().text, "a,b: 1\nc: 2");
    }

    #[test]
    fn a_quote_that_never_ends_is_told_and_its_row_is_the_last() {
        let fault = |line| {
            format!(
                "the quote that opens in line {line} is never closed, and nothing after it is read: close it, or double it where it is text"
            )
        };
        let text = "a,b\n1,\"x\"\"\n\"\n2,\"3\n4,5\n";
        assert_eq!(seen(text, "{}"), ["a: 1\nb: x\" {\"row\":1}".to_owned(), format!("[row 2: {}]", fault(4))]);
        let header = rows("a,\"b\n1,2\n".to_owned(), Format::Csv, &CsvMapping::default()).err().unwrap();
        assert_eq!(header.to_string(), fault(1));
    }

    #[test]
    fn quotes_within_a_field_are_text() {
        assert_eq!(
            seen("a,b\n5\" pipe,\"x\" y\"\n6,7", "{}"),
            ["a: 5\" pipe\nb: x y\" {\"row\":1}", "a: 6\nb: 7 {\"row\":2}"]
        );
    }

    proptest::proptest! {
        #[test]
        fn what_is_found_to_be_unclosed_is_what_the_reader_takes_to_the_end(text in "[a,;\"\n\r]{0,20}") {
            // What is written on a new line is a row of its own if, and only if, no quote is open there.
            let text_and_row = format!("{text}\n#");
            let reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(text_and_row.as_bytes());
            let last = reader.into_records().last().unwrap().unwrap();
            let is_open = last.iter().ne(["#"]);
            proptest::prop_assert_eq!(unclosed_quote(text.as_bytes(), b',').is_some(), is_open, "{:?}", text);
        }
    }
}
