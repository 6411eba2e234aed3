//! The vector spaces of a collection, in the order of the columns that its blocks keep their vectors in.

use toller_core::collection::VectorParams;
use toller_core::error::{Error, Result};
use toller_core::metric::squared_norm;
use toller_core::vector_space::no_such_space;
use toller_core::{Metric, NamedVectors, Record, Vector, VectorName, VectorSpace};

use super::block::{Block, Row, RowVector};

/// The column of the main space.
const MAIN: usize = 0;

/// The main space, and the named ones by name.
#[derive(Debug)]
pub(super) struct Spaces {
    params: VectorParams,
    main: VectorSpace,
}

impl Spaces {
    pub(super) fn new(params: &VectorParams) -> Self {
        let main = VectorSpace { dimension: params.dimension, metric: params.metric };
        Self { params: params.clone(), main }
    }

    /// The dimension of each column.
    pub(super) fn dimensions(&self) -> impl Iterator<Item = usize> + '_ {
        let named = self.params.named.values().map(|space| space.dimension);
        std::iter::once(self.main.dimension).chain(named).map(|dimension| dimension as usize)
    }

    /// Elements of a row with a vector in every space.
    pub(super) fn width(&self) -> usize {
        self.dimensions().sum()
    }

    /// The column of a space, with its metric.
    ///
    /// # Errors
    /// `InvalidArgument` for `vector_name` when there is no such space.
    pub(super) fn column(&self, using: Option<&VectorName>) -> Result<(usize, Metric)> {
        let Some(name) = using else { return Ok((MAIN, self.main.metric)) };
        let mut named = self.params.named.iter().zip(MAIN + 1..);
        let found = named.find(|((known, _), _)| *known == name).map(|((_, space), column)| (column, space.metric));
        found.ok_or_else(|| Error::invalid("vector_name", no_such_space(name, &self.params.named)))
    }

    /// A checked record as a row. O(d).
    pub(super) fn row(&self, record: Record) -> Row {
        let Record { document, vector, mut named } = record;
        let main = std::iter::once(Some(vector));
        let vectors = main.chain(self.params.named.keys().map(|name| named.remove(name)));
        let with_norm =
            |vector: Vector| RowVector { squared_norm: squared_norm(vector.as_slice()), elements: vector.into_vec() };
        Row { document, vectors: vectors.map(|vector| vector.map(with_norm)).collect() }
    }

    /// A copy of one row of a block, none for a tombstone. O(d).
    ///
    /// # Errors
    /// `Internal` when a vector cannot be what was written.
    pub(super) fn record_of(&self, block: &Block, slot: usize) -> Result<Option<Record>> {
        let (Some(document), Some(main)) = (block.document(slot), block.vector(MAIN, slot)) else { return Ok(None) };
        let vector = |elements: &[f32], metric| {
            Vector::new(elements.to_vec(), metric)
                .map_err(|fault| Error::Internal(format!("the stored vector of document \"{}\" {fault}", document.id)))
        };
        let mut named = NamedVectors::new();
        for ((name, space), column) in self.params.named.iter().zip(MAIN + 1..) {
            if let Some(elements) = block.vector(column, slot) {
                named.insert(name.clone(), vector(elements, space.metric)?);
            }
        }
        Ok(Some(Record { document: document.clone(), vector: vector(main, self.main.metric)?, named }))
    }

    /// The names of the named spaces with their columns.
    pub(super) fn named_columns(&self) -> impl Iterator<Item = (&VectorName, usize)> + '_ {
        self.params.named.keys().zip(MAIN + 1..)
    }

    /// The column of the main space.
    pub(super) fn main_column(&self) -> usize {
        MAIN
    }
}
