//! From the elements of a page to text: blocks, lists, tables, headings.

use std::ops::Range;

use super::element::Kind;
use crate::structure::{Heading, Structure};
use crate::whitespace;

/// Heading levels of HTML.
const HEADING_LEVELS: usize = 6;
/// Deepest indentation of lists that is written; deeper lists stand there too, so that text stays in proportion to its HTML.
const DEEPEST_INDENTATION: usize = 8;
/// Between the cells of a row.
const CELL_SEPARATOR: &str = " | ";

/// What stands between what was written and what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Gap {
    #[default]
    Nothing,
    Space,
    Line,
    BlankLine,
}

/// The table that is open, or the one around it.
#[derive(Debug, Clone, Copy, Default)]
struct Row {
    /// Are we in a cell? Then what would be on lines of its own stays on the row's line.
    in_cell: bool,
    /// Cells of this row that began.
    cells: usize,
    /// Separators that come before what is written next; a row does not end with them.
    separators: usize,
}

#[derive(Debug, Default)]
pub(super) struct Writer {
    text: String,
    gap: Gap,
    list_depth: usize,
    /// A list item began, and nothing of it is written yet.
    item_begins: bool,
    preformatted: usize,
    /// A preformatted element began: a line end that comes at once is no part of it.
    preformatted_begins: bool,
    row: Row,
    /// Rows of the tables around the open one.
    outer_rows: Vec<Row>,
    heading: Option<(u8, Option<usize>)>,
    headings: Vec<Heading>,
    places: [Vec<usize>; HEADING_LEVELS + 1],
}

impl Writer {
    pub(super) fn open(&mut self, name: &[u8], kind: Kind) {
        match kind {
            Kind::Inline | Kind::Void | Kind::PassedOver | Kind::Title => {}
            Kind::Heading(level) => {
                self.end_heading();
                // A heading stands on a line of its own: a table with headings is there for the layout.
                self.end_cell();
                self.item_begins = false;
                self.apart(Gap::BlankLine);
                self.heading = Some((level, None));
            }
            Kind::Block => self.begin_block(name),
            Kind::Line => self.apart(Gap::Line),
            Kind::LineBreak => {
                if self.preformatted > 0 {
                    self.push_preformatted("\n");
                } else {
                    let second = self.gap >= Gap::Line;
                    self.apart(if second { Gap::BlankLine } else { Gap::Line });
                }
            }
            Kind::List => {
                self.apart(if self.list_depth == 0 { Gap::BlankLine } else { Gap::Line });
                self.list_depth += 1;
            }
            Kind::ListItem => {
                self.apart(Gap::Line);
                self.item_begins = true;
            }
            Kind::Preformatted => {
                self.apart(Gap::BlankLine);
                self.preformatted += 1;
                self.preformatted_begins = true;
            }
            Kind::Table => {
                // So is a table with tables in it.
                self.end_cell();
                self.apart(Gap::BlankLine);
                self.outer_rows.push(self.row);
                self.row = Row::default();
            }
            Kind::TableRow => {
                self.row = Row::default();
                self.apart(Gap::Line);
            }
            Kind::TableCell => {
                if self.heading.is_some() {
                    self.apart(Gap::Space);
                }
                self.row.separators += usize::from(self.row.cells > 0);
                self.row.cells += 1;
                self.row.in_cell = true;
            }
        }
    }

    pub(super) fn close(&mut self, name: &[u8], kind: Kind) {
        match kind {
            Kind::Inline | Kind::Void | Kind::PassedOver | Kind::Title => {}
            Kind::LineBreak => self.open(name, kind),
            Kind::Heading(_) => {
                self.end_heading();
                self.apart(Gap::BlankLine);
            }
            Kind::Block => self.apart(Gap::BlankLine),
            Kind::Line => self.apart(Gap::Line),
            Kind::List => {
                self.list_depth = self.list_depth.saturating_sub(1);
                self.apart(if self.list_depth == 0 { Gap::BlankLine } else { Gap::Line });
                self.item_begins = false;
            }
            Kind::ListItem => {
                self.apart(Gap::Line);
                self.item_begins = false;
            }
            Kind::Preformatted => {
                self.preformatted = self.preformatted.saturating_sub(1);
                self.apart(Gap::BlankLine);
            }
            Kind::Table => {
                self.row = self.outer_rows.pop().unwrap_or_default();
                self.apart(Gap::BlankLine);
            }
            Kind::TableRow => {
                self.row = Row::default();
                self.apart(Gap::Line);
            }
            Kind::TableCell => self.row.in_cell = false,
        }
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.preformatted > 0 {
            let text = if self.preformatted_begins { text.strip_prefix('\n').unwrap_or(text) } else { text };
            self.preformatted_begins = false;
            self.push_preformatted(text);
            return;
        }
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            if whitespace::is_space(character) {
                self.gap = self.gap.max(Gap::Space);
                rest = rest.trim_start_matches(whitespace::is_space);
            } else {
                let length = rest.find(whitespace::is_space).unwrap_or(rest.len());
                let (word, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
                self.push(word);
                rest = after;
            }
        }
    }

    /// The text, without whitespace around it, and its structure: a level for each level of headings, and one for blocks.
    pub(super) fn finish(mut self) -> (String, Structure) {
        self.end_heading();
        self.text.truncate(self.text.trim_end_matches(whitespace::is_space).len());
        (self.text, Structure::new(self.places.into()).with_headings(self.headings))
    }

    fn begin_block(&mut self, name: &[u8]) {
        if name != b"div" {
            self.end_heading();
        }
        self.apart(Gap::BlankLine);
    }

    /// What comes next stands apart from what was written. In a heading or a cell all stays on one line; in a list item that
    /// begins all follows the item's mark.
    fn apart(&mut self, gap: Gap) {
        let gap = if self.row.in_cell || self.heading.is_some() { Gap::Space } else { gap };
        // Within lists blocks are lines: the blank line after a list ends it.
        let gap = if self.list_depth > 0 { gap.min(Gap::Line) } else { gap };
        self.gap = self.gap.max(gap);
    }

    /// What follows in this cell is not on the row's line.
    fn end_cell(&mut self) {
        self.row.in_cell = false;
        self.row.separators = 0;
    }

    /// Blank lines at the start of a block are left out, so that whatever begins a block stays in the text.
    fn push_preformatted(&mut self, text: &str) {
        let begins_block = self.gap >= Gap::Line || self.text.is_empty();
        if !(begins_block && text.chars().all(whitespace::is_space)) {
            self.push(text);
        }
    }

    /// Writes what is no whitespace, or is kept as it is.
    fn push(&mut self, text: &str) {
        // A soft hyphen is no character of the word that it is in, and a word of nothing else is none.
        if text.chars().all(|character| character == '\u{ad}') {
            return;
        }
        // A heading has marks of its own only.
        if self.heading.is_some() {
            self.item_begins = false;
            self.row.separators = 0;
        }
        let separators = std::mem::take(&mut self.row.separators);
        if separators > 0 && self.gap == Gap::Space {
            self.gap = Gap::Nothing;
        }
        self.write_gap();
        for _ in 0..separators {
            let is_line_start = self.text.is_empty() || self.text.ends_with('\n');
            self.text.push_str(if is_line_start { CELL_SEPARATOR.trim_start() } else { CELL_SEPARATOR });
        }
        if self.item_begins {
            self.item_begins = false;
            let depth = self.list_depth.clamp(1, DEEPEST_INDENTATION);
            if !self.row.in_cell {
                self.text.extend(std::iter::repeat_n("  ", depth - 1));
            }
            self.text.push_str("- ");
        }
        if let Some((_, start @ None)) = &mut self.heading {
            *start = Some(self.text.len());
        }
        if text.contains('\u{ad}') && self.preformatted == 0 {
            self.text.extend(text.chars().filter(|character| *character != '\u{ad}'));
        } else {
            self.text.push_str(text);
        }
    }

    fn write_gap(&mut self) {
        let gap = std::mem::take(&mut self.gap);
        let is_line_start = self.text.is_empty() || self.text.ends_with('\n');
        match gap {
            Gap::Nothing => {}
            Gap::Space if is_line_start || self.text.ends_with(' ') => {}
            Gap::Space => self.text.push(' '),
            Gap::Line | Gap::BlankLine => {
                self.text.truncate(self.text.trim_end_matches([' ', '\n']).len());
                if !self.text.is_empty() {
                    self.text.push_str(if gap == Gap::Line { "\n" } else { "\n\n" });
                }
            }
        }
        if gap == Gap::BlankLine || self.text.is_empty() {
            let level = self.heading.map_or(HEADING_LEVELS, |(level, _)| usize::from(level) - 1);
            if let Some(places) = self.places.get_mut(level) {
                places.push(self.text.len());
            }
        }
    }

    fn end_heading(&mut self) {
        let Some((level, Some(start))) = self.heading.take() else {
            return;
        };
        let bytes: Range<usize> = start..self.text.trim_end_matches(whitespace::is_space).len();
        let Some(title) = self.text.get(bytes.clone()).filter(|title| !title.is_empty()) else {
            return;
        };
        self.headings.push(Heading { level, title: super::collapsed(title), bytes });
    }
}
