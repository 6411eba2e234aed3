//! The inverted index of one collection: from terms to the rows that have them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::keyword::TermWeight;

/// Up to this many changes of one list are made one by one, each moving half of the list on average; more are merged in
/// one pass.
const FEW_CHANGES: usize = 8;

/// Where one term stands: the numbers of rows, ascending, each with the term's weight in there.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct PostingList {
    sequences: Vec<u64>,
    weights: Vec<f32>,
}

/// What happens to one row in one list.
#[derive(Debug, Clone, Copy)]
struct Change {
    sequence: u64,
    /// The new weight; none when the row has the term no longer.
    weight: Option<f32>,
}

impl PostingList {
    /// Rows that have the term.
    pub(super) fn len(&self) -> usize {
        self.sequences.len()
    }

    /// The row at a place of the list, and the term's weight in there.
    pub(super) fn get(&self, index: usize) -> Option<(u64, f32)> {
        Some((*self.sequences.get(index)?, *self.weights.get(index)?))
    }

    /// Applies changes in ascending order of their rows. O(changes) for new rows at the end, O(list) for others.
    fn apply(&mut self, changes: &[Change]) {
        let inside = match self.sequences.last() {
            Some(last) => changes.partition_point(|change| change.sequence <= *last),
            None => 0,
        };
        let (inside, after) = changes.split_at(inside);
        if inside.len() <= FEW_CHANGES {
            inside.iter().for_each(|change| self.apply_one(*change));
        } else {
            self.merge(inside);
        }
        for change in after {
            if let Some(weight) = change.weight {
                self.push(change.sequence, weight);
            }
        }
    }

    fn apply_one(&mut self, change: Change) {
        match (self.sequences.binary_search(&change.sequence), change.weight) {
            (Ok(index), Some(weight)) => self.weights.get_mut(index).into_iter().for_each(|place| *place = weight),
            (Ok(index), None) => {
                self.sequences.remove(index);
                self.weights.remove(index);
            }
            (Err(index), Some(weight)) => {
                self.sequences.insert(index, change.sequence);
                self.weights.insert(index, weight);
            }
            (Err(_), None) => {}
        }
    }

    fn merge(&mut self, changes: &[Change]) {
        let old = std::mem::take(self);
        self.sequences.reserve_exact(old.len() + changes.len());
        self.weights.reserve_exact(old.len() + changes.len());
        let mut changes = changes.iter().copied().peekable();
        for (sequence, weight) in old.sequences.into_iter().zip(old.weights) {
            while let Some(new) = changes.next_if(|change| change.sequence < sequence) {
                self.extend(new);
            }
            match changes.next_if(|change| change.sequence == sequence) {
                Some(replaced) => self.extend(replaced),
                None => self.push(sequence, weight),
            }
        }
        changes.for_each(|new| self.extend(new));
    }

    fn extend(&mut self, change: Change) {
        if let Some(weight) = change.weight {
            self.push(change.sequence, weight);
        }
    }

    fn push(&mut self, sequence: u64, weight: f32) {
        self.sequences.push(sequence);
        self.weights.push(weight);
    }
}

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

/// The lists of all terms, shared one by one with the searches that read them: a writer copies a list that a search
/// still holds.
///
/// Memory: 12 bytes for each distinct term of each record here, and 4 bytes for finding them again when the record goes.
#[derive(Debug, PartialEq, Default)]
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
    /// beyond the last; for others O(length of the lists that are touched) on top, in one pass each.
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

    /// Takes rows out. O(length of the lists that are touched), in one pass each.
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
    use proptest::prelude::*;

    use super::*;

    /// Terms of a row; the weight tells which write it was.
    fn terms(numbers: &[u32], weight: f32) -> Vec<TermWeight> {
        numbers.iter().map(|term| TermWeight { term: *term, weight }).collect()
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
            prop_assert!(postings.lists.values().all(|list| list.sequences.is_sorted() && list.len() > 0));
            prop_assert_eq!(postings, from_scratch);
        }
    }

    #[test]
    fn a_list_that_is_read_stays_as_it_is() {
        let mut postings = Postings::default();
        let mut write = |sequence, numbers: &[u32], weight| {
            postings.write(&[sequence], NewPostings::new(&[terms(numbers, weight)]));
            postings.list(7).map(Arc::clone)
        };
        let read = write(1, &[7], 0.5).unwrap();
        assert_eq!(write(2, &[7, 8], 0.25).unwrap().len(), 2);
        assert_eq!(write(1, &[], 0.0).unwrap().get(0), Some((2, 0.25)));
        assert_eq!((read.len(), read.get(0), read.get(1)), (1, Some((1, 0.5)), None));
        assert_eq!(write(2, &[8], 0.0), None, "a list without rows goes");
    }
}
