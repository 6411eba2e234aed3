//! A thread that takes batches from the queue and runs them, whatever happens inside them.

use std::any::Any;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use rayon::ThreadPool;
use toller_core::Error;
use toller_telemetry::spans;

use super::queue::{Batch, Piece, Queue, stopping};
use super::station::Station;
use crate::encoder::{EncodeError, Sequence};

const COMPUTING: &str = "while the texts were embedded";

/// What a worker thread needs.
pub(super) struct Worker {
    pub(super) queue: Arc<Queue>,
    pub(super) batch_tokens: usize,
    pub(super) pool: ThreadPool,
}

/// Why some pieces have no vectors.
enum Failure {
    Stopped,
    Broken(String),
}

impl Worker {
    /// Works until the queue is closed.
    pub(super) fn run(self) {
        while let Some(batch) = self.queue.take(self.batch_tokens) {
            self.run_batch(&batch);
        }
    }

    fn run_batch(&self, batch: &Batch) {
        let Some(station) = batch.station() else { return };
        let texts = batch.pieces.iter().map(|piece| piece.places.len()).sum();
        let span = spans::embedding_batch(texts, batch.tokens, &station.model);
        for piece in &batch.pieces {
            spans::link(&span, &piece.job.span);
            spans::link(&piece.job.span, &span);
            let waited = piece.job.waited();
            piece.places.clone().for_each(|_| station.metrics.record_wait(waited));
        }
        let _inside = span.enter();
        let started = Instant::now();
        match self.encode(station, &batch.pieces) {
            Ok(vectors) => {
                let elapsed = started.elapsed();
                station.speed.record(batch.tokens, elapsed);
                station.metrics.record_batch(texts, batch.tokens, elapsed);
                deliver(&batch.pieces, vectors);
            }
            Err(Failure::Broken(reason)) if batch.pieces.len() > 1 => {
                tracing::warn!(
                    reason,
                    requests = batch.pieces.len(),
                    "a shared batch failed: running its requests one by one"
                );
                for piece in &batch.pieces {
                    self.run_alone(piece);
                }
            }
            Err(failure) => batch.pieces.iter().for_each(|piece| self.fail(piece, &failure)),
        }
    }

    fn run_alone(&self, piece: &Piece) {
        let alone = std::slice::from_ref(piece);
        match self.encode(&piece.job.station, alone) {
            Ok(vectors) => deliver(alone, vectors),
            Err(failure) => self.fail(piece, &failure),
        }
    }

    /// The vectors of all sequences in `pieces`, one after another.
    fn encode(&self, station: &Station, pieces: &[Piece]) -> Result<Vec<Vec<f32>>, Failure> {
        let sequences: Vec<Sequence<'_>> = pieces.iter().flat_map(Piece::sequences).collect();
        let stop = || self.queue.is_closed() || pieces.iter().all(|piece| piece.job.check(COMPUTING).is_err());
        if stop() {
            return Err(Failure::Stopped);
        }
        let checkpoint = || if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
        // What a panic leaves behind is dropped with the batch; the encoder holds nothing that changes.
        let attempt =
            catch_unwind(AssertUnwindSafe(|| self.pool.install(|| station.encoder.encode(&sequences, &checkpoint))));
        let vectors = match attempt {
            Ok(Ok(vectors)) => vectors,
            Ok(Err(EncodeError::Stopped)) => return Err(Failure::Stopped),
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
        Ok(vectors)
    }

    fn fail(&self, piece: &Piece, failure: &Failure) {
        let error = match failure {
            Failure::Broken(reason) => {
                tracing::error!(reason, model = piece.job.station.model, "an embedding request failed");
                Error::Internal(reason.clone())
            }
            Failure::Stopped if self.queue.is_closed() => stopping(),
            Failure::Stopped => match piece.job.check(COMPUTING) {
                Err(gone) => gone,
                Ok(()) => Error::Internal("the encoder stopped without being asked to".to_owned()),
            },
        };
        piece.job.fail(error);
    }
}

fn deliver(pieces: &[Piece], vectors: Vec<Vec<f32>>) {
    let mut vectors = vectors.into_iter();
    for piece in pieces {
        piece.job.deliver(piece.places.start, vectors.by_ref().take(piece.places.len()).collect());
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else {
        panic.downcast_ref::<String>().map_or("(no message)", String::as_str)
    }
}
