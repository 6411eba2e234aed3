//! The requests of one class that wait, and how they take turns.
//!
//! - **Tokenising** of small requests goes first, since it takes no time to speak of and lets them share a pass; that of
//!   large ones takes turns with passes, in small steps and request by request.
//! - **Two queues**, for small and for large requests, first come first served, which alternate pass by pass: a small request
//!   never waits for the whole of a large one. In a queue, too, a request that got a part of a pass goes to the end.
//! - **Length.** The oldest request always gets the first place of a pass, for its longest sequence. The rest is filled with
//!   the sequences nearest in length, of the first [`LOOK_AHEAD`] requests. Passes are packed, so that short sequences
//!   beside long ones cost no padding; but attention runs sequence by sequence and is quadratic in their length, so that
//!   equal ones keep all threads busy to the end, and make the measured speed say how long the next pass takes.

use std::collections::VecDeque;
use std::sync::Arc;

use super::batch::{Batch, Piece};
use super::class::{Class, Size};
use super::errand::Errand;
use super::flight::Flight;
use super::job::Job;
use super::station::Station;

/// Requests of a queue among which a pass finds its sequences.
const LOOK_AHEAD: usize = 64;

const WAITING: &str = "while the texts waited to be embedded";

/// What a worker does next.
#[derive(Debug)]
pub(super) enum Work {
    /// A step of tokenising.
    Tokenise(Errand),
    /// A forward pass.
    Pass(Batch),
}

/// The waiting requests of a class.
#[derive(Debug, Default)]
pub(super) struct Lane {
    small_errands: VecDeque<Errand>,
    large_errands: VecDeque<Errand>,
    is_errands_turn: bool,
    small: VecDeque<Waiting>,
    large: VecDeque<Waiting>,
    is_larges_turn: bool,
    /// Tokens that wait or are reserved.
    tokens: usize,
}

/// What a request owns of what waits; never nothing.
#[derive(Debug)]
struct Waiting {
    owner: Arc<Job>,
    /// The longest last.
    flights: Vec<Arc<Flight>>,
}

impl Waiting {
    fn new(owner: Arc<Job>, flights: Vec<Arc<Flight>>) -> Self {
        let mut waiting = Self { owner, flights };
        waiting.sort();
        waiting
    }

    /// Those of one length stay in the order of the request.
    fn sort(&mut self) {
        self.flights.reverse();
        self.flights.sort_by_key(|flight| flight.tokens());
    }

    fn longest(&self) -> usize {
        self.flights.last().map_or(0, |flight| flight.tokens())
    }
}

impl Lane {
    /// Tokens that wait or are reserved.
    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// Is there anything to do?
    pub(super) fn has_work(&self) -> bool {
        !(self.small_errands.is_empty()
            && self.large_errands.is_empty()
            && self.small.is_empty()
            && self.large.is_empty())
    }

    /// `tokens` more wait or are reserved.
    pub(super) fn count(&mut self, station: &Station, class: Class, size: Size, tokens: usize) {
        self.tokens += tokens;
        station.add_backlog(class, size, tokens);
    }

    /// `tokens` fewer wait or are reserved.
    pub(super) fn discount(&mut self, station: &Station, class: Class, size: Size, tokens: usize) {
        debug_assert!(self.tokens >= tokens, "more was taken than waited");
        self.tokens = self.tokens.saturating_sub(tokens);
        station.take_backlog(class, size, tokens);
    }

    /// Puts an errand, or what is left of it, at the end.
    pub(super) fn push_errand(&mut self, errand: Errand) {
        match errand.job.size {
            Size::Small => self.small_errands.push_back(errand),
            Size::Large => self.large_errands.push_back(errand),
        }
    }

    /// Puts the sequences of a request at the end of its queue, or with `first` before everything else.
    pub(super) fn push(&mut self, owner: &Arc<Job>, flights: Vec<Arc<Flight>>, first: bool) {
        if flights.is_empty() {
            return;
        }
        let waiting = Waiting::new(Arc::clone(owner), flights);
        match owner.size {
            Size::Small if first => {
                self.small.push_front(waiting);
                self.is_larges_turn = false;
            }
            Size::Small => self.small.push_back(waiting),
            Size::Large => self.large.push_back(waiting),
        }
    }

    /// Gives `owner`, who inherits them, sequences that waited or ran already: so they do not go to the end.
    pub(super) fn inherit(&mut self, owner: &Arc<Job>, mut flights: Vec<Arc<Flight>>) {
        let queue = match owner.size {
            Size::Small => &mut self.small,
            Size::Large => &mut self.large,
        };
        match queue.iter_mut().find(|waiting| Arc::ptr_eq(&waiting.owner, owner)) {
            Some(waiting) => {
                waiting.flights.append(&mut flights);
                waiting.sort();
            }
            None => queue.push_front(Waiting::new(Arc::clone(owner), flights)),
        }
    }

    /// Takes out an errand that is not being worked on.
    pub(super) fn remove_errand(&mut self, job: &Arc<Job>) -> Option<Errand> {
        let errands = match job.size {
            Size::Small => &mut self.small_errands,
            Size::Large => &mut self.large_errands,
        };
        let place = errands.iter().position(|errand| Arc::ptr_eq(&errand.job, job))?;
        errands.remove(place)
    }

    /// Takes out what `owner` owns and does not run yet.
    pub(super) fn remove(&mut self, owner: &Arc<Job>) -> Vec<Arc<Flight>> {
        let queue = match owner.size {
            Size::Small => &mut self.small,
            Size::Large => &mut self.large,
        };
        let place = queue.iter().position(|waiting| Arc::ptr_eq(&waiting.owner, owner));
        place.and_then(|place| queue.remove(place)).map(|waiting| waiting.flights).unwrap_or_default()
    }

    /// Everything, which leaves the lane empty but for what is being worked on.
    pub(super) fn drain(&mut self) -> (Vec<Errand>, Vec<Arc<Flight>>) {
        let errands = self.small_errands.drain(..).chain(self.large_errands.drain(..)).collect();
        let waiting = self.small.drain(..).chain(self.large.drain(..));
        (errands, waiting.flat_map(|waiting| waiting.flights).collect())
    }

    /// Takes out the sequences of requests that nobody waits for any more, among those that the next pass may take.
    pub(super) fn sweep(&mut self) -> Vec<Arc<Flight>> {
        let mut left = Vec::new();
        for queue in [&mut self.small, &mut self.large] {
            let mut place = 0;
            while place < LOOK_AHEAD
                && let Some(waiting) = queue.get(place)
            {
                if let Err(gone) = waiting.owner.check(WAITING) {
                    waiting.owner.fail(gone);
                }
                if !waiting.owner.is_answered() {
                    place += 1;
                } else if let Some(waiting) = queue.remove(place) {
                    left.extend(waiting.flights);
                }
            }
        }
        left
    }

    /// What to do next, with passes of at most `most_tokens` tokens (a sequence alone may have more).
    pub(super) fn next(&mut self, most_tokens: usize) -> Option<Work> {
        if let Some(errand) = self.small_errands.pop_front() {
            return Some(Work::Tokenise(errand));
        }
        if self.is_errands_turn
            && let Some(errand) = self.large_errands.pop_front()
        {
            self.is_errands_turn = false;
            return Some(Work::Tokenise(errand));
        }
        self.is_errands_turn = true;
        let is_large_first = !self.large.is_empty() && (self.is_larges_turn || self.small.is_empty());
        let (first, second) =
            if is_large_first { (&mut self.large, &mut self.small) } else { (&mut self.small, &mut self.large) };
        let mut filling = Filling::new(most_tokens);
        filling.fill(first);
        // A small query does not wait for sequences of a large one to be computed beside it.
        if filling.batch.as_ref().is_none_or(|batch| batch.class == Class::Document) {
            filling.fill(second);
        }
        self.is_larges_turn = !is_large_first;
        match self.hand_out(filling) {
            Some(batch) => Some(Work::Pass(batch)),
            None => self.large_errands.pop_front().map(Work::Tokenise),
        }
    }

    /// As [`Lane::next`], for small requests alone.
    pub(super) fn next_small(&mut self, most_tokens: usize) -> Option<Work> {
        if let Some(errand) = self.small_errands.pop_front() {
            return Some(Work::Tokenise(errand));
        }
        let mut filling = Filling::new(most_tokens);
        filling.fill(&mut self.small);
        self.hand_out(filling).map(Work::Pass)
    }

    fn hand_out(&mut self, filling: Filling) -> Option<Batch> {
        let batch = filling.batch?;
        for flight in batch.pieces.iter().flat_map(|piece| &piece.flights) {
            self.discount(&flight.station, flight.class, flight.size, flight.tokens());
        }
        Some(batch)
    }

    /// Requests that wait with sequences.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.small.len() + self.large.len()
    }
}

/// A batch that is being filled.
struct Filling {
    most_tokens: usize,
    batch: Option<Batch>,
    /// Of the pass, once its encoder is known.
    budget: usize,
    /// Length of the first sequence.
    anchor: usize,
}

impl Filling {
    fn new(most_tokens: usize) -> Self {
        Self { most_tokens, batch: None, budget: 0, anchor: 0 }
    }

    /// Takes what fits from `queue`, and puts those who gave something to its end.
    fn fill(&mut self, queue: &mut VecDeque<Waiting>) {
        while let Some(place) = self.best(queue)
            && let Some(waiting) = queue.get_mut(place)
            && let Some(flight) = waiting.flights.pop()
        {
            self.take(&waiting.owner, flight);
        }
        let Some(batch) = &self.batch else { return };
        let gave = |waiting: &Waiting| batch.pieces.iter().any(|piece| Arc::ptr_eq(&piece.owner, &waiting.owner));
        let window = queue.drain(..queue.len().min(LOOK_AHEAD));
        let (gave, kept): (Vec<Waiting>, Vec<Waiting>) = window.partition(gave);
        kept.into_iter().rev().for_each(|waiting| queue.push_front(waiting));
        queue.extend(gave.into_iter().filter(|waiting| !waiting.flights.is_empty()));
    }

    /// The place of the request whose longest sequence comes next.
    fn best(&self, queue: &VecDeque<Waiting>) -> Option<usize> {
        let Some(batch) = &self.batch else { return (!queue.is_empty()).then_some(0) };
        let fits = |waiting: &Waiting| {
            !waiting.flights.is_empty()
                && Arc::ptr_eq(&waiting.owner.station, &batch.station)
                && batch.tokens + waiting.longest() <= self.budget
        };
        let near = queue.iter().take(LOOK_AHEAD).enumerate().filter(|(_, waiting)| fits(waiting));
        near.min_by_key(|(_, waiting)| waiting.longest().abs_diff(self.anchor)).map(|(place, _)| place)
    }

    fn take(&mut self, owner: &Arc<Job>, flight: Arc<Flight>) {
        let tokens = flight.tokens();
        let batch = self.batch.get_or_insert_with(|| {
            self.budget = owner.station.speed.pass_tokens(self.most_tokens);
            self.anchor = tokens;
            Batch { station: Arc::clone(&owner.station), class: owner.class, pieces: Vec::new(), tokens: 0 }
        });
        batch.tokens += tokens;
        match batch.pieces.iter_mut().find(|piece| Arc::ptr_eq(&piece.owner, owner)) {
            Some(piece) => piece.flights.push(flight),
            None => batch.pieces.push(Piece { owner: Arc::clone(owner), flights: vec![flight] }),
        }
    }
}
