//! A run of rows that is copied as one when a writer meets a reader.

use std::sync::Arc;

use toller_core::Document;

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
    pub(super) vector: Vec<f32>,
    pub(super) squared_norm: f64,
}

/// Up to [`Block::full_rows`] rows in insertion order; a removed row leaves a tombstone (no document) behind.
#[derive(Debug, Clone)]
pub(super) struct Block {
    dimension: usize,
    vectors: Vec<f32>,
    squared_norms: Vec<f64>,
    documents: Vec<Option<Arc<Document>>>,
    /// Ascending; see [`Self::sequences`].
    sequences: Vec<u64>,
    live: usize,
}

impl Block {
    pub(super) fn new(dimension: usize) -> Self {
        Self {
            dimension,
            vectors: Vec::new(),
            squared_norms: Vec::new(),
            documents: Vec::new(),
            sequences: Vec::new(),
            live: 0,
        }
    }

    /// How many rows a block of vectors of this dimension takes.
    pub(super) fn full_rows(dimension: usize) -> usize {
        (BLOCK_BYTES / (size_of::<f32>() * dimension.max(1))).clamp(*BLOCK_ROWS.start(), *BLOCK_ROWS.end())
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

    /// All rows, one after the other, tombstones included.
    pub(super) fn vectors(&self) -> &[f32] {
        &self.vectors
    }

    /// The numbers of the rows, tombstones included. They ascend, and a row keeps its own wherever it is moved.
    pub(super) fn sequences(&self) -> &[u64] {
        &self.sequences
    }

    /// One entry per row, tombstones included.
    pub(super) fn squared_norms(&self) -> &[f64] {
        &self.squared_norms
    }

    pub(super) fn document(&self, slot: usize) -> Option<&Arc<Document>> {
        self.documents.get(slot)?.as_ref()
    }

    pub(super) fn vector(&self, slot: usize) -> Option<&[f32]> {
        let start = slot * self.dimension;
        self.vectors.get(start..start + self.dimension)
    }

    /// Adds a row at the end.
    pub(super) fn push(&mut self, row: Row, sequence: u64) {
        debug_assert_eq!(row.vector.len(), self.dimension);
        debug_assert!(self.sequences.last().is_none_or(|last| *last < sequence), "numbers ascend");
        self.push_parts(row.document, &row.vector, row.squared_norm, sequence);
    }

    fn push_parts(&mut self, document: Arc<Document>, vector: &[f32], squared_norm: f64, sequence: u64) {
        if self.vectors.capacity() < self.vectors.len() + self.dimension {
            // Doubling would overshoot a full block by up to its own size.
            let full = Self::full_rows(self.dimension).max(self.len() + 1);
            let wanted = (self.len() * 2).clamp(FIRST_ROWS.min(full), full).max(self.len() + 1);
            self.vectors.reserve_exact((wanted - self.len()) * self.dimension);
        }
        self.vectors.extend_from_slice(vector);
        self.squared_norms.push(squared_norm);
        self.documents.push(Some(document));
        self.sequences.push(sequence);
        self.live += 1;
    }

    /// Overwrites a live row.
    pub(super) fn replace(&mut self, slot: usize, row: Row) {
        debug_assert!(self.document(slot).is_some(), "only live rows are replaced");
        let start = slot * self.dimension;
        if let Some(place) = self.vectors.get_mut(start..start + self.dimension) {
            place.copy_from_slice(&row.vector);
        }
        if let Some(place) = self.squared_norms.get_mut(slot) {
            *place = row.squared_norm;
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

    /// Adds the live rows of another block at the end.
    pub(super) fn extend_from_live_rows_of(&mut self, other: &Self) {
        for (slot, document) in other.documents.iter().enumerate() {
            if let Some(document) = document
                && let Some(vector) = other.vector(slot)
                && let Some(squared_norm) = other.squared_norms.get(slot)
                && let Some(sequence) = other.sequences.get(slot)
            {
                self.push_parts(Arc::clone(document), vector, *squared_norm, *sequence);
            }
        }
    }
}
