//! A run of rows that is copied as one when a writer meets a reader.

use std::sync::Arc;

use toller_core::Document;

use super::spaces::Spaces;

/// Bytes of vectors in a full block: large enough that a scan does not notice the seams, small enough that a writer copies
/// one in some tens of microseconds.
const BLOCK_BYTES: usize = 512 << 10;

/// Least and most rows of a full block, whatever the dimension.
const BLOCK_ROWS: std::ops::RangeInclusive<usize> = 16..=2048;

/// First allocation of a block, in rows: small collections stay small.
const FIRST_ROWS: usize = 8;

/// A row that is ready to be stored.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) document: Arc<Document>,
    /// One entry per column; none where the record has no vector in that space.
    pub(super) vectors: Vec<Option<RowVector>>,
}

/// A vector of a row, with what is cached beside it.
#[derive(Debug)]
pub(super) struct RowVector {
    pub(super) elements: Vec<f32>,
    pub(super) squared_norm: f64,
}

/// The vectors of one space: all rows of a block one after the other, zeros where a row has none.
#[derive(Debug, Clone)]
pub(super) struct Column {
    dimension: usize,
    elements: Vec<f32>,
    /// One entry per row; none where it has no vector.
    squared_norms: Vec<Option<f64>>,
}

impl Column {
    fn new(dimension: usize) -> Self {
        Self { dimension, elements: Vec::new(), squared_norms: Vec::new() }
    }

    /// All rows, tombstones included.
    pub(super) fn elements(&self) -> &[f32] {
        &self.elements
    }

    /// The squared length of a row's vector; none where it has no vector.
    pub(super) fn squared_norm(&self, slot: usize) -> Option<f64> {
        self.squared_norms.get(slot).copied().flatten()
    }

    /// A row's vector.
    pub(super) fn vector(&self, slot: usize) -> Option<&[f32]> {
        self.squared_norm(slot)?;
        let start = slot * self.dimension;
        self.elements.get(start..start + self.dimension)
    }

    /// Adds a row at the end of a block that takes `full` rows.
    fn push(&mut self, vector: Option<(&[f32], f64)>, full: usize) {
        let rows = self.squared_norms.len();
        if self.elements.capacity() < self.elements.len() + self.dimension {
            // Doubling would overshoot a full block by up to its own size.
            let full = full.max(rows + 1);
            let wanted = (rows * 2).clamp(FIRST_ROWS.min(full), full).max(rows + 1);
            self.elements.reserve_exact((wanted - rows) * self.dimension);
        }
        match vector {
            Some((elements, _)) => self.elements.extend_from_slice(elements),
            None => self.elements.resize(self.elements.len() + self.dimension, 0.0),
        }
        self.squared_norms.push(vector.map(|(_, squared_norm)| squared_norm));
        debug_assert_eq!(self.elements.len(), self.squared_norms.len() * self.dimension);
    }

    /// Overwrites a row.
    fn replace(&mut self, slot: usize, vector: Option<RowVector>) {
        if let Some(place) = self.squared_norms.get_mut(slot) {
            *place = vector.as_ref().map(|vector| vector.squared_norm);
        }
        let start = slot * self.dimension;
        if let (Some(place), Some(vector)) = (self.elements.get_mut(start..start + self.dimension), vector) {
            place.copy_from_slice(&vector.elements);
        }
    }
}

/// Up to [`Block::full_rows`] rows in insertion order; a removed row leaves a tombstone (no document) behind.
#[derive(Debug, Clone)]
pub(super) struct Block {
    columns: Vec<Column>,
    documents: Vec<Option<Arc<Document>>>,
    /// Ascending; see [`Self::sequences`].
    sequences: Vec<u64>,
    live: usize,
}

impl Block {
    pub(super) fn new(spaces: &Spaces) -> Self {
        Self {
            columns: spaces.dimensions().map(Column::new).collect(),
            documents: Vec::new(),
            sequences: Vec::new(),
            live: 0,
        }
    }

    /// How many rows a block takes, of so many elements each.
    pub(super) fn full_rows(width: usize) -> usize {
        (BLOCK_BYTES / (size_of::<f32>() * width.max(1))).clamp(*BLOCK_ROWS.start(), *BLOCK_ROWS.end())
    }

    /// Rows, tombstones included.
    pub(super) fn len(&self) -> usize {
        self.documents.len()
    }

    /// Rows without tombstones.
    pub(super) fn live(&self) -> usize {
        self.live
    }

    /// One entry per row; none for a tombstone.
    pub(super) fn documents(&self) -> &[Option<Arc<Document>>] {
        &self.documents
    }

    /// The vectors of one space; see [`Spaces`].
    pub(super) fn column(&self, column: usize) -> Option<&Column> {
        self.columns.get(column)
    }

    /// The numbers of the rows, tombstones included. They ascend, and a row keeps its own wherever it is moved.
    pub(super) fn sequences(&self) -> &[u64] {
        &self.sequences
    }

    pub(super) fn document(&self, slot: usize) -> Option<&Arc<Document>> {
        self.documents.get(slot)?.as_ref()
    }

    /// The vector of a row in one space; none where it has none.
    pub(super) fn vector(&self, column: usize, slot: usize) -> Option<&[f32]> {
        self.column(column)?.vector(slot)
    }

    /// Adds a row at the end.
    pub(super) fn push(&mut self, row: Row, sequence: u64) {
        debug_assert_eq!(row.vectors.len(), self.columns.len());
        debug_assert!(self.sequences.last().is_none_or(|last| *last < sequence), "numbers ascend");
        let full = self.full();
        for (column, vector) in self.columns.iter_mut().zip(&row.vectors) {
            column.push(vector.as_ref().map(|vector| (vector.elements.as_slice(), vector.squared_norm)), full);
        }
        self.documents.push(Some(row.document));
        self.sequences.push(sequence);
        self.live += 1;
    }

    /// Overwrites a live row.
    pub(super) fn replace(&mut self, slot: usize, row: Row) {
        debug_assert!(self.document(slot).is_some(), "only live rows are replaced");
        for (column, vector) in self.columns.iter_mut().zip(row.vectors) {
            column.replace(slot, vector);
        }
        if let Some(place) = self.documents.get_mut(slot) {
            *place = Some(row.document);
        }
    }

    /// Makes a row a tombstone.
    pub(super) fn remove(&mut self, slot: usize) {
        if self.documents.get_mut(slot).and_then(Option::take).is_some() {
            self.live -= 1;
        }
    }

    /// Adds the live rows of another block of the same collection at the end.
    pub(super) fn extend_from_live_rows_of(&mut self, other: &Self) {
        let full = self.full();
        for (slot, (document, sequence)) in other.documents.iter().zip(&other.sequences).enumerate() {
            let Some(document) = document else { continue };
            for (column, from) in self.columns.iter_mut().zip(&other.columns) {
                column.push(from.vector(slot).zip(from.squared_norm(slot)), full);
            }
            self.documents.push(Some(Arc::clone(document)));
            self.sequences.push(*sequence);
            self.live += 1;
        }
    }

    fn full(&self) -> usize {
        Self::full_rows(self.columns.iter().map(|column| column.dimension).sum())
    }
}
