//! The queue in front of the workers: bounded in tokens, queries before documents, documents never starved.
//!
//! - **Bound.** Documents may fill all but an eighth of the queue, queries whatever is left, so that a large import leaves
//!   room for queries. A request that alone is larger than its part is accepted when nothing of its class waits, and then
//!   handed out batch by batch like any other.
//! - **Order.** Queries go first, but after [`QUERY_BATCHES_IN_A_ROW`] batches of queries waiting documents get one. Within
//!   a class, requests take turns batch by batch, so that a small one never waits for the whole of a large one.
//! - **Batches.** A batch is filled up to the token budget from requests of one class.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex};
use toller_core::Error;

use super::class::Class;
use super::job::Job;
use super::station::Station;
use crate::encoder::Sequence;

/// Batches of queries before waiting documents get one: documents keep a fifth of the passes.
pub(super) const QUERY_BATCHES_IN_A_ROW: u32 = 4;
/// The part of the queue that documents leave to queries is one of this many.
pub(super) const QUERY_PART: usize = 8;

const WAITING: &str = "while the texts waited to be embedded";

/// Some sequences of one job.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    pub(super) job: Arc<Job>,
    /// Places in the job's order.
    pub(super) places: Range<usize>,
}

impl Piece {
    /// The sequences.
    pub(super) fn sequences(&self) -> impl Iterator<Item = Sequence<'_>> {
        self.places.clone().filter_map(|place| self.job.sequence(place))
    }
}

/// What one forward pass computes: pieces of jobs of one class.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) pieces: Vec<Piece>,
    pub(super) tokens: usize,
}

impl Batch {
    /// What computes it.
    pub(super) fn station(&self) -> Option<&Arc<Station>> {
        self.pieces.first().map(|piece| &piece.job.station)
    }
}

/// The queue is full.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Full {
    /// Tokens that wait in all.
    pub(super) waiting: usize,
}

#[derive(Debug)]
pub(super) struct Queue {
    capacity: usize,
    closed: AtomicBool,
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queries: Lane,
    documents: Lane,
    query_batches_in_a_row: u32,
}

#[derive(Debug, Default)]
struct Lane {
    jobs: VecDeque<Waiting>,
    /// Tokens that wait or are reserved.
    tokens: usize,
}

#[derive(Debug)]
struct Waiting {
    job: Arc<Job>,
    next: usize,
}

/// Room in the queue for a request that is still being tokenised; given back when dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    queue: Arc<Queue>,
    class: Class,
    tokens: usize,
}

/// A job in the queue; what is left of it leaves the queue when this is dropped.
#[derive(Debug)]
pub(super) struct Ticket {
    queue: Arc<Queue>,
    job: Arc<Job>,
}

impl Queue {
    /// An empty queue for `capacity` tokens.
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, closed: AtomicBool::new(false), state: Mutex::default(), arrived: Condvar::new() }
    }

    /// Reserves room for about `tokens` tokens.
    pub(super) fn reserve(self: &Arc<Self>, class: Class, tokens: usize) -> Result<Reservation, Full> {
        let mut state = self.state.lock();
        state.admit(self.capacity, class, tokens)?;
        state.lane(class).tokens += tokens;
        Ok(Reservation { queue: Arc::clone(self), class, tokens })
    }

    /// Puts `job` at the end of its class, or with `first` at its front, whether there is room or not.
    pub(super) fn push(self: &Arc<Self>, job: Arc<Job>, first: bool) -> Ticket {
        let mut state = self.state.lock();
        let ticket = self.enter(&mut state, job, first);
        drop(state);
        self.arrived.notify_one();
        ticket
    }

    fn enter(self: &Arc<Self>, state: &mut State, job: Arc<Job>, first: bool) -> Ticket {
        if self.is_closed() {
            job.fail(stopping());
        } else {
            let lane = state.lane(job.class);
            lane.tokens += job.tokens_from(0);
            let waiting = Waiting { job: Arc::clone(&job), next: 0 };
            if first {
                lane.jobs.push_front(waiting);
            } else {
                lane.jobs.push_back(waiting);
            }
        }
        Ticket { queue: Arc::clone(self), job }
    }

    /// The next batch of at most `budget` tokens (one sequence alone may have more); waits for one, none once the queue is
    /// closed.
    pub(super) fn take(&self, budget: usize) -> Option<Batch> {
        let mut state = self.state.lock();
        loop {
            if self.is_closed() {
                return None;
            }
            if let Some(batch) = state.next_batch(budget) {
                if state.queries.jobs.len() + state.documents.jobs.len() > 0 {
                    self.arrived.notify_one();
                }
                return Some(batch);
            }
            self.arrived.wait(&mut state);
        }
    }

    /// Fails everything that waits, and everything that comes.
    pub(super) fn close(&self) {
        let mut state = self.state.lock();
        self.closed.store(true, Ordering::Release);
        for lane in [Class::Query, Class::Document] {
            let lane = state.lane(lane);
            for waiting in lane.jobs.drain(..) {
                lane.tokens = lane.tokens.saturating_sub(waiting.job.tokens_from(waiting.next));
                waiting.job.fail(stopping());
            }
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// Was the queue closed?
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Tokens that wait or are reserved.
    pub(super) fn waiting_tokens(&self) -> usize {
        self.state.lock().tokens()
    }

    /// Requests that wait with their tokens, not with a mere reservation.
    #[cfg(test)]
    pub(super) fn waiting_jobs(&self) -> usize {
        let state = self.state.lock();
        state.queries.jobs.len() + state.documents.jobs.len()
    }
}

impl State {
    fn lane(&mut self, class: Class) -> &mut Lane {
        match class {
            Class::Query => &mut self.queries,
            Class::Document => &mut self.documents,
        }
    }

    fn tokens(&self) -> usize {
        self.queries.tokens + self.documents.tokens
    }

    /// Is there room for `tokens` more of the class?
    fn admit(&self, capacity: usize, class: Class, tokens: usize) -> Result<(), Full> {
        let documents_part = capacity - capacity / QUERY_PART;
        let (lane, part) = match class {
            Class::Document => (&self.documents, documents_part),
            Class::Query => (&self.queries, capacity - self.documents.tokens.min(documents_part)),
        };
        if lane.tokens == 0 || lane.tokens + tokens <= part { Ok(()) } else { Err(Full { waiting: self.tokens() }) }
    }

    fn next_batch(&mut self, budget: usize) -> Option<Batch> {
        let documents_turn = self.query_batches_in_a_row >= QUERY_BATCHES_IN_A_ROW && !self.documents.jobs.is_empty();
        if !documents_turn && let Some(batch) = self.queries.next_batch(budget) {
            // Only queries that documents had to wait for count.
            self.query_batches_in_a_row =
                if self.documents.jobs.is_empty() { 0 } else { self.query_batches_in_a_row + 1 };
            return Some(batch);
        }
        self.query_batches_in_a_row = 0;
        self.documents.next_batch(budget).or_else(|| self.queries.next_batch(budget))
    }
}

impl Lane {
    fn next_batch(&mut self, budget: usize) -> Option<Batch> {
        let mut batch = Batch { pieces: Vec::new(), tokens: 0 };
        let mut unfinished = VecDeque::new();
        // Of other encoders: they stay where they are.
        let mut others = VecDeque::new();
        while let Some(mut waiting) = self.jobs.pop_front() {
            if let Err(error) = waiting.job.check(WAITING) {
                waiting.job.fail(error);
            }
            if waiting.job.is_answered() {
                self.tokens = self.tokens.saturating_sub(waiting.job.tokens_from(waiting.next));
                continue;
            }
            if let Some(first) = batch.pieces.first()
                && !Arc::ptr_eq(&first.job.station, &waiting.job.station)
            {
                others.push_back(waiting);
                continue;
            }
            let start = waiting.next;
            while let Some(sequence) = waiting.job.sequence(waiting.next)
                && (batch.tokens == 0 || batch.tokens + sequence.ids.len() <= budget)
            {
                batch.tokens += sequence.ids.len();
                self.tokens = self.tokens.saturating_sub(sequence.ids.len());
                waiting.next += 1;
            }
            if waiting.next > start {
                batch.pieces.push(Piece { job: Arc::clone(&waiting.job), places: start..waiting.next });
            }
            if waiting.next == waiting.job.len() {
                continue;
            }
            // The batch is full. Who got something goes to the end, who got nothing stays first.
            if waiting.next > start {
                unfinished.push_back(waiting);
            } else {
                self.jobs.push_front(waiting);
            }
            break;
        }
        others.append(&mut self.jobs);
        others.append(&mut unfinished);
        self.jobs = others;
        (!batch.pieces.is_empty()).then_some(batch)
    }
}

impl Reservation {
    /// Puts `job` into the reserved room, which is adjusted to its real size.
    pub(super) fn fill(mut self, job: Arc<Job>) -> Result<Ticket, Full> {
        let queue = Arc::clone(&self.queue);
        let mut state = queue.state.lock();
        let lane = state.lane(self.class);
        lane.tokens = lane.tokens.saturating_sub(self.tokens);
        let reserved = std::mem::take(&mut self.tokens);
        let needed = job.tokens_from(0);
        if needed > reserved
            && let Err(full) = state.admit(queue.capacity, self.class, needed)
        {
            return Err(full);
        }
        let ticket = queue.enter(&mut state, job, false);
        drop(state);
        queue.arrived.notify_one();
        Ok(ticket)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.tokens > 0 {
            let mut state = self.queue.state.lock();
            let lane = state.lane(self.class);
            lane.tokens = lane.tokens.saturating_sub(self.tokens);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.queue.state.lock();
        let lane = state.lane(self.job.class);
        if let Some(place) = lane.jobs.iter().position(|waiting| Arc::ptr_eq(&waiting.job, &self.job))
            && let Some(waiting) = lane.jobs.remove(place)
        {
            lane.tokens = lane.tokens.saturating_sub(waiting.job.tokens_from(waiting.next));
        }
    }
}

/// What a request gets that comes while the embedder stops.
pub(super) fn stopping() -> Error {
    Error::Unavailable("the embedder is stopping".to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::sync::oneshot;
    use toller_core::context::Cancellation;
    use toller_core::{Principal, RequestContext};

    use super::super::job::Answer;
    use super::super::station::Prepared;
    use super::*;

    const DOCUMENT: Class = Class::Document;
    const QUERY: Class = Class::Query;

    fn prepared(length: usize) -> Prepared {
        Prepared { ids: vec![7; length], second: length, truncated: false }
    }

    fn queue_for(capacity: usize) -> Arc<Queue> {
        Arc::new(Queue::new(capacity))
    }

    fn job(class: Class, lengths: &[usize]) -> (Arc<Job>, oneshot::Receiver<Answer>) {
        job_with(class, lengths, RequestContext::new(Principal::anonymous()))
    }

    fn job_with(class: Class, lengths: &[usize], context: RequestContext) -> (Arc<Job>, oneshot::Receiver<Answer>) {
        let sequences = lengths.iter().map(|length| prepared(*length)).collect();
        let (job, answer) =
            Job::new(crate::engine::tests::station(), class, context, Cancellation::default(), sequences);
        (Arc::new(job), answer)
    }

    /// Submits a job whose size was estimated right.
    fn submit(queue: &Arc<Queue>, class: Class, lengths: &[usize]) -> Result<Ticket, Full> {
        let (job, _) = job(class, lengths);
        queue.reserve(class, lengths.iter().sum())?.fill(job)
    }

    fn classs(queue: &Queue, batches: usize, budget: usize) -> String {
        (0..batches)
            .map(|_| match queue.take(budget).unwrap().pieces[0].job.class {
                Class::Query => 'q',
                Class::Document => 'd',
            })
            .collect()
    }

    #[test]
    fn the_bound_leaves_room_for_queries() {
        let queue = queue_for(800);
        let _documents = submit(&queue, DOCUMENT, &[700]).unwrap();
        assert_eq!(submit(&queue, DOCUMENT, &[1]).unwrap_err(), Full { waiting: 700 });
        let _queries = submit(&queue, QUERY, &[100]).unwrap();
        assert_eq!(submit(&queue, QUERY, &[1]).unwrap_err(), Full { waiting: 800 });
    }

    #[test]
    fn a_request_larger_than_the_queue_waits_alone() {
        let queue = queue_for(800);
        let large = submit(&queue, DOCUMENT, &[500; 10]).unwrap();
        assert_eq!(queue.waiting_tokens(), 5_000);
        assert!(submit(&queue, DOCUMENT, &[1]).is_err());
        assert!(submit(&queue, QUERY, &[100]).is_ok(), "queries keep their part");
        drop(large);
        assert_eq!(queue.waiting_tokens(), 0);
        let small = submit(&queue, DOCUMENT, &[1]).unwrap();
        assert!(submit(&queue, DOCUMENT, &[500; 10]).is_err(), "not while another waits");
        drop(small);
    }

    #[test]
    fn a_wrong_estimate_is_corrected() {
        let queue = queue_for(800);
        let (low, _) = job(DOCUMENT, &[50]);
        let ticket = queue.reserve(DOCUMENT, 5).unwrap().fill(low).unwrap();
        assert_eq!(queue.waiting_tokens(), 50);
        let (large, _) = job(DOCUMENT, &[700]);
        assert!(queue.reserve(DOCUMENT, 5).unwrap().fill(large).is_err());
        assert_eq!(queue.waiting_tokens(), 50);
        drop(queue.reserve(DOCUMENT, 100).unwrap());
        assert_eq!(queue.waiting_tokens(), 50);
        drop(ticket);
        assert_eq!(queue.waiting_tokens(), 0);
    }

    #[test]
    fn queries_go_first_and_documents_get_every_fifth_batch() {
        let queue = queue_for(100_000);
        let mut tickets: Vec<Ticket> = (0..3).map(|_| submit(&queue, DOCUMENT, &[10]).unwrap()).collect();
        tickets.extend((0..10).map(|_| submit(&queue, QUERY, &[10]).unwrap()));
        assert_eq!(classs(&queue, 13, 10), "qqqqdqqqqdqqd");
        assert_eq!(queue.waiting_tokens(), 0);
    }

    #[test]
    fn requests_of_a_class_take_turns() {
        let queue = queue_for(100_000);
        let (large, _large_answer) = job(DOCUMENT, &[10; 4]);
        let (small, _small_answer) = job(DOCUMENT, &[10]);
        let _tickets = [queue.push(Arc::clone(&large), false), queue.push(Arc::clone(&small), false)];
        let firsts: Vec<bool> = (0..3).map(|_| Arc::ptr_eq(&queue.take(20).unwrap().pieces[0].job, &large)).collect();
        // 20 of the large one; the small one with 10 of the large one; the rest of it.
        assert_eq!(firsts, [true, false, true]);
    }

    #[test]
    fn small_requests_share_a_batch_within_the_budget() {
        let queue = queue_for(100_000);
        let _tickets: Vec<Ticket> = (0..5).map(|_| submit(&queue, QUERY, &[10]).unwrap()).collect();
        let batch = queue.take(35).unwrap();
        assert_eq!((batch.pieces.len(), batch.tokens), (3, 30));
        let batch = queue.take(35).unwrap();
        assert_eq!((batch.pieces.len(), batch.tokens), (2, 20));
    }

    #[test]
    fn who_is_gone_or_late_is_dropped_at_the_door() {
        let queue = queue_for(100_000);
        let context = RequestContext::new(Principal::anonymous());
        let (gone, mut gone_answer) = job_with(QUERY, &[10], context.clone());
        context.cancellation().cancel();
        let late = RequestContext::new(Principal::anonymous()).with_deadline(Some(std::time::Instant::now()));
        let (late, mut late_answer) = job_with(QUERY, &[10], late);
        let (alive, _alive_answer) = job(QUERY, &[10]);
        let _tickets = [queue.push(gone, false), queue.push(late, false), queue.push(Arc::clone(&alive), false)];
        let batch = queue.take(100).unwrap();
        assert_eq!(batch.pieces.len(), 1);
        assert!(Arc::ptr_eq(&batch.pieces[0].job, &alive));
        assert_eq!(gone_answer.try_recv().unwrap(), Err(Error::Cancelled));
        assert_eq!(late_answer.try_recv().unwrap(), Err(Error::DeadlineExceeded(WAITING)));
        assert_eq!(queue.waiting_tokens(), 0);
    }

    #[test]
    fn closing_answers_everybody() {
        let queue = queue_for(100_000);
        let (waiting, mut waiting_answer) = job(DOCUMENT, &[10]);
        let _ticket = queue.push(waiting, false);
        queue.close();
        assert_eq!(waiting_answer.try_recv().unwrap(), Err(stopping()));
        assert!(queue.take(100).is_none());
        let (after, mut after_answer) = job(DOCUMENT, &[10]);
        let _ticket = queue.push(after, false);
        assert_eq!(after_answer.try_recv().unwrap(), Err(stopping()));
        assert_eq!(queue.waiting_tokens(), 0);
    }

    proptest! {
        /// Every sequence is handed out exactly once, no batch of several sequences exceeds the budget, and the count of
        /// waiting tokens ends at zero.
        #[test]
        fn everything_is_handed_out_once(
            jobs in prop::collection::vec((any::<bool>(), prop::collection::vec(1_usize..60, 1..12)), 1..12),
            budget in 16_usize..100,
        ) {
            let queue = queue_for(1 << 20);
            let mut tickets = Vec::new();
            let mut answers = Vec::new();
            let mut total = 0;
            for (is_query, lengths) in &jobs {
                let (job, answer) = job(if *is_query { QUERY } else { DOCUMENT }, lengths);
                tickets.push(queue.push(job, false));
                answers.push(answer);
                total += lengths.iter().sum::<usize>();
            }
            let mut handed_out = 0;
            while queue.waiting_tokens() > 0 {
                let batch = queue.take(budget).unwrap();
                let sequences: usize = batch.pieces.iter().map(|piece| piece.places.len()).sum();
                prop_assert!(batch.tokens <= budget || sequences == 1);
                prop_assert_eq!(batch.tokens, batch.pieces.iter().flat_map(Piece::sequences).map(|sequence| sequence.ids.len()).sum::<usize>());
                for piece in &batch.pieces {
                    piece.job.deliver(piece.places.start, piece.sequences().map(|sequence| vec![sequence.ids.len() as f32]).collect());
                }
                handed_out += batch.tokens;
            }
            prop_assert_eq!(handed_out, total);
            for ((_, lengths), mut answer) in jobs.iter().zip(answers) {
                let vectors = answer.try_recv().unwrap().unwrap();
                let expected: Vec<Vec<f32>> = lengths.iter().map(|length| vec![*length as f32]).collect();
                prop_assert_eq!(vectors, expected, "in input order");
            }
        }
    }
}
