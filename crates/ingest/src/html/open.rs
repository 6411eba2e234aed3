//! The elements that are open at a place of a page.

use std::collections::HashMap;

use super::group::{GROUPS, Group, Groups};

/// Most elements that are open at once: far more than browsers admit, and few enough for memory. Where there are more, all end, so that what
/// follows is read as if the page began there.
const MOST_OPEN: usize = 100_000;

/// The elements that are open, outermost first, each known by its place among them. Every question takes the same time, however
/// many there are, and ending elements takes no longer than opening them.
#[derive(Debug, Default)]
pub(super) struct OpenElements {
    elements: Vec<Element>,
    /// Numbers of the names that were seen.
    names: HashMap<Vec<u8>, usize>,
    /// Places of the open elements, by the number of their name.
    by_name: Vec<Vec<usize>>,
    by_group: [Vec<usize>; GROUPS],
}

/// One without a name ended before those within it.
#[derive(Debug, Clone, Copy, Default)]
struct Element {
    name: Option<usize>,
    groups: Groups,
}

impl OpenElements {
    pub(super) fn push(&mut self, name: &[u8], groups: Groups) {
        if self.elements.len() >= MOST_OPEN {
            self.end(0);
        }
        let number = match self.names.get(name) {
            Some(number) => *number,
            None => {
                self.by_name.push(Vec::new());
                self.names.insert(name.to_owned(), self.by_name.len() - 1);
                self.by_name.len() - 1
            }
        };
        let place = self.elements.len();
        if let Some(places) = self.by_name.get_mut(number) {
            places.push(place);
        }
        for group in groups.numbers() {
            if let Some(places) = self.by_group.get_mut(group) {
                places.push(place);
            }
        }
        self.elements.push(Element { name: Some(number), groups });
    }

    /// Ends the element at a place, and all within it.
    pub(super) fn end(&mut self, place: usize) {
        while self.elements.len() > place || self.elements.last().is_some_and(|last| last.name.is_none()) {
            let Some(element) = self.elements.pop() else { return };
            self.forget(element);
        }
    }

    /// Ends the element at a place, and nothing of what is within it.
    pub(super) fn end_only(&mut self, place: usize) {
        if let Some(element) = self.elements.get_mut(place) {
            let element = std::mem::take(element);
            self.forget(element);
        }
    }

    /// Takes an element that ended from the places by name and by group. Where one within it is still open its place stays until that
    /// ends, so that the last place is always that of an open element.
    fn forget(&mut self, element: Element) {
        let Self { elements, by_name, by_group, .. } = self;
        let has_ended = |place: &usize| elements.get(*place).is_none_or(|element| element.name.is_none());
        let trim = |places: &mut Vec<usize>| {
            while places.last().is_some_and(has_ended) {
                places.pop();
            }
        };
        if let Some(places) = element.name.and_then(|name| by_name.get_mut(name)) {
            trim(places);
        }
        for group in element.groups.numbers() {
            if let Some(places) = by_group.get_mut(group) {
                trim(places);
            }
        }
    }

    /// The place of the innermost element of a group.
    pub(super) fn last(&self, group: Group) -> Option<usize> {
        self.by_group.get(group as usize)?.last().copied()
    }

    /// The place of the outermost element of a group that has one element at most, or no elements that end before those within them.
    pub(super) fn first(&self, group: Group) -> Option<usize> {
        self.by_group.get(group as usize)?.first().copied()
    }

    /// The place of the innermost element with a name.
    pub(super) fn last_named(&self, name: &[u8]) -> Option<usize> {
        self.by_name.get(*self.names.get(name)?)?.last().copied()
    }

    pub(super) fn is_in(&self, group: Group) -> bool {
        self.last(group).is_some()
    }

    /// The groups of the element at a place.
    pub(super) fn groups_at(&self, place: usize) -> Groups {
        self.elements.get(place).map_or_else(Groups::default, |element| element.groups)
    }

    /// The place of the innermost element.
    pub(super) fn innermost(&self) -> Option<usize> {
        self.elements.len().checked_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(group: Group) -> Groups {
        Groups::default().with(group)
    }

    #[test]
    fn the_innermost_is_known_by_name_and_by_group() {
        let mut open = OpenElements::default();
        open.push(b"ul", group(Group::List));
        open.push(b"li", group(Group::ListItem));
        open.push(b"ul", group(Group::List));
        assert_eq!(
            (open.last_named(b"ul"), open.last(Group::List), open.first(Group::List)),
            (Some(2), Some(2), Some(0))
        );
        open.end(1);
        assert_eq!((open.last_named(b"ul"), open.last(Group::ListItem)), (Some(0), None));
    }

    #[test]
    fn one_can_end_before_those_within_it() {
        let mut open = OpenElements::default();
        open.push(b"b", group(Group::PassedOver));
        open.push(b"p", group(Group::Paragraph));
        open.end_only(0);
        assert_eq!(
            (open.last_named(b"b"), open.is_in(Group::PassedOver), open.last_named(b"p")),
            (None, false, Some(1))
        );
        open.end(1);
        assert_eq!(open.innermost(), None);
    }

    #[test]
    fn one_that_ended_is_not_found_after_those_within_it() {
        let mut open = OpenElements::default();
        open.push(b"form", group(Group::Special));
        open.push(b"div", group(Group::Special));
        open.push(b"form", group(Group::Special));
        open.push(b"div", group(Group::Special));
        open.end_only(0);
        open.end_only(2);
        assert_eq!((open.last(Group::Special), open.last_named(b"form")), (Some(3), None));
        open.end(3);
        assert_eq!((open.last(Group::Special), open.innermost()), (Some(1), Some(1)));
        open.end(1);
        assert_eq!((open.last(Group::Special), open.innermost()), (None, None));
    }

    #[test]
    fn too_many_are_none() {
        let mut open = OpenElements::default();
        open.push(b"div", group(Group::PassedOver));
        (0..MOST_OPEN).for_each(|_| open.push(b"b", Groups::default()));
        assert_eq!((open.innermost(), open.is_in(Group::PassedOver)), (Some(0), false));
    }
}
