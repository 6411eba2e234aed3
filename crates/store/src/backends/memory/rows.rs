//! The rows of a collection in insertion order, as a list of shared blocks: cloning it is a snapshot.

use std::sync::Arc;

use toller_core::error::Result;
use toller_core::{Document, DocumentId, Record};

use super::block::{Block, Row};
use super::spaces::Spaces;

/// Where a row is: the number of its block and its place in there. Valid until that block is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    block: u64,
    slot: usize,
}

/// A block with a number that is never given twice; numbers ascend along the list, so that a block is found by bisection
/// however many before it have gone.
#[derive(Debug, Clone)]
pub(super) struct NumberedBlock {
    pub(super) number: u64,
    pub(super) block: Arc<Block>,
}

/// All rows of a collection. A clone costs O(number of blocks) and shares every block until one side writes to it.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    spaces: Arc<Spaces>,
    blocks: Vec<NumberedBlock>,
    live: usize,
    next_number: u64,
    next_sequence: u64,
}

impl Rows {
    pub(super) fn new(spaces: Arc<Spaces>) -> Self {
        Self { spaces, blocks: Vec::new(), live: 0, next_number: 0, next_sequence: 0 }
    }

    /// What their vectors are of.
    pub(super) fn spaces(&self) -> &Spaces {
        &self.spaces
    }

    /// Rows without tombstones.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// The blocks in insertion order of their rows.
    pub(super) fn blocks(&self) -> &[NumberedBlock] {
        &self.blocks
    }

    pub(super) fn block(&self, number: u64) -> Option<&Arc<Block>> {
        Some(&self.blocks.get(self.index_of(number)?)?.block)
    }

    pub(super) fn document(&self, position: Position) -> Option<&Arc<Document>> {
        self.block(position.block)?.document(position.slot)
    }

    /// A copy of the row at `position`, none for a tombstone. O(d).
    pub(super) fn record(&self, position: Position) -> Result<Option<Record>> {
        match self.block(position.block) {
            Some(block) => self.spaces.record_of(block, position.slot),
            None => Ok(None),
        }
    }

    /// The number of the row at `position`, which it keeps for life: rows are numbered in insertion order.
    pub(super) fn sequence(&self, position: Position) -> Option<u64> {
        self.block(position.block)?.sequences().get(position.slot).copied()
    }

    /// Where the row with a number is: the index of its block in [`Self::blocks`], and its place in there. O(log n).
    pub(super) fn locate(&self, sequence: u64) -> Option<(usize, usize)> {
        let starts_by_then =
            |numbered: &NumberedBlock| numbered.block.sequences().first().is_some_and(|first| *first <= sequence);
        let index = self.blocks.partition_point(starts_by_then).checked_sub(1)?;
        let slot = self.blocks.get(index)?.block.sequences().binary_search(&sequence).ok()?;
        Some((index, slot))
    }

    /// Adds a row at the end.
    pub(super) fn append(&mut self, row: Row) -> Position {
        let full = Block::full_rows(self.spaces.width());
        let mut last = match self.blocks.pop() {
            Some(last) if last.block.len() < full => last,
            full_or_none => {
                self.blocks.extend(full_or_none);
                let number = self.next_number;
                self.next_number += 1;
                NumberedBlock { number, block: Arc::new(Block::new(&self.spaces)) }
            }
        };
        let position = Position { block: last.number, slot: last.block.len() };
        Arc::make_mut(&mut last.block).push(row, self.next_sequence);
        self.next_sequence += 1;
        self.blocks.push(last);
        self.live += 1;
        position
    }

    /// Overwrites a live row in place.
    pub(super) fn replace(&mut self, position: Position, row: Row) {
        if let Some(block) = self.block_mut(position.block) {
            block.replace(position.slot, row);
        }
    }

    /// Makes a live row a tombstone; the caller has the block compacted afterwards. Returns the number of its block.
    pub(super) fn remove(&mut self, position: Position) -> u64 {
        if let Some(block) = self.block_mut(position.block) {
            block.remove(position.slot);
            self.live -= 1;
        }
        position.block
    }

    /// Rewrites a block of which more than half is tombstones, together with a neighbour where both fit into one; `moved`
    /// hears of every row that lies elsewhere now.
    ///
    /// Called for each block that lost rows, this keeps the store within twice the size of its live rows at an amortised
    /// cost of O(d) per removed row, and never touches more than two blocks at once.
    pub(super) fn compact(&mut self, number: u64, mut moved: impl FnMut(&DocumentId, Position)) {
        let Some(index) = self.index_of(number) else { return };
        let Some(sparse) = self.blocks.get(index) else { return };
        if sparse.block.live() == 0 {
            self.blocks.remove(index);
            return;
        }
        if sparse.block.live() * 2 >= sparse.block.len() {
            return;
        }
        let full = Block::full_rows(self.spaces.width());
        let fits_with =
            |other: Option<&NumberedBlock>| other.is_some_and(|other| other.block.live() + sparse.block.live() <= full);
        let range = if fits_with(self.blocks.get(index + 1)) {
            index..index + 2
        } else if fits_with(index.checked_sub(1).and_then(|before| self.blocks.get(before))) {
            index - 1..index + 1
        } else {
            index..index + 1
        };

        let start = range.start;
        let mut dense = Block::new(&self.spaces);
        // Numbers ascend, so the first one keeps the place of both.
        let mut dense_number = number;
        for old in self.blocks.drain(range) {
            dense_number = dense_number.min(old.number);
            dense.extend_from_live_rows_of(&old.block);
        }
        for (slot, document) in dense.documents().iter().enumerate() {
            if let Some(document) = document {
                moved(&document.id, Position { block: dense_number, slot });
            }
        }
        self.blocks.insert(start, NumberedBlock { number: dense_number, block: Arc::new(dense) });
    }

    fn index_of(&self, number: u64) -> Option<usize> {
        self.blocks.binary_search_by_key(&number, |block| block.number).ok()
    }

    fn block_mut(&mut self, number: u64) -> Option<&mut Block> {
        let index = self.index_of(number)?;
        self.blocks.get_mut(index).map(|found| Arc::make_mut(&mut found.block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use toller_core::collection::VectorParams;
    use toller_core::{Metadata, Metric};

    use super::super::block::RowVector;

    const DIMENSION: usize = 4096;

    fn row(id: usize) -> Row {
        let id = DocumentId::new(format!("{id:05}")).unwrap();
        let document = Document { id, page_content: String::new(), metadata: Metadata::new() };
        let vector = RowVector { elements: vec![1.0; DIMENSION], squared_norm: DIMENSION as f64 };
        Row { document: Arc::new(document), vectors: vec![Some(vector)] }
    }

    fn empty() -> Rows {
        Rows::new(Arc::new(Spaces::new(&VectorParams::new(DIMENSION as u32, Metric::Dot))))
    }

    fn ids(rows: &Rows) -> Vec<String> {
        let blocks = rows.blocks().iter();
        blocks.flat_map(|b| b.block.documents().iter().flatten().map(|d| d.id.to_string())).collect()
    }

    #[test]
    fn compaction_keeps_order_and_positions_and_frees_room() {
        let mut rows = empty();
        let mut positions: BTreeMap<DocumentId, Position> =
            (0..320).map(|id| (row(id).document.id.clone(), rows.append(row(id)))).collect();
        assert_eq!(rows.blocks().len(), 10, "512 KiB hold 32 rows of 4096 dimensions");
        for id in (0..320).filter(|id| id % 10 != 3) {
            let block = rows.remove(positions.remove(&row(id).document.id).unwrap());
            rows.compact(block, |id, position| {
                positions.insert(id.clone(), position);
            });
        }
        let left: Vec<String> = (0..320).filter(|id| id % 10 == 3).map(|id| format!("{id:05}")).collect();
        assert_eq!(ids(&rows), left);
        assert_eq!(rows.live(), 32);
        assert!(rows.blocks().len() <= 2, "neighbours are joined, got {} blocks", rows.blocks().len());
        for (id, position) in &positions {
            assert_eq!(&rows.document(*position).unwrap().id, id);
            let sequence = rows.sequence(*position).unwrap();
            assert_eq!(id.as_str(), format!("{sequence:05}"), "a row keeps its number");
            let (block, slot) = rows.locate(sequence).unwrap();
            assert_eq!(&rows.blocks()[block].block.document(slot).unwrap().id, id);
        }
        assert_eq!(rows.locate(4), None, "a row that has gone");
        let new = rows.append(row(999));
        assert_eq!(rows.document(new).unwrap().id.as_str(), "00999");
        assert_eq!(ids(&rows).last().unwrap(), "00999");
    }

    #[test]
    fn a_snapshot_does_not_see_later_writes() {
        let mut rows = empty();
        let first = rows.append(row(1));
        let snapshot = rows.clone();
        rows.append(row(2));
        rows.remove(first);
        assert_eq!(ids(&snapshot), ["00001"]);
        assert_eq!(ids(&rows), ["00002"]);
        assert_eq!((snapshot.live(), rows.live()), (1, 1));
    }
}
