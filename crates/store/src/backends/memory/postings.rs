//! The inverted index of one collection: from terms to the rows that have them.

use std::collections::HashMap;
use std::sync::Arc;

use super::posting_list::{Change, PostingList};
use crate::keyword::TermWeight;

/// The terms of rows that are about to be written, sorted before the collection is locked.
#[derive(Debug, Default)]
pub(super) struct NewPostings {
    /// The terms of each row, ascending, in the order of the rows.
    terms_of_rows: Vec<Box<[u32]>>,
    /// Ascending by term, then by row.
    entries: Vec<NewPosting>,
}

#[derive(Debug, Clone, Copy)]
struct NewPosting {
    term: u32,
    /// Place of the row in its batch.
    row: usize,
    weight: f32,
}

impl NewPostings {
    /// From the vectors of the rows' texts. O(e·log e) for e elements.
    pub(super) fn new(vectors: &[Vec<TermWeight>]) -> Self {
        let terms = |vector: &Vec<TermWeight>| vector.iter().map(|element| element.term).collect();
        let entries = vectors.iter().enumerate().flat_map(|(row, vector)| {
            vector.iter().map(move |element| NewPosting { term: element.term, row, weight: element.weight })
        });
        let mut entries: Vec<NewPosting> = entries.collect();
        entries.sort_unstable_by_key(|entry| (entry.term, entry.row));
        Self { terms_of_rows: vectors.iter().map(terms).collect(), entries }
    }
}

/// The lists of all terms, shared one by one with the searches that read them.
///
/// Memory: 12 bytes for each distinct term of each record here, and 4 bytes for finding them again when the record goes.
#[derive(Debug, Default)]
pub(super) struct Postings {
    lists: HashMap<u32, Arc<PostingList>>,
    /// The terms of each row that has any, ascending.
    terms_of_rows: HashMap<u64, Box<[u32]>>,
}

impl Postings {
    /// The list of a term, none when no record has it.
    pub(super) fn list(&self, term: u32) -> Option<&Arc<PostingList>> {
        self.lists.get(&term)
    }

    /// Enters rows, new or known, by their distinct numbers in the order in which `new` has them. O(elements) for rows
    /// beyond the last; for others a part of each list that is touched on top, see [`PostingList::apply`].
    pub(super) fn write(&mut self, sequences: &[u64], new: NewPostings) {
        let mut left = Vec::new();
        for (sequence, terms) in sequences.iter().zip(new.terms_of_rows) {
            let has_term = |term: &u32| terms.binary_search(term).is_ok();
            let old = self.terms_of_rows.get(sequence).into_iter().flatten();
            left.extend(old.filter(|term| !has_term(term)).map(|term| (*term, *sequence)));
            if terms.is_empty() {
                self.terms_of_rows.remove(sequence);
            } else {
                self.terms_of_rows.insert(*sequence, terms);
            }
        }
        self.take_out(left);

        let mut changes = Vec::new();
        for entries in new.entries.chunk_by(|entry, next| entry.term == next.term) {
            let Some(first) = entries.first() else { continue };
            changes.clear();
            changes.extend(
                entries.iter().filter_map(|entry| {
                    Some(Change { sequence: *sequences.get(entry.row)?, weight: Some(entry.weight) })
                }),
            );
            self.apply(first.term, &mut changes);
        }
    }

    /// Takes rows out, at the cost of a part of each list that is touched, see [`PostingList::apply`].
    pub(super) fn remove(&mut self, sequences: &[u64]) {
        let mut left = Vec::new();
        for sequence in sequences {
            let terms = self.terms_of_rows.remove(sequence);
            left.extend(terms.into_iter().flatten().map(|term| (term, *sequence)));
        }
        self.take_out(left);
    }

    /// Takes single rows out of single lists.
    fn take_out(&mut self, mut places: Vec<(u32, u64)>) {
        places.sort_unstable();
        let mut changes = Vec::new();
        for places in places.chunk_by(|place, next| place.0 == next.0) {
            let Some((term, _)) = places.first() else { continue };
            changes.clear();
            changes.extend(places.iter().map(|(_, sequence)| Change { sequence: *sequence, weight: None }));
            self.apply(*term, &mut changes);
        }
    }

    fn apply(&mut self, term: u32, changes: &mut [Change]) {
        // Known rows may come in any order.
        if !changes.is_sorted_by_key(|change| change.sequence) {
            changes.sort_unstable_by_key(|change| change.sequence);
        }
        let list = self.lists.entry(term).or_default();
        Arc::make_mut(list).apply(changes);
        if list.len() == 0 {
            self.lists.remove(&term);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::posting_list::entries;
    use super::*;

    /// Terms of a row; the weight tells which write it was.
    fn terms(numbers: &[u32], weight: f32) -> Vec<TermWeight> {
        numbers.iter().map(|term| TermWeight { term: *term, weight }).collect()
    }

    fn content(postings: &Postings) -> BTreeMap<u32, Vec<(u64, f32)>> {
        postings.lists.iter().map(|(term, list)| (*term, entries(list))).collect()
    }

    fn rows() -> impl Strategy<Value = Vec<(u64, Vec<u32>)>> {
        let terms = prop::collection::btree_set(0_u32..6, 0..5).prop_map(|terms| terms.into_iter().collect());
        prop::collection::btree_map(0_u64..40, terms, 0..30).prop_map(|rows| rows.into_iter().collect())
    }

    proptest! {
        /// However rows were written, changed and removed, the index is the one that the last state makes from scratch.
        #[test]
        fn the_history_of_an_index_does_not_show(
            batches in prop::collection::vec((rows(), prop::collection::vec(0_u64..40, 0..15)), 0..12),
            seed in any::<u64>(),
        ) {
            let mut postings = Postings::default();
            let mut state = HashMap::new();
            for (number, (mut batch, gone)) in batches.into_iter().enumerate() {
                // Known rows come in any order.
                batch.sort_by_key(|(sequence, _)| sequence.wrapping_mul(seed | 1));
                let sequences: Vec<u64> = batch.iter().map(|(sequence, _)| *sequence).collect();
                let vectors: Vec<_> = batch.iter().map(|(_, numbers)| terms(numbers, number as f32 + 1.0)).collect();
                postings.write(&sequences, NewPostings::new(&vectors));
                state.extend(sequences.into_iter().zip(vectors));
                postings.remove(&gone);
                gone.iter().for_each(|sequence| drop(state.remove(sequence)));
            }
            let (sequences, vectors): (Vec<u64>, Vec<_>) = state.into_iter().unzip();
            let mut from_scratch = Postings::default();
            from_scratch.write(&sequences, NewPostings::new(&vectors));
            prop_assert_eq!(content(&postings), content(&from_scratch));
            prop_assert_eq!(postings.terms_of_rows, from_scratch.terms_of_rows);
        }
    }

    #[test]
    fn a_list_that_is_read_stays_as_it_is_and_one_without_rows_goes() {
        let mut postings = Postings::default();
        let mut write = |sequence, numbers: &[u32], weight| {
            postings.write(&[sequence], NewPostings::new(&[terms(numbers, weight)]));
            postings.list(7).map(Arc::clone)
        };
        let read = write(1, &[7], 0.5).unwrap();
        assert_eq!(entries(&write(2, &[7, 8], 0.25).unwrap()), [(1, 0.5), (2, 0.25)]);
        assert_eq!(entries(&write(1, &[], 0.0).unwrap()), [(2, 0.25)]);
        assert_eq!(entries(&read), [(1, 0.5)]);
        assert!(write(2, &[8], 0.0).is_none());
    }
}
