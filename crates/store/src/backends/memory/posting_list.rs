//! Where one term stands, in chunks that are copied one by one when a writer meets a search.

use std::sync::Arc;

/// Most entries of a chunk: a change moves 12 KiB at most. Few in unit tests, so that short lists have several.
const CHUNK: usize = if cfg!(test) { 8 } else { 1024 };

/// Up to this many changes of one chunk are made one by one; more are merged in one pass.
const FEW_CHANGES: usize = 4;

/// The numbers of the rows that have a term, ascending, each with the term's weight in there.
#[derive(Debug, Clone, Default)]
pub(super) struct PostingList {
    /// Never empty ones.
    chunks: Vec<Arc<Chunk>>,
    len: usize,
}

/// What happens to one row in one list.
#[derive(Debug, Clone, Copy)]
pub(super) struct Change {
    pub(super) sequence: u64,
    /// The new weight; none when the row has the term no longer.
    pub(super) weight: Option<f32>,
}

/// A place in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Place {
    chunk: usize,
    slot: usize,
}

impl PostingList {
    /// Rows that have the term.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The row at a place, and the term's weight in there; none past the end.
    pub(super) fn get(&self, place: Place) -> Option<(u64, f32)> {
        let chunk = self.chunks.get(place.chunk)?;
        Some((*chunk.sequences.get(place.slot)?, *chunk.weights.get(place.slot)?))
    }

    /// The place after `place`.
    pub(super) fn after(&self, place: Place) -> Place {
        let slots = self.chunks.get(place.chunk).map_or(0, |chunk| chunk.len());
        if place.slot + 1 < slots {
            Place { slot: place.slot + 1, ..place }
        } else {
            Place { chunk: place.chunk + 1, slot: 0 }
        }
    }

    /// Applies changes in ascending order of their rows, each row once. O(changes) for new rows at the end; for others
    /// O(log chunks) and one chunk each at most.
    pub(super) fn apply(&mut self, mut changes: &[Change]) {
        while let Some(first) = changes.first() {
            if self.chunks.is_empty() {
                self.chunks.push(Arc::default());
            }
            let last = self.chunks.len() - 1;
            let ends_before = |chunk: &Arc<Chunk>| chunk.sequences.last().is_some_and(|last| *last < first.sequence);
            let index = self.chunks.partition_point(ends_before).min(last);
            let Some(chunk) = self.chunks.get_mut(index) else { return };
            // What comes after all chunks belongs to the last one.
            let mine = match chunk.sequences.last() {
                Some(end) if index < last => changes.partition_point(|change| change.sequence <= *end),
                _ => changes.len(),
            };
            let (now, later) = changes.split_at(mine);
            let before = chunk.len();
            let chunk = Arc::make_mut(chunk);
            chunk.apply(now);
            self.len = self.len + chunk.len() - before;
            self.balance(index);
            changes = later;
        }
    }

    /// Splits a chunk that is too long, removes an empty one, and joins a short one with a neighbour where both fit.
    fn balance(&mut self, index: usize) {
        let len_of = |index: Option<usize>| index.and_then(|index| self.chunks.get(index)).map(|chunk| chunk.len());
        let Some(len) = len_of(Some(index)) else { return };
        let fits = |neighbour: Option<usize>| len_of(neighbour).is_some_and(|other| other + len <= CHUNK);
        if len == 0 {
            self.chunks.remove(index);
        } else if len > CHUNK {
            // Rows are added at the end, so there full chunks are left behind; elsewhere there must be room for more.
            let is_last = index + 1 == self.chunks.len();
            let size = if is_last { CHUNK } else { CHUNK / 2 };
            let whole = self.chunks.remove(index);
            let parts = whole.parts(size).map(Arc::new);
            drop(self.chunks.splice(index..index, parts));
        } else if len <= CHUNK / 4 {
            if fits(index.checked_add(1)) {
                self.join(index);
            } else if let Some(before) = index.checked_sub(1)
                && fits(Some(before))
            {
                self.join(before);
            }
        }
    }

    /// Joins a chunk with the one after it.
    fn join(&mut self, index: usize) {
        let second = self.chunks.remove(index + 1);
        if let Some(first) = self.chunks.get_mut(index) {
            let first = Arc::make_mut(first);
            first.sequences.extend_from_slice(&second.sequences);
            first.weights.extend_from_slice(&second.weights);
        }
    }
}

/// A part of a list.
#[derive(Debug, Clone, Default)]
struct Chunk {
    sequences: Vec<u64>,
    weights: Vec<f32>,
}

impl Chunk {
    fn len(&self) -> usize {
        self.sequences.len()
    }

    fn parts(&self, size: usize) -> impl Iterator<Item = Self> + '_ {
        let parts = self.sequences.chunks(size).zip(self.weights.chunks(size));
        parts.map(|(sequences, weights)| Self { sequences: sequences.to_vec(), weights: weights.to_vec() })
    }

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
        after.iter().for_each(|change| self.push_change(*change));
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
        self.sequences.reserve(old.len());
        self.weights.reserve(old.len());
        let mut changes = changes.iter().copied().peekable();
        for (sequence, weight) in old.sequences.into_iter().zip(old.weights) {
            while let Some(new) = changes.next_if(|change| change.sequence < sequence) {
                self.push_change(new);
            }
            match changes.next_if(|change| change.sequence == sequence) {
                Some(replaced) => self.push_change(replaced),
                None => self.push(sequence, weight),
            }
        }
        changes.for_each(|new| self.push_change(new));
    }

    fn push_change(&mut self, change: Change) {
        if let Some(weight) = change.weight {
            self.push(change.sequence, weight);
        }
    }

    fn push(&mut self, sequence: u64, weight: f32) {
        self.sequences.push(sequence);
        self.weights.push(weight);
    }
}

/// All rows with their weights.
#[cfg(test)]
pub(super) fn entries(list: &PostingList) -> Vec<(u64, f32)> {
    let places = std::iter::successors(Some(Place::default()), |place| Some(list.after(*place)));
    places.map_while(|place| list.get(place)).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A list is a map from rows to weights, in chunks that are neither empty nor too long nor much too many.
        #[test]
        fn a_list_does_what_a_map_does(
            batches in prop::collection::vec(
                prop::collection::btree_map(0_u64..200, prop::option::weighted(0.6, 0.0_f32..1.0), 0..60),
                0..20,
            ),
        ) {
            let mut list = PostingList::default();
            let mut map = BTreeMap::new();
            for batch in batches {
                let before = (list.clone(), entries(&list));
                let changes: Vec<Change> =
                    batch.into_iter().map(|(sequence, weight)| Change { sequence, weight }).collect();
                list.apply(&changes);
                for Change { sequence, weight } in changes {
                    match weight {
                        Some(weight) => map.insert(sequence, weight),
                        None => map.remove(&sequence),
                    };
                }
                prop_assert_eq!(entries(&list), map.clone().into_iter().collect::<Vec<_>>());
                prop_assert_eq!(list.len(), map.len());
                prop_assert!(list.chunks.iter().all(|chunk| (1..=CHUNK).contains(&chunk.len())));
                prop_assert_eq!(entries(&before.0), before.1, "a list that is read stays as it is");
            }
        }
    }

    #[test]
    fn rows_at_the_end_fill_chunks_and_rows_that_go_leave_no_crumbs() {
        let mut list = PostingList::default();
        for sequence in 0..100 {
            list.apply(&[Change { sequence, weight: Some(1.0) }]);
        }
        assert_eq!(list.chunks.len(), 100_usize.div_ceil(CHUNK));
        for sequence in (0..100).filter(|sequence| sequence % 10 != 0) {
            list.apply(&[Change { sequence, weight: None }]);
        }
        assert_eq!(list.len(), 10);
        assert!(list.chunks.len() <= 4, "{} chunks", list.chunks.len());
    }
}
