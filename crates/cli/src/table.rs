//! Tables for people, within the width of the terminal.

use comfy_table::{Attribute, Cell, CellAlignment, ColumnConstraint, ContentArrangement, Row, Table};
use comfy_table::{ContentLineStyle, LineStyle, TableStyle};
use toller_api::v1;
use toller_api::v1::value::Kind;

use crate::terminal::{Look, one_line, tail};

/// Columns without lines between them, and one line under the header.
const STYLE: TableStyle = TableStyle::new()
    .header_lines(ContentLineStyle::none().junction(' '))
    .header_separator(LineStyle::none().fill('─').junction('─'))
    .content_lines(ContentLineStyle::none().junction(' '));

/// Longest snippet in characters; the height bounds it too.
const SNIPPET_CHARS: usize = 240;

/// Most lines of one hit.
const HIT_LINES: usize = 3;

/// Most of the width that the source may take.
const SOURCE_PERCENT: usize = 35;

/// Longest plain cell in characters.
const CELL_CHARS: usize = 200;

/// The leg of a hit that tells its MMR score.
const MMR: &str = "mmr";

/// A table of hits: rank, score, relevance, MMR score (where a hit has one), source and snippet, in the order they came.
pub(crate) fn hits(hits: &[v1::ScoredDocument], look: Look) -> String {
    let has_mmr = hits.iter().any(|hit| mmr_score(hit).is_some());
    let mut header = vec!["rank", "score", "relevance"];
    if has_mmr {
        header.push(MMR);
    }
    let numbers = header.len();
    header.extend(["source", "snippet"]);
    let mut table = new(&header, look);
    let source_chars = usize::from(look.width) * SOURCE_PERCENT / 100;
    for hit in hits {
        let mut row = Row::new();
        row.add_cell(number(hit.rank));
        row.add_cell(number(format_args!("{:.4}", hit.score)));
        row.add_cell(match hit.relevance {
            Some(relevance) => number(format_args!("{relevance:.4}")),
            None => number("-"),
        });
        if has_mmr {
            row.add_cell(match mmr_score(hit) {
                Some(score) => number(format_args!("{score:.4}")),
                None => number("-"),
            });
        }
        let document = hit.document.as_ref();
        row.add_cell(Cell::new(tail(&document.map(source).unwrap_or_default(), source_chars)));
        row.add_cell(Cell::new(one_line(document.map_or("", |document| &document.page_content), SNIPPET_CHARS)));
        row.max_height(HIT_LINES);
        table.add_row(row);
    }
    for column in table.column_iter_mut().take(numbers) {
        // Numbers are never broken; the texts share what is left.
        column.set_constraint(ColumnConstraint::ContentWidth);
    }
    table.trim_fmt()
}

fn mmr_score(hit: &v1::ScoredDocument) -> Option<f64> {
    hit.sources.iter().find(|leg| leg.source == MMR).map(|leg| leg.score)
}

/// A table of documents: id, source and snippet.
pub(crate) fn documents(documents: &[v1::Document], look: Look) -> String {
    let mut table = new(&["id", "source", "snippet"], look);
    for document in documents {
        let id = one_line(document.id.as_deref().unwrap_or_default(), CELL_CHARS);
        let snippet = one_line(&document.page_content, SNIPPET_CHARS);
        let mut row = Row::from([id, metadata_source(document).unwrap_or_default(), snippet]);
        row.max_height(HIT_LINES);
        table.add_row(row);
    }
    table.trim_fmt()
}

/// A table of plain cells.
pub(crate) fn plain(header: &[&str], rows: Vec<Vec<String>>, look: Look) -> String {
    let mut table = new(header, look);
    for row in rows {
        table.add_row(row.iter().map(|cell| one_line(cell, CELL_CHARS)).collect::<Vec<_>>());
    }
    table.trim_fmt()
}

/// Names and values, one pair to a line, values aligned.
pub(crate) fn pairs(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let lines = pairs.iter().map(|(name, value)| format!("{name:width$}  {}", one_line(value, usize::MAX)));
    lines.map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}

fn new(header: &[&str], look: Look) -> Table {
    let mut table = Table::new();
    table.force_no_tty();
    if look.colours {
        table.enforce_styling();
    }
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(look.width)
        .set_header(header.iter().map(|title| Cell::new(title).add_attribute(Attribute::Bold)));
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table
}

fn number(value: impl std::fmt::Display) -> Cell {
    Cell::new(value).set_alignment(CellAlignment::Right)
}

/// Where a document comes from: its metadata's `source`, else its id.
fn source(document: &v1::Document) -> String {
    metadata_source(document).unwrap_or_else(|| one_line(document.id.as_deref().unwrap_or_default(), CELL_CHARS))
}

fn metadata_source(document: &v1::Document) -> Option<String> {
    match document.metadata.get("source")?.kind.as_ref()? {
        Kind::StringValue(source) => Some(one_line(source, CELL_CHARS)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::hit;

    #[test]
    fn a_table_of_hits() {
        let found = [
            hit(1, "docs/concepts.md", "A collection records\nits fingerprint."),
            v1::ScoredDocument { relevance: None, ..hit(2, "docs/b.md", "short") },
        ];
        let expected = "\
rank  score   relevance  source            snippet
─────────────────────────────────────────────────────────────────────────────────
   1  0.8750     0.8750  docs/concepts.md  A collection records its fingerprint.
   2  0.8750          -  docs/b.md         short";
        let table = hits(&found, Look::plain());
        assert_eq!(table, expected, "\n{table}");
    }

    #[test]
    fn mmr_scores_have_a_column_of_their_own() {
        let mut first = hit(1, "a.md", "text");
        first.sources.push(v1::SourceScore { source: MMR.to_owned(), score: -0.25, rank: 1 });
        let table = hits(&[first, hit(2, "b.md", "text")], Look::plain());
        let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["rank", "score", "relevance", "mmr", "source", "snippet"]);
        assert_eq!(lines[2], ["1", "0.8750", "0.8750", "-0.2500", "a.md", "text"]);
        assert_eq!(lines[3], ["2", "0.8750", "0.8750", "-", "b.md", "text"]);
    }

    #[test]
    fn a_table_fits_its_width_whatever_the_text() {
        let long_word = "x".repeat(500);
        let long_text = "many words of one document ".repeat(50);
        let found = [
            hit(1, &"a/long/path/".repeat(20), &long_text),
            hit(2, "s", &long_word),
            hit(3, "日本語/文書", &"日本語の文書です。".repeat(40)),
        ];
        for width in [40, 60, 80, 100, 200] {
            let table = hits(&found, Look { width, colours: false });
            for line in table.lines() {
                // Wide characters take two columns.
                let columns: usize = line.chars().map(|c| if c > '\u{2fff}' { 2 } else { 1 }).sum();
                assert!(columns <= usize::from(width), "{columns} > {width}:\n{table}");
            }
            // The header takes two lines where it is narrow, and the rule one.
            assert!(table.lines().count() <= 3 + found.len() * HIT_LINES, "\n{table}");
        }
    }

    #[test]
    fn escape_sequences_of_a_document_never_reach_the_terminal() {
        let found = [hit(1, "\u{1b}]0;title\u{7}", "\u{1b}[2Jgone")];
        assert!(!hits(&found, Look::plain()).contains('\u{1b}'));
        assert!(!pairs(&[("description", "\u{1b}[2J".to_owned())]).contains('\u{1b}'));
    }

    #[test]
    fn the_header_is_bold_only_with_colours() {
        assert!(plain(&["name"], vec![], Look { width: 80, colours: true }).contains("\u{1b}[1m"));
        assert!(!plain(&["name"], vec![], Look::plain()).contains('\u{1b}'));
    }

    #[test]
    fn pairs_are_aligned() {
        assert_eq!(
            pairs(&[("name", "docs".to_owned()), ("metric", "cosine".to_owned())]),
            "name    docs\nmetric  cosine"
        );
    }
}
