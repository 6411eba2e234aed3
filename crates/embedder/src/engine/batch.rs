//! What one forward pass computes.

use std::sync::Arc;

use super::class::{Class, Size};
use super::flight::Flight;
use super::job::Job;
use super::station::Station;
use crate::encoder::Sequence;

/// Some sequences that one request owns.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) owner: Arc<Job>,
    pub(super) flights: Vec<Arc<Flight>>,
}

/// Sequences of one encoder and one class, of one request or several.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) station: Arc<Station>,
    pub(super) class: Class,
    pub(super) pieces: Vec<Piece>,
    pub(super) tokens: usize,
}

impl Batch {
    /// The number of sequences.
    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.flights.len()).sum()
    }

    /// Who may interrupt it; none for a batch of small queries, which are all equally urgent.
    pub(super) fn interruption(&self) -> Option<Interruption> {
        match self.class {
            Class::Document => Some(Interruption::Queries),
            Class::Query if self.pieces.iter().any(|piece| piece.owner.size == Size::Large) => {
                Some(Interruption::SmallQueries)
            }
            Class::Query => None,
        }
    }
}

/// What may run in the middle of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Interruption {
    /// Every query, as long as documents get their share.
    Queries,
    /// Small requests of the class of queries, one pass at a time.
    SmallQueries,
}

/// The sequences of `pieces`, one after another.
pub(super) fn sequences(pieces: &[Piece]) -> Vec<Sequence<'_>> {
    pieces.iter().flat_map(|piece| &piece.flights).map(|flight| flight.sequence()).collect()
}
