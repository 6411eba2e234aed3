//! A thread that does what the queue gives it, whatever happens inside.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rayon::ThreadPool;
use toller_core::Error;
use toller_telemetry::spans;
use tracing::Span;

use super::batch::{Batch, Interruption, Piece, sequences};
use super::class::Class;
use super::errand::{Step, panic_text};
use super::flight::Flight;
use super::lane::Work;
use super::queue::{Queue, stopping};
use super::station::Station;
use super::vitals::Vitals;
use crate::encoder::EncodeError;

const COMPUTING: &str = "while the texts were embedded";

/// What a worker thread needs.
pub(super) struct Worker {
    pub(super) queue: Arc<Queue>,
    pub(super) pool: ThreadPool,
    pub(super) vitals: Arc<Vitals>,
}

/// Why some sequences have no vectors.
enum Failure {
    /// The queue was closed, or nobody wanted them any more.
    Stopped,
    Broken(String),
}

/// Where the time of a pass goes.
struct Clock {
    /// Since when it has been computing.
    since: Instant,
    /// What it has computed until then.
    so_far: Duration,
}

impl Clock {
    /// The time since the last call, in which the pass computed.
    fn lap(&mut self) -> Duration {
        let lap = self.since.elapsed();
        self.so_far += lap;
        self.since = Instant::now();
        lap
    }
}

impl Worker {
    /// Works until the queue is closed.
    pub(super) fn run(self) {
        while let Some(work) = self.queue.take() {
            self.vitals.works();
            let interruption = match &work {
                Work::Pass(batch) => batch.interruption(),
                Work::Tokenise(_) => None,
            };
            self.work(work, interruption);
            self.vitals.rests();
        }
    }

    fn work(&self, work: Work, interruption: Option<Interruption>) {
        match work {
            Work::Tokenise(errand) => {
                let class = errand.job.class;
                let started = Instant::now();
                match errand.step(&self.pool) {
                    Step::Unfinished(errand) => self.queue.resume(errand),
                    Step::Finished(errand, sequences) => self.queue.enter(&errand, sequences),
                    Step::Over(errand) => self.queue.abandon(&errand),
                }
                self.queue.computed(class, started.elapsed());
            }
            Work::Pass(batch) => {
                let class = batch.class;
                self.pass(batch, interruption);
                self.queue.ended(class);
            }
        }
    }

    fn pass(&self, batch: Batch, interruption: Option<Interruption>) {
        let station = &batch.station;
        let texts = batch.len();
        let span = spans::embedding_batch(texts, batch.tokens, &station.model);
        for piece in &batch.pieces {
            spans::link(&span, &piece.owner.span);
            spans::link(&piece.owner.span, &span);
            let waited = piece.owner.waited();
            piece.flights.iter().for_each(|_| station.metrics.record_wait(batch.class.role(), waited));
        }
        let _inside = span.enter();
        match self.encode(station, batch.class, &batch.pieces, interruption) {
            Ok((vectors, elapsed)) => {
                station.speed.record(batch.tokens, elapsed);
                station.metrics.record_batch(texts, batch.tokens, elapsed);
                self.deliver(&batch.pieces, vectors, &span);
            }
            Err(Failure::Broken(reason)) if batch.pieces.len() > 1 => {
                let requests = batch.pieces.len();
                tracing::warn!(reason, requests, "a shared batch failed: running its requests one by one");
                for piece in batch.pieces {
                    self.run_alone(station, batch.class, piece, interruption, &span);
                }
            }
            Err(failure) => batch.pieces.into_iter().for_each(|piece| self.fail(piece, &failure)),
        }
    }

    fn run_alone(
        &self,
        station: &Station,
        class: Class,
        piece: Piece,
        interruption: Option<Interruption>,
        span: &Span,
    ) {
        let alone = std::slice::from_ref(&piece);
        match self.encode(station, class, alone, interruption) {
            Ok((vectors, _)) => self.deliver(alone, vectors, span),
            Err(failure) => self.fail(piece, &failure),
        }
    }

    /// The vectors of all sequences in `pieces`, one after another, and how long it took without interruptions.
    fn encode(
        &self,
        station: &Station,
        class: Class,
        pieces: &[Piece],
        interruption: Option<Interruption>,
    ) -> Result<(Vec<Vec<f32>>, Duration), Failure> {
        let sequences = sequences(pieces);
        let stop = || {
            let mut flights = pieces.iter().flat_map(|piece| &piece.flights);
            self.queue.is_closed() || !flights.any(|flight| flight.is_wanted(COMPUTING))
        };
        if stop() {
            return Err(Failure::Stopped);
        }
        let was_stopped = AtomicBool::new(false);
        // One thread asks at a time: the lock is only for the compiler.
        let clock = Mutex::new(Clock { since: Instant::now(), so_far: Duration::ZERO });
        let checkpoint = || {
            self.vitals.works();
            if stop() {
                was_stopped.store(true, Ordering::Relaxed);
                return ControlFlow::Break(());
            }
            if let Some(interruption) = interruption {
                self.let_queries_through(class, interruption, &mut clock.lock());
            }
            ControlFlow::Continue(())
        };
        // What a panic leaves behind is dropped with the batch; the encoder holds nothing that changes.
        let attempt =
            catch_unwind(AssertUnwindSafe(|| self.pool.install(|| station.encoder.encode(&sequences, &checkpoint))));
        let mut clock = clock.into_inner();
        self.queue.computed(class, clock.lap());
        let vectors = match attempt {
            Ok(Ok(vectors)) => vectors,
            Ok(Err(EncodeError::Stopped)) if was_stopped.into_inner() => return Err(Failure::Stopped),
            Ok(Err(EncodeError::Stopped)) => {
                return Err(Failure::Broken("the encoder stopped without being asked to".to_owned()));
            }
            Ok(Err(EncodeError::Failed(reason))) => return Err(Failure::Broken(reason)),
            Err(panic) => return Err(Failure::Broken(format!("the encoder panicked: {}", panic_text(panic.as_ref())))),
        };
        let dimension = station.encoder.dimension();
        if vectors.len() != sequences.len() || vectors.iter().any(|vector| vector.len() != dimension) {
            return Err(Failure::Broken("the encoder gave vectors of the wrong number or dimension".to_owned()));
        }
        if vectors.iter().flatten().any(|value| !value.is_finite()) {
            return Err(Failure::Broken(
                "the model computed a number that is not finite: its weights are damaged".to_owned(),
            ));
        }
        Ok((vectors, clock.so_far))
    }

    /// Does what is more urgent than the pass that asks, which is of `class`: right here, on its threads. What runs here is
    /// not interrupted itself.
    fn let_queries_through(&self, class: Class, interruption: Interruption, clock: &mut Clock) {
        self.queue.computed(class, clock.lap());
        while let Some(work) = self.queue.take_within(interruption) {
            let pass = match &work {
                Work::Pass(batch) => Some(Arc::clone(&batch.station)),
                Work::Tokenise(_) => None,
            };
            self.work(work, None);
            self.vitals.works();
            if let Some(station) = pass {
                station.metrics.record_preemption();
                if interruption == Interruption::SmallQueries {
                    break;
                }
            }
        }
        clock.since = Instant::now();
    }

    fn deliver(&self, pieces: &[Piece], vectors: Vec<Vec<f32>>, span: &Span) {
        let flights = pieces.iter().flat_map(|piece| piece.flights.iter().map(move |flight| (piece, flight)));
        for ((piece, flight), vector) in flights.zip(vectors) {
            for passenger in flight.land() {
                if !Arc::ptr_eq(&passenger.job, &piece.owner) {
                    spans::link(&passenger.job.span, span);
                }
                passenger.job.deliver(passenger.index, vector.clone());
            }
        }
        self.queue.landed(pieces.iter().flat_map(|piece| &piece.flights));
    }

    fn fail(&self, piece: Piece, failure: &Failure) {
        let Piece { owner, flights } = piece;
        match failure {
            Failure::Stopped if self.queue.is_closed() => self.fail_everybody(&flights, &stopping()),
            Failure::Stopped => {
                // Who is late for a flight that was stopped inherits it.
                if let Err(gone) = owner.check(COMPUTING) {
                    owner.fail(gone);
                }
                self.queue.give_up(flights);
            }
            Failure::Broken(reason) => {
                tracing::error!(reason, model = owner.station.model, "an embedding request failed");
                let error = Error::Internal(reason.clone());
                if flights.len() == 1 {
                    // It is this sequence, and nobody will have better luck with it.
                    self.fail_everybody(&flights, &error);
                } else {
                    owner.fail(error);
                    self.queue.give_up(flights);
                }
            }
        }
    }

    fn fail_everybody(&self, flights: &[Arc<Flight>], error: &Error) {
        for flight in flights {
            flight.land().into_iter().for_each(|passenger| passenger.job.fail(error.clone()));
        }
        self.queue.landed(flights);
    }
}
