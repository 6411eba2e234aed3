//! The one lock of the engine: what waits, what is in flight, and whose turn it is.
//!
//! Queries go first, within the bounds of the [`super::share`]; how requests of a class take turns is the
//! [`super::lane`]'s business, who may enter the [`super::admission`]'s.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use toller_core::Error;

use super::admission::{Refusal, Room};
use super::batch::Interruption;
use super::class::Class;
use super::errand::{Errand, Prepared};
use super::flight::{Flight, FlightHasher, Flights};
use super::job::Job;
use super::lane::{Lane, Work};
use super::share::Share;
use super::station::Station;

const LEFT: &str = "while the texts waited to be embedded";

/// What waits for the workers.
#[derive(Debug)]
pub(super) struct Queue {
    room: Room,
    workers: usize,
    /// The configured bound of a pass.
    batch_tokens: usize,
    closed: AtomicBool,
    hasher: FlightHasher,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queries: Lane,
    documents: Lane,
    share: Share,
    flights: Flights,
    /// Every encoder that was put on the engine, as long as its model lives.
    stations: Vec<Weak<Station>>,
    /// Passes of documents that run or are interrupted.
    running_documents: usize,
    /// Workers that wait for work.
    idle: usize,
}

/// A request's place in the queue: what waits of it leaves when this is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    queue: Arc<Queue>,
    job: Arc<Job>,
}

impl Queue {
    /// An empty queue for `capacity` tokens and so many workers, with passes of at most `batch_tokens` tokens.
    pub(super) fn new(capacity: usize, workers: usize, batch_tokens: usize) -> Self {
        Self {
            room: Room { capacity },
            workers,
            batch_tokens,
            closed: AtomicBool::new(false),
            hasher: FlightHasher::default(),
            state: Mutex::default(),
            arrived: Condvar::new(),
        }
    }

    /// Makes `station` known.
    pub(super) fn register(&self, station: &Arc<Station>) {
        let mut state = self.state.lock();
        state.stations.retain(|known| known.strong_count() > 0);
        state.stations.push(Arc::downgrade(station));
    }

    /// Every encoder whose model lives.
    pub(super) fn stations(&self) -> Vec<Arc<Station>> {
        self.state.lock().stations.iter().filter_map(Weak::upgrade).collect()
    }

    /// Lets a request in, if there is room and time for it, to be tokenised first.
    ///
    /// # Errors
    /// `ResourceExhausted` when there is not, `Unavailable` when the queue is closed.
    pub(super) fn submit(self: &Arc<Self>, errand: Errand) -> Result<Ticket, Error> {
        let job = Arc::clone(&errand.job);
        let mut state = self.state.lock();
        if self.is_closed() {
            return Err(stopping());
        }
        if let Err(refusal) = self.admit(&state, &job, errand.reserved) {
            drop(state);
            return Err(self.refuse(&job, &refusal));
        }
        job.reserve(errand.reserved);
        let lane = state.lane(job.class);
        lane.count(&job.station, job.class, job.size, errand.reserved);
        lane.push_errand(errand);
        drop(state);
        self.arrived.notify_one();
        Ok(Ticket { queue: Arc::clone(self), job })
    }

    /// Lets a request of one sequence in before everything else, whether there is room or not, and on its own: it joins
    /// nothing, and nothing joins it.
    pub(super) fn submit_first(self: &Arc<Self>, job: Arc<Job>, sequence: Prepared) -> Ticket {
        job.await_sequences(std::slice::from_ref(&sequence));
        let flight = Flights::private(&job, sequence);
        let mut state = self.state.lock();
        if self.is_closed() {
            job.fail(stopping());
        } else {
            let lane = state.lane(job.class);
            lane.count(&job.station, job.class, flight.size, flight.tokens());
            lane.push(&job, vec![flight], true);
        }
        drop(state);
        self.arrived.notify_one();
        Ticket { queue: Arc::clone(self), job }
    }

    fn admit(&self, state: &State, job: &Job, tokens: usize) -> Result<(), Refusal> {
        self.room.check(job.class, tokens, state.queries.tokens(), state.documents.tokens())?;
        if job.class == Class::Document
            && state.documents.tokens() > 0
            && let Some(remaining) = job.remaining()
            && let Some(own) = job.station.duration(tokens)
        {
            // What is not measured yet counts for nothing: the estimate is rather too short than too long.
            let stations = state.stations.iter().filter_map(Weak::upgrade);
            let ahead: Duration = stations.filter_map(|station| station.documents_ahead(job.size)).sum();
            let workers = u32::try_from(self.workers).unwrap_or(u32::MAX).max(1);
            Refusal::if_late((ahead + own) / workers, remaining)?;
        }
        Ok(())
    }

    fn refuse(&self, job: &Job, refusal: &Refusal) -> Error {
        job.station.metrics.record_refusal(job.class.role(), refusal.reason());
        self.room.explain(refusal, job.station.speed.get().map(|speed| speed * self.workers as f64))
    }

    /// Takes back an errand after a step that was not its last.
    pub(super) fn resume(&self, errand: Errand) {
        let mut state = self.state.lock();
        if self.is_closed() {
            errand.job.fail(stopping());
        }
        // Also when its ticket was dropped in the meantime.
        if errand.job.is_answered() {
            state.give_back(&errand.job);
        } else {
            state.lane(errand.job.class).push_errand(errand);
        }
    }

    /// Takes back the room of an errand whose request has ended.
    pub(super) fn abandon(&self, errand: &Errand) {
        self.state.lock().give_back(&errand.job);
    }

    /// Lets the sequences of a tokenised request wait, those that are in flight already on those flights. Room for what was
    /// estimated is there; where it is too little, the request may be refused now.
    pub(super) fn enter(&self, errand: &Errand, sequences: Vec<Prepared>) {
        let job = &errand.job;
        job.await_sequences(&sequences);
        let sequences: Vec<(u64, Prepared)> =
            sequences.into_iter().map(|one| (self.hasher.hash(job, &one), one)).collect();
        let all = sequences.len();

        let mut state = self.state.lock();
        state.give_back(job);
        if self.is_closed() {
            job.fail(stopping());
        }
        // Also when its ticket was dropped in the meantime.
        if job.is_answered() {
            return;
        }
        let own = sequences.iter().filter(|(hash, one)| !state.flights.contains(job, one, *hash));
        let needed: usize = own.map(|(_, one)| one.ids.len()).sum();
        if needed > errand.reserved
            && let Err(refusal) = self.room.check(job.class, needed, state.queries.tokens(), state.documents.tokens())
        {
            drop(state);
            job.fail(self.refuse(job, &refusal));
            return;
        }
        let flights: Vec<Arc<Flight>> = sequences
            .into_iter()
            .enumerate()
            .filter_map(|(index, (hash, one))| state.flights.book(job, index, one, hash))
            .collect();
        job.station.metrics.add_joined(all - flights.len());
        let lane = state.lane(job.class);
        for flight in &flights {
            lane.count(&flight.station, flight.class, flight.size, flight.tokens());
        }
        lane.push(job, flights, false);
        drop(state);
        self.arrived.notify_one();
    }

    /// What to do next; waits for something, none once the queue is closed.
    pub(super) fn take(&self) -> Option<Work> {
        let mut state = self.state.lock();
        loop {
            if self.is_closed() {
                return None;
            }
            if let Some(work) = state.next(self.batch_tokens) {
                if state.queries.has_work() || state.documents.has_work() {
                    self.arrived.notify_one();
                }
                return Some(work);
            }
            state.idle += 1;
            self.arrived.wait(&mut state);
            state.idle -= 1;
        }
    }

    /// What to do in the middle of a pass, now. An idle worker is left to do it.
    pub(super) fn take_within(&self, interruption: Interruption) -> Option<Work> {
        let mut state = self.state.lock();
        if self.is_closed() || state.idle > 0 || !state.queries.has_work() {
            return None;
        }
        match interruption {
            Interruption::Queries if state.share.is_documents_turn() => None,
            Interruption::Queries => state.next_of(Class::Query, self.batch_tokens),
            Interruption::SmallQueries => {
                state.sweep(Class::Query);
                state.queries.next_small(self.batch_tokens)
            }
        }
    }

    /// A worker has computed for `class` for so long.
    pub(super) fn computed(&self, class: Class, elapsed: Duration) {
        let mut state = self.state.lock();
        match class {
            Class::Document => state.share.documents_computed(elapsed),
            Class::Query => {
                let documents_wait = state.running_documents > 0 || state.documents.has_work();
                state.share.queries_computed(elapsed, documents_wait);
            }
        }
    }

    /// A pass that was taken has ended, in whatever way.
    pub(super) fn ended(&self, class: Class) {
        if class == Class::Document {
            let mut state = self.state.lock();
            state.running_documents = state.running_documents.saturating_sub(1);
        }
    }

    /// These have landed: nobody can join them any more.
    pub(super) fn landed<'a>(&self, flights: impl IntoIterator<Item = &'a Arc<Flight>>) {
        let mut state = self.state.lock();
        flights.into_iter().for_each(|flight| state.flights.forget(flight));
    }

    /// Their owner ended without them: whoever else wants them inherits them.
    pub(super) fn give_up(&self, flights: Vec<Arc<Flight>>) {
        let mut state = self.state.lock();
        for flight in &flights {
            state.lane(flight.class).count(&flight.station, flight.class, flight.size, flight.tokens());
        }
        state.bequeath(flights);
        if self.is_closed() {
            state.fail_all();
        }
        drop(state);
        self.arrived.notify_one();
    }

    /// Fails everything that waits, and everything that comes.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        self.closed.store(true, Ordering::Release);
        state.fail_all();
        drop(state);
        self.arrived.notify_all();
    }

    /// Was the queue closed?
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Tokens that wait or are reserved.
    pub(super) fn waiting_tokens(&self) -> usize {
        let state = self.state.lock();
        state.queries.tokens() + state.documents.tokens()
    }

    /// Requests that wait with their tokens, not with a mere reservation.
    #[cfg(test)]
    pub(super) fn waiting_jobs(&self) -> usize {
        let state = self.state.lock();
        state.queries.len() + state.documents.len()
    }

    /// Places of requests on flights that another request owns, or on a second place of one's own.
    #[cfg(test)]
    pub(super) fn joined_jobs(&self) -> usize {
        let state = self.state.lock();
        state.flights.passengers() - state.flights.len()
    }

    /// Sequences that can be joined.
    #[cfg(test)]
    pub(super) fn flights(&self) -> usize {
        self.state.lock().flights.len()
    }
}

impl State {
    fn lane(&mut self, class: Class) -> &mut Lane {
        match class {
            Class::Query => &mut self.queries,
            Class::Document => &mut self.documents,
        }
    }

    fn next(&mut self, batch_tokens: usize) -> Option<Work> {
        let order = if self.share.is_documents_turn() {
            [Class::Document, Class::Query]
        } else {
            [Class::Query, Class::Document]
        };
        order.into_iter().find_map(|class| self.next_of(class, batch_tokens))
    }

    fn next_of(&mut self, class: Class, batch_tokens: usize) -> Option<Work> {
        self.sweep(class);
        let work = self.lane(class).next(batch_tokens)?;
        if class == Class::Document && matches!(work, Work::Pass(_)) {
            self.running_documents += 1;
        }
        Some(work)
    }

    fn sweep(&mut self, class: Class) {
        let left = self.lane(class).sweep();
        self.bequeath(left);
    }

    /// Gives back the room that is reserved for a request, unless that was done.
    fn give_back(&mut self, job: &Job) {
        let reserved = job.take_reservation();
        self.lane(job.class).discount(&job.station, job.class, job.size, reserved);
    }

    /// Gives flights that wait, and have lost their owner, to those who still want them.
    fn bequeath(&mut self, flights: Vec<Arc<Flight>>) {
        let mut heirs: Vec<(Arc<Job>, Vec<Arc<Flight>>)> = Vec::new();
        for flight in flights {
            match flight.heir(LEFT) {
                Some(heir) => match heirs.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &heir)) {
                    Some((_, inherited)) => inherited.push(flight),
                    None => heirs.push((heir, vec![flight])),
                },
                None => {
                    flight.land();
                    self.flights.forget(&flight);
                    let lane = self.lane(flight.class);
                    lane.discount(&flight.station, flight.class, flight.size, flight.tokens());
                }
            }
        }
        for (heir, inherited) in heirs {
            self.lane(heir.class).inherit(&heir, inherited);
        }
    }

    fn fail_all(&mut self) {
        for class in [Class::Query, Class::Document] {
            let (errands, flights) = self.lane(class).drain();
            for errand in errands {
                errand.job.fail(stopping());
                self.give_back(&errand.job);
            }
            for flight in flights {
                flight.land().into_iter().for_each(|passenger| passenger.job.fail(stopping()));
                self.lane(class).discount(&flight.station, flight.class, flight.size, flight.tokens());
            }
        }
        self.flights.clear();
    }

    fn leave(&mut self, job: &Arc<Job>) {
        self.lane(job.class).remove_errand(job);
        // Also while a worker has the errand in hand: nobody is to wait, or be refused, for a request that is over.
        self.give_back(job);
        let left = self.lane(job.class).remove(job);
        self.bequeath(left);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        // An answered request owns nothing that waits, unless it failed.
        self.job.fail(Error::Cancelled);
        self.queue.state.lock().leave(&self.job);
    }
}

/// What a request gets that comes while the engine stops.
pub(super) fn stopping() -> Error {
    Error::Unavailable("the embedder is stopping".to_owned())
}

#[cfg(test)]
mod tests;
