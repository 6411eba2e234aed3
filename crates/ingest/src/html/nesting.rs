//! Which open elements a tag ends, besides its own: the rules of the HTML standard's parser, as far as they decide that.

use super::element;
use super::group::{self, Group, Groups};
use super::open::OpenElements;

/// What a start tag is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begins {
    /// It begins an element.
    Element,
    /// It begins none, though the text before and after it stands apart: part of a table that is not there.
    Mark,
    Nothing,
}

/// Ends what cannot be around the element that begins.
pub(super) fn begin(open: &mut OpenElements, name: &[u8], leaves_foreign: impl FnOnce() -> bool) -> Begins {
    if is_in_foreign(open) {
        if !leaves_foreign() {
            return Begins::Element;
        }
        leave_foreign(open);
    }
    match name {
        b"head" => return Begins::Nothing,
        b"html" | b"body" if open.last_named(name).is_some() => return Begins::Nothing,
        // A form has no forms in it.
        b"form" if open.last_named(name) > open.last_named(b"template") => return Begins::Nothing,
        b"caption" | b"colgroup" | b"col" | b"thead" | b"tbody" | b"tfoot" | b"tr" | b"td" | b"th" => {
            return begin_table_part(open, name);
        }
        _ => {}
    }
    let ended = match name {
        b"li" => reached(open.last(Group::ListItem), open.last(Group::Barrier)),
        b"dd" | b"dt" => reached(open.last(Group::Definition), open.last(Group::Barrier)),
        b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => reached(open.last(Group::Heading), open.last(Group::Special)),
        b"option" => reached(open.last(Group::Choice), open.last(Group::Special)),
        b"optgroup" => reached(open.last(Group::Choices).or(open.last(Group::Choice)), open.last(Group::Special)),
        b"rb" | b"rp" | b"rt" | b"rtc" => reached(open.last(Group::RubyPart), open.last(Group::Special)),
        b"button" => reached(open.last(Group::Button), open.last(Group::Scope)),
        b"input" | b"textarea" | b"select" => reached(open.last_named(b"select"), open.last(Group::Scope)),
        // A table directly in a table comes after it.
        b"table" => reached(open.last_named(name), open.last(Group::Scope)),
        _ => None,
    };
    if let Some(place) = ended {
        open.end(place);
        if name == b"select" {
            return Begins::Nothing;
        }
    }
    if matches!(name, b"a" | b"nobr") {
        end(open, name);
    }
    if let Some(paragraph) = paragraph(open)
        && element::ends_paragraph(name)
    {
        open.end(paragraph);
    }
    Begins::Element
}

/// Parts of tables end all that is open in their table, but for the parts that they belong into.
fn begin_table_part(open: &mut OpenElements, name: &[u8]) -> Begins {
    let Some(table) = open.last(Group::Table) else { return Begins::Mark };
    let (section, row) = (open.last(Group::TableSection), open.last(Group::TableRow));
    let around = match name {
        b"td" | b"th" => section.max(row).max(Some(table)),
        b"tr" => section.max(Some(table)),
        _ => Some(table),
    };
    open.end(around.unwrap_or(table) + 1);
    Begins::Element
}

/// Ends what an end tag ends, and says which element that was.
pub(super) fn end(open: &mut OpenElements, name: &[u8]) -> Option<usize> {
    if open.last(Group::Foreign) > open.last(Group::Html) {
        if let Some(place) = open.last_named(name).filter(|place| Some(*place) > open.last(Group::Html)) {
            open.end(place);
            return Some(place);
        }
        if matches!(name, b"p" | b"br") {
            leave_foreign(open);
        }
    }
    let place = match name {
        b"p" => paragraph(open),
        b"li" => reached(open.last(Group::ListItem), open.last(Group::Scope).max(open.last(Group::List))),
        b"h1" | b"h2" | b"h3" | b"h4" | b"h5" | b"h6" => reached(open.last(Group::Heading), open.last(Group::Scope)),
        b"caption" | b"colgroup" | b"thead" | b"tbody" | b"tfoot" | b"tr" | b"td" | b"th" | b"table" => {
            reached(open.last_named(name), open.last(Group::Table))
        }
        // They are around all, begun or not.
        b"html" | b"body" => Some(open.last_named(name).unwrap_or(0)),
        b"template" => open.last_named(name),
        _ if element::is_formatting(name) || group::of_html(name).has(Group::Special) => {
            reached(open.last_named(name), open.last(Group::Scope))
        }
        _ => reached(open.last_named(name), open.last(Group::Special)),
    }?;
    if name == b"form" {
        end_implied(open, place);
    }
    // Blocks within a form or bold text outlive it.
    if open.last(Group::Special) > Some(place) && (name == b"form" || element::is_formatting(name)) {
        open.end_only(place);
    } else {
        open.end(place);
    }
    Some(place)
}

/// Are elements that begin here of SVG or MathML, as those around them?
pub(super) fn is_in_foreign(open: &OpenElements) -> bool {
    let is_foreign = open.innermost().is_some() && open.last(Group::Foreign) == open.innermost();
    is_foreign && open.last(Group::Integration) < open.innermost()
}

fn leave_foreign(open: &mut OpenElements) {
    while is_in_foreign(open)
        && let Some(innermost) = open.innermost()
    {
        open.end(innermost);
    }
}

/// Ends what is innermost, down to a place, as long as its end tag may be left out.
fn end_implied(open: &mut OpenElements, place: usize) {
    let implied =
        [Group::Paragraph, Group::ListItem, Group::Definition, Group::Choice, Group::Choices, Group::RubyPart];
    let implied: Groups = implied.into_iter().collect();
    while let Some(innermost) = open.innermost().filter(|innermost| *innermost > place)
        && open.groups_at(innermost).has_any_of(implied)
    {
        open.end(innermost);
    }
}

/// The paragraph that a block ends.
fn paragraph(open: &OpenElements) -> Option<usize> {
    reached(open.last(Group::Paragraph), open.last(Group::Scope).max(open.last(Group::Button)))
}

/// An element, unless one that is not to be passed is within it.
fn reached(place: Option<usize>, barrier: Option<usize>) -> Option<usize> {
    place.filter(|_| place >= barrier)
}
