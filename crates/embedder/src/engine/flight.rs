//! A distinct sequence that waits or runs, with everybody who wants its vector; and the table that finds it again.
//!
//! The same sequence is computed once, however many requests, or places in one request, ask for it while it waits or runs. The
//! request that came first owns it: it waits in that request's turn, and its tokens count there. When the owner goes, the
//! next request that wants it inherits it.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;

use parking_lot::Mutex;

use super::class::{Class, Size};
use super::errand::Prepared;
use super::job::Job;
use super::station::Station;
use crate::encoder::Sequence;

/// A sequence that waits or runs.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) station: Arc<Station>,
    pub(super) class: Class,
    /// The size of its first owner, under which its tokens count.
    pub(super) size: Size,
    sequence: Prepared,
    hash: u64,
    /// None once it has landed.
    passengers: Mutex<Option<Vec<Passenger>>>,
}

/// A place in a request that gets the vector.
#[derive(Debug)]
pub(super) struct Passenger {
    pub(super) job: Arc<Job>,
    pub(super) index: usize,
}

impl Passenger {
    /// Does its request still wait? One that nobody waits for is told so.
    fn is_waiting(&self, during: &'static str) -> bool {
        if let Err(gone) = self.job.check(during) {
            self.job.fail(gone);
        }
        !self.job.is_answered()
    }
}

impl Flight {
    fn new(owner: Passenger, sequence: Prepared, hash: u64) -> Self {
        Self {
            station: Arc::clone(&owner.job.station),
            class: owner.job.class,
            size: owner.job.size,
            sequence,
            hash,
            passengers: Mutex::new(Some(vec![owner])),
        }
    }

    /// Number of tokens.
    pub(super) fn tokens(&self) -> usize {
        self.sequence.ids.len()
    }

    /// The sequence.
    pub(super) fn sequence(&self) -> Sequence<'_> {
        self.sequence.sequence()
    }

    /// Gives `passenger` the vector too; gives it back when that has landed.
    fn board(&self, passenger: Passenger) -> Option<Passenger> {
        match self.passengers.lock().as_mut() {
            Some(passengers) => {
                passengers.push(passenger);
                None
            }
            None => Some(passenger),
        }
    }

    /// Does anybody still want the vector?
    pub(super) fn is_wanted(&self, during: &'static str) -> bool {
        self.passengers.lock().as_ref().is_some_and(|all| all.iter().any(|one| one.is_waiting(during)))
    }

    /// The first request that still wants the vector; forgets those that do not.
    pub(super) fn heir(&self, during: &'static str) -> Option<Arc<Job>> {
        let mut passengers = self.passengers.lock();
        let passengers = passengers.as_mut()?;
        passengers.retain(|one| one.is_waiting(during));
        passengers.first().map(|one| Arc::clone(&one.job))
    }

    /// Everybody who wants the vector; nobody can board any more.
    pub(super) fn land(&self) -> Vec<Passenger> {
        self.passengers.lock().take().unwrap_or_default()
    }
}

/// Finds flights by their sequences. One lock guards it and the queue.
#[derive(Debug, Default)]
pub(super) struct Flights {
    by_hash: HashMap<u64, Arc<Flight>>,
}

/// The random keys of the hashes, so that nobody can make sequences that collide.
#[derive(Debug, Default)]
pub(super) struct FlightHasher(RandomState);

impl FlightHasher {
    /// The hash of a sequence of `job`. A class is part of it: a query that joined a document would wait in its turn.
    pub(super) fn hash(&self, job: &Job, sequence: &Prepared) -> u64 {
        let station = Arc::as_ptr(&job.station) as usize;
        self.0.hash_one((station, job.class, sequence.second, &sequence.ids))
    }
}

impl Flights {
    /// Would a sequence of `job` with this `hash` join a flight?
    pub(super) fn contains(&self, job: &Job, sequence: &Prepared, hash: u64) -> bool {
        self.find(job, sequence, hash).is_some()
    }

    fn find(&self, job: &Job, sequence: &Prepared, hash: u64) -> Option<&Arc<Flight>> {
        let flight = self.by_hash.get(&hash)?;
        // Another sequence with the same hash does not join, and is computed by itself.
        let is_same = Arc::ptr_eq(&flight.station, &job.station)
            && flight.class == job.class
            && flight.sequence.second == sequence.second
            && flight.sequence.ids == sequence.ids;
        is_same.then_some(flight)
    }

    /// Puts the place at `index` of `job` on a flight that is there, or makes one for it, which `job` owns.
    pub(super) fn book(&mut self, job: &Arc<Job>, index: usize, sequence: Prepared, hash: u64) -> Option<Arc<Flight>> {
        let passenger = Passenger { job: Arc::clone(job), index };
        let passenger = match self.find(job, &sequence, hash) {
            Some(flight) => flight.board(passenger)?,
            None => passenger,
        };
        let flight = Arc::new(Flight::new(passenger, sequence, hash));
        self.by_hash.insert(hash, Arc::clone(&flight));
        Some(flight)
    }

    /// A flight that nobody finds: what a probe runs is a pass of its own.
    pub(super) fn private(job: &Arc<Job>, sequence: Prepared) -> Arc<Flight> {
        Arc::new(Flight::new(Passenger { job: Arc::clone(job), index: 0 }, sequence, 0))
    }

    /// Nobody can find `flight` any more.
    pub(super) fn forget(&mut self, flight: &Arc<Flight>) {
        if self.by_hash.get(&flight.hash).is_some_and(|found| Arc::ptr_eq(found, flight)) {
            self.by_hash.remove(&flight.hash);
        }
    }

    /// Nobody can find any flight any more.
    pub(super) fn clear(&mut self) {
        self.by_hash.clear();
    }

    /// Places on all flights that can be found.
    #[cfg(test)]
    pub(super) fn passengers(&self) -> usize {
        self.by_hash.values().map(|flight| flight.passengers.lock().as_ref().map_or(0, Vec::len)).sum()
    }

    /// Flights that can be found.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_hash.len()
    }
}
